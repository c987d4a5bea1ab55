/* gpujoin--1.0.0--1.1.0.sql */

-- complain if the script is sourced in psql rather than by ALTER EXTENSION
\echo Use "ALTER EXTENSION gpujoin UPDATE TO '1.1.0'" to load this file. \quit

COMMENT ON ACCESS METHOD gpujoin IS 'column store of a key for GPU and CPU searches';

-- Keys: enums -------------------------------------------------------------------------

CREATE FUNCTION gpujoin_key(anyenum) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_oid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(anyenum) IS 'gpujoin support: key of a value';

CREATE OPERATOR CLASS enum_ops DEFAULT FOR TYPE anyenum USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(anyenum);
COMMENT ON OPERATOR CLASS enum_ops USING gpujoin IS 'enum keys, stored in four bytes';

-- Keys: hashes, and images of short values ----------------------------------------------

CREATE FUNCTION gpujoin_hash(bpchar, int8) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_hash_bpchar' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_hash(bpchar, int8) IS 'gpujoin support: hash of a value, with a seed';

CREATE FUNCTION gpujoin_hash(bytea, int8) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_hash_bytea' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_hash(bytea, int8) IS 'gpujoin support: hash of a value, with a seed';

CREATE FUNCTION gpujoin_hash(uuid, int8) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_hash_uuid' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_hash(uuid, int8) IS 'gpujoin support: hash of a value, with a seed';

CREATE FUNCTION gpujoin_image(text) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_image_text' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_image(text) IS 'gpujoin support: image of a short value, or NULL';

CREATE FUNCTION gpujoin_image(bpchar) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_image_bpchar' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_image(bpchar) IS 'gpujoin support: image of a short value, or NULL';

CREATE FUNCTION gpujoin_image(bytea) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_image_text' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_image(bytea) IS 'gpujoin support: image of a short value, or NULL';

CREATE FUNCTION gpujoin_image(numeric) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_image_numeric' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_image(numeric) IS 'gpujoin support: image of an integral value, or NULL';

CREATE FUNCTION gpujoin_rest(uuid) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_rest_uuid' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_rest(uuid) IS 'gpujoin support: what a key stores beside its code';

CREATE FUNCTION gpujoin_rest(text) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_rest_text' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_rest(text) IS 'gpujoin support: what a key stores beside its code';

CREATE OPERATOR CLASS text_ops DEFAULT FOR TYPE text USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 hashtextextended(text, int8),
	FUNCTION 3 gpujoin_image(text),
	STORAGE int8;
COMMENT ON OPERATOR CLASS text_ops USING gpujoin IS 'text and varchar keys, stored as hashes';

CREATE OPERATOR CLASS text_id_ops FOR TYPE text USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 hashtextextended(text, int8),
	FUNCTION 4 gpujoin_rest(text),
	STORAGE int8;
COMMENT ON OPERATOR CLASS text_id_ops USING gpujoin
	IS 'text and varchar keys that are ids, stored in sixteen bytes, or as hashes';

CREATE OPERATOR CLASS bpchar_ops DEFAULT FOR TYPE bpchar USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 gpujoin_hash(bpchar, int8),
	FUNCTION 3 gpujoin_image(bpchar),
	STORAGE int8;
COMMENT ON OPERATOR CLASS bpchar_ops USING gpujoin IS 'char(n) keys, stored as hashes';

CREATE OPERATOR CLASS bytea_ops DEFAULT FOR TYPE bytea USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 gpujoin_hash(bytea, int8),
	FUNCTION 3 gpujoin_image(bytea),
	STORAGE int8;
COMMENT ON OPERATOR CLASS bytea_ops USING gpujoin IS 'bytea keys, stored as hashes';

CREATE OPERATOR CLASS numeric_ops DEFAULT FOR TYPE numeric USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 hash_numeric_extended(numeric, int8),
	FUNCTION 3 gpujoin_image(numeric),
	STORAGE int8;
COMMENT ON OPERATOR CLASS numeric_ops USING gpujoin IS 'numeric keys, stored as integers or hashes';

CREATE OPERATOR CLASS uuid_ops DEFAULT FOR TYPE uuid USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 gpujoin_hash(uuid, int8),
	FUNCTION 4 gpujoin_rest(uuid),
	STORAGE int8;
COMMENT ON OPERATOR CLASS uuid_ops USING gpujoin IS 'uuid keys, stored in sixteen bytes';

CREATE OPERATOR CLASS inet_ops DEFAULT FOR TYPE inet USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 2 hashinetextended(inet, int8),
	STORAGE int8;
COMMENT ON OPERATOR CLASS inet_ops USING gpujoin IS 'inet and cidr keys, stored as hashes';

-- Writes: folds ----------------------------------------------------------------------------------

CREATE FUNCTION gpujoin_fold_stats(
		OUT database oid, OUT index oid, OUT folds bigint, OUT entries_written bigint,
		OUT pages_written bigint, OUT fold_time double precision, OUT requests bigint,
		OUT requests_refused bigint, OUT last_fold timestamptz, OUT stats_reset timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_fold_stats()
	IS 'folds of each index of this database, for pg_read_all_stats of all databases';

CREATE VIEW pg_stat_gpujoin_folds AS
	SELECT d.datname, s.index AS indexrelid, c.schemaname, c.relname, c.indexrelname,
		s.folds, s.entries_written, s.pages_written, s.fold_time, s.requests,
		s.requests_refused, s.last_fold, s.stats_reset
	FROM gpujoin_fold_stats() AS s
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.database
	LEFT JOIN (SELECT i.oid, n.nspname AS schemaname, t.relname, i.relname AS indexrelname
		FROM pg_catalog.pg_class AS i
		JOIN pg_catalog.pg_index AS x ON x.indexrelid = i.oid
		JOIN pg_catalog.pg_class AS t ON t.oid = x.indrelid
		JOIN pg_catalog.pg_namespace AS n ON n.oid = i.relnamespace) AS c
		ON c.oid = s.index AND d.datname = pg_catalog.current_database();
COMMENT ON VIEW pg_stat_gpujoin_folds
	IS 'folds of each index since stats_reset, by background workers, VACUUM and gpujoin_fold()';
COMMENT ON COLUMN pg_stat_gpujoin_folds.folds IS 'folds, each of which has written a run';
COMMENT ON COLUMN pg_stat_gpujoin_folds.entries_written
	IS 'entries that folds have written; an entry is counted each time';
COMMENT ON COLUMN pg_stat_gpujoin_folds.pages_written IS 'pages that folds have written';
COMMENT ON COLUMN pg_stat_gpujoin_folds.fold_time IS 'time of folds, in milliseconds';
COMMENT ON COLUMN pg_stat_gpujoin_folds.requests
	IS 'requests for a background worker, while the index had none';
COMMENT ON COLUMN pg_stat_gpujoin_folds.requests_refused
	IS 'of requests, those for which gpujoin.fold_workers or max_worker_processes left no worker';
GRANT SELECT ON pg_stat_gpujoin_folds TO PUBLIC;

-- Writes: figures of an index -----------------------------------------------------------------

DROP FUNCTION gpujoin_index_info(regclass);
CREATE FUNCTION gpujoin_index_info(index regclass,
		OUT pages bigint, OUT entries bigint, OUT free_slots bigint, OUT free_pages bigint,
		OUT slots_per_page integer, OUT key_width integer, OUT lanes integer,
		OUT open_pages integer, OUT sequence bigint, OUT vacuum_epoch bigint,
		OUT format_version integer, OUT included_columns integer, OUT runs integer,
		OUT run_entries bigint[], OUT run_pages bigint[], OUT dead_entries bigint,
		OUT delta_pages bigint, OUT merge_pages bigint, OUT keys text)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_index_info(regclass)
	IS 'figures of a gpujoin index; reads the whole index';

-- The device: counters of reductions ------------------------------------------------------------

DROP VIEW pg_stat_gpujoin_indexes;
DROP FUNCTION gpujoin_index_stats();
CREATE FUNCTION gpujoin_index_stats(
		OUT database oid, OUT index oid, OUT searches bigint, OUT device_answers bigint,
		OUT cpu_answers bigint, OUT cpu_reasons jsonb, OUT keys bigint, OUT pages_read bigint,
		OUT pages_skipped bigint, OUT pages_pushed bigint, OUT tids bigint,
		OUT heap_blocks bigint, OUT heap_fetches bigint, OUT groups bigint,
		OUT search_time double precision, OUT wait_time double precision,
		OUT device_time double precision, OUT last_used timestamptz,
		OUT stats_reset timestamptz, OUT reductions bigint, OUT reduced_rows bigint,
		OUT pages_left_out bigint, OUT reduced_groups bigint, OUT reductions_failed bigint,
		OUT entries_not_sent bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_index_stats()
	IS 'what was done with each index of this database, for pg_read_all_stats of all databases';

CREATE VIEW pg_stat_gpujoin_indexes AS
	SELECT d.datname, s.index AS indexrelid, c.schemaname, c.relname, c.indexrelname,
		s.searches, s.device_answers, s.cpu_answers, s.cpu_reasons, s.keys, s.pages_read,
		s.pages_skipped, s.pages_pushed, s.tids, s.heap_blocks, s.heap_fetches, s.groups,
		s.reductions, s.reductions_failed, s.reduced_rows, s.reduced_groups, s.pages_left_out,
		s.entries_not_sent, s.search_time, s.wait_time, s.device_time, s.last_used, s.stats_reset
	FROM gpujoin_index_stats() AS s
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.database
	LEFT JOIN (SELECT i.oid, n.nspname AS schemaname, t.relname, i.relname AS indexrelname
		FROM pg_catalog.pg_class AS i
		JOIN pg_catalog.pg_index AS x ON x.indexrelid = i.oid
		JOIN pg_catalog.pg_class AS t ON t.oid = x.indrelid
		JOIN pg_catalog.pg_namespace AS n ON n.oid = i.relnamespace) AS c
		ON c.oid = s.index AND d.datname = pg_catalog.current_database();
COMMENT ON VIEW pg_stat_gpujoin_indexes
	IS 'what was done with each index since stats_reset; without an index: all that is not listed '
	'any more, as the index was dropped or reset, or too many are in use';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.searches
	IS 'searches that scans have asked for';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.device_answers
	IS 'answers by a device; a search that is shared by processes, or large, has several';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.cpu_answers IS 'answers by the CPU';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.cpu_reasons
	IS 'of cpu_answers, how many for which reason of pg_stat_gpujoin_fallbacks';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.keys IS 'distinct keys that were searched for';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.pages_read IS 'pages of entries that the CPU has read';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.pages_skipped
	IS 'pages of sorted entries that it need not read';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.pages_pushed
	IS 'pages sent to the device by queries, to bring the mirror up to date';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.tids IS 'entries that matched';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.heap_blocks IS 'blocks of the table that were looked at';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.heap_fetches IS 'visible rows found there';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.groups
	IS 'groups that GpuAgg nodes have made of rows found by the index';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.reductions
	IS 'searches in which the device added rows up';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.reduced_rows IS 'rows that it added up';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.reductions_failed
	IS 'attempts to do so that did not succeed, because the index changed meanwhile, or the device '
	'or the memory did not suffice';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.reduced_groups IS 'groups into which it added them';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.pages_left_out
	IS 'pages that it left to the CPU, because they had changed';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.entries_not_sent
	IS 'matching entries that it did not have to send, because it added them up, or because they '
	'are not among the first ones of an order';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.search_time IS 'time of searches, in milliseconds';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.wait_time
	IS 'of search_time, waiting for the device to answer';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.device_time
	IS 'of wait_time, while the device''s process was busy with the request';
GRANT SELECT ON pg_stat_gpujoin_indexes TO PUBLIC;

/* gpujoin--1.0.0.sql */

-- complain if the script is sourced in psql rather than by CREATE EXTENSION
\echo Use "CREATE EXTENSION gpujoin" to load this file. \quit

-- Access method -----------------------------------------------------------------

CREATE FUNCTION gpujoin_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION gpujoin_handler(internal) IS 'handler of the gpujoin access method';

CREATE ACCESS METHOD gpujoin TYPE INDEX HANDLER gpujoin_handler;
COMMENT ON ACCESS METHOD gpujoin IS 'column store of an integer key for GPU and CPU searches';

-- Key extraction: support function 1 of the operator classes ------------------------

CREATE FUNCTION gpujoin_key(int2) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_int2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(int2) IS 'gpujoin support: key of a value';

CREATE FUNCTION gpujoin_key(int4) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_int4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(int4) IS 'gpujoin support: key of a value';

CREATE FUNCTION gpujoin_key(int8) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_int8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(int8) IS 'gpujoin support: key of a value';

CREATE FUNCTION gpujoin_key(oid) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_oid' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(oid) IS 'gpujoin support: key of a value';

CREATE FUNCTION gpujoin_key(date) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_int4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(date) IS 'gpujoin support: key of a value';

CREATE FUNCTION gpujoin_key(timestamp) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_int8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(timestamp) IS 'gpujoin support: key of a value';

CREATE FUNCTION gpujoin_key(timestamptz) RETURNS int8
	AS 'MODULE_PATHNAME', 'gpujoin_key_int8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_key(timestamptz) IS 'gpujoin support: key of a value';

-- Operator classes --------------------------------------------------------------------

CREATE OPERATOR FAMILY integer_ops USING gpujoin;
COMMENT ON OPERATOR FAMILY integer_ops USING gpujoin IS 'int2, int4 and int8, in any mix';

CREATE OPERATOR CLASS int2_ops DEFAULT FOR TYPE int2 USING gpujoin FAMILY integer_ops AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(int2),
	STORAGE int4;
COMMENT ON OPERATOR CLASS int2_ops USING gpujoin IS 'smallint keys, stored in four bytes';

CREATE OPERATOR CLASS int4_ops DEFAULT FOR TYPE int4 USING gpujoin FAMILY integer_ops AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(int4);
COMMENT ON OPERATOR CLASS int4_ops USING gpujoin IS 'integer keys, stored in four bytes';

CREATE OPERATOR CLASS int8_ops DEFAULT FOR TYPE int8 USING gpujoin FAMILY integer_ops AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(int8);
COMMENT ON OPERATOR CLASS int8_ops USING gpujoin IS 'bigint keys, stored in eight bytes';

ALTER OPERATOR FAMILY integer_ops USING gpujoin ADD
	OPERATOR 1 = (int2, int4),
	OPERATOR 1 = (int2, int8),
	OPERATOR 1 = (int4, int2),
	OPERATOR 1 = (int4, int8),
	OPERATOR 1 = (int8, int2),
	OPERATOR 1 = (int8, int4);

CREATE OPERATOR CLASS oid_ops DEFAULT FOR TYPE oid USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(oid);
COMMENT ON OPERATOR CLASS oid_ops USING gpujoin IS 'oid keys, stored in four bytes';

CREATE OPERATOR CLASS date_ops DEFAULT FOR TYPE date USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(date);
COMMENT ON OPERATOR CLASS date_ops USING gpujoin IS 'date keys, stored in four bytes';

CREATE OPERATOR CLASS timestamp_ops DEFAULT FOR TYPE timestamp USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(timestamp);
COMMENT ON OPERATOR CLASS timestamp_ops USING gpujoin IS 'timestamp keys, stored in eight bytes';

CREATE OPERATOR CLASS timestamptz_ops DEFAULT FOR TYPE timestamptz USING gpujoin AS
	OPERATOR 1 =,
	FUNCTION 1 gpujoin_key(timestamptz);
COMMENT ON OPERATOR CLASS timestamptz_ops USING gpujoin
	IS 'timestamptz keys, stored in eight bytes';

-- Looking at an index -------------------------------------------------------------------

CREATE FUNCTION gpujoin_check(index regclass, heapallindexed boolean DEFAULT false)
	RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_check(regclass, boolean)
	IS 'verify a gpujoin index, or those of all partitions, optionally against the table; returns the number of entries';

CREATE FUNCTION gpujoin_index_info(index regclass,
		OUT pages bigint, OUT entries bigint, OUT free_slots bigint, OUT free_pages bigint,
		OUT slots_per_page integer, OUT key_width integer, OUT lanes integer,
		OUT open_pages integer, OUT sequence bigint, OUT vacuum_epoch bigint,
		OUT format_version integer, OUT included_columns integer, OUT runs integer,
		OUT run_entries bigint[], OUT run_pages bigint[], OUT dead_entries bigint,
		OUT delta_pages bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_index_info(regclass)
	IS 'figures of a gpujoin index; reads the whole index';

-- Folding an index ------------------------------------------------------------------------

CREATE FUNCTION gpujoin_fold(index regclass, complete boolean DEFAULT false)
	RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_fold(regclass, boolean)
	IS 'sort what was inserted into a gpujoin index, or merge all its entries into one run; returns the number of pages written';

-- Looking at the planner ------------------------------------------------------------------

CREATE FUNCTION gpujoin_explain_choice(query text,
		OUT relation regclass, OUT index regclass, OUT node text, OUT condition text,
		OUT chosen boolean, OUT reason text, OUT cost double precision,
		OUT other_cost double precision)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_explain_choice(text)
	IS 'which gpujoin indexes a query could use, which it uses, and why not; the query is not executed';

CREATE FUNCTION gpujoin_advise(
		OUT queryid bigint, OUT statements bigint, OUT calls bigint,
		OUT time_share double precision, OUT query text, OUT relation regclass,
		OUT key_column name, OUT include_columns name[], OUT create_index text,
		OUT cost_now double precision, OUT cost_with double precision,
		OUT index_size bigint, OUT note text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_advise()
	IS 'which gpujoin indexes would pay for the statements in pg_stat_statements; nothing is executed or built';

CREATE FUNCTION gpujoin_advise(query text,
		OUT relation regclass, OUT key_column name, OUT include_columns name[],
		OUT create_index text, OUT cost_now double precision, OUT cost_with double precision,
		OUT index_size bigint, OUT note text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'gpujoin_advise_query' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_advise(text)
	IS 'which gpujoin indexes would pay for a query; nothing is executed or built';

-- Mirrors in device memory -----------------------------------------------------------------

CREATE FUNCTION gpujoin_load(index regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_load(regclass)
	IS 'load a gpujoin index into device memory; returns the bytes it uses there';

CREATE FUNCTION gpujoin_unload(index regclass) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_unload(regclass)
	IS 'free the device memory of a gpujoin index; returns whether there was any';

CREATE FUNCTION gpujoin_status(
		OUT state text, OUT reason text, OUT hint text, OUT state_since timestamptz,
		OUT last_error text, OUT last_error_at timestamptz,
		OUT device text, OUT uuid text, OUT compute_capability text, OUT driver_version bigint,
		OUT toolkit_version bigint, OUT epoch bigint, OUT supervisor_pid bigint, OUT helper_pid bigint,
		OUT memory_budget bigint, OUT memory_limit bigint, OUT memory_mirrors bigint,
		OUT memory_scratch bigint, OUT memory_total bigint, OUT memory_free bigint,
		OUT columns bigint, OUT keysets bigint, OUT matches bigint, OUT direct_copies boolean,
		OUT request_slots bigint, OUT slots_used bigint, OUT slots_abandoned bigint,
		OUT requests bigint, OUT requests_ok bigint, OUT requests_failed bigint,
		OUT requests_unavailable bigint, OUT requests_busy bigint,
		OUT requests_no_memory bigint, OUT requests_gone bigint,
		OUT requests_abandoned bigint,
		OUT bytes_sent bigint, OUT bytes_received bigint,
		OUT helper_starts bigint, OUT helper_failures bigint, OUT watchdog_kills bigint,
		OUT mirrors bigint, OUT device_answers bigint, OUT cpu_answers bigint,
		OUT indexes_evicted bigint, OUT stats_reset timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_status() IS 'state of the device service, and who answered';

CREATE FUNCTION gpujoin_mirrors(
		OUT database oid, OUT index oid, OUT tablespace oid, OUT filenode oid,
		OUT build_id text, OUT state text, OUT reason text, OUT pinned boolean,
		OUT pid bigint, OUT pages bigint, OUT pages_done bigint, OUT entries bigint,
		OUT bytes bigint, OUT sequence bigint, OUT vacuum_epoch bigint, OUT open_pages bigint,
		OUT syncs bigint, OUT pages_pushed bigint, OUT matches bigint,
		OUT last_used timestamptz, OUT loaded_at timestamptz, OUT retry_at timestamptz,
		OUT failed_loads bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_mirrors() IS 'gpujoin indexes in device memory, of all databases';

CREATE FUNCTION gpujoin_fallbacks(OUT reason text, OUT description text, OUT count bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_fallbacks() IS 'why, and how often, the CPU searched instead of the device';

CREATE FUNCTION gpujoin_stats_reset() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_stats_reset()
	IS 'count from zero again for all indexes of all databases, and for mirrors';

CREATE FUNCTION gpujoin_stats_reset(index regclass) RETURNS void
	AS 'MODULE_PATHNAME', 'gpujoin_stats_reset_index' LANGUAGE C STRICT VOLATILE
	PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_stats_reset(regclass) IS 'count from zero again for one index';

CREATE FUNCTION gpujoin_index_stats(
		OUT database oid, OUT index oid, OUT searches bigint, OUT device_answers bigint,
		OUT cpu_answers bigint, OUT cpu_reasons jsonb, OUT keys bigint, OUT pages_read bigint,
		OUT pages_skipped bigint, OUT pages_pushed bigint, OUT tids bigint,
		OUT heap_blocks bigint, OUT heap_fetches bigint, OUT groups bigint,
		OUT search_time double precision, OUT wait_time double precision,
		OUT device_time double precision, OUT last_used timestamptz,
		OUT stats_reset timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_index_stats()
	IS 'what was done with each index of this database, for pg_read_all_stats of all databases';

CREATE FUNCTION gpujoin_progress(
		OUT pid integer, OUT database oid, OUT index oid, OUT command text, OUT phase text,
		OUT done bigint, OUT total bigint, OUT unit text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_progress() IS 'folds of indexes and loads of mirrors under way';

CREATE VIEW pg_stat_gpujoin AS
	SELECT * FROM gpujoin_status();
COMMENT ON VIEW pg_stat_gpujoin IS 'state of the device service, and who answered';
COMMENT ON COLUMN pg_stat_gpujoin.memory_scratch
	IS 'bytes of device memory held by requests, and what the device keeps while nothing runs: '
	'on a GPU 24 MB for page images on their way, and 256 kB for each mirror';

CREATE VIEW pg_stat_gpujoin_fallbacks AS
	SELECT * FROM gpujoin_fallbacks();
COMMENT ON VIEW pg_stat_gpujoin_fallbacks IS 'why, and how often, the CPU searched instead of the device';

CREATE VIEW pg_stat_gpujoin_mirrors AS
	SELECT d.datname, m.index AS indexrelid,
		CASE WHEN d.datname = pg_catalog.current_database() THEN n.nspname END AS schemaname,
		CASE WHEN d.datname = pg_catalog.current_database() THEN c.relname END AS indexrelname,
		m.state, m.reason, m.pinned, m.pid, m.pages, m.pages_done, m.entries, m.bytes,
		m.sequence, m.syncs, m.pages_pushed, m.matches, m.last_used, m.loaded_at, m.retry_at,
		m.failed_loads
	FROM gpujoin_mirrors() AS m
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = m.database
	LEFT JOIN pg_catalog.pg_class AS c ON c.oid = m.index
	LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace;
COMMENT ON VIEW pg_stat_gpujoin_mirrors IS 'mirrors in device memory, with progress and use';

CREATE VIEW pg_stat_gpujoin_indexes AS
	SELECT d.datname, s.index AS indexrelid, c.schemaname, c.relname, c.indexrelname,
		s.searches, s.device_answers, s.cpu_answers, s.cpu_reasons, s.keys, s.pages_read,
		s.pages_skipped, s.pages_pushed, s.tids, s.heap_blocks, s.heap_fetches, s.groups,
		s.search_time, s.wait_time, s.device_time, s.last_used, s.stats_reset
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
COMMENT ON COLUMN pg_stat_gpujoin_indexes.search_time IS 'time of searches, in milliseconds';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.wait_time
	IS 'of search_time, waiting for the device to answer';
COMMENT ON COLUMN pg_stat_gpujoin_indexes.device_time
	IS 'of wait_time, while the device''s process was busy with the request';

-- The operands have exactly the types of their operators, so that no other operator can be preferred
CREATE VIEW gpujoin_devices AS
	SELECT device, uuid, compute_capability,
		(NULLIF(driver_version, 0) / 1000)::text || '.'::text
			|| (driver_version % 1000::bigint / 10)::text AS driver_version,
		(NULLIF(toolkit_version, 0) / 1000)::text || '.'::text
			|| (toolkit_version % 1000::bigint / 10)::text AS toolkit_version,
		state, reason, hint, state_since, last_error, last_error_at,
		NULLIF(memory_total, 0) AS memory_total,
		CASE WHEN memory_total > 0 THEN memory_free END AS memory_free,
		memory_budget AS memory_reserved, memory_mirrors + memory_scratch AS memory_used,
		memory_limit AS memory_mirrors_limit, memory_mirrors, mirrors,
		NULLIF(helper_pid, 0) AS helper_pid, helper_starts, helper_failures
	FROM gpujoin_status();
COMMENT ON VIEW gpujoin_devices
	IS 'the device, and its state; without one, why there is none';
COMMENT ON COLUMN gpujoin_devices.driver_version
	IS 'the newest CUDA that the driver knows';
COMMENT ON COLUMN gpujoin_devices.toolkit_version IS 'the CUDA that gpujoin was built with';
COMMENT ON COLUMN gpujoin_devices.last_error
	IS 'why the device was not available the last time, even if it is again';
COMMENT ON COLUMN gpujoin_devices.memory_free
	IS 'bytes of the card that nobody has taken, ten seconds ago or when it was last idle';
COMMENT ON COLUMN gpujoin_devices.memory_reserved IS 'bytes that gpujoin has taken';
COMMENT ON COLUMN gpujoin_devices.memory_used IS 'of these, bytes of mirrors and requests';

CREATE VIEW gpujoin_progress AS
	SELECT p.pid, d.datname, p.index AS indexrelid,
		CASE WHEN d.datname = pg_catalog.current_database() THEN n.nspname END AS schemaname,
		CASE WHEN d.datname = pg_catalog.current_database() THEN c.relname END AS indexrelname,
		p.command, p.phase, p.done, p.total, p.unit
	FROM gpujoin_progress() AS p
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = p.database
	LEFT JOIN pg_catalog.pg_class AS c ON c.oid = p.index
	LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace;
COMMENT ON VIEW gpujoin_progress IS 'folds of indexes and loads of mirrors under way';

REVOKE ALL ON FUNCTION gpujoin_status(), gpujoin_mirrors(), gpujoin_fallbacks(),
	gpujoin_stats_reset(), gpujoin_stats_reset(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gpujoin_status(), gpujoin_mirrors(), gpujoin_fallbacks()
	TO pg_monitor;
GRANT SELECT ON pg_stat_gpujoin, pg_stat_gpujoin_fallbacks, pg_stat_gpujoin_mirrors,
	gpujoin_devices TO pg_monitor;
GRANT SELECT ON pg_stat_gpujoin_indexes, gpujoin_progress TO PUBLIC;

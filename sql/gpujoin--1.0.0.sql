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
	IS 'verify a gpujoin index, optionally against its table; returns the number of entries';

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
		OUT device text, OUT uuid text, OUT compute_capability text, OUT driver_version bigint,
		OUT epoch bigint, OUT supervisor_pid bigint, OUT helper_pid bigint,
		OUT memory_budget bigint, OUT memory_limit bigint, OUT memory_mirrors bigint,
		OUT memory_scratch bigint,
		OUT columns bigint, OUT keysets bigint, OUT matches bigint, OUT direct_copies boolean,
		OUT request_slots bigint, OUT slots_used bigint, OUT slots_abandoned bigint,
		OUT requests bigint, OUT requests_ok bigint, OUT requests_failed bigint,
		OUT requests_unavailable bigint, OUT requests_busy bigint,
		OUT requests_no_memory bigint, OUT requests_gone bigint,
		OUT requests_abandoned bigint,
		OUT bytes_sent bigint, OUT bytes_received bigint,
		OUT helper_starts bigint, OUT helper_failures bigint, OUT watchdog_kills bigint,
		OUT mirrors bigint, OUT device_answers bigint, OUT cpu_answers bigint,
		OUT stats_reset timestamptz)
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
COMMENT ON FUNCTION gpujoin_stats_reset() IS 'reset the counters of answers and fallbacks';

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

REVOKE ALL ON FUNCTION gpujoin_status(), gpujoin_mirrors(), gpujoin_fallbacks(),
	gpujoin_stats_reset() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gpujoin_status(), gpujoin_mirrors(), gpujoin_fallbacks()
	TO pg_monitor;
GRANT SELECT ON pg_stat_gpujoin, pg_stat_gpujoin_fallbacks, pg_stat_gpujoin_mirrors
	TO pg_monitor;

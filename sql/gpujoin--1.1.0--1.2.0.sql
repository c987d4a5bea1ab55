/* gpujoin--1.1.0--1.2.0.sql */

-- complain if the script is sourced in psql rather than by ALTER EXTENSION
\echo Use "ALTER EXTENSION gpujoin UPDATE TO '1.2.0'" to load this file. \quit

-- Figures of an index: what each column stores ----------------------------------------------------

DROP FUNCTION gpujoin_index_info(regclass);
CREATE FUNCTION gpujoin_index_info(index regclass,
		OUT pages bigint, OUT entries bigint, OUT free_slots bigint, OUT free_pages bigint,
		OUT slots_per_page integer, OUT key_width integer, OUT lanes integer,
		OUT open_pages integer, OUT sequence bigint, OUT vacuum_epoch bigint,
		OUT format_version integer, OUT included_columns integer, OUT runs integer,
		OUT run_entries bigint[], OUT run_pages bigint[], OUT dead_entries bigint,
		OUT delta_pages bigint, OUT merge_pages bigint, OUT keys text, OUT included jsonb,
		OUT column_bytes jsonb, OUT null_keys bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_index_info(regclass)
	IS 'figures of a gpujoin index; reads the whole index';

-- Several devices ----------------------------------------------------------------------------------

CREATE FUNCTION gpujoin_device_stats(
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
		OUT indexes_evicted bigint, OUT stats_reset timestamptz, OUT device_number integer)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_device_stats()
	IS 'state of each device''s service; who answered, for all of them, is in the first row';
COMMENT ON FUNCTION gpujoin_status()
	IS 'state of the first device''s service, and who answered';

CREATE FUNCTION gpujoin_mirror_stats(
		OUT database oid, OUT index oid, OUT tablespace oid, OUT filenode oid,
		OUT build_id text, OUT state text, OUT reason text, OUT pinned boolean,
		OUT pid bigint, OUT pages bigint, OUT pages_done bigint, OUT entries bigint,
		OUT bytes bigint, OUT sequence bigint, OUT vacuum_epoch bigint, OUT open_pages bigint,
		OUT syncs bigint, OUT pages_pushed bigint, OUT matches bigint,
		OUT last_used timestamptz, OUT loaded_at timestamptz, OUT retry_at timestamptz,
		OUT failed_loads bigint, OUT device integer)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'gpujoin_mirrors' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_mirror_stats()
	IS 'gpujoin indexes in device memory, of all databases, with the number of the device';

CREATE OR REPLACE VIEW pg_stat_gpujoin AS
	SELECT * FROM gpujoin_device_stats();
COMMENT ON VIEW pg_stat_gpujoin IS 'state of each device''s service, and who answered';

CREATE OR REPLACE VIEW pg_stat_gpujoin_mirrors AS
	SELECT d.datname, m.index AS indexrelid,
		CASE WHEN d.datname = pg_catalog.current_database() THEN n.nspname END AS schemaname,
		CASE WHEN d.datname = pg_catalog.current_database() THEN c.relname END AS indexrelname,
		m.state, m.reason, m.pinned, m.pid, m.pages, m.pages_done, m.entries, m.bytes,
		m.sequence, m.syncs, m.pages_pushed, m.matches, m.last_used, m.loaded_at, m.retry_at,
		m.failed_loads, m.device
	FROM gpujoin_mirror_stats() AS m
	LEFT JOIN pg_catalog.pg_database AS d ON d.oid = m.database
	LEFT JOIN pg_catalog.pg_class AS c ON c.oid = m.index
	LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace;

-- The operands have exactly the types of their operators, so that no other operator can be preferred
CREATE OR REPLACE VIEW gpujoin_devices AS
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
		NULLIF(helper_pid, 0) AS helper_pid, helper_starts, helper_failures, device_number
	FROM gpujoin_device_stats();
COMMENT ON VIEW gpujoin_devices
	IS 'the devices, and their states; without one, why there is none';

REVOKE ALL ON FUNCTION gpujoin_device_stats(), gpujoin_mirror_stats() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gpujoin_device_stats(), gpujoin_mirror_stats() TO pg_monitor;

CREATE FUNCTION gpujoin_load(index regclass, device integer) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_load(regclass, integer)
	IS 'load a gpujoin index into the memory of a device, even if another has it already; returns '
	'the bytes it uses there';

CREATE FUNCTION gpujoin_unload(index regclass, device integer) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_unload(regclass, integer)
	IS 'free the memory of a gpujoin index on a device; returns whether there was any';

-- Advice on indexes -------------------------------------------------------------------------------

-- The library now calls the extension gpujoin_advisor, or says that it is not installed.  The
-- functions keep their names, because users have views on them.
COMMENT ON FUNCTION gpujoin_advise()
	IS 'old name of gpujoin_propose(), which the extension gpujoin_advisor has';
COMMENT ON FUNCTION gpujoin_advise(text)
	IS 'old name of gpujoin_propose(text), which the extension gpujoin_advisor has';

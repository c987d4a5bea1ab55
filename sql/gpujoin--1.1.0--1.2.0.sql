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
		OUT delta_pages bigint, OUT merge_pages bigint, OUT keys text, OUT included jsonb)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_index_info(regclass)
	IS 'figures of a gpujoin index; reads the whole index';

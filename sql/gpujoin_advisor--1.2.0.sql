/* gpujoin_advisor--1.2.0.sql */

-- complain if the script is sourced in psql rather than by CREATE EXTENSION
\echo Use "CREATE EXTENSION gpujoin_advisor" to load this file. \quit

CREATE FUNCTION gpujoin_propose(
		OUT queryid bigint, OUT statements bigint, OUT calls bigint,
		OUT time_share double precision, OUT query text, OUT relation regclass,
		OUT key_column name, OUT include_columns name[], OUT create_index text,
		OUT cost_now double precision, OUT cost_with double precision,
		OUT index_size bigint, OUT note text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_propose()
	IS 'which gpujoin indexes would pay for the statements in pg_stat_statements; nothing is executed or built';

CREATE FUNCTION gpujoin_propose(query text,
		OUT relation regclass, OUT key_column name, OUT include_columns name[],
		OUT create_index text, OUT cost_now double precision, OUT cost_with double precision,
		OUT index_size bigint, OUT note text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'gpujoin_propose_query' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_propose(text)
	IS 'which gpujoin indexes would pay for a query; nothing is executed or built';

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

CREATE FUNCTION gpujoin_replaceable(
		OUT relation regclass, OUT index regclass, OUT index_size bigint, OUT scans bigint,
		OUT replacement regclass, OUT replacement_size bigint, OUT drop_index text, OUT note text)
	RETURNS SETOF record
	LANGUAGE sql STABLE
	SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	WITH indexes AS (
		-- Valid indexes of a plain column, without the parts of partitioned ones
		SELECT i.*, c.relkind, a.amname, (i.indkey::int2[])[0] AS key,
			(i.indkey::int2[])[0:i.indnatts - 1] AS columns,
			pg_get_expr(i.indpred, i.indrelid) AS predicate
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE i.indisvalid AND i.indnkeyatts = 1 AND (i.indkey::int2[])[0] > 0
			AND NOT c.relispartition),
	pairs AS (
		-- An index that no constraint needs, and the gpujoin index for its key that lacks the fewest of
		-- its columns, of these the smallest
		SELECT DISTINCT ON (o.indexrelid) o.*, r.indexrelid AS replacement, r.columns AS more,
			r.predicate IS NOT DISTINCT FROM o.predicate AS is_alike,
			EXISTS (SELECT FROM pg_opclass c WHERE c.oid = (r.indclass::oid[])[0]
				AND c.opcdefault AND c.opcintype IN ('int2'::regtype, 'int4'::regtype,
					'int8'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype))
				AS has_ranges,
			own.of_index, own.scans, other.of_replacement
		FROM indexes o JOIN indexes r ON r.indrelid = o.indrelid AND r.key = o.key
			CROSS JOIN LATERAL (SELECT sum(pg_relation_size(t.relid))::bigint AS of_index,
					sum(pg_stat_get_numscans(t.relid))::bigint AS scans
				FROM (SELECT relid FROM pg_partition_tree(o.indexrelid) UNION SELECT o.indexrelid) t) own
			CROSS JOIN LATERAL (SELECT sum(pg_relation_size(t.relid))::bigint AS of_replacement
				FROM (SELECT relid FROM pg_partition_tree(r.indexrelid) UNION SELECT r.indexrelid) t) other
		WHERE o.amname IN ('btree', 'hash') AND NOT o.indisunique AND NOT o.indisreplident
			AND (o.indcollation::oid[])[0] = (r.indcollation::oid[])[0]
			AND r.amname = 'gpujoin' AND (r.predicate IS NULL OR r.predicate = o.predicate)
			AND NOT EXISTS (SELECT FROM pg_constraint x WHERE x.conindid = o.indexrelid)
		ORDER BY o.indexrelid,
			(SELECT count(*) FROM unnest(o.columns) column_number WHERE column_number <> ALL (r.columns)),
			of_replacement, r.indexrelid)
	SELECT p.indrelid::regclass, p.indexrelid::regclass, p.of_index, p.scans,
		p.replacement::regclass, p.of_replacement,
		format(CASE p.relkind WHEN 'I' THEN 'DROP INDEX %s' ELSE 'DROP INDEX CONCURRENTLY %s' END,
			(SELECT format('%I.%I', n.nspname, c.relname)
				FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE c.oid = p.indexrelid)),
		nullif(concat_ws('; ',
			CASE WHEN NOT key.attnotnull THEN
				format('%I IS NULL reads the table if the other index was built before 1.2',
					key.attname) END,
			CASE WHEN p.amname = 'btree' AND NOT p.has_ranges THEN
				format('ranges and the order of %I need a btree', key.attname) END,
			CASE WHEN key.atttypid IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
				THEN format('comparisons of %I with values of another type need a btree',
					key.attname) END,
			CASE WHEN p.predicate IS NOT NULL AND NOT p.is_alike THEN
				format('finds rows WHERE %s by that alone', p.predicate) END,
			CASE WHEN t.relreplident = 'f' THEN 'subscribers may find rows by it' END,
			(SELECT 'not in the other index: ' || string_agg(quote_ident(a.attname), ', '
					ORDER BY a.attnum)
				FROM pg_attribute a
				WHERE a.attrelid = p.indrelid AND a.attnum = ANY (p.columns)
					AND a.attnum <> ALL (p.more)),
			CASE WHEN p.indisclustered THEN 'CLUSTER orders the table by it' END), '')
	FROM pairs p JOIN pg_attribute key ON key.attrelid = p.indrelid AND key.attnum = p.key
		JOIN pg_class t ON t.oid = p.indrelid
	ORDER BY p.of_index DESC, p.indexrelid;
END;
COMMENT ON FUNCTION gpujoin_replaceable()
	IS 'indexes that are not unique and whose key is that of a gpujoin index; what is lost without them';

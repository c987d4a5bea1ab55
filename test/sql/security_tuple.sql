--
-- Row-level security and tuples: no function sees a hidden row, unless it is leakproof
--
CREATE SCHEMA security_tuple;
SET search_path = security_tuple, public;

-- What a leak would show: rows of another owner
CREATE FUNCTION spy(anyelement, text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN
	IF $2 <> current_user THEN RAISE NOTICE 'hidden: % of %', $1, $2; END IF;
	RETURN true;
END $$;
-- A hash function that is not leakproof, of a type whose equality is; it tells of the hidden value
CREATE FUNCTION hash_money(money) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN
	IF $1 = '99'::money THEN RAISE NOTICE 'hidden: %', $1::numeric; END IF;
	RETURN 1;
END $$;
CREATE FUNCTION hash_money(money, int8) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT security_tuple.hash_money($1)::int8';
CREATE OPERATOR CLASS money_ops DEFAULT FOR TYPE money USING hash AS OPERATOR 1 =, FUNCTION 1 hash_money(money), FUNCTION 2 hash_money(money, int8);

CREATE FUNCTION id(int) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$ SELECT md5($1::text)::uuid $$;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE big (owner name, k int, u uuid, t text, i text, c char(9), b bytea, n numeric, w inet, m mood,
	code text, fixed char(5), amount money, price numeric, sort int);
INSERT INTO big SELECT CASE WHEN i % 10 = 0 THEN 'security_tuple_user' ELSE 'nobody' END, v, id(v), 't' || v, id(v)::text, 'c' || v, ('b' || v)::bytea, v, '10.0.0.0'::inet + v,
		(ARRAY['good', 'bad']::mood[])[1 + i % 2], 'code' || i % 4, 'f' || i % 4, CASE WHEN i % 10 = 0 THEN i % 4 ELSE 99 END::money, i % 4, i % 4
	FROM generate_series(1, 6000) i, LATERAL (SELECT i % 300 AS v) v;
CREATE INDEX big_k ON big USING gpujoin (k) INCLUDE (code, fixed, sort, price);
CREATE INDEX big_u ON big USING gpujoin (u) INCLUDE (code);
CREATE INDEX big_t ON big USING gpujoin (t) INCLUDE (code);
CREATE INDEX big_i ON big USING gpujoin (i text_id_ops) INCLUDE (code);
CREATE INDEX big_c ON big USING gpujoin (c) INCLUDE (code);
CREATE INDEX big_b ON big USING gpujoin (b) INCLUDE (code);
CREATE INDEX big_n ON big USING gpujoin (n) INCLUDE (code);
CREATE INDEX big_w ON big USING gpujoin (w) INCLUDE (code);
CREATE INDEX big_m ON big USING gpujoin (m) INCLUDE (code);
VACUUM (FREEZE, ANALYZE) big;
CREATE TABLE small (owner name, k int, u uuid, t text, i text, c char(9), b bytea, n numeric, w inet, code text, fixed char(7), amount money, price numeric, sort int8);
INSERT INTO small SELECT 'security_tuple_user', k, u, t, i, c, b, n, w, code, fixed, amount, price, sort FROM big WHERE owner = 'security_tuple_user' AND k <= 30;
ANALYZE small;
ALTER TABLE big ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON big USING (owner = current_user AND length(owner) > 0);
CREATE ROLE security_tuple_user;
GRANT USAGE ON SCHEMA security_tuple TO security_tuple_user;
GRANT SELECT ON big, small TO security_tuple_user;

-- Return the number of rows, whether gpujoin changes the answer, and the node and its condition
CREATE FUNCTION guarded(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	collect text := format('SELECT coalesce(array_agg(q::text ORDER BY q::text), ''{}'') FROM (%s) q', query);
	stock text[];
	ours text[];
	line text;
	node text := 'no node';
BEGIN
	SET LOCAL gpujoin.enabled = off;
	EXECUTE collect INTO stock;
	SET LOCAL gpujoin.enabled = on;
	SET LOCAL gpujoin.force = on;
	EXECUTE collect INTO ours;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || collect LOOP
		line := replace(line, 'unnamed_subquery', '"ANY_subquery"');	-- 19's name for it
		node := coalesce(substring(line FROM '(GpuScan|GpuJoin)\)'), node);
		IF line ~ 'Key Condition' THEN node := node || ', ' || regexp_replace(btrim(line), ' = ANY .*', ' = ANY'); END IF;
	END LOOP;
	RETURN format('%s rows, %s: %s', cardinality(stock), CASE WHEN stock = ours THEN 'same' ELSE 'DIFFERENT' END, node);
END $$;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA security_tuple TO security_tuple_user;
SET ROLE security_tuple_user;

-- Keys of each class with a text; numerics and enums have no leakproof equality
SELECT class, guarded(format('SELECT k, code FROM big WHERE (%s, code) IN ((%L, ''code2''), (%L, ''code0''), (%L, ''code1'')) AND spy(code, owner)', class, a, b, c))
FROM (VALUES ('k', '10', '20', '11'), ('u', id(10)::text, id(20)::text, id(11)::text), ('t', 't10', 't20', 't11'), ('i', id(10)::text, id(20)::text, id(11)::text),
	('c', 'c10', 'c20 ', 'c11'), ('b', 'b10', 'b20', 'b11'), ('n', '10', '20', '11'), ('w', '10.0.0.10', '10.0.0.20', '10.0.0.11'), ('m', 'good', 'bad', 'good')) v (class, a, b, c);
-- Other parts; a part without a leakproof equality, or whose hash function is not, is not looked up
SELECT part, guarded(format('SELECT k, code FROM big WHERE (k, %s) IN ((10, %L), (20, %L), (11, %L)) AND spy(code, owner)', part, a, b, c))
FROM (VALUES ('code', 'code2', 'code0', 'code1'), ('fixed', 'f2', 'f0  ', 'f3'), ('sort', '2', '0', '1'), ('price', '2', '0', '1'), ('amount', '2', '0', '99'), ('code COLLATE "C"', 'code2', 'code0', 'x')) v (part, a, b, c);
SELECT guarded('SELECT k FROM big WHERE (k, code, price) IN ((10, ''code2'', 2), (20, ''code0'', 0)) AND spy(code, owner)');
SELECT guarded('SELECT k FROM big WHERE (k, fixed) IN ((10, ''f2''::text), (20, ''f0''::text)) AND spy(fixed, owner)');
-- Joins
SELECT class, guarded(format('SELECT b.k, s.code FROM small s JOIN big b ON b.%s = s.%s AND b.code = s.code WHERE spy(b.code, b.owner)', class, class))
FROM unnest('{k,u,t,i,c,b,n,w}'::text[]) class;
SELECT part, guarded(format('SELECT b.k, s.code FROM small s JOIN big b ON b.k = s.k AND b.%s = s.%s AND spy(b.code, b.owner)', part, part))
FROM unnest('{code,fixed,sort,price,amount}'::text[]) part;
SELECT guarded('SELECT k FROM big WHERE (k, code) IN (SELECT unnest(''{10,20,11}''::int[]), unnest(''{code2,code0,code1}''::text[])) AND spy(code, owner)');
SELECT guarded('SELECT k FROM big WHERE (k, amount) IN (SELECT unnest(''{10,20,11}''::int[]), unnest(''{2,0,99}''::money[])) AND spy(code, owner)');

RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA security_tuple CASCADE;
DROP ROLE security_tuple_user;

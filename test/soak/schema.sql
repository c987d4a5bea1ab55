-- Tables, indexes and functions of the soak test (test/soak/soak.sh). psql variables: rows, keys.

CREATE EXTENSION gpujoin;

CREATE TABLE big (id bigserial PRIMARY KEY, k int, v int, b bigint, ts timestamp DEFAULT now(),
	pad text) WITH (fillfactor = 80);
CREATE TABLE small (k int, w int);
CREATE TABLE parts (id bigserial, k int, v int, b bigint, pad text) PARTITION BY RANGE (k);
CREATE TABLE side (id serial, k int, v int);
-- Each key has ten rows, and each transfer adds to the rows of one key the amount it takes from
-- another's.
CREATE TABLE accounts (id int, k int, balance int DEFAULT 0) WITH (fillfactor = 60);

-- Other types of keys. One in twenty text ids has no form that can be packed; code is too long for
-- an index in one row of twenty-three.
CREATE FUNCTION soak_uuid(int) RETURNS uuid IMMUTABLE LANGUAGE sql
	AS $$ SELECT md5($1::text)::uuid $$;
CREATE FUNCTION soak_id(int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN $1 % 20 = 0 THEN 'an item without an id, number ' || $1
		ELSE overlay(soak_uuid($1)::text PLACING '8' FROM 20 FOR 1) END $$;
CREATE FUNCTION soak_code(int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE $1 % 23 WHEN 0 THEN 'a code that is too long' WHEN 1 THEN NULL
		ELSE 'code' || $1 % 23 END $$;
CREATE TABLE items (id bigserial PRIMARY KEY, n int, u uuid, t text, i text, c char(9),
	code varchar, owner uuid, price numeric(9,2), v int, pad text) WITH (fillfactor = 80);
CREATE TABLE pairs (n int, u uuid, i text, c char(12), code text, owner uuid, w int);
CREATE FUNCTION soak_items(first int, count int, keys int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO items (n, u, t, i, c, code, owner, price, v)
	SELECT n, soak_uuid(n), 'item ' || n, soak_id(n), 'c' || j % 9, soak_code(j), soak_uuid(j % 90),
		j % 1000 / 100.0, j % 100
	FROM generate_series(first, first + count - 1) j, LATERAL (SELECT j % keys AS n) m $$;

SELECT format('CREATE TABLE parts%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s)', i,
		CASE i WHEN 0 THEN 'MINVALUE' ELSE (:keys * i / 4)::text END,
		CASE i WHEN 3 THEN 'MAXVALUE' ELSE (:keys * (i + 1) / 4)::text END)
FROM generate_series(0, 3) i \gexec

INSERT INTO big (k, v, b, pad)
	SELECT i::bigint * 7919 % :keys, i % 100, i::bigint * 31 % 100000, repeat('x', i % 40)
	FROM generate_series(1, :rows) i;
INSERT INTO parts (k, v, b, pad)
	SELECT i::bigint * 104729 % :keys, i % 100, i::bigint * 17 % 100000, repeat('p', i % 20)
	FROM generate_series(1, :rows / 4) i;
SELECT soak_items(1, :keys * 10, :keys);
INSERT INTO pairs SELECT n, u, i, c, code, owner, id % 10 FROM items
	ORDER BY md5(id::text) LIMIT 300;
INSERT INTO small SELECT i * 37 % :keys, i % 10 FROM generate_series(1, 300) i;
INSERT INTO side (k, v) SELECT i % 500, i FROM generate_series(1, 5000) i;
INSERT INTO accounts SELECT i, i % 500 FROM generate_series(1, 5000) i;

CREATE INDEX big_k ON big USING gpujoin (k) WITH (lanes = 2);
CREATE INDEX big_only ON big USING gpujoin (k) INCLUDE (v, b, id);
CREATE INDEX big_b ON big USING gpujoin (b);
CREATE INDEX big_partial ON big USING gpujoin (k) WHERE v < 30;
CREATE INDEX big_expression ON big USING gpujoin ((k / 7)) WHERE k >= 0;
CREATE INDEX big_btree ON big (k);
CREATE INDEX parts_k ON parts USING gpujoin (k) INCLUDE (v, b, id);
CREATE INDEX items_u ON items USING gpujoin (u) INCLUDE (v, code, id);
CREATE INDEX items_t ON items USING gpujoin (t);
CREATE INDEX items_i ON items USING gpujoin (i text_id_ops) INCLUDE (c, owner, id);
CREATE INDEX items_n ON items USING gpujoin (n) INCLUDE (code, c, owner, price, id, v);
CREATE INDEX items_btree ON items (n, code);
CREATE INDEX side_k ON side USING gpujoin (k);
CREATE INDEX accounts_k ON accounts USING gpujoin (k);
VACUUM ANALYZE;

-- The answer to a query, as the number of its rows and a digest of them. "set" runs it below an
-- aggregate, perhaps in parallel; "rows" through a portal; "ordered" depends on the order of the
-- rows; "cursor" pauses after some rows, so that other sessions can change and fold everything.
CREATE FUNCTION soak_answer(how text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	c refcursor;
	n bigint := 0;
	hash numeric := 0;
	chain bigint := 0;
	answer text;
BEGIN
	IF how = 'set' THEN
		EXECUTE format('SELECT concat_ws('' '', count(*),
			sum(hashtextextended(t::text, 0)::numeric)) FROM (%s) t', query) INTO answer;
		RETURN answer;
	END IF;
	OPEN c NO SCROLL FOR EXECUTE query;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		IF how = 'ordered' THEN
			chain := hashtextextended(r::text, chain);
		ELSE
			hash := hash + hashtextextended(r::text, 0);
		END IF;
		IF how = 'cursor' AND n = 5 THEN
			PERFORM pg_sleep(random() * 0.5);
		END IF;
	END LOOP;
	CLOSE c;
	RETURN concat_ws(' ', n, hash, chain);
END $$;

-- Run a query with and without gpujoin. The caller is in a transaction with one snapshot. A
-- different answer raises an error with its own SQLSTATE.
CREATE FUNCTION soak_compare(kind text, how text, query text, settings text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	setting text;
	stock text;
	ours text;
	stock_first bool := random() < 0.5;
BEGIN
	IF stock_first THEN
		PERFORM set_config('gpujoin.enabled', 'off', true);
		stock := soak_answer(how, query);
	END IF;
	PERFORM set_config('gpujoin.enabled', 'on', true);
	PERFORM set_config('gpujoin.force', (random() < 0.8)::text, true);
	FOREACH setting IN ARRAY string_to_array(settings, ' ') LOOP
		PERFORM set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
	END LOOP;
	ours := soak_answer(how, query);
	IF NOT stock_first THEN
		PERFORM set_config('gpujoin.enabled', 'off', true);
		stock := soak_answer(how, query);
	END IF;
	IF stock IS DISTINCT FROM ours THEN
		RAISE EXCEPTION USING ERRCODE = 'SOAK1',
			MESSAGE = format('different: %s %s: stock %s, ours %s: %s [%s]', kind, how, stock,
				ours, query, settings);
	END IF;
	RETURN format('same %s %s', kind, split_part(stock, ' ', 1));
END $$;

-- The same with cached generic plans: changing gpujoin.enabled would discard them, so the stock
-- answer comes from a condition that no index can use. The session has gpujoin.force on.
CREATE FUNCTION soak_generic(keys int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	stock text;
	ours text;
BEGIN
	SELECT concat_ws(' ', count(*), sum(hashtextextended(concat_ws(',', id, k, v, b, pad), 0)
		::numeric)) INTO stock FROM big WHERE k + 0 = ANY (keys);
	SELECT concat_ws(' ', count(*), sum(hashtextextended(concat_ws(',', id, k, v, b, pad), 0)
		::numeric)) INTO ours FROM big WHERE k = ANY (keys);
	IF stock IS DISTINCT FROM ours THEN
		RAISE EXCEPTION USING ERRCODE = 'SOAK1',
			MESSAGE = format('different: generic: stock %s, ours %s: %s', stock, ours, keys);
	END IF;
	SELECT concat_ws(' ', count(*), sum(b), max(id)) INTO stock FROM big
		WHERE k + 0 = ANY (keys) AND v < 70;
	SELECT concat_ws(' ', count(*), sum(b), max(id)) INTO ours FROM big
		WHERE k = ANY (keys) AND v < 70;
	IF stock IS DISTINCT FROM ours THEN
		RAISE EXCEPTION USING ERRCODE = 'SOAK1',
			MESSAGE = format('different: generic entries: stock %s, ours %s: %s', stock, ours,
				keys);
	END IF;
	RETURN format('same generic %s', split_part(stock, ' ', 1));
END $$;

-- No update of a row may be lost, no matter how many sessions wait for it.
CREATE FUNCTION soak_balance() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	total bigint := (SELECT sum(balance) FROM accounts WHERE k = ANY (
		ARRAY(SELECT generate_series(0, 499))));
BEGIN
	IF total IS DISTINCT FROM 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'SOAK1',
			MESSAGE = format('different: the accounts add up to %s', total);
	END IF;
	RETURN 'same balance 5000';
END $$;

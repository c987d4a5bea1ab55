-- test/bench/one_statements.sql: single statements with a btree alone and with a gpujoin index
-- alone on each column that is looked up, in the database that psql connects to.  Prints a table in
-- markdown.  Variables: rows (of the big table), rounds.
--
-- Both schemas have the same rows.  Each statement is one of a PL/pgSQL function, so that its plan is
-- kept, and no client or network is measured.  In each round a function executes it some times with
-- the same values in both schemas, one after the other; the first round is not counted.
\set ON_ERROR_STOP on
\set QUIET on
SET client_min_messages = warning;
SET jit = off;

CREATE EXTENSION IF NOT EXISTS gpujoin;

CREATE FUNCTION mixed(bigint) RETURNS int LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT hashint8($1) & 2147483647';

-- Each key column has its name's number of rows a key.
CREATE PROCEDURE make_tables(method text, nrows int) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE SCHEMA %1$I; SET LOCAL search_path = %1$I, public', 'with_' || method);
	CREATE TABLE big (id int, k1 int NOT NULL, k5 int NOT NULL, k10 int NOT NULL,
		k50 int NOT NULL, k500 int NOT NULL, day date NOT NULL, maybe int, status int NOT NULL,
		note text);
	INSERT INTO big
	SELECT i, 1 + mixed(i) % nrows, 1 + mixed(i + 1) % (nrows / 5), 1 + mixed(i + 2) % (nrows / 10),
		1 + mixed(i + 3) % (nrows / 50), 1 + mixed(i + 4) % (nrows / 500),
		date '2020-01-01' + mixed(i + 5) % 2500,
		nullif(mixed(i + 6) % 100, 0) + mixed(i + 7) % (nrows / 10), i % 8, 'the note of row ' || i
	FROM generate_series(1, nrows) i;
	CREATE TABLE parent (id int PRIMARY KEY);
	INSERT INTO parent SELECT generate_series(1, 300000);
	CREATE TABLE child10 (id int, parent int);
	INSERT INTO child10 SELECT i, 1 + i % 100000 FROM generate_series(0, 999999) i;
	CREATE TABLE child2 (id int, parent int);
	INSERT INTO child2 SELECT i, 100001 + i % 100000 FROM generate_series(0, 199999) i;
	ALTER TABLE child10 ADD FOREIGN KEY (parent) REFERENCES parent ON DELETE CASCADE;
	ALTER TABLE child2 ADD FOREIGN KEY (parent) REFERENCES parent ON DELETE CASCADE;
	CREATE TABLE one_index (a int, b int);
	CREATE TABLE two_indexes (a int, b int);
	EXECUTE format('
		CREATE INDEX big_id ON big USING %1$I (id);
		CREATE INDEX big_k1 ON big USING %1$I (k1);
		CREATE INDEX big_k5 ON big USING %1$I (k5);
		CREATE INDEX big_k10 ON big USING %1$I (k10);
		CREATE INDEX big_k50 ON big USING %1$I (k50);
		CREATE INDEX big_k500 ON big USING %1$I (k500);
		CREATE INDEX big_maybe ON big USING %1$I (maybe);
		CREATE INDEX big_status ON big USING %1$I (status);
		CREATE INDEX big_day_including ON big USING %1$I (day) INCLUDE (k500, status);
		CREATE INDEX big_k10_including ON big USING %1$I (k10) INCLUDE (status);
		CREATE INDEX child10_parent ON child10 USING %1$I (parent);
		CREATE INDEX child2_parent ON child2 USING %1$I (parent);
		CREATE INDEX one_index_a ON one_index USING %1$I (a);
		CREATE INDEX two_indexes_a ON two_indexes USING %1$I (a);
		CREATE INDEX two_indexes_b ON two_indexes USING %1$I (b)', method);
END
$$;

CREATE TABLE statements (id serial, title text, times int, last int, body text);
CREATE TABLE measured (statement int, method text, round int, us float8);

-- In a body, i is another number in each execution, x a mixed one up to last, and d a day.
INSERT INTO statements (title, times, last, body) VALUES
	('one key, 10 rows: whole rows', 5000, :rows / 10, 'PERFORM * FROM big WHERE k10 = x'),
	('`count(*)`', 5000, :rows / 10, 'SELECT count(*) INTO y FROM big WHERE k10 = x'),
	('`EXISTS`', 5000, :rows / 10, 'y := EXISTS (SELECT FROM big WHERE k10 = x)::int'),
	('a unique key: whole row', 5000, :rows, 'PERFORM * FROM big WHERE id = x'),
	('`count(*)`', 5000, :rows, 'SELECT count(*) INTO y FROM big WHERE id = x'),
	('`LATERAL`, newest 3 of 300 keys, 1 row a key', 20, 100000, 'PERFORM p.id, o.* FROM parent p, LATERAL (SELECT note FROM big WHERE k1 = p.id ORDER BY big.id LIMIT 3) o WHERE p.id BETWEEN x AND x + 299'),
	('5 rows', 20, 100000, 'PERFORM p.id, o.* FROM parent p, LATERAL (SELECT note FROM big WHERE k5 = p.id ORDER BY big.id LIMIT 3) o WHERE p.id BETWEEN x AND x + 299'),
	('50 rows', 20, :rows / 50 - 300, 'PERFORM p.id, o.* FROM parent p, LATERAL (SELECT note FROM big WHERE k50 = p.id ORDER BY big.id LIMIT 3) o WHERE p.id BETWEEN x AND x + 299'),
	('500 rows', 20, :rows / 500 - 300, 'PERFORM p.id, o.* FROM parent p, LATERAL (SELECT note FROM big WHERE k500 = p.id ORDER BY big.id LIMIT 3) o WHERE p.id BETWEEN x AND x + 299'),
	('`json_agg` of the rows of 1,000 keys', 10, 100000, 'PERFORM p.id, (SELECT json_agg(status ORDER BY id) FROM big WHERE k10 = p.id) FROM parent p WHERE p.id BETWEEN x AND x + 999'),
	('join of 10 rows', 500, 100000, 'PERFORM big.* FROM parent p JOIN big ON k10 = p.id WHERE p.id BETWEEN x AND x + 9'),
	('`max(key)`', 2000, 1, 'SELECT max(k10) INTO y FROM big'),
	('`key > $1 ORDER BY key LIMIT 50`', 1000, :rows / 10 - 100, 'PERFORM * FROM (SELECT * FROM big WHERE k10 > x ORDER BY k10 LIMIT 50) q'),
	('the same, covering', 1000, :rows / 10 - 100, 'PERFORM * FROM (SELECT k10, status FROM big WHERE k10 > x ORDER BY k10 LIMIT 50) q'),
	('`key IS NULL`, 1 % of the rows, count', 3, 1, 'SELECT count(*) INTO y FROM big WHERE maybe IS NULL'),
	('`key = $1 OR key IS NULL`', 3, 1000, 'SELECT count(*) INTO y FROM big WHERE maybe = x OR maybe IS NULL'),
	('250 days of 2,500: count and sum, covering', 3, 2250, 'SELECT count(*) + sum(k500) INTO y FROM big WHERE day BETWEEN d AND d + 249'),
	('by day', 3, 2250, 'PERFORM day, count(*), sum(k500) FROM big WHERE day BETWEEN d AND d + 249 GROUP BY day'),
	('whole table: `GROUP BY` key, 10 rows', 1, 1, 'PERFORM k10, count(*) FROM big GROUP BY k10 HAVING count(*) > 30'),
	('500 rows', 1, 1, 'PERFORM k500, count(*) FROM big GROUP BY k500 HAVING count(*) > 3000'),
	('`count(DISTINCT key)`', 1, 1, 'SELECT count(DISTINCT k10) INTO y FROM big'),
	('`GROUP BY` a column of 8 values', 1, 1, 'PERFORM status, count(*) FROM big GROUP BY status'),
	('cascade of one parent, 10 rows', 500, 1, 'DELETE FROM parent WHERE id = i'),
	('2 rows', 500, 1, 'DELETE FROM parent WHERE id = 100000 + i'),
	('of 40 parents, 10 rows', 20, 1, 'DELETE FROM parent WHERE id BETWEEN 50000 + i * 40 AND 50039 + i * 40'),
	('a row is inserted, one index', 20000, :rows / 10, 'INSERT INTO one_index VALUES (x, i)'),
	('two indexes', 20000, :rows / 10, 'INSERT INTO two_indexes VALUES (x, i)'),
	('200,000 rows are inserted', 1, :rows / 10, 'INSERT INTO one_index SELECT 1 + mixed(n) % last, n FROM generate_series(1, 200000) n');

CREATE PROCEDURE make_functions(method text) LANGUAGE plpgsql AS $$
DECLARE
	s record;
BEGIN
	FOR s IN SELECT * FROM statements LOOP
		EXECUTE format('CREATE FUNCTION %I.measure_%s(first int, times int, last int) RETURNS float8
			LANGUAGE plpgsql AS $f$
			DECLARE
				start timestamptz := clock_timestamp();
				x int;
				y bigint;
				d date;
			BEGIN
				FOR i IN first + 1 .. first + times LOOP
					x := 1 + mixed(i) %% last;
					d := date ''2020-01-01'' + x;
					%s;
				END LOOP;
				RETURN extract(epoch FROM clock_timestamp() - start) * 1e6 / times;
			END $f$', 'with_' || method, s.id, s.body);
	END LOOP;
END
$$;

CREATE PROCEDURE measure(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	s record;
	method text;
	us float8;
BEGIN
	FOR s IN SELECT * FROM statements ORDER BY id LOOP
		FOR round IN 0 .. rounds LOOP
			FOREACH method IN ARRAY ARRAY['btree', 'gpujoin'] LOOP
				EXECUTE format('SET LOCAL search_path = %I, public', 'with_' || method);
				EXECUTE format('SELECT measure_%s($1, $2, $3)', s.id) INTO us
				USING round * s.times, s.times, greatest(s.last, 1);
				INSERT INTO public.measured VALUES (s.id, method, round, us);
			END LOOP;
			COMMIT;
		END LOOP;
	END LOOP;
END
$$;

CALL make_tables('btree', :rows);
CALL make_tables('gpujoin', :rows);
CALL make_functions('btree');
CALL make_functions('gpujoin');
VACUUM (FREEZE, ANALYZE);
CALL measure(:rounds);

\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
\qecho '| Statement | btree, µs | gpujoin, µs | gpujoin / btree |'
\qecho '|---|--:|--:|--:|'
SELECT '| ' || title, round(b::numeric, 1), round(g::numeric, 1), round((g / b)::numeric, 2) || ' |'
FROM statements JOIN (
	SELECT statement, percentile_cont(0.5) WITHIN GROUP (ORDER BY us) FILTER (WHERE method = 'btree') AS b,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY us) FILTER (WHERE method = 'gpujoin') AS g
	FROM measured WHERE round > 0 GROUP BY statement) m ON statement = id
ORDER BY id;
\qecho
\qecho '| Index of big | btree, MB | gpujoin, MB | gpujoin / btree |'
\qecho '|---|--:|--:|--:|'
SELECT '| ' || b.relname, round(pg_relation_size(b.oid) / 1e6, 1), round(pg_relation_size(g.oid) / 1e6, 1),
	round(pg_relation_size(g.oid)::numeric / pg_relation_size(b.oid), 2) || ' |'
FROM pg_class b JOIN pg_class g USING (relname)
WHERE b.relnamespace = 'with_btree'::regnamespace AND g.relnamespace = 'with_gpujoin'::regnamespace AND
	relname ~ '^big_'
ORDER BY relname;

\set ECHO none
-- EXPLAIN without version-dependent output: PostgreSQL 18 shows buffers, and fractions of rows
CREATE FUNCTION explain(options text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (BUFFERS OFF, %s) %s', options, query) LOOP
		RETURN NEXT regexp_replace(line, '(actual rows=\d+)\.00', '\1');
	END LOOP;
END $$;
\set ECHO all

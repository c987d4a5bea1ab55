-- The benchmark's tables: patents, filled by test/bench/bench.sh in parts (fill.sql), and 4,000 of
-- their 80,000 classes, so that one patent in twenty matches. Classes have even numbers: odd ones
-- are keys that match nothing, wherever a set needs such.

CREATE EXTENSION gpujoin;

CREATE TABLE patents (
    patent_id    integer NOT NULL,
    class_id     integer NOT NULL,
    app_year     integer NOT NULL,
    issue_year   integer NOT NULL,
    company_id   integer NOT NULL,
    is_important boolean NOT NULL
);

SELECT setseed(0.4);
CREATE TABLE top_classes AS
    SELECT 2 * n AS class_id FROM generate_series(1, 80000) AS n ORDER BY random() LIMIT 4000;
VACUUM ANALYZE top_classes;

-- Hides all indexes of a table from the planner but the one named. They go on being maintained.
CREATE FUNCTION show_indexes(shown_of regclass, shown name DEFAULT '') RETURNS void
LANGUAGE sql AS $$
    UPDATE pg_index i SET indisvalid = NOT indisvalid FROM pg_class c
    WHERE c.oid = i.indexrelid AND i.indrelid = shown_of AND i.indisready
        AND i.indisvalid <> (c.relname = shown)
$$;

-- A set of so many keys, of which so many are classes that patents have.
CREATE FUNCTION make_keys(keys int, classes int) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    name text := format('keys_%s_%s', keys, classes);
BEGIN
    IF to_regclass(name) IS NULL THEN
        PERFORM setseed(0.3);
        EXECUTE format('CREATE TABLE %I AS
            (SELECT 2 * n AS k FROM generate_series(1, 80000) n ORDER BY random() LIMIT %2$s)
            UNION ALL
            (SELECT (1 + 2 * n * (2000000000 / greatest(%3$s, 1) / 2)) AS k
             FROM generate_series(1, %3$s) n)', name, classes, keys - classes);
        EXECUTE 'ANALYZE ' || name;
    END IF;
    RETURN name;
END
$$;

-- Functions that the benchmarks need in their databases.

CREATE EXTENSION gpujoin;

-- Processor time of a process in milliseconds, or in hundredths of a second if the kernel does not
-- tell more. NULL if the process has ended.
CREATE FUNCTION cpu_ms(pid int) RETURNS float8 LANGUAGE sql AS $$
    SELECT coalesce(split_part(pg_read_file('/proc/' || pid || '/schedstat', 0, 1000, true), ' ', 1)::
            float8 / 1e6, (f[12]::float8 + f[13]::float8) * 10)
    FROM (SELECT string_to_array(split_part(pg_read_file('/proc/' || pid || '/stat', 0, 1000, true),
        ') ', 2), ' ') AS f) AS stat
$$;

-- Hides all indexes of a table from the planner, except those named. They are still maintained.
CREATE FUNCTION show_indexes(shown_of regclass, shown text DEFAULT '') RETURNS void
LANGUAGE sql AS $$
    UPDATE pg_index i SET indisvalid = NOT indisvalid FROM pg_class c
    WHERE c.oid = i.indexrelid AND i.indrelid = shown_of AND i.indisready
        AND i.indisvalid <> (c.relname = ANY (string_to_array(shown, ' ')))
$$;

-- A set with the given number of keys, with "classes" classes that patents have.
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

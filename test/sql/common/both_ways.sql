\set ECHO none
-- Run a query under gpujoin.force and with gpujoin off: return the number of rows, and the number
-- of rows that each answer lacks.
CREATE FUNCTION both_ways(query text, OUT n bigint, OUT missing bigint, OUT surplus bigint)
LANGUAGE plpgsql AS $$
DECLARE
	workers text := current_setting('max_parallel_workers');
BEGIN
	PERFORM set_config('gpujoin.force', 'on', true);
	EXECUTE 'CREATE TEMP TABLE ours AS ' || query;
	PERFORM set_config('gpujoin.force', 'off', true), set_config('gpujoin.enabled', 'off', true),
		set_config('max_parallel_workers', '0', true);
	EXECUTE 'CREATE TEMP TABLE stock AS ' || query;
	PERFORM set_config('gpujoin.enabled', 'on', true), set_config('max_parallel_workers', workers, true);
	SELECT count(*) INTO n FROM ours;
	SELECT count(*) INTO missing FROM (TABLE stock EXCEPT ALL TABLE ours) d;
	SELECT count(*) INTO surplus FROM (TABLE ours EXCEPT ALL TABLE stock) d;
	DROP TABLE ours, stock;
END $$;
\set ECHO all

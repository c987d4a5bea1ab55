-- All variants of the vector kernels that this processor supports, and sets of TIDs below and above
-- their memory limit, against simple C code. The same for groups and their aggregates, the first
-- entries of an order, sorted rows, answers of a device, entries that arrive in any order, exact
-- tables of values, and the visibility map of a heap for which it has several pages.
CREATE EXTENSION gpujoin_test;
SELECT gpujoin_kernel_selftest() > 100000 AS kernels_agree;
SELECT gpujoin_tidset_selftest() > 100000 AS tid_sets_agree;
SELECT gpujoin_groups_selftest() > 100000 AS groups_agree;
SELECT gpujoin_combine_selftest() > 100000 AS answers_add_up;
SELECT gpujoin_collision_selftest() AS collision_tests;
SELECT gpujoin_top_selftest() > 100000 AS orders_agree;
SELECT gpujoin_sort_selftest() > 500 AS sorts_agree;
SELECT gpujoin_narrow_selftest() > 100000 AS narrow_pages_agree;
SELECT gpujoin_entries_selftest() > 100000 AS entries_agree;
SELECT gpujoin_exact_selftest() > 100000 AS exact_tables_agree;
CREATE TEMP TABLE visible ();
SELECT gpujoin_visible_map_selftest('visible') > 100000 AS maps_agree;
DROP TABLE visible;

-- Partial sums of int8 have the form that PostgreSQL gives its own: it differs between versions
CREATE AGGREGATE own_int8_state(int8) (SFUNC = int8_avg_accum, STYPE = internal,
	FINALFUNC = int8_avg_serialize);
SELECT count(*), count(*) FILTER (WHERE own IS DISTINCT FROM gpujoin_test_int8_state(numbers)) AS differ
FROM (SELECT numbers, (SELECT own_int8_state(n) FROM (SELECT unnest(numbers) n UNION ALL SELECT NULL) u) AS own
	FROM (VALUES ('{}'::int8[]), ('{0}'), ('{-1}'), ('{1,2,3,10000,-20000}'), ('{-9223372036854775808}'),
		('{9223372036854775807,9223372036854775807,9223372036854775807}'),
		('{-9223372036854775808,-9223372036854775808,-9223372036854775808,-1}')) v(numbers)) t;
DROP AGGREGATE own_int8_state(int8);

-- Superusers only
CREATE ROLE regress_gpujoin_stranger;
SET ROLE regress_gpujoin_stranger;
SELECT gpujoin_kernel_selftest();
RESET ROLE;
DROP ROLE regress_gpujoin_stranger;
DROP EXTENSION gpujoin_test;

-- All variants of the vector kernels that this processor supports, and sets of TIDs below and above
-- their memory limit, against simple C code. The same for groups and their aggregates, the first
-- entries of an order, sorted rows, entries that arrive in any order, exact tables of values, and the
-- visibility map of a heap for which it has several pages.
CREATE EXTENSION gpujoin_test;
SELECT gpujoin_kernel_selftest() > 100000 AS kernels_agree;
SELECT gpujoin_tidset_selftest() > 100000 AS tid_sets_agree;
SELECT gpujoin_groups_selftest() > 100000 AS groups_agree;
SELECT gpujoin_top_selftest() > 100000 AS orders_agree;
SELECT gpujoin_sort_selftest() > 500 AS sorts_agree;
SELECT gpujoin_entries_selftest() > 100000 AS entries_agree;
SELECT gpujoin_exact_selftest() > 100000 AS exact_tables_agree;
CREATE TEMP TABLE visible ();
SELECT gpujoin_visible_map_selftest('visible') > 100000 AS maps_agree;
DROP TABLE visible;

-- Superusers only
CREATE ROLE regress_gpujoin_stranger;
SET ROLE regress_gpujoin_stranger;
SELECT gpujoin_kernel_selftest();
RESET ROLE;
DROP ROLE regress_gpujoin_stranger;
DROP EXTENSION gpujoin_test;

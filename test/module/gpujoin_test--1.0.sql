/* test/module/gpujoin_test--1.0.sql */

-- complain if the script is sourced in psql rather than by CREATE EXTENSION
\echo Use "CREATE EXTENSION gpujoin_test" to load this file. \quit

CREATE FUNCTION gpujoin_kernel_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_kernel_selftest()
	IS 'compare all variants of the CPU search with each other; returns the comparisons made';
REVOKE ALL ON FUNCTION gpujoin_kernel_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_mirror_check(index regclass,
		OUT entries bigint, OUT missing bigint, OUT stale bigint, OUT reason text)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_mirror_check(regclass)
	IS 'compare what a device finds with the entries of the index';
REVOKE ALL ON FUNCTION gpujoin_mirror_check(regclass) FROM PUBLIC;

CREATE FUNCTION gpujoin_service_test(pages integer, slots integer DEFAULT 800,
		key_width integer DEFAULT 4, nkeys integer DEFAULT 100, requests integer DEFAULT 1,
		verify boolean DEFAULT true, count_only boolean DEFAULT false,
		repeats integer DEFAULT 1, reduce boolean DEFAULT false, device integer DEFAULT 0,
		OUT matches bigint, OUT ok bigint, OUT fallbacks bigint, OUT wrong bigint,
		OUT loads bigint, OUT total_us double precision, OUT device_us double precision,
		OUT set_us double precision, OUT kernel_us double precision,
		OUT transfer_us double precision, OUT per_second double precision, OUT last_error text)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_service_test(integer, integer, integer, integer, integer, boolean,
		boolean, integer, boolean, integer)
	IS 'search a synthetic column on the device, checking each answer; medians of the times';
REVOKE ALL ON FUNCTION gpujoin_service_test(integer, integer, integer, integer, integer, boolean,
		boolean, integer, boolean, integer) FROM PUBLIC;

CREATE FUNCTION gpujoin_inject_fault(point text, kind text, skip integer DEFAULT 0,
		times integer DEFAULT 1, millis integer DEFAULT 0, device integer DEFAULT 0) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_inject_fault(text, text, integer, integer, integer, integer)
	IS 'make the reference device fail; returns why it cannot, or nothing';
REVOKE ALL ON FUNCTION gpujoin_inject_fault(text, text, integer, integer, integer, integer) FROM PUBLIC;

CREATE FUNCTION gpujoin_tidset_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_tidset_selftest()
	IS 'compare sets of TIDs with a plain list; returns the comparisons made';
REVOKE ALL ON FUNCTION gpujoin_tidset_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_groups_selftest(timing text DEFAULT '') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_groups_selftest(text)
	IS 'compare groups and aggregates of columns with plain code, or time them';
REVOKE ALL ON FUNCTION gpujoin_groups_selftest(text) FROM PUBLIC;

CREATE FUNCTION gpujoin_combine_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_combine_selftest()
	IS 'compare answers of a device that have been added up with plain code';
REVOKE ALL ON FUNCTION gpujoin_combine_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_test_int8_state(bigint[]) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION gpujoin_test_int8_state(bigint[])
	IS 'partial state of the average of some bigints';
REVOKE ALL ON FUNCTION gpujoin_test_int8_state(bigint[]) FROM PUBLIC;

CREATE FUNCTION gpujoin_collision_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_collision_selftest()
	IS 'enter keys that collide into hash tables; returns the number of tests';
REVOKE ALL ON FUNCTION gpujoin_collision_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_top_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_top_selftest()
	IS 'compare the first entries of an order with all of them sorted; returns the comparisons made';
REVOKE ALL ON FUNCTION gpujoin_top_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_sort_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_sort_selftest()
	IS 'sort rows with much and little memory and compare; returns the sorts made';
REVOKE ALL ON FUNCTION gpujoin_sort_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_narrow_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_narrow_selftest()
	IS 'make narrow pages of entries, read and damage them; returns the entries compared';
REVOKE ALL ON FUNCTION gpujoin_narrow_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_sort_timing(rows bigint, memory integer, key_width integer,
		key_bits integer, heap_order boolean) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_sort_timing(bigint, integer, integer, integer, boolean)
	IS 'nanoseconds that a row takes to be sorted, with so many kB of memory';
REVOKE ALL ON FUNCTION gpujoin_sort_timing(bigint, integer, integer, integer, boolean) FROM PUBLIC;
CREATE FUNCTION gpujoin_entries_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_entries_selftest()
	IS 'compare sets of entries with what was added to them; returns how many that were';
REVOKE ALL ON FUNCTION gpujoin_entries_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_exact_selftest() RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_exact_selftest()
	IS 'compare exact tables of values with a list of them; returns the comparisons made';
REVOKE ALL ON FUNCTION gpujoin_exact_selftest() FROM PUBLIC;

CREATE FUNCTION gpujoin_visible_map_selftest(heap regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_visible_map_selftest(regclass)
	IS 'compare what the visibility map says of many TIDs with what it says of each; spoils the table, which must be an empty temporary one';
REVOKE ALL ON FUNCTION gpujoin_visible_map_selftest(regclass) FROM PUBLIC;

CREATE FUNCTION gpujoin_exhaust_dsm() RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_exhaust_dsm()
	IS 'take all segments of dynamic shared memory until the session ends; returns how many';
REVOKE ALL ON FUNCTION gpujoin_exhaust_dsm() FROM PUBLIC;

CREATE FUNCTION gpujoin_count_uses(first oid, n integer, make_room boolean DEFAULT true)
	RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_count_uses(oid, integer, boolean)
	IS 'count a search, answered by the CPU, for each of n indexes that there need not be';
REVOKE ALL ON FUNCTION gpujoin_count_uses(oid, integer, boolean) FROM PUBLIC;

CREATE FUNCTION gpujoin_blocks_backward(index regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_blocks_backward(regclass)
	IS 'count the pages of runs that have lower keys than the one before in the file';
REVOKE ALL ON FUNCTION gpujoin_blocks_backward(regclass) FROM PUBLIC;

CREATE FUNCTION gpujoin_use_format(index regclass, version int) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION gpujoin_use_format(regclass, int)
	IS 'turn an index, which was empty, or is of format 3, into one of an older format version';
REVOKE ALL ON FUNCTION gpujoin_use_format(regclass, int) FROM PUBLIC;

CREATE FUNCTION gpujoin_test_uuid(code bigint, rest bigint) RETURNS uuid
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_test_uuid(bigint, bigint)
	IS 'make the uuid that an index stores as this code and rest';
REVOKE ALL ON FUNCTION gpujoin_test_uuid(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION gpujoin_test_flood(number int) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_test_flood(int)
	IS 'make 24 bytes that have the same 64-bit hash for each number';
REVOKE ALL ON FUNCTION gpujoin_test_flood(int) FROM PUBLIC;

CREATE FUNCTION gpujoin_test_one_hash(value bigint, seed bigint) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_test_one_hash(bigint, bigint)
	IS 'a hash function that gives each value the same hash';
REVOKE ALL ON FUNCTION gpujoin_test_one_hash(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION gpujoin_idtext_selftest(rounds bigint DEFAULT 20000) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_idtext_selftest(bigint)
	IS 'pack and restore texts of each form, and texts that miss one';
REVOKE ALL ON FUNCTION gpujoin_idtext_selftest(bigint) FROM PUBLIC;

CREATE FUNCTION gpujoin_test_pack(value text, OUT code bigint, OUT rest bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_test_pack(text)
	IS 'code and rest as which an index with text_id_ops stores a text; NULL for a hash';
REVOKE ALL ON FUNCTION gpujoin_test_pack(text) FROM PUBLIC;

CREATE FUNCTION gpujoin_test_unpack(code bigint, rest bigint) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION gpujoin_test_unpack(bigint, bigint)
	IS 'make the text that an index stores as this code and rest';
REVOKE ALL ON FUNCTION gpujoin_test_unpack(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION gpujoin_test_hook_planner() RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION gpujoin_test_hook_planner()
	IS 'hook the planner, at the first call, and return the number of statements planned since then';
REVOKE ALL ON FUNCTION gpujoin_test_hook_planner() FROM PUBLIC;

CREATE FUNCTION gpujoin_test_hooks() RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION gpujoin_test_hooks()
	IS 'addresses of the functions that hooks call for the time of one call';
REVOKE ALL ON FUNCTION gpujoin_test_hooks() FROM PUBLIC;

-- The SQL interface: the objects that the extension creates, its own documentation, and its errors.
\set ON_ERROR_STOP 1
BEGIN;
SELECT no_plan();

-- The extension and its members ---------------------------------------------------------

SELECT has_extension('gpujoin', 'the extension is there');
SELECT is(extversion, '1.2.0', 'its version') FROM pg_extension WHERE extname = 'gpujoin';
SELECT is(extrelocatable, true, 'it can be moved to another schema')
FROM pg_extension WHERE extname = 'gpujoin';

SELECT set_eq(
	$$SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
		JOIN pg_extension e ON e.oid = d.refobjid
		WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND extname = 'gpujoin'$$,
	ARRAY['gpujoin_handler(internal)', 'gpujoin_key(smallint)', 'gpujoin_key(integer)',
		'gpujoin_key(bigint)', 'gpujoin_key(oid)', 'gpujoin_key(date)',
		'gpujoin_key(timestamp without time zone)', 'gpujoin_key(timestamp with time zone)',
		'gpujoin_key(anyenum)', 'gpujoin_hash(character,bigint)', 'gpujoin_hash(bytea,bigint)',
		'gpujoin_hash(uuid,bigint)', 'gpujoin_image(text)', 'gpujoin_image(character)',
		'gpujoin_image(bytea)', 'gpujoin_image(numeric)', 'gpujoin_rest(uuid)', 'gpujoin_rest(text)',
		'gpujoin_check(regclass,boolean)', 'gpujoin_index_info(regclass)',
		'gpujoin_fold(regclass,boolean)', 'gpujoin_explain_choice(text)', 'gpujoin_advise()',
		'gpujoin_advise(text)', 'gpujoin_load(regclass)', 'gpujoin_unload(regclass)',
		'gpujoin_status()', 'gpujoin_mirrors()', 'gpujoin_fallbacks()', 'gpujoin_stats_reset()',
		'gpujoin_stats_reset(regclass)', 'gpujoin_index_stats()', 'gpujoin_fold_stats()',
		'gpujoin_progress()', 'gpujoin_device_stats()', 'gpujoin_mirror_stats()',
		'gpujoin_load(regclass,integer)', 'gpujoin_unload(regclass,integer)'],
	'these are all its functions');
SELECT is(count(*), 0::bigint, 'none of them is in a language whose names search_path resolves')
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
JOIN pg_extension e ON e.oid = d.refobjid AND d.deptype = 'e'
WHERE extname = 'gpujoin' AND prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c');
SELECT views_are('public', ARRAY['pg_stat_gpujoin', 'pg_stat_gpujoin_fallbacks',
	'pg_stat_gpujoin_mirrors', 'pg_stat_gpujoin_indexes', 'pg_stat_gpujoin_folds',
	'gpujoin_devices', 'gpujoin_progress',
	'pg_all_foreign_keys', 'tap_funky'], 'these are all its views');
SELECT table_privs_are(v, 'pg_monitor', ARRAY['SELECT'], 'pg_monitor reads ' || v)
FROM unnest(ARRAY['pg_stat_gpujoin', 'pg_stat_gpujoin_fallbacks', 'pg_stat_gpujoin_mirrors',
	'pg_stat_gpujoin_indexes', 'gpujoin_devices', 'gpujoin_progress']) v;
SELECT is(has_function_privilege('pg_monitor', f, 'EXECUTE'), allowed, 'pg_monitor calls ' || f)
FROM (VALUES ('gpujoin_status()', true), ('gpujoin_mirrors()', true),
	('gpujoin_device_stats()', true), ('gpujoin_mirror_stats()', true),
	('gpujoin_fallbacks()', true), ('gpujoin_index_stats()', true), ('gpujoin_progress()', true),
	('gpujoin_stats_reset()', false), ('gpujoin_stats_reset(regclass)', false)) v(f, allowed);
SELECT is(count(*), 0::bigint, 'each member has a comment of its own')
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.deptype = 'e' AND extname = 'gpujoin'
	AND d.classid IN ('pg_proc'::regclass, 'pg_am'::regclass, 'pg_opclass'::regclass)
	AND length(coalesce(obj_description(d.objid, d.classid::regclass::name), '')) < 10;
SELECT is(count(*), 0::bigint, 'no two operator classes have the same comment')
FROM pg_opclass a JOIN pg_opclass b ON a.oid < b.oid
	JOIN pg_am m ON m.oid = a.opcmethod AND m.oid = b.opcmethod AND amname = 'gpujoin'
WHERE obj_description(a.oid, 'pg_opclass') = obj_description(b.oid, 'pg_opclass');
SELECT isnt(obj_description(oid, 'pg_opfamily'), NULL, 'integer_ops has a comment')
FROM pg_opfamily WHERE opfname = 'integer_ops'
	AND opfmethod = (SELECT oid FROM pg_am WHERE amname = 'gpujoin');
SELECT isnt(obj_description(oid, 'pg_extension'), NULL, 'the extension has a comment')
FROM pg_extension WHERE extname = 'gpujoin';

-- The tests' own functions are in a separate extension: they are for superusers
CREATE EXTENSION gpujoin_test;
SELECT is(count(*), 0::bigint, 'none is for everybody') FROM pg_proc p
	JOIN pg_depend d ON d.objid = p.oid JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND extname = 'gpujoin_test'
	AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE');

-- Advice is in a separate extension, too, which everybody may ask
SELECT throws_ok($$SELECT * FROM gpujoin_advise('SELECT 1')$$, '42883',
	'gpujoin_advise() has moved to the extension gpujoin_advisor');
CREATE EXTENSION gpujoin_advisor;
SELECT is(extversion || ' ' || extrelocatable, (SELECT extversion || ' true' FROM pg_extension
	WHERE extname = 'gpujoin'), 'gpujoin_advisor has the version of gpujoin, and can be moved')
FROM pg_extension WHERE extname = 'gpujoin_advisor';
SELECT set_eq(
	$$SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
		JOIN pg_extension e ON e.oid = d.refobjid
		WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND extname = 'gpujoin_advisor'
			AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
			AND length(obj_description(p.oid, 'pg_proc')) > 10$$,
	ARRAY['gpujoin_propose()', 'gpujoin_replaceable()', 'gpujoin_propose(text)'], 'these are all its functions');

-- Functions -------------------------------------------------------------------------------

SELECT has_function('gpujoin_check', ARRAY['regclass', 'boolean']);
SELECT function_returns('gpujoin_check', ARRAY['regclass', 'boolean'], 'bigint');
SELECT volatility_is('gpujoin_check', ARRAY['regclass', 'boolean'], 'volatile');
SELECT is_strict('gpujoin_check', ARRAY['regclass', 'boolean']);
SELECT function_lang_is('gpujoin_check', ARRAY['regclass', 'boolean'], 'c');
SELECT is(pronargdefaults::int, 1, 'gpujoin_check: the second argument may be left out')
FROM pg_proc WHERE proname = 'gpujoin_check';
SELECT is(pg_get_function_arguments(oid), 'index regclass, heapallindexed boolean DEFAULT false',
	'gpujoin_check: names and default of its arguments')
FROM pg_proc WHERE proname = 'gpujoin_check';
SELECT has_function('gpujoin_index_info', ARRAY['regclass']);
SELECT volatility_is('gpujoin_index_info', ARRAY['regclass'], 'volatile');
SELECT is_strict('gpujoin_index_info', ARRAY['regclass']);
SELECT is(proargnames, '{index,pages,entries,free_slots,free_pages,slots_per_page,key_width,lanes,'
	'open_pages,sequence,vacuum_epoch,format_version,included_columns,runs,run_entries,run_pages,'
	'dead_entries,delta_pages,merge_pages,keys,included,column_bytes,null_keys}',
	'gpujoin_index_info: its columns')
FROM pg_proc WHERE proname = 'gpujoin_index_info';
SELECT function_returns(f, '{}'::name[], 'setof record')
FROM unnest(ARRAY['gpujoin_propose', 'gpujoin_advise']) f;
SELECT function_returns(f, ARRAY['text'], 'setof record')
FROM unnest(ARRAY['gpujoin_propose', 'gpujoin_advise']) f;
SELECT is_strict(f, ARRAY['text']) FROM unnest(ARRAY['gpujoin_propose', 'gpujoin_advise']) f;
SELECT is(count(*), 4::bigint, 'gpujoin_propose, gpujoin_advise: volatile, not in parallel workers')
FROM pg_proc WHERE proname IN ('gpujoin_propose', 'gpujoin_advise') AND provolatile = 'v' AND proparallel = 'u';
SELECT is(proargnames, ('{' || CASE pronargs WHEN 0 THEN 'queryid,statements,calls,time_share,query'
	ELSE 'query' END || ',relation,key_column,include_columns,create_index,cost_now,cost_with,'
	'index_size,note}')::text[], proname || ': columns, with ' || pronargs || ' arguments')
FROM pg_proc WHERE proname IN ('gpujoin_propose', 'gpujoin_advise');
SELECT has_function('gpujoin_kernel_selftest', '{}'::name[]);
SELECT has_function('gpujoin_tidset_selftest', '{}'::name[]);
SELECT function_returns('gpujoin_handler', ARRAY['internal'], 'index_am_handler');
SELECT is(count(*), 8::bigint, 'gpujoin_key: immutable, strict, parallel safe, to bigint')
FROM pg_proc WHERE proname = 'gpujoin_key' AND provolatile = 'i' AND proisstrict
	AND proparallel = 's' AND prorettype = 'bigint'::regtype;
SELECT is(proparallel, 'r'::"char", proname || ' is for the leader only') FROM pg_proc
WHERE proname ~ '^gpujoin_(check|index_info|.*_selftest)$' ORDER BY 1;

SELECT is(gpujoin_key(n::int2), n::bigint, 'gpujoin_key(int2) of ' || n)
FROM unnest(ARRAY[-32768, -1, 0, 32767]) n;
SELECT is(gpujoin_key(n::int4), n, 'gpujoin_key(int4) of ' || n)
FROM unnest(ARRAY[-2147483648, -1, 0, 2147483647]::bigint[]) n;
SELECT is(gpujoin_key(n), n, 'gpujoin_key(int8) of ' || n)
FROM unnest(ARRAY[-9223372036854775808, -1, 0, 9223372036854775807]::bigint[]) n;
SELECT is(gpujoin_key('-infinity'::date) < gpujoin_key('infinity'::date), true,
	'infinite dates have keys of their own');
SELECT is(gpujoin_key('infinity'::timestamp), gpujoin_key('infinity'::timestamptz),
	'and infinite times');
SELECT is(count(DISTINCT gpujoin_key(o)), 4::bigint, 'gpujoin_key(oid) tells all values apart')
FROM unnest('{0,1,2147483648,4294967295}'::oid[]) o;
SELECT is(gpujoin_key(NULL::int4), NULL, 'gpujoin_key of NULL');

-- Privileges ----------------------------------------------------------------------------------

CREATE ROLE gpujoin_owner;
CREATE ROLE gpujoin_stranger;
SELECT function_privs_are('gpujoin_kernel_selftest', '{}'::name[], 'gpujoin_stranger',
	'{}'::name[], 'gpujoin_kernel_selftest is for superusers');
SELECT function_privs_are('gpujoin_tidset_selftest', '{}'::name[], 'gpujoin_stranger',
	'{}'::name[], 'gpujoin_tidset_selftest is for superusers');
SELECT function_privs_are('gpujoin_check', ARRAY['regclass', 'boolean'], 'gpujoin_stranger',
	ARRAY['EXECUTE'], 'gpujoin_check may be called by all: it asks for ownership itself');

CREATE TABLE big (id int, k int, b bigint, s smallint, o oid, d date, t timestamp, z timestamptz,
	x text, n numeric, c char(3), p point);
INSERT INTO big SELECT i, i % 100, i, i % 1000, i, '2000-01-01'::date + i, '2000-01-01'::timestamp,
	'2000-01-01 UTC', 'x', i FROM generate_series(1, 5000) i;
CREATE INDEX big_k ON big USING gpujoin (k);
ALTER TABLE big OWNER TO gpujoin_owner;
GRANT SELECT ON big TO gpujoin_stranger;

SET ROLE gpujoin_stranger;
SELECT throws_ok($$SELECT gpujoin_check('big_k')$$, '42501', 'must be owner of index big_k');
SELECT throws_ok($$SELECT gpujoin_check('big_k', true)$$, '42501', 'must be owner of index big_k');
SELECT throws_ok($$SELECT gpujoin_index_info('big_k')$$, '42501', 'must be owner of index big_k');
SELECT throws_ok('SELECT gpujoin_kernel_selftest()', '42501');
SELECT lives_ok($$SELECT * FROM gpujoin_propose('SELECT * FROM big WHERE b = 1')$$,
	'who may read a table gets advice');
SELECT throws_ok($$SELECT * FROM gpujoin_propose('SELECT * FROM pg_authid WHERE oid = 1')$$,
	'42501', 'permission denied for table pg_authid');
SET ROLE gpujoin_owner;
SELECT lives_ok($$SELECT gpujoin_check('big_k', true)$$, 'the owner may check');
RESET ROLE;
SELECT is(gpujoin_check('big_k', true), 5000::bigint, 'a superuser may check');
SELECT is(gpujoin_check('big_k'), 5000::bigint, 'without the table as well');
SELECT is(gpujoin_check(NULL), NULL, 'NULL has no index');
SELECT cmp_ok(gpujoin_kernel_selftest(), '>', 1000::bigint, 'the kernels agree with each other');
SELECT cmp_ok(gpujoin_tidset_selftest(), '>', 100::bigint, 'the set of TIDs keeps its promises');

-- Views, and who may read them -------------------------------------------------------------------

SELECT columns_are('gpujoin_devices', ARRAY['device', 'uuid', 'compute_capability',
	'driver_version', 'toolkit_version', 'state', 'reason', 'hint', 'state_since', 'last_error',
	'last_error_at', 'memory_total', 'memory_free', 'memory_reserved', 'memory_used',
	'memory_mirrors_limit', 'memory_mirrors', 'mirrors', 'helper_pid', 'helper_starts',
	'helper_failures', 'device_number']);
SELECT columns_are('pg_stat_gpujoin_indexes', ARRAY['datname', 'indexrelid', 'schemaname',
	'relname', 'indexrelname', 'searches', 'device_answers', 'cpu_answers', 'cpu_reasons', 'keys',
	'pages_read', 'pages_skipped', 'pages_pushed', 'tids', 'heap_blocks', 'heap_fetches', 'groups',
	'search_time', 'wait_time', 'device_time', 'reductions', 'reduced_rows', 'pages_left_out',
	'reduced_groups', 'reductions_failed', 'entries_not_sent',
	'last_used', 'stats_reset']);
SELECT columns_are('gpujoin_progress', ARRAY['pid', 'datname', 'indexrelid', 'schemaname',
	'indexrelname', 'command', 'phase', 'done', 'total', 'unit']);
SELECT table_privs_are(v, 'gpujoin_stranger', '{}'::name[], v || ' is not for everybody')
FROM unnest(ARRAY['pg_stat_gpujoin', 'pg_stat_gpujoin_fallbacks', 'pg_stat_gpujoin_mirrors',
	'gpujoin_devices']) v;
SELECT table_privs_are(v, 'gpujoin_stranger', ARRAY['SELECT'], v || ' is for everybody')
FROM unnest(ARRAY['pg_stat_gpujoin_indexes', 'gpujoin_progress']) v;
SELECT is(count(*), 1::bigint, 'the device has a row, also where there is none')
FROM gpujoin_devices WHERE state IS NOT NULL;
SELECT is(count(*), 1::bigint, 'so has all that is not listed') FROM pg_stat_gpujoin_indexes
WHERE indexrelid IS NULL AND datname IS NULL;
SELECT set_eq($$SELECT reason FROM pg_stat_gpujoin_fallbacks$$, ARRAY['not_preloaded', 'service',
	'temporary', 'small', 'few_keys', 'no_mirror', 'loading', 'behind', 'no_memory', 'too_big',
	'table_full', 'busy', 'gone', 'failed', 'not_in', 'partial', 'too_many', 'vacuumed',
	'incomplete', 'null_keys'], 'why the CPU answers');

-- Access method and operator classes --------------------------------------------------------------

SELECT is(amtype, 'i'::"char", 'the access method is one for indexes') FROM pg_am
WHERE amname = 'gpujoin';
SELECT is(pg_indexam_has_property(oid, property), expected, 'access method: ' || property)
FROM pg_am, (VALUES ('can_order', false), ('can_unique', false), ('can_multi_col', false),
	('can_exclude', true), ('can_include', true)) v(property, expected)
WHERE amname = 'gpujoin' ORDER BY property;
SELECT is(pg_index_has_property('big_k', property), expected, 'index: ' || property)
FROM (VALUES ('clusterable', false), ('index_scan', true), ('bitmap_scan', true),
	('backward_scan', false)) v(property, expected) ORDER BY property;
SELECT is(pg_index_column_has_property('big_k', 1, property), expected, 'column: ' || property)
FROM (VALUES ('search_array', true), ('search_nulls', false), ('orderable', false),
	('returnable', false)) v(property, expected) ORDER BY property;

SELECT set_eq(
	$$SELECT opcname::text, opcintype::regtype::text, opcdefault, opcfamily::regclass IS NULL
		FROM pg_opclass JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'gpujoin'$$,
	$$VALUES ('int2_ops', 'smallint', true, false), ('int4_ops', 'integer', true, false),
		('int8_ops', 'bigint', true, false), ('oid_ops', 'oid', true, false),
		('date_ops', 'date', true, false),
		('timestamp_ops', 'timestamp without time zone', true, false),
		('timestamptz_ops', 'timestamp with time zone', true, false),
		('enum_ops', 'anyenum', true, false), ('text_ops', 'text', true, false),
		('text_id_ops', 'text', false, false),
		('bpchar_ops', 'character', true, false), ('bytea_ops', 'bytea', true, false),
		('numeric_ops', 'numeric', true, false), ('inet_ops', 'inet', true, false),
		('uuid_ops', 'uuid', true, false)$$,
	'each type has one operator class, the default one, and text another one');
SELECT is(amvalidate(c.oid), true, opcname || ' is valid')
FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE amname = 'gpujoin' ORDER BY opcname;
SELECT set_eq(
	$$SELECT amopopr::regoperator::text FROM pg_amop o JOIN pg_opfamily f ON f.oid = amopfamily
		JOIN pg_am a ON a.oid = opfmethod WHERE amname = 'gpujoin' AND opfname = 'integer_ops'
			AND amopstrategy = 1 AND amoppurpose = 's'$$,
	$$SELECT format('=(%s,%s)', l, r) FROM unnest(ARRAY['smallint', 'integer', 'bigint']) l,
		unnest(ARRAY['smallint', 'integer', 'bigint']) r$$,
	'integer_ops has the nine equalities of the integer types');
SELECT is(count(*), 21::bigint, 'there is no other operator than = of each type')
FROM pg_amop o JOIN pg_operator p ON p.oid = amopopr JOIN pg_am a ON a.oid = amopmethod
WHERE amname = 'gpujoin' AND oprname = '=' AND amopstrategy = 1
HAVING count(*) = (SELECT count(*) FROM pg_amop JOIN pg_am a ON a.oid = amopmethod
	WHERE amname = 'gpujoin');

-- Settings --------------------------------------------------------------------------------------

SELECT set_eq(
	$$SELECT name, vartype, context, boot_val, unit FROM pg_settings WHERE name LIKE 'gpujoin.%'$$,
	$$VALUES ('gpujoin.enabled', 'bool', 'user', 'on', NULL),
		('gpujoin.force', 'bool', 'user', 'off', NULL),
		('gpujoin.aggregate', 'bool', 'user', 'on', NULL),
		('gpujoin.device_aggregate', 'bool', 'user', 'on', NULL),
		('gpujoin.fold_pages', 'integer', 'sighup', '-1', NULL),
		('gpujoin.fold_workers', 'integer', 'sighup', '3', NULL),
		('gpujoin.min_rows', 'integer', 'user', '10000', NULL),
		('gpujoin.assumed_keys', 'integer', 'user', '1000', NULL),
		('gpujoin.device_setup_cost', 'real', 'user', '100', NULL),
		('gpujoin.device_search_cost', 'real', 'user', '1e-05', NULL),
		('gpujoin.setup_cost', 'real', 'user', '20', NULL),
		('gpujoin.search_cost', 'real', 'user', '0.0002', NULL),
		('gpujoin.tid_cost', 'real', 'user', '0.002', NULL),
		('gpujoin.auto_load', 'bool', 'user', 'on', NULL),
		('gpujoin.sync_blocks', 'integer', 'user', '128', NULL),
		('gpujoin.device', 'enum', 'postmaster', 'auto', NULL),
		('gpujoin.gpu', 'string', 'postmaster', '', NULL),
		('gpujoin.device_memory', 'integer', 'postmaster', '0', 'MB'),
		('gpujoin.device_timeout', 'integer', 'sighup', '10000', 'ms'),
		('gpujoin.result_buffer', 'integer', 'postmaster', '131072', 'kB'),
		('gpujoin.max_requests', 'integer', 'postmaster', '64', NULL),
		('gpujoin.max_mirrors', 'integer', 'postmaster', '256', NULL)$$,
	'settings: names, types, contexts, defaults');
SELECT is(count(*), 0::bigint, 'each setting is described')
FROM pg_settings WHERE name LIKE 'gpujoin.%' AND length(coalesce(short_desc, '')) < 20;
SELECT throws_ok(format('SET %s = %L', name, wrong), state, NULL, format('%s = %s', name, wrong))
FROM (VALUES ('gpujoin.enabled', 'perhaps', '22023'), ('gpujoin.min_rows', '-1', '22023'),
	('gpujoin.min_rows', 'many', '22023'), ('gpujoin.search_cost', '-0.1', '22023'),
	('gpujoin.setup_cost', 'Infinity', '22023'), ('gpujoin.no_such_setting', '1', '42602'))
	v(name, wrong, state);

-- Errors ----------------------------------------------------------------------------------------

SELECT throws_ok('SELECT * FROM gpujoin_propose(' || quote_literal(query) || ')', state, NULL,
	'gpujoin_propose of ' || query)
FROM (VALUES ('SELECT 1; SELECT 2', '42601'), ('CREATE TABLE more (k int)', '0A000'),
	('SELECT * FROM missing', '42P01')) e (query, state);
SELECT lives_ok('SELECT * FROM gpujoin_propose(' || quote_literal(query) || ')',
	'gpujoin_propose of ' || query)
FROM (VALUES ('DELETE FROM big'), ('SELECT * FROM big FOR UPDATE')) e (query);
SELECT isnt_empty('SELECT FROM big', 'gpujoin_propose deletes nothing');
SELECT throws_ok('SELECT * FROM gpujoin_propose()', '42704',
	'extension "pg_stat_statements" is not installed in this database');

SELECT throws_ok('CREATE INDEX wrong ON big USING gpujoin (' || definition, state, message,
	'CREATE INDEX ... (' || definition)
FROM (VALUES
	('k, b)', '0A000', 'access method "gpujoin" does not support multicolumn indexes'),
	('(x::json))', '42704',
		'data type json has no default operator class for access method "gpujoin"'),
	('(point(k, k)))', '42704',
		'data type point has no default operator class for access method "gpujoin"'),
	('k DESC)', '0A000', 'access method "gpujoin" does not support ASC/DESC options'),
	('k NULLS FIRST)', '0A000',
		'access method "gpujoin" does not support NULLS FIRST/LAST options'),
	('k COLLATE "C")', '42804', 'collations are not supported by type integer'),
	('k) INCLUDE (c, p)', '0A000',
		'access method "gpujoin" cannot include column "p" of type point'),
	('k) INCLUDE ((b + 1))', '0A000', 'expressions are not supported in included columns'),
	('k int8_ops)', '42804', 'operator class "int8_ops" does not accept data type integer'),
	('k) WITH (nonsense = 1)', '22023', 'unrecognized parameter "nonsense"'),
	('k) WITH (fillfactor = 50)', '22023', 'unrecognized parameter "fillfactor"'),
	('k) WITH (lanes = 0)', '22023', 'value 0 out of bounds for option "lanes"'),
	('k) WITH (lanes = 65)', '22023', 'value 65 out of bounds for option "lanes"'),
	('k) WITH (lanes = many)', '22023', 'invalid value for integer option "lanes": many'))
	v(definition, state, message);
SELECT throws_ok('CREATE UNIQUE INDEX wrong ON big USING gpujoin (k)', '0A000',
	'access method "gpujoin" does not support unique indexes');
SELECT throws_ok('ALTER TABLE big ADD EXCLUDE USING gpujoin (k WITH =)', '0A000',
	'access method "gpujoin" does not support exclusion constraints');
SELECT throws_ok('CLUSTER big USING big_k', '0A000',
	'cannot cluster on index "big_k" because access method does not support clustering');
SELECT is(to_regclass('wrong'), NULL, 'nothing half-made is left');

CREATE INDEX big_btree ON big (k);
CREATE TABLE parts (k int) PARTITION BY RANGE (k);
CREATE INDEX parts_k ON parts USING gpujoin (k);
CREATE VIEW seen AS SELECT * FROM big;
SELECT throws_ok(format('SELECT gpujoin_%s', call), state, NULL, 'gpujoin_' || call)
FROM (VALUES
	($$check('big_btree')$$, '42809'), ($$check('big')$$, '42809'), ($$check('seen')$$, '42809'),
	($$index_info('parts_k')$$, '42809'), ($$check('no_such_index')$$, '42P01'),
	($$index_info('big_btree')$$, '42809'), ($$index_info('big', true)$$, '42883')) v(call, state);
SELECT throws_like($$SELECT gpujoin_check('big_btree')$$, '%"big_btree" is not a gpujoin index%');
SELECT throws_like($$SELECT gpujoin_index_info('parts_k')$$, '%index "parts_k" is partitioned%');

-- Options of an index --------------------------------------------------------------------------

CREATE INDEX big_lanes ON big USING gpujoin (b) WITH (lanes = 64);
SELECT is(lanes, 64, 'lanes = 64') FROM gpujoin_index_info('big_lanes');
SELECT is(reloptions, '{lanes=64}', 'as pg_class has it') FROM pg_class WHERE relname = 'big_lanes';
ALTER INDEX big_lanes RESET (lanes);
REINDEX INDEX big_lanes;
SELECT is(lanes, 4, 'four lanes are the default') FROM gpujoin_index_info('big_lanes');
SELECT is(key_width, 8, 'bigint keys have eight bytes') FROM gpujoin_index_info('big_lanes');
SELECT results_eq($$SELECT key_width, entries, free_slots < 32, format_version
	FROM gpujoin_index_info('big_k')$$, $$VALUES (4, 5000::bigint, true, 4)$$,
	'figures of an index: only the last page has free slots, in its last word');

CREATE INDEX each_s ON big USING gpujoin (s);
CREATE INDEX each_o ON big USING gpujoin (o);
CREATE INDEX each_d ON big USING gpujoin (d);
CREATE INDEX each_t ON big USING gpujoin (t);
CREATE INDEX each_z ON big USING gpujoin (z);
SELECT is(gpujoin_check(c.oid, true), 5000::bigint, relname || ' is complete')
FROM pg_class c WHERE relname LIKE 'each\__' ORDER BY relname;

CREATE INDEX big_cover ON big USING gpujoin (k) INCLUDE (s, o, d, t, z, b);
SELECT is(gpujoin_check('big_cover', true), 5000::bigint, 'included columns are complete');
SELECT is(included_columns, 6, 'six columns are included') FROM gpujoin_index_info('big_cover');
SELECT is(included_columns, 0, 'none is, as a rule') FROM gpujoin_index_info('big_k');
SELECT is(pg_get_indexdef('big_cover'::regclass) ~ 'USING gpujoin \(k\) INCLUDE \(s, o, d, t, z, b\)$',
	true, 'what pg_dump writes down');

SELECT * FROM finish();
ROLLBACK;

# Random tables, random changes, random queries: with gpujoin forced, the rows must be the ones that
# PostgreSQL returns without it.
#
#   GPUJOIN_SEED=...     start from this seed, which the output of each run contains. Round N of a
#                        run uses the seed plus N, so that one round can be repeated alone
#   GPUJOIN_ROUNDS=...   number of rounds (default: as many as fit into 30 seconds, at least ten)
#   GPUJOIN_KEY=...      type of the keys in all rounds, such as uuid
#
# Each query runs three times on one state of the tables: with gpujoin.enabled = off; forced, under
# random planner settings; and with gpujoin as one choice among others, so that bitmap scans on our
# indexes are also tested. The test counts the plans with our nodes for each query shape, so that it
# cannot pass without using them.
#
# If a query does not end within $limit seconds, it is a failure if our plan is the slow one, and
# the test prints everything needed to reproduce it; if PostgreSQL's own plan takes as long, the
# query is to blame.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinFuzz;
use GpuJoinFuzzAgg;
use GpuJoinRandom;
use GpuJoinTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{GPUJOIN_SEED} // (time() ^ ($$ << 8)) & 0x7fffffff;
my $rounds = $ENV{GPUJOIN_ROUNDS};
my $seconds = $ENV{CHECK_LONG} ? 50 : 30;
my $fewest = 10;
my $patience = ($ENV{CHECK_PATIENCE} // 1) * ($ENV{CHECK_LONG} ? 9 : 1);
my $limit = 90 * $patience;

note("GPUJOIN_SEED=$seed");

# Collations of ICU need an encoding that it knows, which the environment may not name.
my $node = new_server('main', { extra => ['--encoding=UTF8'] }, 'fsync = off', 'jit = off',
	'max_prepared_transactions = 5', 'max_parallel_workers = 4', 'shared_buffers = 64MB',
	"statement_timeout = ${limit}s");

$GpuJoinFuzzTypes::has_icu =
  $node->safe_psql('postgres', "SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") > 0;

# ---------------------------------------------------------------------------------------------
# In the server: running a query in one of several ways, and comparing
# ---------------------------------------------------------------------------------------------

# Ways to run a query:
#   whole     as a subquery in FROM, where it may be flattened
#   loop      through a portal that fetches a few rows at a time
#   cursor    fetch some rows, change or fold the tables, fetch the rest
#   scroll    to the end and back again
#   parallel  into a table: cursors, and therefore loops, never run in parallel
#   generic   as a prepared statement with a generic plan, executed three times
#   change    INSERT, UPDATE or DELETE with RETURNING: its rows and the table afterwards
$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA t;
ALTER DATABASE postgres SET search_path = t, public;
CREATE FUNCTION public.digest(lines text[]) RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || md5(coalesce(string_agg(line, E'\n' ORDER BY line COLLATE "C"), ''))
	FROM unnest(lines) line
$$;
CREATE FUNCTION public.lines(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text[] := '{}';
BEGIN
	FOR r IN EXECUTE query LOOP result := result || coalesce(r::text, 'NULL'); END LOOP;
	RETURN result;
END $$;
CREATE FUNCTION public.run(how text, query text, args text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	c refcursor;
	result text[] := '{}';
BEGIN
	IF how = 'whole' THEN
		EXECUTE format('SELECT array_agg(t::text) FROM (%s) t', query) INTO result;
	ELSIF how = 'parallel' THEN
		EXECUTE format('CREATE TEMP TABLE fuzz_rows AS SELECT t::text AS line FROM (%s) t', query);
		SELECT array_agg(coalesce(line, 'NULL')) INTO result FROM fuzz_rows;
		DROP TABLE fuzz_rows;
	ELSIF how = 'loop' THEN
		result := public.lines(query);
	ELSIF how = 'generic' THEN
		SET LOCAL plan_cache_mode = force_generic_plan;
		EXECUTE 'PREPARE q AS ' || query;
		FOR i IN 1..3 LOOP
			result := result || public.lines('EXECUTE q' || args);
		END LOOP;
		DEALLOCATE q;
	ELSIF how = 'scroll' THEN
		OPEN c SCROLL FOR EXECUTE query;
		LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; result := result || r::text; END LOOP;
		LOOP FETCH PRIOR FROM c INTO r; EXIT WHEN NOT FOUND; result := result || r::text; END LOOP;
		CLOSE c;
	ELSIF how = 'cursor' THEN
		BEGIN
			OPEN c NO SCROLL FOR EXECUTE query;
			FOR i IN 1..3 LOOP
				FETCH c INTO r;
				IF FOUND THEN result := result || r::text; END IF;
			END LOOP;
			EXECUTE args;
			LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; result := result || r::text; END LOOP;
			RAISE SQLSTATE 'UNDO0';
		EXCEPTION WHEN SQLSTATE 'UNDO0' THEN NULL;
		END;
	ELSIF how = 'change' THEN
		BEGIN
			IF query LIKE 'MERGE%' THEN
				EXECUTE query;
			ELSE
				result := public.lines(query);
			END IF;
			result := result || public.lines('SELECT * FROM big')
				|| public.lines('SELECT * FROM small');
			RAISE SQLSTATE 'UNDO0';
		EXCEPTION WHEN SQLSTATE 'UNDO0' THEN NULL;
		END;
	END IF;
	RETURN public.digest(result);
EXCEPTION WHEN query_canceled THEN
	DEALLOCATE ALL;
	RETURN 'timeout';
WHEN OTHERS THEN
	DEALLOCATE ALL;
	RETURN 'error ' || SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION public.nodes(how text, query text, args text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	explain text := 'EXPLAIN (COSTS OFF) ' || query;
	result text[] := '{}';
BEGIN
	IF how = 'whole' THEN
		explain := format('EXPLAIN (COSTS OFF) SELECT array_agg(t::text) FROM (%s) t', query);
	ELSIF how = 'parallel' THEN
		explain := format('EXPLAIN (COSTS OFF) SELECT t::text AS line FROM (%s) t', query);
	ELSIF how = 'generic' THEN
		SET LOCAL plan_cache_mode = force_generic_plan;
		EXECUTE 'PREPARE q AS ' || query;
		explain := 'EXPLAIN (COSTS OFF) EXECUTE q' || args;
	END IF;
	FOR line IN EXECUTE explain LOOP
		result := result || substring(line FROM 'Custom Scan \(([\w ]+)\)')
			|| substring(line FROM '(Parallel) Custom Scan \(Gpu')
			|| substring(line FROM '(Bitmap Index Scan) on \w*gj')
			|| substring(line FROM '(Index Filter):');
	END LOOP;
	DEALLOCATE ALL;
	RETURN coalesce((SELECT string_agg(DISTINCT replace(n, ' ', ''), '+') FROM unnest(result) n),
		'none');
EXCEPTION WHEN OTHERS THEN
	DEALLOCATE ALL;
	RETURN 'none';
END $$;
-- The time limit applies to the three runs together, so the rest are skipped after one that hit it.
-- gpujoin is to blame unless stock's run took longer, or none of our nodes is in the plan.
CREATE FUNCTION public.compare(shape text, how text, query text, args text, settings text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	setting text;
	stock text;
	forced text;
	free text;
	used text;
	free_used text;
	times timestamptz[] := ARRAY[clock_timestamp()];
BEGIN
	PERFORM set_config('gpujoin.enabled', 'off', true);
	stock := public.run(how, query, args);
	times := times || clock_timestamp();
	IF stock <> 'timeout' THEN
		FOREACH setting IN ARRAY string_to_array(settings, ' ') LOOP
			PERFORM set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
		END LOOP;
		PERFORM set_config('gpujoin.enabled', 'on', true);
		PERFORM set_config('gpujoin.force', 'on', true);
		used := public.nodes(how, query, args);
		forced := public.run(how, query, args);
		times := times || clock_timestamp();
	END IF;
	IF forced <> 'timeout' THEN
		PERFORM set_config('gpujoin.force', 'off', true);
		PERFORM set_config('enable_seqscan', 'off', true);
		free_used := public.nodes(how, query, args);
		free := public.run(how, query, args);
		times := times || clock_timestamp();
	END IF;
	RETURN concat_ws('|', shape, how, coalesce(used, 'none'), coalesce(free_used, 'none'),
		CASE WHEN 'timeout' IN (stock, forced, free) THEN
			CASE WHEN times[2] - times[1]
				> greatest(times[3] - times[2], times[4] - times[3], '0')
				OR coalesce(free_used, used) = 'none' THEN 'slow' ELSE 'timeout' END
			WHEN stock IS DISTINCT FROM forced OR stock IS DISTINCT FROM free THEN 'different'
			WHEN stock LIKE 'error%' THEN 'error' ELSE 'same' END,
		(SELECT string_agg(round(extract(epoch FROM times[i + 1] - times[i]), 3)::text, '+')
			FROM generate_series(1, cardinality(times) - 1) i),
		stock, coalesce(forced, 'not run'), coalesce(free, 'not run'));
END $$;
CREATE FUNCTION public.fold_all(complete boolean) RETURNS void LANGUAGE sql AS $$
	SELECT sum(gpujoin_fold(c.oid, complete)) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE amname = 'gpujoin' AND relkind = 'i'
$$;
-- Called for each row; starting workers, or reading thousands of rows, would take too long.
CREATE FUNCTION public.keys_of(n int) RETURNS bigint[] STABLE LANGUAGE plpgsql
SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
	RETURN ARRAY(SELECT k::bigint FROM (SELECT k, w FROM small LIMIT 200) s WHERE w < n ORDER BY w);
END $$;
SQL

# ---------------------------------------------------------------------------------------------
# Queries that did not end
# ---------------------------------------------------------------------------------------------

# Return what the server's sessions are doing, and where in our code the busy ones are.
sub sessions
{
	my $busy = $node->safe_psql('postgres',
		"SELECT pid, backend_type, state, wait_event_type, wait_event, now() - query_start, query
		 FROM pg_stat_activity WHERE query_start IS NOT NULL AND pid <> pg_backend_pid()");
	my @stacks = map { scalar qx{gdb -p $_ -batch -ex bt 2>&1 | grep '^#' | head -n 40} }
	  $busy =~ /^(\d+)\|/mg;

	return join("\n", $busy, @stacks);
}

# Return the statement at which psql stopped, if psql reports it.
sub failed_line
{
	my ($script, $err) = @_;

	return $err =~ /^psql:<stdin>:(\d+):/m ? "\n" . (split /\n/, $script)[ $1 - 1 ] : '';
}

# Return the sum of the seconds of a query's runs: "0.100+0.020+0.030"
sub seconds
{
	my $sum = 0;

	$sum += $_ foreach split /\+/, $_[0];
	return $sum;
}

# Give up a round that takes too long although each statement has a limit: either a statement cannot
# be interrupted, which is a bug, or several were slow. The test cannot continue after it.
sub give_up
{
	my ($round, $query, $out) = @_;
	my ($last) = $out =~ /((?:.*\n){0,4}.*)\z/;
	my $sessions = sessions();

	$node->stop('immediate');
	diag("$round did not end; its last answers:\n$last\nthe query after them:\n$query\n$sessions");
	fail("$round ended");
	done_testing();
	exit 1;
}

# ---------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------

my %count = map { $_ => 0 } qw(same different error timeout slow checked);
my (%shape_runs, %shape_ours, %ours, @failures, @longest);
my $done = 0;
my $start = time();
my $step = 'gpujoin.debug' . '_step';	 # only in builds for tests
my $has_steps = $node->safe_psql('postgres',
	"LOAD 'gpujoin'; SELECT count(*) FROM pg_settings WHERE name = '$step'");
my $plain_pages = $has_steps ? "SET $step = 'plain pages';\n" : '';
my $narrow_pages = $has_steps ? "RESET $step;\n" : '';

while (defined $rounds ? $done < $rounds : $done < $fewest || time() - $start < $seconds)
{
	srand($seed + $done);
	my $script = create_tables();
	foreach (1 .. 6)
	{
		# runs of format 3, beside others of format 4
		$script .= chance(0.3) ? $plain_pages : $narrow_pages;
		$script .= join('', (map { random_query() } 1 .. 12), transaction(), folds(), transaction(),
			folds(), check_indexes());
	}
	$script .= create_facts();
	$script .= join('', (map { aggregate_query() } 1 .. 9), change_facts(), folds(), change_facts(),
		folds())
	  foreach 1 .. 4;
	my @queries = $script =~ /^(SELECT compare.*;)$/mg;
	my $round = sprintf('round %d (GPUJOIN_SEED=%d GPUJOIN_ROUNDS=1)', $done, $seed + $done);
	my ($out, $err, $late) = ('', '', 0);
	my $status = $node->psql('postgres', $script, stdout => \$out, stderr => \$err,
		timeout => 3 * $limit, timed_out => \$late);
	my $before = @failures;

	give_up($round, $queries[ () = $out =~ /^\w+\|\w+\|\w.*\|.*$/mg ] // '(none)', $out) if $late;
	push @failures, "psql ended with $status: $err" . failed_line($script, $err) if $status != 0;
	foreach my $line (grep { $_ ne '' } split /\n/, $out)	# a fold returns nothing
	{
		my ($shape, $how, $used, $free_used, $verdict, $took, @answers) = split /\|/, $line;
		if ($shape eq 'checked') { $count{checked} += $how; next; }
		my $query = shift @queries;
		$count{$verdict}++;
		push @failures, "$line\n$query" if $verdict =~ /different|timeout/;
		note("error: $answers[0]: $query") if $verdict eq 'error';
		@longest = sort { $b->[0] <=> $a->[0] }
		  @longest, [ seconds($took), "$round: $line\n$query" ];
		splice(@longest, 3);
		$shape_runs{$shape}++;
		$shape_ours{$shape}++ if "$used $free_used" =~ /Gpu|Bitmap/;
		$ours{$_}++ foreach split /\+/, "$used+$free_used";
	}
	if (@failures > $before)
	{
		my $file = "$PostgreSQL::Test::Utils::log_path/round_$done.sql";
		append_to_file($file, $script);
		diag(join("\n", "$round:", @failures[$before .. $#failures]));
	}
	$done++;
	last if @failures >= 5;
}

# Sets of TIDs that do not fit in memory become lossy, so that whole heap pages are rechecked. No
# random table is big enough for that.
my $little = 'work_mem=64kB hash_mem_multiplier=1';
my $lossy = $node->safe_psql('postgres', qq{
	DROP SCHEMA t CASCADE; CREATE SCHEMA t;
	CREATE TABLE big (id int, k int, v int, t text) WITH (autovacuum_enabled = off);
	INSERT INTO big SELECT i, i % 3, i % 100, repeat('x', 500) FROM generate_series(1, 24000) i;
	CREATE INDEX big_gj ON big USING gpujoin (k);
	CREATE TABLE small AS SELECT 1 AS k, w FROM generate_series(1, 2) w;
	UPDATE big SET v = 1000 WHERE id % 7 = 0;
	DELETE FROM big WHERE id % 5 = 0;
	SELECT compare('lossy', 'whole', 'SELECT id, v FROM big WHERE k IN (1, 7)', '', '$little');
	SELECT compare('lossy', 'loop', 'SELECT id, v FROM big WHERE k IN (1, 2, 7) AND v < 500', '',
		'$little');
	SELECT compare('lossy', 'cursor', 'SELECT id, v FROM big WHERE k IN (1, 2, 7)',
		'DELETE FROM big WHERE id % 2 = 0', '$little');
	SELECT compare('lossy', 'whole', 'SELECT id, v, w FROM small JOIN big USING (k)', '',
		'$little');
	SELECT compare('lossy', 'change',
		'UPDATE big SET v = 3 WHERE k IN (1, 7) AND v < 90 RETURNING id', '', '$little');
	SET gpujoin.force = on; SET work_mem = '64kB'; SET hash_mem_multiplier = 1;
	EXPLAIN (ANALYZE, TIMING off) SELECT id, v FROM big WHERE k IN (1, 7)});
push @failures, $lossy if $lossy =~ /\|different\|/;
is(() = $lossy =~ /\|same\|/g, 5, 'lossy sets of TIDs give the same rows') or diag($lossy);
like($lossy, qr/Heap Blocks:.* lossy=\d{3}/, 'and there were some');

# Arrays of unknown length: ours is offered below the cost of ten look-ups in a btree. Test it with
# a short array, a long one, and both in turn.
my $long = join(',', map { $_ * 7 } 1 .. 600);
my $choice = 'gpujoin.min_rows=0';
my $unknown = $node->safe_psql('postgres', qq{
	DROP SCHEMA t CASCADE; CREATE SCHEMA t;
	CREATE TABLE big (id int, k int, v int) WITH (autovacuum_enabled = off);
	INSERT INTO big SELECT i, i * 7919 % 5000, i % 100 FROM generate_series(1, 20000) i;
	CREATE INDEX big_gj ON big USING gpujoin (k);
	CREATE INDEX big_kb ON big (k);
	CREATE TABLE small AS SELECT ARRAY[i, NULL] AS ks FROM generate_series(1, 3) i
		UNION ALL SELECT '{$long}'::int[] FROM generate_series(1, 2);
	ANALYZE;
	SELECT compare('unknown', 'generic', 'SELECT * FROM big WHERE k = ANY (\$1::int[])',
		'(''{1,NULL,4}'')', '$choice');
	SELECT compare('unknown', 'generic', 'SELECT * FROM big WHERE k = ANY (\$1::int[])',
		'(''{$long}'')', '$choice');
	SELECT compare('unknown', 'whole',
		'SELECT ks, (SELECT sum(id) FROM big WHERE k = ANY (ks) AND v > 50) FROM small', '',
		'$choice')});
push @failures, $unknown if $unknown =~ /\|different\|/;
is(() = $unknown =~ /GpuScan.*\|same\|/g, 3, 'arrays of unknown length give the same rows')
  or diag($unknown);

note(sprintf('%-15s %5d queries, ours in %d', $_, $shape_runs{$_}, $shape_ours{$_} // 0))
  foreach sort keys %shape_runs;
note("of the longest: $_->[1]") foreach @longest;
my $total = $count{same} + $count{different} + $count{error} + $count{timeout} + $count{slow};
note("$done rounds, $total queries: " . join(', ', map { "$_ $count{$_}" } sort keys %count)
	  . '; plans with: ' . join(', ', map { "$_ $ours{$_}" } sort keys %ours));

is(scalar(@failures), 0, "no difference, none that does not end (GPUJOIN_SEED=$seed)");
cmp_ok($count{error}, '<', $total / 20, 'few queries were in error');
cmp_ok($count{slow}, '<', 3, 'few queries took PostgreSQL too long');
coverage() if !defined $rounds;
log_is_clean($node, 'log has no sign of crash or leak');

done_testing();

# A run of only a few rounds may not cover everything.
sub coverage
{
	my $used = 0;

	ok($count{same} > 100, 'queries were compared');
	cmp_ok($count{checked}, '>', 10, 'indexes were checked against their tables');
	$used += $_ foreach values %shape_ours;
	cmp_ok($used, '>', $total / 3, 'our nodes were in a good share of the plans');
	foreach my $name (qw(GpuScan GpuJoin GpuAgg PartialGpuAgg Parallel BitmapIndexScan IndexFilter))
	{
		ok(($ours{$name} // 0) > 10, "$name was used");
	}
	my @unused = grep { $shape_runs{$_} > 20 && !$shape_ours{$_} } sort keys %shape_runs;
	is("@unused", '', 'each shape used our indexes');
}

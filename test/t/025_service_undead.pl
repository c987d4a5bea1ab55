# A helper that does not die, as may happen inside a call of a GPU driver: while it lives, neither
# its supervisor nor the next one starts another, because it may still write to their shared memory.
# Here a library loaded into the server suppresses the signal that would kill it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use GpuJoinTest;
use ServiceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();

append_to_file("$folder/undying.c", q{
	#define _GNU_SOURCE
	#include <signal.h>
	#include <stdarg.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <unistd.h>
	int kill(pid_t pid, int signal)
	{
		return signal == SIGKILL ? 0 : (int) syscall(SYS_kill, pid, signal);
	}
	int prctl(int option, ...)
	{
		unsigned long value;
		va_list args;

		va_start(args, option);
		value = va_arg(args, unsigned long);
		va_end(args);
		return option == PR_SET_PDEATHSIG ? 0 : (int) syscall(SYS_prctl, option, value, 0, 0, 0);
	}
});
my $compiler = $ENV{CC} || 'cc';
plan skip_all => 'no C compiler'
  if system("$compiler -shared -fPIC -o $folder/undying.so $folder/undying.c") != 0;

my $node;
{
	local $ENV{LD_PRELOAD} = "$folder/undying.so";
	$node = new_server('main', 'fsync = off', "gpujoin.device = 'reference'",
		"gpujoin.result_buffer = '4MB'", PATIENT);
}
wait_ready($node);

my $helper = signal_helper($node, 'STOP');
my $supervisor = service($node, 'supervisor_pid');

die "no such process" unless $helper > 1 && $supervisor > 1;
kill 'TERM', $supervisor;
ok($node->poll_query_until('postgres', "SELECT state = 'stuck' AND supervisor_pid <> $supervisor
		FROM gpujoin_status()"), 'a supervisor ends, its helper does not');
is(service($node, 'helper_pid'), $helper, 'that is known');
like(run_service($node, '10, nkeys => 100'), qr/^ok 0, fallbacks 1, wrong 0/,
	'nobody waits for it');
ok($node->poll_query_until('postgres', "SELECT supervisor_pid NOT IN (0, $supervisor)
		FROM gpujoin_status()"), 'the next supervisor');
log_comes_to($node, qr/gpujoin device process $helper was killed but does not end/, 'says so');
$node->reload;
$node->poll_query_until('postgres', "SELECT state = 'stuck' FROM gpujoin_status()");
is(service($node, 'helper_starts'), 1, 'it starts no other, not even after a reload');

kill 'KILL', $helper;
ok(wait_ready($node), 'when the helper has gone at last, another comes');
isnt(service($node, 'helper_pid'), $helper, 'which is another');
is(run_service($node, '10, nkeys => 100'), 'ok 1, fallbacks 0, wrong 0, loads 1',
	'and answers rightly');
no_leaks($node, 'at the end');

# It would outlive the server.
my $last = service($node, 'helper_pid');
$node->stop('immediate');
kill 'KILL', $last if $last > 1;

done_testing();

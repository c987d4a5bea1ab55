/*-------------------------------------------------------------------------
 *
 * helper.c
 *	  The helper process: start it, forward its output, wait for it.
 *
 * The helper is executed, not merely forked.  A GPU driver must not be initialized in a forked
 * copy of a PostgreSQL process, and a helper without any of PostgreSQL's descriptors, mappings or
 * code cannot harm it.  It gets four descriptors: the arena, the supervisor's eventfd, and a
 * pipe, used twice, for the output of the helper and its libraries.
 *
 * It dies with the supervisor (PR_SET_PDEATHSIG), even if the supervisor is killed.  It has a
 * session of its own, so that signals which the postmaster sends to the supervisor's process
 * group do not reach it.
 *
 * Between fork and exec, only async-signal-safe functions are called.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "miscadmin.h"

#include "base/gpujoin.h"
#include "shared.h"

#define GJ_HELPER_PROGRAM		"gpujoin_helper"

/* How long a helper may take to exit when asked to, and when killed */
#define GJ_STOP_MS				1000
#define GJ_DEATH_MS				10000

/* First descriptor that does not belong to the helper */
#define GJ_FIRST_FOREIGN_FD		(GJP_EVENT_FD + 1)

/* Limits on what a helper may write to the log: number of lines, and length of each */
#define GJ_LOG_LINES			200
#define GJ_LOG_LINE_LENGTH		400

/* Limit on reads of the log in one call: twice the capacity of a pipe */
#define GJ_LOG_MAX_READS		128

static char log_line[GJ_LOG_LINE_LENGTH + 1];
static int	log_length;
static int	log_lines_left;

static void run_program(char **argv, const int *fds, pid_t parent)
			__attribute__((noreturn));
static void keep_descriptors(const int *fds);
static void close_descriptors(void);
static void reset_signals(void);
static void emit_line(void);

/*
 * Get the name of the library that gpujoin.device asks for.
 */
const char *
GjHelperLibrary(void)
{
	return (gj_device == GJ_DEVICE_REFERENCE) ? "gpujoin_reference.so" : "gpujoin_cuda.so";
}

/*
 * Start the helper with a library from the extension's directory.  Returns false and sets problem
 * if that fails.  If the program cannot be executed, that is noticed when the helper ends.
 */
bool
GjHelperStart(GjHelper *helper, const char *library, uint32 epoch, char *problem,
			  Size problem_size)
{
	char		program[MAXPGPATH];
	char		library_path[MAXPGPATH];
	char		budget[32];
	char		epoch_text[32];
	char		parent_text[32];
	char	   *argv[] = {program, library_path, gj_gpu, budget, epoch_text, parent_text, NULL};
	int			log_pipe[2];
	int			fds[3];
	pid_t		parent = getpid();
	pid_t		pid;

	snprintf(program, sizeof(program), "%s/%s", pkglib_path, GJ_HELPER_PROGRAM);
	snprintf(library_path, sizeof(library_path), "%s/%s", pkglib_path, library);
	snprintf(budget, sizeof(budget), UINT64_FORMAT, (uint64) gj_device_memory * 1024 * 1024);
	snprintf(epoch_text, sizeof(epoch_text), "%u", epoch);
	snprintf(parent_text, sizeof(parent_text), "%d", (int) parent);

	if (pipe2(log_pipe, O_CLOEXEC) != 0)
	{
		snprintf(problem, problem_size, "pipe2 failed: %s", strerror(errno));
		return false;
	}
	helper->log_fd = log_pipe[0];
	helper->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (helper->event_fd < 0 || fcntl(helper->log_fd, F_SETFL, O_NONBLOCK) != 0)
	{
		snprintf(problem, problem_size, "eventfd failed: %s", strerror(errno));
		close(log_pipe[1]);
		GjHelperClose(helper);
		return false;
	}
	log_length = 0;
	log_lines_left = GJ_LOG_LINES;
	fds[0] = log_pipe[1];
	fds[1] = gj_arena.fd;
	fds[2] = helper->event_fd;

	pid = fork();
	if (pid == 0)
		run_program(argv, fds, parent);
	if (pid < 0)
		snprintf(problem, problem_size, "fork failed: %s", strerror(errno));
	close(log_pipe[1]);
	if (pid < 0)
	{
		GjHelperClose(helper);
		return false;
	}
	helper->pid = pid;
	return true;
}

/*
 * Write the helper's output to the server log.  Closes the pipe at end of file.
 */
void
GjHelperForwardLog(GjHelper *helper)
{
	char		buffer[1024];
	ssize_t		n;

	for (int reads = 0; helper->log_fd >= 0; reads++)
	{
		/* Endless output must not keep the supervisor from its other duties. */
		if (reads == GJ_LOG_MAX_READS)
			return;
		n = read(helper->log_fd, buffer, sizeof(buffer));
		if (n == 0)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		for (ssize_t i = 0; i < n; i++)
		{
			char		c = buffer[i];

			if (c == '\n')
				emit_line();
			else if (log_length < GJ_LOG_LINE_LENGTH)
				log_line[log_length++] = (c >= ' ' && c <= '~') ? c : '?';
		}
	}
	emit_line();
	if (helper->log_fd >= 0)
		close(helper->log_fd);
	helper->log_fd = -1;
}

/*
 * Return true, and set *wait_status, if the helper has ended
 */
bool
GjHelperReap(GjHelper *helper, int *wait_status)
{
	if (helper->pid == 0 || waitpid(helper->pid, wait_status, WNOHANG) != helper->pid)
		return false;
	helper->pid = 0;
	return true;
}

/*
 * Ask a helper to exit, then kill it; used when the supervisor itself exits.  Returns false if
 * the helper is still alive, which can only happen if a driver call does not return.
 */
bool
GjHelperEnd(GjHelper *helper)
{
	gjp_control *control = GjControl();
	int			wait_status;

	if (helper->pid == 0)
		return true;
	__atomic_store_n(&control->stop, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&control->doorbell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &control->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
	for (int waited = 0; waited < GJ_STOP_MS + GJ_DEATH_MS; waited += 10)
	{
		if (GjHelperReap(helper, &wait_status))
			return true;
		if (waited == GJ_STOP_MS)
			kill(helper->pid, SIGKILL);
		pg_usleep(10 * 1000);
	}
	return false;
}

/*
 * Get the start time of a process, in ticks since boot; 0 if the process does not exist or has
 * ended.  Together with the pid this identifies a process that is not our child.
 */
uint64
GjProcessStart(int pid)
{
	char		path[64];
	char		text[1024];
	char	   *at;
	int			fd;
	ssize_t		n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';

	/* The name, in parentheses, may contain any character; the state follows it as field 3. */
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
		return 0;
	at++;
	for (int field = 3; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

/*
 * Release the resources of a helper that has ended.
 */
void
GjHelperClose(GjHelper *helper)
{
	if (helper->log_fd >= 0)
		close(helper->log_fd);
	if (helper->event_fd >= 0)
		close(helper->event_fd);
	helper->log_fd = -1;
	helper->event_fd = -1;
}

/* The child: become the helper */
static void
run_program(char **argv, const int *fds, pid_t parent)
{
	static const char message[] = "could not be executed\n";

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(GJP_EXIT_EXEC);
	keep_descriptors(fds);
	close_descriptors();
	reset_signals();
	execv(argv[0], argv);
	if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
		_exit(GJP_EXIT_EXEC);
	_exit(GJP_EXIT_EXEC);
}

/*
 * Move the descriptors to the numbers that the helper expects: log (1, 2), arena, eventfd, and
 * /dev/null (0).  First move them out of each other's way, since any of them may have one of
 * those numbers.
 */
static void
keep_descriptors(const int *fds)
{
	int			moved[3];
	int			null_fd;

	for (int i = 0; i < 3; i++)
	{
		moved[i] = fcntl(fds[i], F_DUPFD, GJ_FIRST_FOREIGN_FD);
		if (moved[i] < 0)
			_exit(GJP_EXIT_EXEC);
	}
	null_fd = open("/dev/null", O_RDONLY);
	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(moved[0], STDOUT_FILENO) < 0 || dup2(moved[0], STDERR_FILENO) < 0 ||
		dup2(moved[1], GJP_ARENA_FD) < 0 || dup2(moved[2], GJP_EVENT_FD) < 0)
		_exit(GJP_EXIT_EXEC);
}

/* Close all other descriptors: data files, sockets, the postmaster's pipes */
static void
close_descriptors(void)
{
	struct rlimit limit;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, GJ_FIRST_FOREIGN_FD, ~0U, 0) == 0)
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1024 * 1024)
		limit.rlim_cur = 1024 * 1024;
	for (int fd = GJ_FIRST_FOREIGN_FD; fd < (int) limit.rlim_cur; fd++)
		close(fd);
}

/* Reset signals: those that PostgreSQL ignores or blocks would remain so in the program */
static void
reset_signals(void)
{
	sigset_t	none;

	for (int i = 1; i < NSIG; i++)
	{
		if (i != SIGKILL && i != SIGSTOP)
			signal(i, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Log the current line, unless the helper has exceeded its limit */
static void
emit_line(void)
{
	log_line[log_length] = '\0';
	if (log_length > 0 && log_lines_left > 0)
	{
		log_lines_left--;
		ereport(LOG,
				(errmsg("gpujoin device process: %s", log_line),
				 log_lines_left > 0 ? 0 :
				 errdetail("Further lines of this process are left out.")));
	}
	log_length = 0;
}

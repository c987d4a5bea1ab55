/*-------------------------------------------------------------------------
 *
 * helper.c
 *	  The helper as a process: starting it, hearing what it says, waiting for it.
 *
 * The helper is executed, not only forked.  A GPU's driver must not be set up in a
 * forked copy of a PostgreSQL process, and a helper that has no descriptor, no
 * mapping and no code of PostgreSQL cannot harm it.  It gets four descriptors: the
 * arena, the supervisor's eventfd, and a pipe for what it or its libraries print.
 *
 * It dies with the supervisor (PR_SET_PDEATHSIG), also when that is killed.  It
 * has a session of its own, so that signals which the postmaster sends to the
 * supervisor's process group do not reach it.
 *
 * Between fork and exec only functions are called that are allowed in a signal
 * handler.
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

/* How long a helper may take to go when asked, and when killed */
#define GJ_STOP_MS				1000
#define GJ_DEATH_MS				10000

/* Descriptors from here on are not the helper's */
#define GJ_FIRST_FOREIGN_FD		(GJP_EVENT_FD + 1)

/* What a helper may write to the log: lines, and characters in each */
#define GJ_LOG_LINES			200
#define GJ_LOG_LINE_LENGTH		400

/* Reads of the log in one go: twice what a pipe holds */
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
 * Start the helper with a library of the extension's folder.  False, with the problem, if
 * that cannot be done; that it cannot be executed shows when it ends.
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
 * Write to the server's log what the helper has printed.  Closes the pipe at its end.
 */
void
GjHelperForwardLog(GjHelper *helper)
{
	char		buffer[1024];
	ssize_t		n;

	for (int reads = 0; helper->log_fd >= 0; reads++)
	{
		/* one that talks without end must not keep the supervisor from its other duties */
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
 * Tell whether the helper has ended, and how
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
 * End a helper in good order, or else by force; for when the supervisor itself ends.  False if it
 * still lives, which only a call of the driver that does not return can bring about.
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
 * Tell when a process began, in ticks since the machine's start; 0 if there is none, or if it has
 * ended.  Together with the pid this names a process that is not our child.
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

	/* The name, in parentheses, may have any character; behind it the state is field 3. */
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
		return 0;
	at++;
	for (int field = 3; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

/*
 * Close what is left of a helper that has ended.
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
 * Put the descriptors where the helper expects them: log (1, 2), arena, eventfd; nothing on 0.
 * First out of the way of each other, since any of them may have one of those numbers.
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

/* Close all others: data files, sockets, the postmaster's pipes */
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

/* What PostgreSQL ignores or blocks would stay so in the program */
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

/* Log the line at hand; a helper that says too much is not listened to */
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

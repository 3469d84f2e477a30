#include "tools/run/job.h"

#include <fcntl.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/args.h"

/* Forks a child directly into the group: to move it in later, the kernel would wait for every fork and exit
 * on the host. Returns as fork(); `ret_inside`: whether that was possible. */
static pid_t job_fork_into(const struct cgroup *cgroup, bool *ret_inside)
{
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
    pid_t pid = -1;

    if (cgroup->fd >= 0) {
        args.cgroup = (uint64_t)cgroup->fd;
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    }
    *ret_inside = pid >= 0;
    return pid < 0 ? fork() : pid; /* Linux before 5.7, or a sandbox that knows no clone3 */
}

/* What the service manager meant for the process that it started, by its number, is the job's. */
static void job_take_manager_words(pid_t run)
{
    static const char *const variables[] = {"LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"};
    char theirs[16], own[16];

    snprintf(theirs, sizeof(theirs), "%d", (int)run);
    snprintf(own, sizeof(own), "%d", (int)getpid());
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        if (!value || strcmp(value, theirs) != 0)
            continue;
        setenv(variables[i], own, 1);
        if (i == 0)
            unsetenv("LISTEN_PIDFDID"); /* says the same of the process that was meant first */
    }
}

/* (!) Where memory runs out, in a control group or on the host, the kernel ends the largest process first: of a job that leaks small ones
 * that is a guardian (3 MB), and with both the lock's last killers. By so many thousandths of the memory the job is the larger one. A caller
 * whose processes are never chosen (-1000) stays so, with its job. */
#define OOM_MORE  200
#define OOM_MOST  1000
#define OOM_NEVER (-1000)

static void job_dies_before_its_guardians(void)
{
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    char text[16];
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    long score;

    if (length > 0) {
        text[length] = '\0';
        score = strtol(text, NULL, 10);
        length = snprintf(text, sizeof(text), "%ld",
                          score + OOM_MORE < OOM_MOST ? score + OOM_MORE : OOM_MOST);
        if (score != OOM_NEVER)
            (void)!pwrite(fd, text, (size_t)length, 0);
    }
    if (fd >= 0)
        close(fd);
}

/* For the hook, in its process: the guardian may still have the job's. */
static void job_take_no_streams(void)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

/* The new process waits at the gate until the caller is in a session of its own: a process of the job must never see both guardians in
 * one process group. */
static int job_make_gate(const struct job_start *start)
{
    return start->leave_session ? eventfd(0, EFD_CLOEXEC) : -1;
}

static void job_open_gate(int gate)
{
    static const uint64_t one = 1;
    ssize_t written;

    if (gate < 0)
        return;
    (void)setsid(); /* never fails: who was forked leads no group */
    written = write(gate, &one, sizeof(one));
    (void)written;
    close(gate);
}

static void job_pass_gate(int gate)
{
    uint64_t one;
    ssize_t got = gate < 0 ? 0 : read(gate, &one, sizeof(one));

    (void)got; /* without the parent there is PDEATHSIG */
}

int job_start(const struct job_start *start, pid_t *ret_pid, bool *ret_inside)
{
    int gate = job_make_gate(start);
    pid_t parent = getpid(), run = getppid();
    bool inside;
    pid_t pid;

    if (start->leave_session && gate < 0)
        return -1;
    pid = job_fork_into(start->cgroup, &inside);
    if (pid != 0) {
        if (pid > 0 && start->own_group)
            (void)setpgid(pid, pid); /* both do it: neither may rely on the other to be first */
        job_open_gate(gate);
    }
    if (pid < 0)
        return -1;
    if (pid > 0) {
        *ret_pid = pid;
        *ret_inside = inside;
        return 0;
    }
    if (start->own_group)
        (void)setpgid(0, 0);
    /* Set first, then compared: otherwise a parent that died before would go unnoticed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    job_pass_gate(gate);
    if (!inside)
        cgroup_enter(start->cgroup);
    job_dies_before_its_guardians();
    if (start->output_to_stderr)
        job_take_no_streams();
    else
        job_take_manager_words(run);
    signals_give_back(start->signals);
    if (start->no_new_privs)
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* never fails (Linux 3.5) */
    execvp(start->argv[0], start->argv);
    atomic_store(start->failed, errno);
    _exit(job_exec_exit_code(errno));
}

int job_exec_exit_code(int error)
{
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int job_exit_code(int status)
{
    return WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- its environment -------------------------------------------------------------------------- */

static void environment_set_number(const char *variable, uint64_t number)
{
    char value[24];

    snprintf(value, sizeof(value), "%" PRIu64, number);
    setenv(variable, value, 1);
}

/* Of each slot, in their order, with blanks between them. */
static void environment_set_slot_fences(const struct lease_group *leases)
{
    char value[HF_SET_MAX * 21 + 1] = "";
    size_t used = 0;

    for (unsigned i = 0; i < HF_SET_MAX; i++)
        used += (size_t)snprintf(value + used, sizeof(value) - used, "%s%" PRIu64, i ? " " : "",
                                 hf_fence(leases->lease[i]));
    setenv("HOLDFAST_SLOT_FENCES", value, 1);
}

void environment_set(const struct run_options *wanted, const struct lease_group *leases)
{
    bool alone = wanted->mode == RUN_EXCLUSIVE;
    size_t count = alone ? 1 : leases->count, first = alone ? HF_EXCLUSIVE_NAME : 0;
    char variable[32], value[RUN_OPTIONS_NAME_SIZE];
    int slot = hf_slot_number(leases->lease[first]);

    for (unsigned i = 0; i < HF_SET_MAX; i++) {
        char suffix[8] = ""; /* none for the first, then _2, _3, ... */
        unsigned lease = (unsigned)first + i;

        if (i > 0)
            snprintf(suffix, sizeof(suffix), "_%u", i + 1);
        snprintf(variable, sizeof(variable), "HOLDFAST_NAME%s", suffix);
        if (i < count)
            setenv(variable, run_options_name(wanted, slot < 0 ? lease : (unsigned)slot, value), 1);
        else
            unsetenv(variable);
        snprintf(variable, sizeof(variable), "HOLDFAST_FENCE%s", suffix);
        if (i < count)
            environment_set_number(variable, hf_fence(leases->lease[lease]));
        else
            unsetenv(variable);
    }
    unsetenv("HOLDFAST_MODE");
    unsetenv("HOLDFAST_SLOT");
    unsetenv("HOLDFAST_SLOTS");
    unsetenv("HOLDFAST_SLOT_FENCES");
    if (wanted->mode)
        setenv("HOLDFAST_MODE", alone ? "exclusive" : "shared", 1);
    if (alone)
        environment_set_slot_fences(leases);
    if (slot >= 0) {
        environment_set_number("HOLDFAST_SLOT", (uint64_t)slot);
        environment_set_number("HOLDFAST_SLOTS",
                               (uint64_t)(wanted->slots ? wanted->slots : HF_SET_MAX));
    }
    if (wanted->agent) /* for `holdfast held` in the job */
        setenv("HOLDFAST_AGENT", wanted->agent, 1);
}

/* --- the streams that are the job's ----------------------------------------------------------- */

static bool streams_end[2]; /* stdin, stdout */

void streams_look(void)
{
    struct stat st;

    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
        streams_end[fd] = fstat(fd, &st) == 0 &&
                          (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode));
}

static void streams_to_null(bool all)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDOUT_FILENO; fd++)
        if (all || streams_end[fd])
            dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
}

/* Otherwise a process at the other end of the pipe would not notice that the job has closed it. (!) Each close of a file waits for its
 * file system (FUSE, NFS). That of a pipe does not, and that of a socket or terminal only where nobody else has it, which at most one
 * guardian meets. */
void streams_let_go(void)
{
    streams_to_null(false);
}

void streams_give_up(void)
{
    streams_to_null(true);
}

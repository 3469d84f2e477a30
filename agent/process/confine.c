#include "agent/process/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- system calls ----------------------------------------------------------------------------- */

/* The system calls of an agent's run: its own, and those of libc, OpenSSL, liburcu and the resolver. */

/* A name that this architecture or libseccomp does not know is left out. */
static const char *const confine_free[] = {
    /* memory */
    "brk", "madvise", "memfd_create", "mlock", "mlock2", "mlockall", "mremap", "munlock", "munmap",
    /* files */
    "access", "chmod", "chown", "close", "close_range", "dup", "dup2", "dup3", "faccessat",
    "faccessat2", "fallocate", "fchmod", "fchmodat", "fchown", "fchownat", "fcntl", "fdatasync",
    "flock", "fstat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64", "inotify_add_watch",
    "inotify_init1", "inotify_rm_watch", "ioctl", "lseek", "lstat", "mkdir", "mkdirat",
    "newfstatat", "open", "openat", "openat2", "pipe2", "pread64", "preadv", "pwrite64", "pwritev",
    "read", "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "stat",
    "statfs", "statx", "umask", "unlink", "unlinkat", "write", "writev",
    /* waiting */
    "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create1", "epoll_ctl", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "eventfd2", "getitimer", "gettimeofday", "nanosleep", "poll",
    "ppoll", "pselect6", "select", "signalfd4", "timerfd_create", "timerfd_gettime",
    "timerfd_settime",
    /* connections; socket() itself is below */
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    "socketpair",
    /* threads; clone() itself is below */
    "arch_prctl", "exit", "exit_group", "futex", "get_robust_list", "getcpu", "gettid",
    "membarrier", "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getparam", "sched_getscheduler", "sched_setaffinity", "sched_setparam",
    "sched_setscheduler", "sched_yield", "setpriority", "set_robust_list", "set_tid_address",
    /* signals of its own */
    "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn",
    "rt_sigtimedwait", "sigaltstack",
    /* what it asks of itself, its host and its clients */
    "capget", "getegid", "geteuid", "getgid", "getgroups", "getpgrp", "getpid", "getppid",
    "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getuid", "pidfd_open",
    "prlimit64", "setrlimit", "sysinfo", "times", "uname"};

static int confine_add(scmp_filter_ctx filter, const char *name, unsigned count,
                       const struct scmp_arg_cmp *args)
{
    int call = seccomp_syscall_resolve_name(name);

    /* A number below zero: of another architecture. */
    return call < 0 ? 0 : seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, count, args);
}

static struct scmp_arg_cmp confine_is(unsigned arg, uint32_t value)
{
    return (struct scmp_arg_cmp){.arg = arg, .op = SCMP_CMP_EQ, .datum_a = value};
}

static int confine_when(scmp_filter_ctx filter, const char *name, struct scmp_arg_cmp arg)
{
    return confine_add(filter, name, 1, &arg);
}

/* Memory that can be written is never run: neither at once nor by turns. */
static int confine_memory(scmp_filter_ctx filter)
{
    const uint64_t both = PROT_WRITE | PROT_EXEC;
    int rc = confine_when(filter, "mmap", SCMP_A2_64(SCMP_CMP_MASKED_EQ, both, 0));

    if (rc == 0)
        rc = confine_when(filter, "mmap", SCMP_A2_64(SCMP_CMP_MASKED_EQ, both, PROT_WRITE));
    if (rc == 0) /* a library of the resolver's */
        rc = confine_when(filter, "mmap", SCMP_A2_64(SCMP_CMP_MASKED_EQ, both, PROT_EXEC));
    if (rc == 0)
        rc = confine_when(filter, "mprotect", SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return rc;
}

static int confine_sockets(scmp_filter_ctx filter)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    int rc = 0;

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]) && rc == 0; i++)
        rc = confine_when(filter, "socket", confine_is(0, (uint32_t)families[i]));
    return rc;
}

/* Threads, no processes. The flags of clone3() lie in memory, where no filter sees them: libc goes on with clone(). Signals go
 * to the agent itself; signal 0 asks whether a process is there. */
static int confine_processes(scmp_filter_ctx filter)
{
    static const unsigned settings[] = {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_DUMPABLE,
                                        PR_SET_VMA};
    const struct scmp_arg_cmp to_itself = confine_is(0, (uint32_t)getpid());
    int rc =
        confine_when(filter, "clone", SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

    if (rc == 0)
        rc = confine_add(filter, "tgkill", 1, &to_itself);
    if (rc == 0)
        rc = confine_when(filter, "kill", confine_is(1, 0));
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && rc == 0; i++)
        rc = confine_when(filter, "prctl", confine_is(0, settings[i]));
    return rc;
}

/* The filter of system calls. 0, or a negative errno. */
static int confine_calls(void)
{
#ifdef HOLDFAST_INSTRUMENTED
    return 0;
#endif
    /* ENOSYS: libc knows how to go on without a call that a kernel lacks. */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rc = filter ? 0 : -ENOMEM;

    for (size_t i = 0; i < sizeof(confine_free) / sizeof(confine_free[0]) && rc == 0; i++)
        rc = confine_add(filter, confine_free[i], 0, NULL);
    if (rc == 0)
        rc = confine_memory(filter);
    if (rc == 0)
        rc = confine_sockets(filter);
    if (rc == 0)
        rc = confine_processes(filter);
    if (rc == 0)
        rc = seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return rc;
}

/* --- confinement ------------------------------------------------------------------------------ */

/* Landlock's rights by the version of its interface that has them first; linux/landlock.h may be older than the kernel. */
#define CONFINE_REFER    (1ULL << 13) /* 2 */
#define CONFINE_TRUNCATE (1ULL << 14) /* 3 */

#define CONFINE_MAKE                                                                               \
    (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |    \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
     LANDLOCK_ACCESS_FS_MAKE_SYM)
#define CONFINE_REMOVE (LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR)

/* Reading stays free: a reload may name any file of a password or certificate. */
#define CONFINE_HANDLED                                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | CONFINE_MAKE | CONFINE_REMOVE |  \
     CONFINE_REFER | CONFINE_TRUNCATE)

/* Files and sockets of its own: made, written, replaced, removed. */
#define CONFINE_OWN                                                                                \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |  \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | CONFINE_TRUNCATE)

struct confine_why {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void confine_say(struct confine_why *why,
                                                              const char *format, ...)
{
    size_t at = strlen(why->text);
    va_list args;

    if (at && at + 2 < why->size)
        at += (size_t)snprintf(why->text + at, why->size - at, ", ");
    va_start(args, format);
    (void)vsnprintf(why->text + at, why->size - at, format, args);
    va_end(args);
}

/* --- capabilities ----------------------------------------------------------------------------- */

/* A root's agent keeps what a reload needs: the group of socket and table, and files that another user owns. */
static uint32_t confine_kept(const struct confine *c)
{
    uint32_t kept = 0;

    if (c->lock_memory)
        kept |= CAP_TO_MASK(CAP_IPC_LOCK);
    if (c->priority)
        kept |= CAP_TO_MASK(CAP_SYS_NICE);
    if (geteuid() == 0)
        kept |= CAP_TO_MASK(CAP_CHOWN) | CAP_TO_MASK(CAP_DAC_READ_SEARCH);
    return kept; /* all are among the first 32 */
}

static void confine_capabilities(const struct confine *c, struct confine_why *why)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    uint32_t kept = confine_kept(c);

    if (syscall(SYS_capget, &header, data) < 0) {
        confine_say(why, "capabilities (%s)", strerror(errno));
        return;
    }
    if (!(data[0].permitted & ~kept) && !data[1].permitted)
        return; /* the unit leaves none, and forbids the call */
    data[0].permitted &= kept;
    data[0].effective &= kept;
    data[0].inheritable = 0;
    data[1] = (struct __user_cap_data_struct){0};
    if (syscall(SYS_capset, &header, data) < 0)
        confine_say(why, "capabilities (%s)", strerror(errno));
}

/* --- Landlock --------------------------------------------------------------------------------- */

static int confine_below(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = rights};
    int rc;

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return -1;
    rc = (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
    return rc;
}

static int confine_directories(int rules, const struct confine *c, uint64_t handled)
{
    char parent[4096];

    (void)snprintf(parent, sizeof(parent), "%s/..", c->base);
    return confine_below(rules, parent, LANDLOCK_ACCESS_FS_REMOVE_DIR) < 0 ||
                   confine_below(rules, c->dir, CONFINE_OWN & handled) < 0 ||
                   confine_below(rules, "/dev/shm", CONFINE_OWN & handled) < 0
               ? -1
               : 0;
}

static void confine_files(const struct confine *c, struct confine_why *why)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = CONFINE_HANDLED};
    int rules, version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
                                      LANDLOCK_CREATE_RULESET_VERSION);

    if (version < 0) {
        confine_say(why, "Landlock (%s)", strerror(errno));
        return;
    }
    if (version < 2)
        attr.handled_access_fs &= ~CONFINE_REFER;
    if (version < 3)
        attr.handled_access_fs &= ~CONFINE_TRUNCATE;
    rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules < 0 || confine_directories(rules, c, attr.handled_access_fs) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        confine_say(why, "Landlock (%s)", strerror(errno));
    if (rules >= 0)
        close(rules);
}

/* --- all of it -------------------------------------------------------------------------------- */

void confine(const struct confine *c, char *text, size_t size)
{
    struct confine_why why = {text, size};
    int rc;

    text[0] = '\0';
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        confine_say(&why, "no new privileges (%s)", strerror(errno));
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    confine_capabilities(c, &why);
    confine_files(c, &why);
    rc = confine_calls();
    if (rc < 0)
        confine_say(&why, "seccomp (%s)", strerror(-rc));
}

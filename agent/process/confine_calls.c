/* The system calls of an agent's run: its own, and those of libc, OpenSSL, liburcu, libev and the resolver. */
#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/process/confine.h"

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
    "sched_setscheduler", "sched_yield", "set_robust_list", "set_tid_address",
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

int confine_calls(void)
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

/* Preloaded into holdfastd: once the file FORBIDDEN_GO exists, each of its threads tries what no run of an agent needs, and
 * writes to stderr what became of it: "forbidden THREAD CALL: allowed", or the name of the error. A thread asks as it reads a
 * clock, which each does in every iteration. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local bool tried;

static void say(const char *call, long rc)
{
    int error = errno;
    char thread[16] = "", line[128];
    int length;

    (void)pthread_getname_np(pthread_self(), thread, sizeof(thread));
    length = snprintf(line, sizeof(line), "forbidden %s %s: %s\n", thread, call,
                      rc < 0 ? strerrorname_np(error) : "allowed");
    (void)!write(STDERR_FILENO, line, (size_t)length);
}

static long try_process(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    if (pid == 0)
        _exit(0);
    return pid;
}

static long try_program(void)
{
    static char program[] = "/nowhere", *argv[] = {program, NULL};

    return syscall(SYS_execve, program, argv, NULL); /* ENOENT, where it may */
}

static long try_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = mprotect(page, 4096, PROT_READ | PROT_EXEC), error = errno;

    (void)munmap(page, 4096);
    errno = error;
    return rc;
}

static long try_write(void)
{
    int fd = open(getenv("FORBIDDEN_FILE"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    return fd;
}

static void try_all(void)
{
    say("process", try_process());
    say("program", try_program());
    say("code", try_code());
    say("write", try_write());
    say("trace", syscall(SYS_ptrace, PTRACE_ATTACH, INT_MAX, NULL, NULL)); /* ESRCH, where it may */
    say("signal", syscall(SYS_kill, getppid(), SIGCONT));
    say("memory", syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
    say("namespace", syscall(SYS_unshare, CLONE_FILES));
    say("packets", syscall(SYS_socket, AF_PACKET, SOCK_DGRAM, 0));
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    const char *go = getenv("FORBIDDEN_GO");

    if (!tried && go && access(go, F_OK) == 0) {
        tried = true;
        try_all();
    }
    return (int)syscall(SYS_clock_gettime, clock, ret_time);
}

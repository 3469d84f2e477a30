/* Keeps the state of a running agent's table and journal after every store into them, and what it
 * sends to nodes in between (tests/torture/stores.h). HOLDFAST_STORES names the file of the log,
 * which the torturer makes and in which it says when to watch.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/torture/stores.h"

#define EXPORT     __attribute__((visibility("default")))
#define LOOK_EVERY 2000 /* us */

/* The two signals of a store must reach the thread that stores. */
static void keep_open(sigset_t *to, const sigset_t *from)
{
    *to = *from;
    (void)sigdelset(to, SIGSEGV);
    (void)sigdelset(to, SIGTRAP);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    static int (*real)(int, const sigset_t *, sigset_t *);
    sigset_t open;

    if (!real)
        real = (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT, "pthread_sigmask");
    if (set)
        keep_open(&open, set);
    return real(how, set ? &open : NULL, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old);
int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return pthread_sigmask(how, set, old);
}

/* What begins so is a command for a node. */
static void note_command(const void *bytes, size_t size)
{
    if (size > 8 && *(const char *)bytes == '*')
        stores_note(bytes, size);
}

/* The two that hiredis writes with, by its version. */
EXPORT ssize_t send(int fd, const void *bytes, size_t size, int flags);
ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    note_command(bytes, size);
    return sendto(fd, bytes, size, flags, NULL, 0);
}

EXPORT ssize_t write(int fd, const void *bytes, size_t size);
ssize_t write(int fd, const void *bytes, size_t size)
{
    note_command(bytes, size);
    return syscall(SYS_write, fd, bytes, size);
}

static struct store_log *map_log(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = MAP_FAILED;
    struct stat st;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static void *follow(void *path)
{
    struct store_log *log = NULL;
    bool on = false;

    for (;; usleep(LOOK_EVERY)) {
        if (!log && !(log = map_log(path)))
            continue;
        if (atomic_load(&log->wanted) && !on)
            stores_watch_mapped(log);
        else if (!atomic_load(&log->wanted) && on)
            stores_unwatch();
        on = atomic_load(&log->wanted);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    char *path = getenv("HOLDFAST_STORES");
    sigset_t all, before;
    pthread_t thread;

    if (!path)
        return;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_create(&thread, NULL, follow, path);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

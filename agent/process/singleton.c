#include "agent/process/singleton.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/assert.h"
#include "shm/status.h"

#define TRIES     20
#define TRY_EVERY 5 /* ms */
/* The kernel ends it already; on a loaded machine that takes its time. */
#define ORPHAN_MOST 5000 /* ms */

static int singleton_say_sys(const char *what, const char *path, char *why, size_t why_size)
{
    int error = errno;

    snprintf(why, why_size, "cannot %s %s: %s", what, path, strerror(error));
    errno = error;
    return HF_ESYS;
}

/* A directory that is there already. */
static int singleton_judge_directory(const char *path, bool shared, char *why, size_t why_size)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return singleton_say_sys("look at", path, why, why_size);
    if (shared) /* what an operator gave as --runtime-dir is the operator's choice */
        return HF_OK;
    if (!S_ISDIR(st.st_mode))
        snprintf(why, why_size, "%s is not a directory; remove it", path);
    else if (st.st_uid != geteuid())
        snprintf(why, why_size,
                 "%s belongs to uid %u: run the agent as that user, or give another --runtime-dir",
                 path, (unsigned)st.st_uid);
    else if (st.st_mode & 022)
        snprintf(why, why_size, "%s may be written by others (mode %04o); use chmod go-w", path,
                 (unsigned)st.st_mode & 07777);
    else
        return HF_OK;
    return HF_EPERM;
}

/* A directory that is made with `mode`, or is there already and writable for no other user. */
static int singleton_own_directory(const char *path, mode_t mode, bool shared, bool *ret_made,
                                   char *why, size_t why_size)
{
    if (mkdir(path, mode) == 0) {
        *ret_made = true;
        if (chmod(path, mode) < 0) /* whatever the umask was */
            return singleton_say_sys("set the mode of", path, why, why_size);
        return HF_OK;
    }
    if (errno != EEXIST)
        return singleton_say_sys("make the directory", path, why, why_size);
    return singleton_judge_directory(path, shared, why, why_size);
}

/* The process that took the lock; 0: it has not said so yet. */
static pid_t singleton_taken_by(const struct singleton *s)
{
    char text[32] = "";

    return pread(s->lock_fd, text, sizeof(text) - 1, 0) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* HF_EBUSY, HF_ESYS. A process that runs the agent as its child shares the lock with it, and when the one
 * was killed the other is about to end: that is no second agent. */
static int singleton_lock_now(const struct singleton *s)
{
    for (int waited_ms = 0; flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0; waited_ms += TRY_EVERY) {
        pid_t owner;

        if (errno != EWOULDBLOCK)
            return HF_ESYS;
        owner = singleton_taken_by(s);
        if (waited_ms >= ORPHAN_MOST || owner <= 0 || kill(owner, 0) == 0 || errno != ESRCH)
            return HF_EBUSY;
        (void)poll(NULL, 0, TRY_EVERY);
    }
    return HF_OK;
}

static int singleton_refuse_second(const struct singleton *s, const char *name, char *why,
                                   size_t why_size)
{
    pid_t pid = 0;

    /* The other agent may be about to write it. */
    for (int i = 0; i < TRIES && pid <= 0; i++) {
        if (i > 0)
            (void)poll(NULL, 0, TRY_EVERY);
        pid = singleton_taken_by(s);
    }
    if (pid > 0)
        snprintf(why, why_size,
                 "an agent named '%s' runs already: pid %ld, in %s; give this one another --name",
                 name, (long)pid, s->dir);
    else
        snprintf(why, why_size,
                 "an agent named '%s' runs already, in %s; give this one another --name", name,
                 s->dir);
    return HF_EBUSY;
}

/* HF_EPENDING: file or directory went away meanwhile, because their agent was just ending. */
static int singleton_try_lock(struct singleton *s, const char *path, const char *name, char *why,
                              size_t why_size)
{
    struct stat here, there;
    int rc;

    s->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (s->lock_fd < 0 && errno == ENOENT)
        return HF_EPENDING;
    if (s->lock_fd < 0)
        return singleton_say_sys("open", path, why, why_size);
    rc = singleton_lock_now(s);
    if (rc == HF_EBUSY)
        rc = singleton_refuse_second(s, name, why, why_size);
    else if (rc < 0)
        rc = singleton_say_sys("lock", path, why, why_size);
    else if (fstat(s->lock_fd, &here) == 0 && stat(path, &there) == 0 &&
             here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return HF_OK;
    else
        rc = HF_EPENDING;
    close(s->lock_fd);
    return rc;
}

int singleton_take(const struct config *config, struct singleton *ret_singleton, char *why,
                   size_t why_size)
{
    mode_t mode = config_dir_mode(config);
    struct singleton s = {.lock_fd = -1};
    char path[sizeof(s.dir) + 8], pid[32];
    bool made_dir;
    int rc = HF_EPENDING;

    snprintf(s.base, sizeof(s.base), "%s", config->runtime_dir);
    snprintf(s.dir, sizeof(s.dir), "%s/%s", config->runtime_dir, config->name);
    snprintf(path, sizeof(path), "%s/lock", s.dir);
    for (int i = 0; i < TRIES && rc == HF_EPENDING; i++) {
        rc = singleton_own_directory(s.base, mode, !config->system, &s.made_base, why, why_size);
        if (rc == HF_OK)
            rc = singleton_own_directory(s.dir, mode, false, &made_dir, why, why_size);
        if (rc == HF_OK)
            rc = singleton_try_lock(&s, path, config->name, why, why_size);
    }
    if (rc == HF_EPENDING) {
        snprintf(why, why_size, "another process removed %s again and again", path);
        rc = HF_ESYS;
    }
    if (rc < 0)
        return rc;
    snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    if (ftruncate(s.lock_fd, 0) < 0 || pwrite(s.lock_fd, pid, strlen(pid), 0) < 0) {
        rc = singleton_say_sys("write", path, why, why_size);
        close(s.lock_fd);
        return rc;
    }
    *ret_singleton = s;
    return HF_OK;
}

static int singleton_look_at_directory(const char *path, bool shared, char *why, size_t why_size)
{
    int rc = singleton_judge_directory(path, shared, why, why_size);

    return rc == HF_ESYS && errno == ENOENT ? HF_OK : rc;
}

int singleton_look(const struct config *config, char ret_dir[600], char *why, size_t why_size)
{
    int rc = singleton_look_at_directory(config->runtime_dir, !config->system, why, why_size);

    snprintf(ret_dir, 600, "%s/%s", config->runtime_dir, config->name);
    return rc == HF_OK ? singleton_look_at_directory(ret_dir, false, why, why_size) : rc;
}

void singleton_release(struct singleton *s, bool remove)
{
    char path[sizeof(s->dir) + 8];

    hf_assert(s->lock_fd >= 0, "fd %d", s->lock_fd);
    if (remove) {
        snprintf(path, sizeof(path), "%s/lock", s->dir);
        (void)unlink(path); /* still locked: the next agent sees that it is gone, and makes anew */
        (void)rmdir(s->dir);
        if (s->made_base)
            (void)rmdir(s->base); /* unless another agent is in it */
    } else if (ftruncate(s->lock_fd, 0) < 0) {
        /* only a message would name an old pid */
    }
    close(s->lock_fd);
    s->lock_fd = -1;
}

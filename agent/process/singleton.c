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

#include "agent/agent.h"
#include "agent/base/log.h"
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

/* (!) For readers: who tries whether a flock() is there takes it for a moment, which would refuse an agent that starts. This one
 * is seen without being taken, so flock() alone decides who is the agent. */
static void singleton_show(const struct singleton *s)
{
    const struct flock shown = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    (void)fcntl(s->lock_fd, F_OFD_SETLK, &shown);
}

/* (!) In place and of one width: nothing is given away that another process could take, so a full directory is no obstacle. The number
 * is for messages only, and who is the agent is decided without it. */
static void singleton_sign(const struct singleton *s, const char *path)
{
    char pid[24];
    int length = snprintf(pid, sizeof(pid), "%-10ld\n", (long)getpid());

    if (pwrite(s->lock_fd, pid, (size_t)length, 0) != length)
        log_warn(
            "cannot write this agent's pid into %s: %s; make room there, for messages name none",
            path, strerror(errno));
}

/* HF_EPENDING: file or directory went away meanwhile, because their agent was just ending. */
static int singleton_try_lock(struct singleton *s, const char *path, const char *name, char *why,
                              size_t why_size)
{
    struct stat here, there;
    int rc;

    s->found = lstat(path, &there) == 0;
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
    char path[sizeof(s.dir) + 8];
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
    singleton_sign(&s, path); /* a reader that sees the lock finds no earlier agent's pid */
    singleton_show(&s);
    *ret_singleton = s;
    return HF_OK;
}

static int singleton_look_at_directory(const char *path, bool shared, char *why, size_t why_size)
{
    int rc = singleton_judge_directory(path, shared, why, why_size);

    return rc == HF_ESYS && errno == ENOENT ? HF_OK : rc;
}

int singleton_dry_run(const struct config *config, char ret_dir[600], char *why, size_t why_size)
{
    int rc = singleton_look_at_directory(config->runtime_dir, !config->system, why, why_size);

    snprintf(ret_dir, 600, "%s/%s", config->runtime_dir, config->name);
    return rc == HF_OK ? singleton_look_at_directory(ret_dir, false, why, why_size) : rc;
}

void singleton_release(struct singleton *s, bool remove)
{
    /* The lock is last, and still locked: the next agent sees that it is gone, and makes anew. */
    static const char *const names[] = {"sock", "control", "lock"};
    char path[sizeof(s->dir) + 8];

    hf_assert(s->lock_fd >= 0, "fd %d", s->lock_fd);
    if (remove) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            snprintf(path, sizeof(path), "%s/%s", s->dir, names[i]);
            (void)unlink(path);
        }
        (void)rmdir(s->dir);
        if (s->made_base)
            (void)rmdir(s->base); /* unless another agent is in it */
    }
    close(s->lock_fd);
    s->lock_fd = -1;
}

/* --- permissions ------------------------------------------------------------------------------ */

/* DIR of DIR/sock. */
static void permissions_directory(const struct agent *agent,
                                  char ret_dir[sizeof(agent->socket_path)])
{
    char *slash;

    memcpy(ret_dir, agent->socket_path, sizeof(agent->socket_path));
    slash = strrchr(ret_dir, '/');
    if (slash)
        *slash = '\0';
}

static int permissions_own(const char *path, int fd, gid_t group)
{
    return path ? chown(path, (uid_t)-1, group) : fchown(fd, (uid_t)-1, group);
}

static int permissions_allow(const char *path, int fd, mode_t mode)
{
    return path ? chmod(path, mode) : fchmod(fd, mode);
}

/* (!) Between the two steps nobody has more than before or after: a mode that counts on the group comes after the
 * group, and any other before it. */
static int permissions_set_one(const char *path, int fd, gid_t group, mode_t mode)
{
    bool counts_on_group = (mode >> 3 & 7) != (mode & 7);

    if (!counts_on_group && permissions_allow(path, fd, mode) < 0)
        return HF_ESYS;
    if (permissions_own(path, fd, group) < 0)
        return HF_ESYS;
    return counts_on_group && permissions_allow(path, fd, mode) < 0 ? HF_ESYS : HF_OK;
}

/* The first one that fails, NULL: none; errno. A directory's group is left alone, as at the start. */
static const char *permissions_set(const struct agent *agent, const struct config *c)
{
    static char dir[sizeof(agent->socket_path)];
    gid_t group = c->group != (gid_t)-1 ? c->group : getegid();

    permissions_directory(agent, dir);
    if (permissions_set_one(agent->socket_path, -1, group, config_socket_mode(c)) < 0)
        return agent->socket_path;
    if (permissions_set_one(NULL, agent->table.fd, group, c->table_mode) < 0)
        return agent->shm_name;
    return chmod(dir, config_dir_mode(c)) < 0 ? dir : NULL;
}

int permissions_change(const struct agent *agent, const struct config *before,
                       const struct config *after, char *why, size_t why_size)
{
    const char *failed;
    int error;

    if (before->group == after->group && before->table_mode == after->table_mode)
        return HF_OK;
    failed = permissions_set(agent, after);
    if (!failed)
        return HF_OK;
    error = errno;
    snprintf(why, why_size, "group, table_mode: cannot set the permissions of %s: %s%s", failed,
             strerror(error),
             error == EPERM ? "; the agent's user must be a member of the group" : "");
    (void)permissions_set(agent, before);
    return HF_ESYS;
}

#include "tools/run/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PREFIX        "holdfast-run-"
#define DEPTH_MAX     32

#define MAKE_TRIES    5
#define MAKE_PAUSE_NS 1000000

static bool cgroup_is_cgroup2(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* The mount point of the v2 hierarchy: "36 25 0:31 / /sys/fs/cgroup rw,... - cgroup2 cgroup2 rw". */
static int cgroup_open_listed(void)
{
    char line[4096], point[4096];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    int fd = -1;

    if (!file)
        return -1;
    while (fd < 0 && fgets(line, sizeof(line), file)) {
        const char *type = strstr(line, " - ");

        if (type && !strncmp(type + 3, "cgroup2 ", 8) &&
            sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1)
            fd = open(point, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    }
    fclose(file);
    return fd;
}

/* Tries the usual place first, since the kernel takes long to write the list of mounts. */
static int cgroup_open_hierarchy(void)
{
    static const char *const usual[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        int fd = open(usual[i], O_DIRECTORY | O_RDONLY | O_CLOEXEC);

        if (fd >= 0 && cgroup_is_cgroup2(fd))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return cgroup_open_listed();
}

/* The caller's own group: the line "0::/path". */
static int cgroup_open_own(int hierarchy)
{
    char line[4096];
    FILE *file = fopen("/proc/self/cgroup", "re");
    int fd = -1;

    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        fd = openat(hierarchy, line[4] ? line + 4 : ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        break;
    }
    fclose(file);
    return fd;
}

static int cgroup_write_file(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    ssize_t written;

    if (fd < 0)
        return -1;
    written = write(fd, text, strlen(text));
    close(fd);
    return written < 0 ? -1 : 0;
}

void cgroup_plan(struct cgroup *cgroup)
{
    unsigned char tag[4];
    int hierarchy = cgroup_open_hierarchy();

    cgroup->fd = cgroup->parent_fd = cgroup->events_fd = -1;
    if (hierarchy < 0)
        return;
    cgroup->parent_fd = cgroup_open_own(hierarchy);
    close(hierarchy);
    if (cgroup->parent_fd < 0)
        return;
    if (!cgroup_is_cgroup2(cgroup->parent_fd) || getrandom(tag, sizeof(tag), 0) != sizeof(tag)) {
        close(cgroup->parent_fd);
        cgroup->parent_fd = -1;
        return;
    }
    snprintf(cgroup->name, sizeof(cgroup->name), PREFIX "%d-%02x%02x%02x%02x", (int)getpid(),
             tag[0], tag[1], tag[2], tag[3]);
}

/* Children first; a non-empty group stays. */
static void cgroup_remove_below(int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while (depth < DEPTH_MAX && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            cgroup_remove_below(fd, entry->d_name, depth + 1);
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Whether no run that lives has it; with a lock on it then, which ends with `fd`. */
static bool cgroup_is_left(int fd)
{
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Both guardians of a run may be killed at once: then its group is left over. */
void cgroup_sweep(const struct cgroup *cgroup)
{
    int parent = cgroup->parent_fd;
    int fd = cgroup->fd < 0 ? -1 : openat(parent, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(dir))) {
        int group = -1;

        if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)))
            group = openat(parent, entry->d_name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (cgroup_is_left(group))
            cgroup_remove_below(parent, entry->d_name, 0);
        if (group >= 0)
            close(group);
    }
    closedir(dir);
}

static void cgroup_open_made(struct cgroup *cgroup)
{
    if (cgroup->fd >= 0 || cgroup->parent_fd < 0)
        return;
    cgroup->fd = openat(cgroup->parent_fd, cgroup->name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (cgroup->fd < 0)
        return;
    cgroup->events_fd = openat(cgroup->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (cgroup->events_fd < 0) {
        int error = errno;

        close(cgroup->fd); /* to be tried again */
        cgroup->fd = -1;
        errno = error;
    }
}

static void cgroup_close_events(struct cgroup *cgroup)
{
    if (cgroup->events_fd >= 0)
        close(cgroup->events_fd);
    cgroup->events_fd = -1;
}

static void cgroup_close_made(struct cgroup *cgroup)
{
    cgroup_close_events(cgroup);
    if (cgroup->fd >= 0)
        close(cgroup->fd);
    cgroup->fd = -1;
}

/* Whether it is there to stay: a run that sweeps may have come between. */
static bool cgroup_lock_made(const struct cgroup *cgroup)
{
    return cgroup->fd >= 0 && flock(cgroup->fd, LOCK_SH | LOCK_NB) == 0 &&
           faccessat(cgroup->parent_fd, cgroup->name, F_OK, 0) == 0;
}

/* (!) A lock on the group shows other runs that this one lives: a pid may be one of another PID namespace. Another user may hold a lock, too,
 * so that the last try does without. */
void cgroup_make(struct cgroup *cgroup)
{
    const struct timespec pause = {.tv_nsec = MAKE_PAUSE_NS};

    if (cgroup->parent_fd < 0)
        return;
    for (int tries = MAKE_TRIES; tries > 0; tries--) {
        /* An agent that is not root must find its files in it, whatever the umask is. */
        mode_t before = umask(022);
        int made = mkdirat(cgroup->parent_fd, cgroup->name, 0755);

        umask(before);
        if (made < 0 && errno != EEXIST)
            return;
        cgroup_open_made(cgroup);
        if (cgroup_lock_made(cgroup) || tries == 1)
            return;
        cgroup_close_made(cgroup);
        nanosleep(&pause, NULL);
    }
}

void cgroup_enter(const struct cgroup *cgroup)
{
    if (cgroup->fd >= 0)
        cgroup_write_file(cgroup->fd, "cgroup.procs", "0");
}

/* With the pidfd it is that process or none; the group's name has a random part. */
static bool cgroup_is_inside(const struct cgroup *cgroup, pid_t pid)
{
    char path[48], text[4096];
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, cgroup->name) != NULL;
}

static void cgroup_kill_number(const struct cgroup *cgroup, pid_t pid)
{
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

    if (fd < 0)
        return;
    if (cgroup_is_inside(cgroup, pid))
        (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    close(fd);
}

/* A process of a PID namespace below ours has a number here, and no job can enter another: those that have none are 0. */
static void cgroup_kill_listed(const struct cgroup *cgroup, int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int list = fd < 0 ? -1 : openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *file = list < 0 ? NULL : fdopen(list, "r");
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int pid;

    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit. */
    while (file && fscanf(file, "%d", &pid) == 1)
        cgroup_kill_number(cgroup, pid);
    if (file)
        fclose(file);
    else if (list >= 0)
        close(list);
    while (dir && depth < DEPTH_MAX && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            cgroup_kill_listed(cgroup, fd, entry->d_name, depth + 1);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

void cgroup_kill(struct cgroup *cgroup)
{
    cgroup_open_made(cgroup);
    if (cgroup->fd < 0)
        return;
    cgroup_write_file(cgroup->fd, "cgroup.kill", "1");
    /* (!) That does not end a process whose main thread has ended while others run: no thread of it is woken. */
    cgroup_write_file(cgroup->fd, "cgroup.freeze", "1");
    if (!cgroup_is_empty(cgroup))
        cgroup_kill_listed(cgroup, cgroup->fd, ".", 0);
}

bool cgroup_is_empty(struct cgroup *cgroup)
{
    char text[256];
    ssize_t got;

    errno = 0;
    cgroup_open_made(cgroup);
    if (cgroup->events_fd < 0) /* else there is none, or it was removed */
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
    got = pread(cgroup->events_fd, text, sizeof(text) - 1, 0);
    if (got < 0) { /* it was removed, so it was empty; poll would never be quiet again */
        cgroup_close_events(cgroup);
        return true;
    }
    text[got] = '\0';
    return strstr(text, "populated 1\n") == NULL;
}

void cgroup_remove(struct cgroup *cgroup)
{
    cgroup_close_made(cgroup);
    if (cgroup->parent_fd >= 0) {
        cgroup_remove_below(cgroup->parent_fd, cgroup->name, 0);
        close(cgroup->parent_fd);
        cgroup->parent_fd = -1;
    }
}

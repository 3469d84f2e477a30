#include "agent/broker/jobs/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shm/status.h"

bool job_group_hierarchy(dev_t *ret_device)
{
    static const char *const usual[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        struct statfs fs;
        struct stat st;

        if (statfs(usual[i], &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC &&
            stat(usual[i], &st) == 0) {
            *ret_device = st.st_dev;
            return true;
        }
    }
    return false;
}

/* The inode of a file of the hierarchy. Asks no other file system. */
static bool group_inode_of(dev_t hierarchy, int fd, mode_t type, uint64_t *ret_inode)
{
    struct statx sx;

    /* Device and type come from the kernel's own memory: without a request for more, no file
     * system is asked. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &sx) < 0 ||
        makedev(sx.stx_dev_major, sx.stx_dev_minor) != hierarchy ||
        statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &sx) < 0 ||
        (sx.stx_mode & S_IFMT) != type)
        return false;
    *ret_inode = sx.stx_ino;
    return true;
}

/* Opens a file of that very directory, and nothing that is mounted over it. */
static int group_open_in(int directory, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)flags | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };

    return (int)syscall(SYS_openat2, directory, name, &how, sizeof(how));
}

/* Whether it is that file of the directory, open for writing. */
static bool group_is_its(dev_t hierarchy, int directory, const char *name, int fd)
{
    int flags = fcntl(fd, F_GETFL), found;
    uint64_t given, own;
    bool same;

    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY ||
        !group_inode_of(hierarchy, fd, S_IFREG, &given))
        return false;
    found = group_open_in(directory, name, O_PATH);
    if (found < 0)
        return false;
    same = group_inode_of(hierarchy, found, S_IFREG, &own) && own == given;
    close(found);
    return same;
}

int job_group_open(dev_t hierarchy, int directory, int kill_fd, int freeze_fd,
                   struct job_group *ret_group, const char **ret_why)
{
    uint64_t inode;
    int events;

    if (!group_inode_of(hierarchy, directory, S_IFDIR, &inode)) {
        *ret_why = "the directory that it sent is no control group of this host";
        return HF_EINVAL;
    }
    if (!group_is_its(hierarchy, directory, "cgroup.kill", kill_fd)) {
        *ret_why = "it did not open the group's cgroup.kill for writing";
        return HF_EINVAL;
    }
    if (!group_is_its(hierarchy, directory, "cgroup.freeze", freeze_fd)) {
        *ret_why = "it did not open the group's cgroup.freeze for writing";
        return HF_EINVAL;
    }
    events = group_open_in(directory, "cgroup.events", O_RDONLY);
    if (events < 0) {
        *ret_why = "the group's cgroup.events cannot be opened";
        return HF_EINVAL;
    }
    *ret_group =
        (struct job_group){.kill_fd = kill_fd, .freeze_fd = freeze_fd, .events_fd = events};
    return HF_OK;
}

void job_group_close(struct job_group *group)
{
    close(group->events_fd);
    close(group->kill_fd);
    close(group->freeze_fd);
}

void job_group_kill(const struct job_group *group)
{
    /* At an offset: write() would wait for another writer to the same description. It fails for a
     * group that was removed. */
    (void)!pwrite(group->kill_fd, "1", 1, 0);
    /* The frozen die of SIGKILL as others do. */
    (void)!pwrite(group->freeze_fd, "1", 1, 0);
}

void job_group_path(const struct job_group *group, char path[JOB_GROUP_PATH_MAX])
{
    char link[32], *end;
    ssize_t got;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", group->kill_fd);
    got = readlink(link, path, JOB_GROUP_PATH_MAX - 1);
    path[got > 0 ? got : 0] = '\0';
    end = strrchr(path, '/');
    if (end && end > path)
        *end = '\0';
    else
        memcpy(path, "?", sizeof("?"));
}

bool job_group_is_empty(struct job_group *group)
{
    char text[256];
    ssize_t got;

    got = pread(group->events_fd, text, sizeof(text) - 1, 0);
    group->removed = got < 0 && errno == ENODEV; /* only an empty group can be removed */
    if (group->removed)
        return true;
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, "populated 0\n") != NULL;
}

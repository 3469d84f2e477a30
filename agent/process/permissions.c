#include "agent/process/permissions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "shm/status.h"

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

#include "shm/bases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/status.h"

/* Root makes the directories in /run, so this one's owner is the account of the system's agent. */
uid_t hf_system_owner(void)
{
    struct stat st;

    return lstat(HF_SYSTEM_BASE, &st) == 0 && S_ISDIR(st.st_mode) ? st.st_uid : 0;
}

bool hf_path_is_system(const char *path)
{
    return strncmp(path, HF_SYSTEM_BASE "/", sizeof(HF_SYSTEM_BASE)) == 0;
}

const char *hf_agent_or_default(const char *agent)
{
    if (!agent)
        agent = secure_getenv("HOLDFAST_AGENT");
    return agent && *agent ? agent : HF_DEFAULT_AGENT;
}

static int bases_fill(struct hf_base *base, const char *dir, const char *sub)
{
    int length = snprintf(base->dir, sizeof(base->dir), "%s%s", dir, sub);

    if (length < 0 || (size_t)length >= sizeof(base->dir))
        return HF_EINVAL;
    base->system = base->alone = false;
    base->owner = geteuid();
    return HF_OK;
}

/* Whoever comes by su or "sudo -E" still has the directory of the user before. One that is not there may be made later. */
static bool bases_is_ours(const char *dir)
{
    struct stat st;

    return stat(dir, &st) < 0 ? errno != EACCES : st.st_uid == geteuid();
}

const char *hf_user_dir(char room[HF_USER_DIR_SIZE])
{
    const char *xdg = secure_getenv("XDG_RUNTIME_DIR");

    if (xdg && *xdg && bases_is_ours(xdg))
        return xdg;
    if (geteuid() == 0)
        return NULL;
    (void)snprintf(room, HF_USER_DIR_SIZE, "/run/user/%u", (unsigned)geteuid());
    return room;
}

int hf_bases(struct hf_base ret_bases[HF_BASES_MAX])
{
    const char *only = secure_getenv("HOLDFAST_RUNTIME_DIR"), *own;
    char room[HF_USER_DIR_SIZE];
    int count = 0;

    if (only && *only) {
        int rc = bases_fill(&ret_bases[0], only, "");

        ret_bases[0].alone = true;
        return rc < 0 ? HF_EINVAL : 1;
    }
    own = hf_user_dir(room);
    if (own && bases_fill(&ret_bases[count++], own, "/holdfast") < 0)
        return HF_EINVAL;
    (void)bases_fill(&ret_bases[count], HF_SYSTEM_BASE, "");
    ret_bases[count].system = true;
    ret_bases[count].owner = hf_system_owner();
    return count + 1;
}

int hf_bases_of(const char *agent, struct hf_base ret_bases[HF_BASES_MAX])
{
    char dir[HF_BASE_SIZE + 64];
    struct stat st;
    int count = hf_bases(ret_bases);

    if (count < 2)
        return count;
    (void)snprintf(dir, sizeof(dir), "%s/%s", ret_bases[0].dir, agent);
    return stat(dir, &st) < 0 && (errno == ENOENT || errno == ENOTDIR) ? count : 1;
}

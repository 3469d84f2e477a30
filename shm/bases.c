#include "shm/bases.h"

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

static int fill(struct hf_base *base, const char *dir, const char *sub)
{
    int length = snprintf(base->dir, sizeof(base->dir), "%s%s", dir, sub);

    if (length < 0 || (size_t)length >= sizeof(base->dir))
        return HF_EINVAL;
    base->system = false;
    base->owner = geteuid();
    return HF_OK;
}

int hf_bases(struct hf_base ret_bases[HF_BASES_MAX])
{
    const char *only = secure_getenv("HOLDFAST_RUNTIME_DIR");
    const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
    char user_dir[32];
    int count = 0;

    if (only && *only)
        return fill(&ret_bases[0], only, "") < 0 ? HF_EINVAL : 1;
    if ((!xdg || !*xdg) && geteuid() != 0) {
        (void)snprintf(user_dir, sizeof(user_dir), "/run/user/%u", (unsigned)geteuid());
        xdg = user_dir;
    }
    if (xdg && *xdg && fill(&ret_bases[count++], xdg, "/holdfast") < 0)
        return HF_EINVAL;
    (void)fill(&ret_bases[count], HF_SYSTEM_BASE, "");
    ret_bases[count].system = true;
    ret_bases[count].owner = hf_system_owner();
    return count + 1;
}

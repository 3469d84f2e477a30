#include "tools/places.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/text.h"

#define SYSTEM_DIR "/run/holdfast"

/* Root makes what is in /run: the owner of the directory is the account of the system's agent. */
static uid_t system_owner(void)
{
    struct stat st;

    return lstat(SYSTEM_DIR, &st) == 0 && S_ISDIR(st.st_mode) ? st.st_uid : 0;
}

static int fill(struct place *place, const char *dir, const char *sub, const char *agent,
                bool system, char *why, size_t why_size)
{
    char shown[TEXT_NAME_SIZE];

    place->owner = system ? system_owner() : geteuid();
    if (hf_table_name(agent, system, place->owner, place->shm_name) < 0) {
        snprintf(why, why_size,
                 "'%s' is not an agent's name: 1 to %d letters, digits, '.', '_' or '-', the first "
                 "not a '.'",
                 text_escape_str(shown, sizeof(shown), agent), HF_AGENT_NAME_MAX);
        return HF_EINVAL;
    }
    if ((size_t)snprintf(place->base, sizeof(place->base), "%s%s", dir, sub) >=
        sizeof(place->base)) {
        snprintf(why, why_size, "the runtime directory's path is too long");
        return HF_EINVAL;
    }
    snprintf(place->agent, sizeof(place->agent), "%s", agent);
    snprintf(place->dir, sizeof(place->dir), "%s/%s", place->base, place->agent);
    return HF_OK;
}

/* BASE/NAME/sock; the table is the caller's, the system's, or root's, as the socket is. */
static int fill_from_path(struct place *place, const char *path, char *why, size_t why_size)
{
    bool system = strncmp(path, SYSTEM_DIR "/", sizeof(SYSTEM_DIR)) == 0;
    char copy[PLACE_DIR_SIZE], *end, *name;
    struct stat st;

    if (!system && lstat(path, &st) == 0 && st.st_uid == 0)
        system = true;
    end = strlen(path) < sizeof(copy) ? strrchr(strcpy(copy, path), '/') : NULL;
    if (end)
        *end = '\0';
    name = end ? strrchr(copy, '/') : NULL;
    if (!name) {
        snprintf(why, why_size, "%.200s does not tell the agent's name: .../NAME/sock", path);
        return HF_EINVAL;
    }
    *name = '\0';
    return fill(place, copy, "", name + 1, system, why, why_size);
}

int places_find(const char *agent, struct place ret_places[PLACES_MAX], char *why, size_t why_size)
{
    const char *base = secure_getenv("HOLDFAST_RUNTIME_DIR");
    const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
    char user_dir[32];
    int count = 0, status;

    if (!agent)
        agent = secure_getenv("HOLDFAST_AGENT");
    if (!agent || !*agent)
        agent = "default";

    if (strchr(agent, '/')) {
        status = fill_from_path(&ret_places[0], agent, why, why_size);
        return status < 0 ? status : 1;
    }
    if (base && *base) {
        status = fill(&ret_places[0], base, "", agent, false, why, why_size);
        return status < 0 ? status : 1;
    }
    if ((!xdg || !*xdg) && geteuid() != 0) {
        snprintf(user_dir, sizeof(user_dir), "/run/user/%u", (unsigned)geteuid());
        xdg = user_dir;
    }
    if (xdg && *xdg) {
        status = fill(&ret_places[count], xdg, "/holdfast", agent, false, why, why_size);
        if (status < 0)
            return status;
        count++;
    }
    status = fill(&ret_places[count], SYSTEM_DIR, "", agent, true, why, why_size);
    return status < 0 ? status : count + 1;
}

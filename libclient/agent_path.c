/* Where an agent can be: from what the caller calls it to socket, table and owner.
 *
 *   a path (with '/')       that socket
 *   $HOLDFAST_RUNTIME_DIR   $HOLDFAST_RUNTIME_DIR/NAME/sock and nothing else: private agents and
 * tests the user's agent        $XDG_RUNTIME_DIR/holdfast/NAME/sock, or /run/user/UID/... where
 * that is not set (cron) the system's            /run/holdfast/NAME/sock
 */
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_DIR "/run/holdfast"

/* Root makes what is in /run: whoever owns the directory is the account of the system's agent. */
static uid_t system_owner(void)
{
    struct stat st;

    return lstat(SYSTEM_DIR, &st) == 0 && S_ISDIR(st.st_mode) ? st.st_uid : 0;
}

static int place_fill(struct hfc_place *place, const char *dir, const char *sub, const char *name,
                      bool system)
{
    int len = snprintf(place->path, sizeof(place->path), "%s%s/%s/sock", dir, sub, name);

    if (len < 0 || (size_t)len >= sizeof(place->path))
        return hfc_fail(HF_EINVAL, "the socket path %s%s/%s/sock is longer than %zu bytes", dir,
                        sub, name, sizeof(place->path) - 1);
    place->owner = system ? system_owner() : geteuid();
    place->table_owner = place->owner;
    if (hf_table_name(name, system, place->owner, place->table) < 0)
        return hfc_fail(HF_EINVAL,
                        "'%.70s' is not an agent's name: 1 to %d letters, digits, '.', '_' or "
                        "'-', the first not a '.'",
                        name, HF_AGENT_NAME_MAX);
    return HF_OK;
}

/* The directory that holds the socket is named as the agent. */
static int place_from_path(struct hfc_place *place, const char *path)
{
    char name[HF_AGENT_NAME_MAX + 1];
    const char *end = strrchr(path, '/'), *start = end;
    bool system = strncmp(path, SYSTEM_DIR "/", sizeof(SYSTEM_DIR)) == 0;
    struct stat st;

    if (strlen(path) >= sizeof(place->path))
        return hfc_fail(HF_EINVAL, "the socket path %.120s is longer than %zu bytes", path,
                        sizeof(place->path) - 1);
    strcpy(place->path, path);
    /* Only root and ourselves are trusted at a path of the caller's. */
    place->owner = system ? system_owner() : geteuid();
    place->table_owner = place->owner;
    if (!system && lstat(path, &st) == 0 && st.st_uid == 0)
        place->table_owner = 0;
    place->table[0] = '\0';
    while (start > path && start[-1] != '/')
        start--;
    if (end > start && (size_t)(end - start) < sizeof(name)) {
        memcpy(name, start, (size_t)(end - start));
        name[end - start] = '\0';
        if (hf_table_name(name, system, place->table_owner, place->table) < 0)
            place->table[0] = '\0';
    }
    return HF_OK;
}

int hfc_places(const char *agent, struct hfc_place ret_places[HFC_PLACES_MAX], int *ret_count)
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
        status = place_from_path(&ret_places[0], agent);
        if (status == HF_OK)
            *ret_count = 1;
        return status;
    }
    if (base && *base) {
        status = place_fill(&ret_places[0], base, "", agent, false);
        if (status == HF_OK)
            *ret_count = 1;
        return status;
    }
    if ((!xdg || !*xdg) && geteuid() != 0) {
        (void)snprintf(user_dir, sizeof(user_dir), "/run/user/%u", (unsigned)geteuid());
        xdg = user_dir;
    }
    if (xdg && *xdg) {
        status = place_fill(&ret_places[count], xdg, "/holdfast", agent, false);
        if (status < 0)
            return status;
        count++;
    }
    status = place_fill(&ret_places[count], SYSTEM_DIR, "", agent, true);
    if (status < 0)
        return status;
    *ret_count = count + 1;
    return HF_OK;
}

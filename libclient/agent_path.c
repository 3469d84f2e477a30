/* Finds an agent's socket, table and owner: a path (with '/') is the socket, a NAME is looked for
 * in the bases of shm/bases.h. */
#include "libclient/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_place_fill(struct hfc_place *place, const struct hf_base *base, const char *name)
{
    int len = snprintf(place->path, sizeof(place->path), "%s/%s/sock", base->dir, name);

    if (len < 0 || (size_t)len >= sizeof(place->path))
        return hfc_fail(
            HF_EINVAL,
            "use a shorter directory or name: the socket path %s/%s/sock is longer than %zu bytes",
            base->dir, name, sizeof(place->path) - 1);
    place->owner = base->owner;
    place->table_owner = place->owner;
    place->others[0] = '\0';
    if (!base->system && !base->alone)
        (void)snprintf(place->others, sizeof(place->others), HF_SYSTEM_BASE "/%s/sock", name);
    if (hf_table_name(name, base->system, place->owner, place->table) < 0)
        return hfc_fail(
            HF_EINVAL,
            "name an agent by 1 to %d letters, digits, '.', '_' or '-', the first not a "
            "'.': '%.70s' is not an agent's name",
            HF_AGENT_NAME_MAX, name);
    return HF_OK;
}

/* The directory of the socket has the agent's name. */
static int path_place_from_path(struct hfc_place *place, const char *path)
{
    char name[HF_AGENT_NAME_MAX + 1];
    const char *end = strrchr(path, '/'), *start = end;
    bool system = hf_path_is_system(path);
    struct stat st;

    if (strlen(path) >= sizeof(place->path))
        return hfc_fail(HF_EINVAL, "use a shorter socket path: %.120s is longer than %zu bytes",
                        path, sizeof(place->path) - 1);
    strcpy(place->path, path);
    /* At a path of the caller's only root and the caller's own user are trusted. */
    place->owner = system ? hf_system_owner() : geteuid();
    place->table_owner = place->owner;
    if (!system && lstat(path, &st) == 0) /* only to read; we may have an agent of that name too */
        place->table_owner = st.st_uid;
    place->table[0] = place->others[0] = '\0';
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
    struct hf_base bases[HF_BASES_MAX];
    int count, status;

    agent = hf_agent_or_default(agent);
    if (strchr(agent, '/')) {
        status = path_place_from_path(&ret_places[0], agent);
        if (status == HF_OK)
            *ret_count = 1;
        return status;
    }
    count = hf_bases_of(agent, bases);
    if (count < 0)
        return hfc_fail(count, "use a shorter runtime directory: its path is too long");
    for (int i = 0; i < count; i++) {
        status = path_place_fill(&ret_places[i], &bases[i], agent);
        if (status < 0)
            return status;
    }
    *ret_count = count;
    return HF_OK;
}

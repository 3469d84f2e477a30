#include "tools/reader/places.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/common/process.h"
#include "tools/common/text.h"

int places_make(struct place *ret_place, const char *base, bool system, uid_t owner,
                const char *agent)
{
    struct place place = {.owner = owner};

    if (hf_table_name(agent, system, owner, place.shm_name) < 0)
        return HF_EINVAL;
    snprintf(place.base, sizeof(place.base), "%s", base);
    snprintf(place.agent, sizeof(place.agent), "%s", agent);
    snprintf(place.dir, sizeof(place.dir), "%s/%s", place.base, place.agent);
    *ret_place = place;
    return HF_OK;
}

static int places_make_one(struct place *place, const struct hf_base *base, const char *agent,
                           char *why, size_t why_size)
{
    char shown[TEXT_NAME_SIZE];
    int status = places_make(place, base->dir, base->system, base->owner, agent);

    if (status < 0)
        snprintf(why, why_size,
                 "name an agent by 1 to %d letters, digits, '.', '_' or '-', the first not a '.': "
                 "'%s' is not an agent's name",
                 HF_AGENT_NAME_MAX, text_escape_str(shown, sizeof(shown), agent));
    return status;
}

/* BASE/NAME/sock; the socket's owner owns the table: the caller may have another agent of that name. */
static int places_make_from_path(struct place *place, const char *path, char *why, size_t why_size)
{
    struct hf_base base = {.system = hf_path_is_system(path)};
    char *end, *name;
    struct stat st;

    base.owner = base.system ? hf_system_owner() : geteuid();
    if (!base.system && lstat(path, &st) == 0) {
        base.system = st.st_uid == 0;
        base.owner = st.st_uid;
    }
    end = strlen(path) < sizeof(base.dir) ? strrchr(strcpy(base.dir, path), '/') : NULL;
    if (end)
        *end = '\0';
    name = end ? strrchr(base.dir, '/') : NULL;
    if (!name) {
        snprintf(why, why_size, "%.200s does not tell the agent's name: .../NAME/sock", path);
        return HF_EINVAL;
    }
    *name = '\0';
    return places_make_one(place, &base, name + 1, why, why_size);
}

int places_find(const char *agent, struct place ret_places[PLACES_MAX], char *why, size_t why_size)
{
    struct hf_base bases[HF_BASES_MAX];
    int count, status;

    agent = hf_agent_or_default(agent);
    if (strchr(agent, '/')) {
        status = places_make_from_path(&ret_places[0], agent, why, why_size);
        return status < 0 ? status : 1;
    }
    count = hf_bases_of(agent, bases);
    if (count < 0)
        snprintf(why, why_size, "use a shorter runtime directory: its path is too long");
    for (int i = 0; i < count; i++) {
        status = places_make_one(&ret_places[i], &bases[i], agent, why, why_size);
        if (status < 0)
            return status;
    }
    return count;
}

bool places_of_table(const char *object, bool *ret_system, uid_t *ret_uid, const char **ret_agent)
{
    static const char prefix[] = "holdfast";
    char again[HF_TABLE_NAME_MAX], *end;
    const char *rest = object + sizeof(prefix) - 1;
    unsigned long uid = 0;

    if (strncmp(object, prefix, sizeof(prefix) - 1) != 0)
        return false;
    if (*rest == '-')
        uid = strtoul(rest + 1, &end, 10);
    rest = *rest == '-' ? end : rest;
    if (*rest != '.' || uid > UINT32_MAX)
        return false;
    /* Only what is written back in the same way is a table's name. */
    if (hf_table_name(rest + 1, uid == 0, (uid_t)uid, again) < 0 || strcmp(again + 1, object) != 0)
        return false;
    *ret_system = uid == 0;
    *ret_uid = (uid_t)uid;
    *ret_agent = rest + 1;
    return true;
}

/* By agent/process/singleton.c; nothing is locked for it. */
static bool places_is_locked(int fd)
{
    struct flock other = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &other) == 0 && other.l_type == F_WRLCK;
}

/* What DIR/lock says while it is locked. `ret_owner`: of both the file and DIR. */
static pid_t places_read_lock(const struct place *place, uid_t *ret_owner)
{
    char path[sizeof(place->dir) + 8], text[32] = "";
    struct stat dir, lock;
    long pid = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/lock", place->dir);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (fstat(fd, &lock) == 0 && S_ISREG(lock.st_mode) && lstat(place->dir, &dir) == 0 &&
        lock.st_uid == dir.st_uid && places_is_locked(fd) && read(fd, text, sizeof(text) - 1) > 0)
        pid = strtol(text, NULL, 10);
    close(fd);
    *ret_owner = lock.st_uid;
    return pid > 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

pid_t places_locked_by(const struct place *place)
{
    uid_t owner, its;
    pid_t pid = places_read_lock(place, &owner);
    struct process process;

    if (pid == 0 || process_read(pid, &process) < 0 || process.state == 'Z' ||
        process_user(pid, &its) < 0 || its != owner)
        return 0;
    return pid;
}

/* doctor: leftovers of agents that did not end cleanly.
 *
 * A table is removed only if its agent is dead and no lease in it is in force, and while we have
 * the agent's own lock, so that none starts meanwhile; the same for directories of private nodes.
 * Only objects of the caller are checked; with $HOLDFAST_RUNTIME_DIR only agents of that directory.
 */
#include "tools/doctor/doctor_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/status.h"

#define SHM_DIR    "/dev/shm"
#define DEV_PREFIX "dev-"
#define REMEDY     "holdfast doctor --clean"

struct leftovers {
    struct doctor *doctor;
    const struct place *places;
    int count;
    unsigned found;
};

/* --- the agent's lock ---------------------------------------------------------------------------- */

/* The lock of the agent of `dir`: a descriptor for the caller to close; -1: another process has it,
 * or is about to; -2: there is none. */
static int leftovers_take_lock(const char *dir)
{
    char path[HF_BASE_SIZE + 80];
    struct stat here, there;
    int fd;

    snprintf(path, sizeof(path), "%s/lock", dir);
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? -2 : -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &here) == 0 && stat(path, &there) == 0 &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        return fd;
    close(fd);
    return -1;
}

/* --- directories of private nodes ---------------------------------------------------------------- */

/* Removes sockets and logs, one level deep. Returns whether all are gone. */
static bool leftovers_remove_nodes(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(fd, entry->d_name, 0);
    closedir(dir);
    return unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

static void leftovers_report_nodes(struct leftovers *left, DIR *parent, const char *path,
                                   const char *name)
{
    bool clean = left->doctor->clean;

    left->found++;
    if (clean && leftovers_remove_nodes(dirfd(parent), name))
        doctor_report(left->doctor, FINDING_OK, "leftover.nodes", NULL,
                      "removed %s/%s of a dead agent's private nodes", path, name);
    else
        doctor_report(left->doctor, FINDING_WARN, "leftover.nodes",
                      clean ? "remove it by hand, or start that agent again" : REMEDY,
                      "%s/%s is left of a dead agent's private nodes%s", path, name,
                      clean ? ", and could not be removed" : "");
}

/* The directory of `place` exists. */
static void leftovers_look_in_dir(struct leftovers *left, const struct place *place)
{
    DIR *dir = opendir(place->dir);
    struct dirent *entry;
    struct stat st;
    int lock = -2;

    if (!dir)
        return;
    if (fstat(dirfd(dir), &st) < 0 || st.st_uid != geteuid() || places_locked_by(place) > 0)
        goto end;
    if (left->doctor->clean && (lock = leftovers_take_lock(place->dir)) == -1)
        goto end;
    while ((entry = readdir(dir)))
        if (!strncmp(entry->d_name, DEV_PREFIX, strlen(DEV_PREFIX)) &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode) && st.st_uid == geteuid())
            leftovers_report_nodes(left, dir, place->dir, entry->d_name);
end:
    if (lock >= 0)
        close(lock);
    closedir(dir);
}

/* The place of an agent of this user, if it may have that name. */
static bool leftovers_place_of(const struct place *like, const char *agent, struct place *ret_place)
{
    return places_make(ret_place, like->base, false, geteuid(), agent) == HF_OK;
}

static void leftovers_look_in_base(struct leftovers *left, const struct place *base)
{
    DIR *dir = opendir(base->base);
    struct dirent *entry;
    struct place place;

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (leftovers_place_of(base, entry->d_name, &place))
            leftovers_look_in_dir(left, &place);
    closedir(dir);
}

/* --- tables -------------------------------------------------------------------------------------- */

static void leftovers_count_one(const struct hf_slot_view *view, bool in_force, void *arg)
{
    uint32_t *count = arg;

    (void)view;
    (void)in_force;
    (*count)++;
}

/* The number of leases in force in a table without an agent; -1: its agent lives, or that is
 * unknown. */
static int64_t leftovers_abandoned_leases(const struct place *place)
{
    const struct reader_filter filter = {0};
    struct hf_table_living living;
    char why[READER_WHY_SIZE];
    struct reader reader;
    struct life life;
    uint32_t count = 0, unreadable = 0;

    /* (!) The kernel knows it: the number of its process may be of another PID namespace, and its directory out of sight. */
    if (hf_table_find_living(place->shm_name, geteuid(), &living))
        return -1;
    if (reader_open_at(place, &reader, why, sizeof(why)) < 0)
        return -1;
    life_judge(&reader.table, &life);
    /* An unreadable slot may be in force: then the table stays. */
    if (life.verdict == LIFE_DEAD || life.verdict == LIFE_ENDED)
        unreadable = reader_walk(&reader.table, &filter, leftovers_count_one, &count);
    reader_close(&reader);
    return life.verdict == LIFE_DEAD || life.verdict == LIFE_ENDED ? (int64_t)count + unreadable
                                                                   : -1;
}

static void leftovers_clean_table(struct leftovers *left, const struct place *place)
{
    int lock = leftovers_take_lock(place->dir);

    /* Checked again under the lock: an agent may have started and taken the table. */
    if (lock != -1 && leftovers_abandoned_leases(place) == 0 && shm_unlink(place->shm_name) == 0)
        doctor_report(left->doctor, FINDING_OK, "leftover.table", NULL,
                      "removed " SHM_DIR "%s of a dead agent", place->shm_name);
    else
        doctor_report(left->doctor, FINDING_WARN, "leftover.table",
                      "see whether an agent of that name has just started",
                      SHM_DIR "%s of a dead agent could not be removed", place->shm_name);
    if (lock >= 0)
        close(lock);
}

static void leftovers_look_at_table(struct leftovers *left, const struct place *place)
{
    int64_t leases = leftovers_abandoned_leases(place);

    if (leases < 0)
        return;
    left->found++;
    if (leases > 0)
        doctor_report(left->doctor, FINDING_WARN, "leftover.table",
                      "start that agent again now: it keeps the leases that are still valid",
                      "the agent of " SHM_DIR "%s is gone, and %" PRId64
                      " of its leases are still in force",
                      place->shm_name, leases);
    else if (left->doctor->clean)
        leftovers_clean_table(left, place);
    else
        doctor_report(left->doctor, FINDING_NOTE, "leftover.table", REMEDY " removes it",
                      SHM_DIR "%s keeps the history of an agent that does not run",
                      place->shm_name);
}

/* The agent's name in the object's, if that is the system's or the caller's; else NULL. */
static const char *leftovers_agent_of(const char *object)
{
    const char *agent;
    bool system;
    uid_t uid;

    return places_of_table(object, &system, &uid, &agent) && (system || uid == geteuid()) ? agent
                                                                                          : NULL;
}

/* The place of an agent: where its directory is, else the first. */
static bool leftovers_find_place(const struct leftovers *left, const char *agent,
                                 struct place *ret_place)
{
    bool only_known = secure_getenv("HOLDFAST_RUNTIME_DIR") != NULL;
    struct stat st;

    for (int i = 0; i < left->count; i++)
        if (leftovers_place_of(&left->places[i], agent, ret_place) &&
            stat(ret_place->dir, &st) == 0)
            return true;
    return leftovers_place_of(&left->places[0], agent, ret_place) &&
           (!only_known || !strcmp(agent, left->places[0].agent));
}

static void leftovers_look_at_tables(struct leftovers *left)
{
    DIR *dir = opendir(SHM_DIR);
    struct dirent *entry;
    struct place place;
    struct stat st;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        const char *agent = leftovers_agent_of(entry->d_name);

        if (!agent || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
            !leftovers_find_place(left, agent, &place))
            continue;
        /* A system agent's account has a table without a number in its name. */
        snprintf(place.shm_name, sizeof(place.shm_name), "/%.*s", HF_TABLE_NAME_MAX - 2,
                 entry->d_name);
        leftovers_look_at_table(left, &place);
    }
    closedir(dir);
}

void doctor_leftovers_look(struct doctor *doctor, const struct place places[], int count)
{
    struct leftovers left = {.doctor = doctor, .places = places, .count = count};

    for (int i = 0; i < count; i++)
        if (i == 0 || strcmp(places[i].base, places[0].base) != 0)
            leftovers_look_in_base(&left, &places[i]);
    leftovers_look_at_tables(&left);
    if (!left.found)
        doctor_report(doctor, FINDING_OK, "leftovers", NULL, "nothing is left of dead agents");
}

#include "tools/reader/agents.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/common/exit_code.h"

#define SHM_DIR   "/dev/shm"
#define USERS_DIR "/run/user"

/* --- one table ----------------------------------------------------------------------------------- */

/* (!) Its owner may cut the object while it is read, which is SIGBUS for whoever mapped it: no user takes the list of all
 * agents from another one, or from root. */
static sigjmp_buf gone;

static void agents_on_bus_error(int signal)
{
    (void)signal;
    siglongjmp(gone, 1);
}

static void agents_take_facts(const struct reader *reader, struct agents_one *agent)
{
    const struct hf_table *table = &reader->table;
    struct hf_node_row rows[HF_NODES_MAX];

    life_judge(table, &agent->life);
    agent->pid = agent->life.pid;
    agent->terms = hf_table_terms(table);
    agent->voting = reader_nodes_voting(rows, reader_nodes(reader, rows));
    agent->flags = table->header->flags;
    agent->waiters = hf_counter_read(table, HF_COUNTER_WAITERS);
    agent->clients = hf_counter_read(table, HF_COUNTER_CLIENTS);
    hf_drained_read(table, &agent->drained);
    (void)hf_last_words_read(table->header, &agent->words);
    reader_count(table, &agent->counts);
    memcpy(agent->version, reader->version, sizeof(agent->version));
    memcpy(agent->host, reader->host, sizeof(agent->host));
    if (reader->elsewhere) { /* what was found is a directory of that name without an agent */
        char *end = strrchr(reader->dir, '/');

        snprintf(agent->place.dir, sizeof(agent->place.dir), "%.*s",
                 (int)sizeof(agent->place.dir) - 1, reader->dir);
        snprintf(agent->place.base, sizeof(agent->place.base), "%.*s",
                 end && end - reader->dir < (int)sizeof(agent->place.base)
                     ? (int)(end - reader->dir)
                     : 0,
                 reader->dir);
    }
}

/* (!) Before the first byte of it is mapped. */
static void agents_read_table(struct agents_one *agent)
{
    const struct sigaction action = {.sa_handler = agents_on_bus_error};
    static struct reader reader; /* written between sigsetjmp() and its second return */
    struct sigaction before;
    volatile int status = HF_ESYS;

    sigaction(SIGBUS, &action, &before);
    if (sigsetjmp(gone, 1) == 0) {
        status = reader_look_at(&agent->place, &reader, agent->why, sizeof(agent->why));
        if (status == HF_OK) {
            agents_take_facts(&reader, agent);
            agent->state = AGENTS_READ;
        } else if (!*agent->why) {
            snprintf(agent->why, sizeof(agent->why), "%s", hf_status_text(status));
        }
    } else {
        agent->pid = 0;
        snprintf(agent->why, sizeof(agent->why), SHM_DIR "%s was cut while it was read",
                 agent->place.shm_name);
    }
    sigaction(SIGBUS, &before, NULL);
    if (status == HF_OK)
        reader_close(&reader);
}

/* --- the list ------------------------------------------------------------------------------------ */

static struct agents_one *agents_add(struct agents *agents, const struct place *place, bool system)
{
    if (agents->count == agents->room) {
        size_t room = agents->room ? 2 * agents->room : 16;
        struct agents_one *items = realloc(agents->items, room * sizeof(*items));

        if (!items) {
            fputs("holdfast: out of memory\n", stderr);
            exit(EXIT_FAILED);
        }
        agents->items = items;
        agents->room = room;
    }
    agents->items[agents->count] = (struct agents_one){.place = *place, .system = system};
    return &agents->items[agents->count++];
}

/* Whether BASE/NAME is the directory of the agent whose table belongs to that user. */
static bool agents_is_dir_of(const char *dir, uid_t owner)
{
    struct stat st;

    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == owner;
}

/* The first of the bases that has the agent's directory; those that the caller's commands try, then the owner's own. */
static bool agents_find_dir(const struct hf_base bases[], int count, bool only, struct place *place)
{
    char users[64];
    struct place found;

    for (int i = 0; i < count; i++)
        if (places_make(&found, bases[i].dir, bases[i].system, place->owner, place->agent) ==
                HF_OK &&
            (only || strcmp(found.shm_name, place->shm_name) == 0) &&
            agents_is_dir_of(found.dir, place->owner))
            goto known;
    snprintf(users, sizeof(users), USERS_DIR "/%u/holdfast", (unsigned)place->owner);
    if (only || places_make(&found, users, false, place->owner, place->agent) < 0 ||
        !agents_is_dir_of(found.dir, place->owner))
        return false;
known:
    memcpy(place->base, found.base, sizeof(place->base));
    memcpy(place->dir, found.dir, sizeof(place->dir));
    return true;
}

/* (!) By its owner: anybody may give a file the name. */
static bool agents_is_systems(uid_t owner)
{
    return owner == 0 || owner == hf_system_owner();
}

/* The tables. */
static void agents_look_in_shm(struct agents *agents, const struct hf_base bases[], int count,
                               bool only)
{
    DIR *dir = opendir(SHM_DIR);
    struct dirent *entry;
    struct stat st;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        struct place place = {.owner = 0};
        const char *agent;
        bool system;
        uid_t uid;

        if (!places_of_table(entry->d_name, &system, &uid, &agent) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        snprintf(place.shm_name, sizeof(place.shm_name), "/%.*s", HF_TABLE_NAME_MAX - 2,
                 entry->d_name);
        snprintf(place.agent, sizeof(place.agent), "%s", agent);
        place.owner = st.st_uid;
        if (!agents_find_dir(bases, count, only, &place) && only)
            continue;
        if (system || st.st_uid == uid)
            agents_read_table(agents_add(agents, &place, system && agents_is_systems(st.st_uid)));
        else
            snprintf(agents_add(agents, &place, system && agents_is_systems(st.st_uid))->why,
                     READER_WHY_SIZE,
                     "it has the name of another user's table: its owner squats that");
    }
    closedir(dir);
}

static bool agents_is_known(const struct agents *agents, const char *dir)
{
    for (size_t i = 0; i < agents->count; i++)
        if (strcmp(agents->items[i].place.dir, dir) == 0)
            return true;
    return false;
}

/* Agents of one base whose lock is held and whose table was not found. */
static void agents_look_in_base(struct agents *agents, const char *base, bool system)
{
    DIR *dir = opendir(base);
    struct dirent *entry;
    struct place place;
    struct stat st;
    pid_t pid;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(st.st_mode) ||
            places_make(&place, base, system, st.st_uid, entry->d_name) < 0 ||
            agents_is_known(agents, place.dir) || (pid = places_locked_by(&place)) == 0)
            continue;
        *agents_add(agents, &place, system) =
            (struct agents_one){.place = place,
                                .system = system,
                                .state = AGENTS_NO_TABLE,
                                .pid = pid,
                                .why = "it is starting, or has another " SHM_DIR};
    }
    closedir(dir);
}

/* Root can see into the directories of all users. */
static void agents_look_at_users(struct agents *agents)
{
    char base[HF_BASE_SIZE];
    struct dirent *entry;
    DIR *dir = opendir(USERS_DIR);

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            snprintf(base, sizeof(base), USERS_DIR "/%.64s/holdfast", entry->d_name);
            agents_look_in_base(agents, base, false);
        }
    closedir(dir);
}

static int agents_by_name(const void *a, const void *b)
{
    const struct agents_one *x = a, *y = b;
    int order = strcmp(x->place.agent, y->place.agent);

    if (order)
        return order;
    if (x->system != y->system)
        return x->system ? -1 : 1;
    if (x->place.owner != y->place.owner)
        return x->place.owner < y->place.owner ? -1 : 1;
    return strcmp(x->place.dir, y->place.dir);
}

int agents_find(struct agents *ret_agents)
{
    struct hf_base bases[HF_BASES_MAX];
    int count = hf_bases(bases);
    struct agents agents = {0};
    bool only = count == 1 && !bases[0].system; /* $HOLDFAST_RUNTIME_DIR */

    if (count < 0)
        return HF_EINVAL;
    agents_look_in_shm(&agents, bases, count, only);
    for (int i = 0; i < count; i++)
        agents_look_in_base(&agents, bases[i].dir, bases[i].system);
    if (!only)
        agents_look_at_users(&agents);
    if (agents.count)
        qsort(agents.items, agents.count, sizeof(*agents.items), agents_by_name);
    *ret_agents = agents;
    return HF_OK;
}

void agents_free(struct agents *agents)
{
    free(agents->items);
    *agents = (struct agents){0};
}

const char *agents_state_name(const struct agents_one *agent)
{
    switch (agent->state) {
    case AGENTS_READ:
        return life_verdict_name(agent->life.verdict);
    case AGENTS_NO_TABLE:
        return "no_table";
    default:
        return "unreadable";
    }
}

#include "tools/reader/agents.h"

#include <dirent.h>
#include <fcntl.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/bases.h"
#include "shm/status.h"
#include "tools/common/args.h"

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

/* A table that is read; its reader outlives a SIGBUS. */
struct look {
    struct agents_one *agent;
    struct reader *reader;
    bool is_open, doubt;
};

/* Rows whose life is in doubt: they wait together, once. */
struct doubt {
    size_t row;
    struct reader reader;
};

struct search {
    struct agents agents;
    const struct hf_base *bases;
    int count;
    bool only;
    size_t tables; /* rows of tables, sorted by their directories once all are there */
    struct doubt *doubts;
    size_t doubt_count, doubt_room;
};

/* An array with room for one more. */
static void *agents_grow(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? 2 * *room : 16;
    items = reallocarray(items, *room, size);
    if (!items) {
        fputs("holdfast: out of memory\n", stderr);
        exit(EXIT_FAILED);
    }
    return items;
}

static bool agents_take_facts(const struct reader *reader, struct agents_one *agent)
{
    const struct hf_table *table = &reader->table;
    struct hf_node_row rows[HF_NODES_MAX];
    bool doubt = life_look(table, agent->life.beat_ns, &agent->life);

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
    return doubt;
}

static void agents_read_open(struct look *look)
{
    struct agents_one *agent = look->agent;
    int status = HF_OK;

    if (!look->is_open)
        status = reader_look_at(&agent->place, look->reader, agent->why, sizeof(agent->why));
    look->is_open = status == HF_OK;
    if (look->is_open) {
        look->doubt = agents_take_facts(look->reader, agent);
        agent->state = AGENTS_READ;
    } else if (!*agent->why) {
        snprintf(agent->why, sizeof(agent->why), "%s", hf_status_text(status));
    }
}

/* (!) Before the first byte of it is mapped. */
static void agents_read(struct look *look)
{
    const struct sigaction action = {.sa_handler = agents_on_bus_error};
    struct agents_one *agent = look->agent;
    struct sigaction before;

    sigaction(SIGBUS, &action, &before);
    if (sigsetjmp(gone, 1) == 0) {
        agents_read_open(look);
    } else {
        look->doubt = false;
        agent->state = AGENTS_UNREADABLE;
        agent->pid = 0;
        snprintf(agent->why, sizeof(agent->why), SHM_DIR "%s was cut while it was read",
                 agent->place.shm_name);
    }
    sigaction(SIGBUS, &before, NULL);
}

static void agents_read_table(struct search *search, struct agents_one *agent)
{
    static struct reader reader;
    struct look look = {.agent = agent, .reader = &reader};

    agents_read(&look);
    /* (!) Not for what any user leaves there: without a lock no agent has it. */
    if (look.doubt && hf_table_may_live(agent->place.shm_name, agent->place.owner)) {
        search->doubts = agents_grow(search->doubts, search->doubt_count, &search->doubt_room,
                                     sizeof(*search->doubts));
        search->doubts[search->doubt_count++] =
            (struct doubt){.row = (size_t)(agent - search->agents.items), .reader = reader};
    } else if (look.is_open) {
        reader_close(&reader);
    }
}

static void agents_settle_doubts(struct search *search)
{
    if (search->doubt_count)
        life_wait();
    for (size_t i = 0; i < search->doubt_count; i++) {
        struct look look = {.agent = &search->agents.items[search->doubts[i].row],
                            .reader = &search->doubts[i].reader,
                            .is_open = true};

        agents_read(&look);
        reader_close(look.reader);
    }
    free(search->doubts);
}

/* --- the list ------------------------------------------------------------------------------------ */

static struct agents_one *agents_add(struct agents *agents, const struct place *place, bool system)
{
    agents->items =
        agents_grow(agents->items, agents->count, &agents->room, sizeof(*agents->items));
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
static bool agents_find_dir(const struct search *search, struct place *place)
{
    const struct hf_base *bases = search->bases;
    char users[64];
    struct place found;

    for (int i = 0; i < search->count; i++)
        if (places_make(&found, bases[i].dir, bases[i].system, place->owner, place->agent) ==
                HF_OK &&
            (search->only || strcmp(found.shm_name, place->shm_name) == 0) &&
            agents_is_dir_of(found.dir, place->owner))
            goto known;
    snprintf(users, sizeof(users), USERS_DIR "/%u/holdfast", (unsigned)place->owner);
    if (search->only || places_make(&found, users, false, place->owner, place->agent) < 0 ||
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

/* An object of that name; `owner` has it. */
static void agents_look_at_table(struct search *search, const char *object, uid_t owner)
{
    struct place place = {.owner = owner};
    struct agents_one *row;
    const char *agent;
    bool system;
    uid_t uid;

    if (!places_of_table(object, &system, &uid, &agent))
        return;
    snprintf(place.shm_name, sizeof(place.shm_name), "/%.*s", HF_TABLE_NAME_MAX - 2, object);
    snprintf(place.agent, sizeof(place.agent), "%s", agent);
    if (!agents_find_dir(search, &place) && search->only)
        return;
    if (!agents_share_row(&search->agents.share, owner)) {
        agents_share_leave(&search->agents.share, owner);
        return;
    }
    row = agents_add(&search->agents, &place, system && agents_is_systems(owner));
    if (system || owner == uid)
        agents_read_table(search, row);
    else
        snprintf(row->why, sizeof(row->why),
                 "it has the name of another user's table: its owner squats that");
}

static int agents_by_dir(const void *a, const void *b)
{
    const struct agents_one *x = a, *y = b;
    int order = strcmp(x->place.dir, y->place.dir);

    return order ? order : (x->place.owner > y->place.owner) - (x->place.owner < y->place.owner);
}

static void agents_look_in_shm(struct search *search)
{
    DIR *dir = opendir(SHM_DIR);
    struct dirent *entry;
    struct stat st;

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            agents_look_at_table(search, entry->d_name, st.st_uid);
    closedir(dir);
    agents_settle_doubts(search);
    search->tables = search->agents.count;
    if (search->tables)
        qsort(search->agents.items, search->tables, sizeof(*search->agents.items), agents_by_dir);
}

/* (!) By the owner, too: a table may tell of any directory. */
static bool agents_is_known(const struct search *search, const struct place *place)
{
    const struct agents_one key = {.place = *place};

    return search->tables &&
           bsearch(&key, search->agents.items, search->tables, sizeof(key), agents_by_dir);
}

/* That of a table is left out already. */
static void agents_leave_dir(struct search *search, const struct place *place)
{
    char path[sizeof(SHM_DIR) + HF_TABLE_NAME_MAX];
    struct stat st;

    snprintf(path, sizeof(path), SHM_DIR "%s", place->shm_name);
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != place->owner)
        agents_share_leave(&search->agents.share, place->owner);
}

static void agents_look_at_dir(struct search *search, const struct place *place, bool system)
{
    struct agents *agents = &search->agents;
    pid_t pid = 0;

    if (agents_is_known(search, place))
        return;
    if (agents_share_look(&agents->share, place->owner) && (pid = places_locked_by(place)) == 0)
        return;
    if (pid != 0 && agents_share_row(&agents->share, place->owner))
        *agents_add(agents, place, system) =
            (struct agents_one){.place = *place,
                                .system = system,
                                .state = AGENTS_NO_TABLE,
                                .pid = pid,
                                .why = "it is starting, or has another " SHM_DIR};
    else
        agents_leave_dir(search, place);
}

/* (!) A user's own base is no link, which could lead to another user's, and has the user's directories or root's. */
static DIR *agents_open_base(const char *base, bool users, uid_t *ret_owner)
{
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (users ? O_NOFOLLOW : 0));
    struct stat st;
    DIR *dir;

    if (fd < 0)
        return NULL;
    dir = fstat(fd, &st) == 0 ? fdopendir(fd) : NULL;
    *ret_owner = st.st_uid;
    if (!dir)
        close(fd);
    return dir;
}

/* Agents of one base whose lock is held and whose table was not found. `users`: another user has made it. */
static void agents_look_in_base(struct search *search, const char *base, bool system, bool users)
{
    struct dirent *entry;
    struct place place;
    struct stat st;
    uid_t owner;
    DIR *dir = agents_open_base(base, users, &owner);

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode) && (!users || st.st_uid == owner || st.st_uid == 0) &&
            places_make(&place, base, system, st.st_uid, entry->d_name) == HF_OK)
            agents_look_at_dir(search, &place, system);
    closedir(dir);
}

static bool agents_is_base(const struct search *search, const char *base)
{
    for (int i = 0; i < search->count; i++)
        if (strcmp(search->bases[i].dir, base) == 0)
            return true;
    return false;
}

/* Root can see into the directories of all users. */
static void agents_look_at_users(struct search *search)
{
    char base[HF_BASE_SIZE];
    struct dirent *entry;
    DIR *dir = opendir(USERS_DIR);

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        snprintf(base, sizeof(base), USERS_DIR "/%.64s/holdfast", entry->d_name);
        if (entry->d_name[0] != '.' && !agents_is_base(search, base))
            agents_look_in_base(search, base, false, true);
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
    struct search search = {.bases = bases, .count = hf_bases(bases)};
    struct agents *agents = &search.agents;

    if (search.count < 0)
        return HF_EINVAL;
    search.only = bases[0].alone;
    agents_share_begin(&agents->share);
    agents_look_in_shm(&search);
    for (int i = 0; i < search.count; i++)
        agents_look_in_base(&search, bases[i].dir, bases[i].system, false);
    if (!search.only)
        agents_look_at_users(&search);
    if (agents->count)
        qsort(agents->items, agents->count, sizeof(*agents->items), agents_by_name);
    *ret_agents = *agents;
    return HF_OK;
}

void agents_free(struct agents *agents)
{
    free(agents->items);
    agents_share_free(&agents->share);
    *agents = (struct agents){.items = NULL};
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

/* --- what other users may add ----------------------------------------------------------------- */

void agents_share_begin(struct agents_share *share)
{
    *share = (struct agents_share){.own = geteuid(), .systems = hf_system_owner()};
}

static int agents_share_compare(const void *a, const void *b)
{
    const struct agents_user *x = a, *y = b;

    return (x->uid > y->uid) - (x->uid < y->uid);
}

static struct agents_user *agents_share_find(const struct agents_share *share, uid_t uid)
{
    const struct agents_user key = {.uid = uid};
    void *node = tfind(&key, &share->by_uid, agents_share_compare);

    return node ? *(struct agents_user **)node : NULL;
}

static struct agents_user *agents_share_of(struct agents_share *share, uid_t uid)
{
    struct agents_user *user = agents_share_find(share, uid);

    if (user)
        return user;
    user = calloc(1, sizeof(*user));
    if (user) {
        user->uid = uid;
        if (tsearch(user, &share->by_uid, agents_share_compare)) {
            user->next = share->first;
            share->first = user;
            return user;
        }
    }
    fputs("holdfast: out of memory\n", stderr);
    exit(EXIT_FAILED);
}

static bool agents_share_is_free(const struct agents_share *share, uid_t uid)
{
    return uid == share->own || uid == 0 || uid == share->systems;
}

static bool agents_share_take(unsigned *its, unsigned its_most, unsigned *all)
{
    if (*its >= its_most)
        return false;
    (*its)++;
    (*all)++;
    return true;
}

bool agents_share_look(struct agents_share *share, uid_t uid)
{
    if (agents_share_is_free(share, uid))
        return true;
    return share->looks < AGENTS_LOOKS_OF_ALL &&
           agents_share_take(&agents_share_of(share, uid)->looks, AGENTS_LOOKS_MOST, &share->looks);
}

bool agents_share_row(struct agents_share *share, uid_t uid)
{
    if (agents_share_is_free(share, uid))
        return true;
    return share->rows < AGENTS_ROWS_OF_ALL &&
           agents_share_take(&agents_share_of(share, uid)->rows, AGENTS_ROWS_MOST, &share->rows);
}

void agents_share_leave(struct agents_share *share, uid_t uid)
{
    struct agents_user *user = agents_share_find(share, uid);

    *(user ? &user->left : &share->left) += 1;
}

void agents_share_free(struct agents_share *share)
{
    tdestroy(share->by_uid, free);
    *share = (struct agents_share){.first = NULL};
}

#include "tools/reader/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "libclient/table_descriptor.h"
#include "shm/index.h"
#include "shm/process.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/common/since.h"

#define SLOTS_MOST    64 /* of a counted or shared lock; libclient/holdfast_sets.h */
#define SHUT_AFTER_NS HF_NS_PER_SEC

/* --- opening ------------------------------------------------------------------------------------- */

/* A kernel without time namespaces has one time, inode 0 in the table. */
static bool reader_same_time_namespace(const struct hf_table *table)
{
    uint64_t agents = table->header->timens_inode;
    struct stat st;

    return agents == 0 || stat("/proc/self/ns/time", &st) < 0 || st.st_ino == agents;
}

typedef int open_fn(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                    size_t why_size);

#define SOCKET_SIZE (sizeof(((struct place *)NULL)->dir) + 8)

static const char *reader_socket_of(const struct place *place, char out[SOCKET_SIZE])
{
    snprintf(out, SOCKET_SIZE, "%s/sock", place->dir);
    return out;
}

static bool reader_has_socket(const struct place *place)
{
    char socket[SOCKET_SIZE];

    return access(reader_socket_of(place, socket), F_OK) == 0;
}

/* Whether the agent of the table has the directory that commands look in. (!) Paths do not tell: in two mount namespaces different ones
 * may lead to one directory, and the same to two. */
static bool reader_has_dir(const struct reader *reader)
{
    struct hf_file_id its = reader->table.header->dir_file, ours = {0};
    int fd = open(reader->place.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool same;

    same = fd >= 0 && hf_file_id(fd, &ours) == 0 && memcmp(&its, &ours, sizeof(its)) == 0;
    if (fd >= 0)
        close(fd);
    return same && its.inode;
}

/* A directory that was removed and made again has no socket of the agent. */
static bool reader_is_in_place(const struct reader *reader)
{
    return reader_has_dir(reader) || !reader->table.header->dir_file.inode ||
           (strcmp(reader->dir, reader->place.dir) == 0 && !reader_has_socket(&reader->place));
}

static bool reader_has_living(const struct reader *reader)
{
    struct hf_table_living living;

    return hf_table_find_living(reader->place.shm_name, reader->place.owner, &living);
}

/* Where there is a socket, reader_ask_place() asks who listens. */
static bool reader_is_elsewhere(const struct reader *reader)
{
    return !reader_is_in_place(reader) && !reader_has_socket(&reader->place) &&
           reader_has_living(reader);
}

/* A mapped table, which is this reader's from now on. */
static int reader_begin_with(struct hf_table *table, const struct place *place,
                             struct reader *ret_reader, char *why, size_t why_size)
{
    struct reader reader = {.place = *place, .table = *table};

    if (!reader_same_time_namespace(&reader.table)) {
        hf_table_close(&reader.table);
        snprintf(why, why_size,
                 "the agent %s counts its time in another time namespace: look from there",
                 place->agent);
        return HF_ETIMENS;
    }
    memcpy(reader.version, reader.table.header->version, sizeof(reader.version) - 1);
    memcpy(reader.host, reader.table.header->host, sizeof(reader.host) - 1);
    memcpy(reader.dir, reader.table.header->dir, sizeof(reader.dir) - 1);
    reader.elsewhere = reader_is_elsewhere(&reader);
    *ret_reader = reader;
    return HF_OK;
}

const char *reader_elsewhere(char *out, size_t size, const struct reader *reader)
{
    char dir[TEXT_NAME_SIZE], place[TEXT_NAME_SIZE];

    text_escape_str(dir, sizeof(dir), reader->dir);
    if (!reader_has_living(reader)) {
        snprintf(out, size, "the agent at %s/sock does not answer, and /dev/shm%s is another one's",
                 text_escape_str(place, sizeof(place), reader->place.dir), reader->place.shm_name);
        return out;
    }
    snprintf(out, size,
             "agent %s runs in %s (pid %u), and commands of this environment look in %s; use "
             "--agent %s/sock",
             reader->place.agent, dir,
             (unsigned)atomic_load_explicit(&reader->table.header->pid, memory_order_relaxed),
             text_escape_str(place, sizeof(place), reader->place.dir), dir);
    return out;
}

/* (!) What a caller may not reach, or what has no place in its queue, is there. */
static bool reader_is_absent(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", dir), fd;
    bool absent;

    if (length < 0 || (size_t)length >= sizeof(address.sun_path))
        return false;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    absent = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
             (errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED || errno == EPROTOTYPE ||
              errno == ENOTSOCK);
    close(fd);
    return absent;
}

/* An agent is seen to live shortly before it listens. */
static bool reader_is_young(const struct hf_table *table)
{
    int64_t started = atomic_load_explicit(&table->header->started_ns, memory_order_acquire);

    return reader_now().ns - started < SHUT_AFTER_NS;
}

bool reader_is_shut(const struct reader *reader, char *out, size_t size)
{
    struct hf_table_living living;
    char dir[TEXT_NAME_SIZE];

    out[0] = '\0';
    if (reader->elsewhere || reader_is_young(&reader->table) ||
        !reader_is_absent(reader->place.dir) ||
        !hf_table_find_living(reader->place.shm_name, reader->place.owner, &living))
        return false;
    snprintf(out, size,
             "agent %s runs (pid %u), but no program can attach to it: nothing listens at %s/sock",
             reader->place.agent, (unsigned)living.pid,
             text_escape_str(dir, sizeof(dir), reader->place.dir));
    return true;
}

static int reader_open_path(open_fn *open, const struct place *place, struct reader *ret_reader,
                            char *why, size_t why_size)
{
    struct hf_table table;
    int status = open(place->shm_name, place->owner, &table, why, why_size);

    return status < 0 ? status : reader_begin_with(&table, place, ret_reader, why, why_size);
}

/* In a container /dev/shm is another one, and the socket is there. */
static int reader_open_by_socket(const char *agent, const struct place *place,
                                 struct reader *ret_reader, char *why, size_t why_size)
{
    struct hf_table table;
    int fd, status = hfc_table_descriptor(agent, &fd, why, why_size);

    if (status == HF_OK)
        status = hf_table_open_fd(fd, &table, why, why_size);
    return status < 0 ? status : reader_begin_with(&table, place, ret_reader, why, why_size);
}

/* (!) This /dev/shm may be a container's, and have the table of another agent of that name: who listens in the directory decides. */
static void reader_ask_place(struct reader *reader)
{
    char socket[SOCKET_SIZE], why[READER_WHY_SIZE];
    struct reader asked;

    if (reader_is_in_place(reader) || !reader_has_socket(&reader->place))
        return;
    if (reader_open_by_socket(reader_socket_of(&reader->place, socket), &reader->place, &asked, why,
                              sizeof(why)) == HF_OK) {
        hf_table_close(&reader->table);
        *reader = asked;
    } else {
        reader->elsewhere = true;
    }
}

int reader_open_at(const struct place *place, struct reader *ret_reader, char *why, size_t why_size)
{
    return reader_open_path(hf_table_open_waiting, place, ret_reader, why, why_size);
}

/* The system's agent in a directory of its own, of which the caller cannot know that it is the system's: the socket's owner tells. (!) Its
 * table has the same name wherever it is, so the directory must be the one in the table. Without the agent, which may hang. */
static int reader_open_systems(const struct place *place, struct reader *ret_reader, char *why,
                               size_t why_size)
{
    char socket[SOCKET_SIZE];
    struct place systems;
    struct stat st;
    int status;

    if (lstat(reader_socket_of(place, socket), &st) < 0 ||
        (st.st_uid != 0 && st.st_uid != hf_system_owner()) ||
        places_make(&systems, place->base, true, st.st_uid, place->agent) < 0)
        return HF_ENOAGENT;
    status = reader_open_at(&systems, ret_reader, why, why_size);
    if (status == HF_OK && !reader_has_dir(ret_reader)) {
        reader_close(ret_reader);
        status = HF_ENOAGENT;
    }
    return status;
}

int reader_look_at(const struct place *place, struct reader *ret_reader, char *why, size_t why_size)
{
    return reader_open_path(hf_table_open, place, ret_reader, why, why_size);
}

/* Each place has its own reason, and all are the same. */
static void reader_say_none(const struct place places[], int count, char *why, size_t why_size)
{
    bool two = count > 1 && strcmp(places[0].shm_name, places[1].shm_name) != 0;

    snprintf(
        why, why_size,
        "start holdfastd, or name another agent with --agent: no agent %s is here, there is no "
        "/dev/shm%s%s%s",
        places[0].agent, places[0].shm_name, two ? " and no /dev/shm" : "",
        two ? places[1].shm_name : "");
}

int reader_open(const char *agent, struct reader *ret_reader, char *why, size_t why_size)
{
    struct place places[PLACES_MAX];
    int count = places_find(agent, places, why, why_size), status = HF_ENOAGENT;

    if (count < 0)
        return count;
    for (int i = 0; i < count && status == HF_ENOAGENT; i++)
        status = reader_open_at(&places[i], ret_reader, why, why_size);
    if (status == HF_OK)
        reader_ask_place(ret_reader);
    for (int i = 0; i < count && status == HF_ENOAGENT; i++)
        status = reader_open_systems(&places[i], ret_reader, why, why_size);
    if (status == HF_ENOAGENT)
        status = reader_open_by_socket(agent, &places[0], ret_reader, why, why_size);
    if (status == HF_ENOAGENT)
        reader_say_none(places, count, why, why_size);
    return status;
}

void reader_close(struct reader *reader)
{
    hf_table_close(&reader->table);
}

int reader_open_or_say(const char *subcommand, const char *agent, struct reader *ret_reader)
{
    char why[READER_WHY_SIZE] = "";
    int status = reader_open(agent, ret_reader, why, sizeof(why));

    if (status < 0)
        fprintf(stderr, "holdfast %s: %s\n", subcommand, *why ? why : hf_status_text(status));
    return exit_code_of(status);
}

/* --- time ---------------------------------------------------------------------------------------- */

hf_time reader_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (hf_time){now.tv_sec * HF_NS_PER_SEC + now.tv_nsec};
}

int64_t reader_wall_of(hf_time instant)
{
    return wall_now_ms() + hf_dur_ms(hf_time_since(instant, reader_now()));
}

/* --- leases -------------------------------------------------------------------------------------- */

bool reader_in_force(const struct hf_table *table, const struct hf_slot_view *view)
{
    uint64_t word = atomic_load_explicit(&table->slots[view->slot].check, memory_order_acquire);

    /* Like the holder: the clock is read after the word. */
    return hf_check_holds(word, view->generation, reader_now());
}

int reader_find(const struct hf_table *table, const void *name, size_t name_len,
                struct hf_slot_view *ret_view)
{
    struct hf_slot_view view;
    int status = hf_index_find(table, name, name_len, &view);

    if (status < 0)
        return status;
    if (view.state == HF_SLOT_ENDED)
        return HF_ENOTHELD;
    *ret_view = view;
    return HF_OK;
}

unsigned reader_slots_held(const struct hf_table *table, const void *name, size_t name_len,
                           unsigned *ret_first)
{
    char slot[HF_NAME_MAX + 8];
    struct hf_slot_view view;
    unsigned count = 0;

    memcpy(slot, name, name_len);
    for (unsigned i = 0; i < SLOTS_MOST; i++) {
        int digits = snprintf(slot + name_len, sizeof(slot) - name_len, "#%u", i);
        size_t len = name_len + (size_t)digits;

        if (len > HF_NAME_MAX || reader_find(table, slot, len, &view) < 0 ||
            !reader_in_force(table, &view))
            continue;
        if (!count++)
            *ret_first = i;
    }
    return count;
}

static bool reader_passes(const struct reader_filter *filter, const struct hf_slot_view *view)
{
    return view->name_len >= filter->prefix_len &&
           memcmp(view->name, filter->prefix_len ? filter->prefix : "", filter->prefix_len) == 0;
}

/* Slots from here on were never used. */
static uint32_t reader_slots_end(const struct hf_table *table)
{
    uint32_t used = atomic_load_explicit(&table->header->slots_used, memory_order_acquire);
    uint32_t slots = hf_table_slots(table);

    return used < slots ? used : slots;
}

static uint32_t reader_state_of(const struct hf_slot *slot)
{
    return atomic_load_explicit(&slot->lengths, memory_order_acquire) >> HF_SLOT_STATE_SHIFT & 31;
}

void reader_count(const struct hf_table *table, struct reader_counts *ret)
{
    struct reader_counts counts = {0};
    uint32_t end = reader_slots_end(table);

    for (uint32_t i = 0; i < end; i++) {
        const struct hf_slot *slot = &table->slots[i];
        uint64_t word = atomic_load_explicit(&slot->check, memory_order_acquire);
        uint32_t state;

        if (!hf_check_holds(word, (uint32_t)(word >> HF_CHECK_GEN_SHIFT), reader_now()))
            continue;
        state = reader_state_of(slot);
        counts.leases++;
        counts.late += state == HF_SLOT_LATE;
        counts.losing += state == HF_SLOT_LOSING;
    }
    *ret = counts;
}

uint32_t reader_walk(const struct hf_table *table, const struct reader_filter *filter,
                     reader_fn *fn, void *arg)
{
    uint32_t end = reader_slots_end(table), unreadable = 0, found = 0;

    for (uint32_t slot = 0; slot < end && (!filter->most || found < filter->most); slot++) {
        struct hf_slot_view view;
        bool in_force;

        if (filter->states && !(filter->states & 1u << reader_state_of(&table->slots[slot])))
            continue;
        switch (hf_slot_read(table, slot, &view)) {
        case HF_OK:
            in_force = reader_in_force(table, &view);
            if ((in_force || filter->all) && reader_passes(filter, &view) &&
                (!filter->states || filter->states & 1u << view.state)) {
                fn(&view, in_force, arg);
                found++;
            }
            break;
        case HF_ETABLE: /* its writer was killed inside, or it is damaged; the others stay readable */
            unreadable++;
            break;
        default:
            break;
        }
    }
    return unreadable;
}

/* --- nodes --------------------------------------------------------------------------------------- */

uint32_t reader_nodes(const struct reader *reader, struct hf_node_row ret_rows[HF_NODES_MAX])
{
    uint32_t count = hf_table_nodes(&reader->table);

    for (uint32_t i = 0; i < count; i++)
        if (hf_node_read(&reader->table, i, &ret_rows[i]) < 0)
            memset(&ret_rows[i], 0, sizeof(ret_rows[i]));
    return count;
}

bool reader_node_votes(const struct hf_node_row *row)
{
    return row->state == HF_NODE_UP && !(row->flags & HF_NODE_F_MUTE);
}

/* A node before it votes for the same server. */
static bool reader_is_told_already(const struct hf_node_row rows[], uint32_t node)
{
    for (uint32_t i = 0; i < node; i++)
        if (reader_node_votes(&rows[i]) && *rows[i].run_id &&
            strcmp(rows[i].run_id, rows[node].run_id) == 0)
            return true;
    return false;
}

uint32_t reader_nodes_voting(const struct hf_node_row rows[], uint32_t count)
{
    uint32_t voting = 0;

    for (uint32_t i = 0; i < count; i++)
        voting += reader_node_votes(&rows[i]) && !reader_is_told_already(rows, i);
    return voting;
}

/* --- a table that its owner cuts -------------------------------------------------------------- */

static void cut_on_bus_error(int signal)
{
    static const char text[] = "holdfast: the agent's table was cut while it was read; ask its "
                               "owner to restart the agent\n";

    (void)signal;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(EXIT_FAILED);
    _exit(EXIT_FAILED);
}

void cut_guard(void)
{
    const struct sigaction action = {.sa_handler = cut_on_bus_error};

    (void)sigaction(SIGBUS, &action, NULL);
}

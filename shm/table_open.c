/* Opens and maps a table: the reader's side, and code that the agent shares. */
#include "shm/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shm/index.h"
#include "shm/status.h"
#include "shm/table_map.h"

/* A user cannot make another one's reader take more. A table for a million leases is half as large. */
#define COPY_MOST     (INT64_C(1) << 30)
#define WAIT_MOST_MS  2000
#define WAIT_EVERY_MS 2

static bool table_open_is_agent_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);

    return len >= 1 && len <= HF_AGENT_NAME_MAX && name[0] != '.' && strspn(name, allowed) == len;
}

int hf_table_name(const char *agent_name, bool system, uid_t uid, char *ret_name)
{
    if (!table_open_is_agent_name(agent_name))
        return HF_EINVAL;
    if (system || uid == 0)
        snprintf(ret_name, HF_TABLE_NAME_MAX, "/holdfast.%s", agent_name);
    else
        snprintf(ret_name, HF_TABLE_NAME_MAX, "/holdfast-%u.%s", (unsigned)uid, agent_name);
    return 0;
}

int hf_table_map(int fd, const char *shm_name, const struct stat *st, bool writable,
                 const struct hf_table_places *places, struct hf_table *ret_table, char *why,
                 size_t why_size)
{
    struct hf_table table = {
        .size = (size_t)st->st_size,
        .slot_room = places->slot_room,
        .index_room = places->index_room,
        .text_room = places->text_room,
        .node_count = places->node_rows,
        .counter_count = places->counter_count,
        .writable = writable,
        .fd = -1,
        .dev = st->st_dev,
        .inode = st->st_ino,
    };
    char *base = fd < 0 ? mmap(NULL, table.size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                        : mmap(NULL, table.size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                               MAP_SHARED, fd, 0);

    if (base == MAP_FAILED) {
        hf_table_say(why, why_size, "cannot map /dev/shm%s (%zu bytes): %s", shm_name, table.size,
                     strerror(errno));
        return HF_ESYS;
    }
    table.header = (struct hf_table_header *)base;
    table.slots = (struct hf_slot *)(base + places->slots);
    table.text = (uint8_t *)base + places->text;
    table.index = (hf_index_entry *)(base + places->index);
    table.nodes = (struct hf_node_row *)(base + places->nodes);
    table.counters = (_Atomic uint64_t *)(base + places->counters);
    for (int ring = 0; ring < HF_EVENT_RINGS; ring++) {
        table.events[ring] = (struct hf_event *)(base + places->events[ring]);
        table.event_count[ring] = places->event_count[ring];
    }
    table.renewals = (struct hf_renewal *)(base + places->renewals);
    table.renewals_kept = places->renewals_kept;
    table.measures = (struct hf_measures *)(base + places->measures);
    table.waiters = (struct hf_waiter_row *)(base + places->waiters);
    table.waiter_rows = places->waiter_rows;
    if (writable) {
        table.slots_there = places->slots_there;
        table.index_there = places->index_there;
        table.index_size =
            hf_index_size_in(atomic_load_explicit(&table.header->index_area, memory_order_relaxed));
        table.text_there = places->text_there;
    }
    *ret_table = table;
    return 0;
}

/* The first access to a hole allocates memory, or raises SIGBUS if there is none. Slots, text and index entries
 * without memory are never touched. `st` was read after `header`. */
static int table_open_refuse_holes(const char *shm_name, const struct stat *st,
                                   const struct hf_table_header *header,
                                   const struct hf_table_places *places, char *why, size_t why_size)
{
    if ((uint64_t)st->st_blocks * 512 >= hf_table_room(header, places))
        return 0;
    hf_table_say(why, why_size,
                 "/dev/shm%s has holes: it was truncated and grown again; restart the agent",
                 shm_name);
    return HF_ETABLE;
}

static int table_open_refuse_state(const char *shm_name, const struct hf_table_header *header,
                                   bool *ret_soon, char *why, size_t why_size)
{
    uint32_t state = atomic_load_explicit(&header->state, memory_order_relaxed);
    uint32_t pid = atomic_load_explicit(&header->pid, memory_order_relaxed);

    if (state == HF_TABLE_ALIVE || state == HF_TABLE_STOPPED)
        return 0;
    *ret_soon = state == HF_TABLE_INIT || state == HF_TABLE_RETIRED;
    if (state == HF_TABLE_INIT)
        hf_table_say(
            why, why_size,
            "/dev/shm%s is not ready: the agent (pid %u) is starting, or ended before it was "
            "up",
            shm_name, (unsigned)pid);
    else
        hf_table_say(why, why_size, "/dev/shm%s was just replaced by another agent: open it again",
                     shm_name);
    return HF_ETABLE;
}

static int table_open_fill_copy(int fd, const char *shm_name, struct hf_table *table, char *why,
                                size_t why_size)
{
    int status = HF_ESYS;

    table->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (table->fd >= 0)
        status = hf_table_refresh(table);
    if (status == HF_ESYS)
        hf_table_say(why, why_size, "cannot read /dev/shm%s: %s", shm_name, strerror(errno));
    else if (status < 0)
        hf_table_say(why, why_size, "/dev/shm%s changes while it is read", shm_name);
    return status;
}

/* All steps once the descriptor is open. */
static int open_checked(int fd, const char *shm_name, const struct stat *st, bool copy,
                        struct hf_table *ret_table, bool *ret_soon, char *why, size_t why_size)
{
    struct hf_table_header header;
    struct hf_table_places places;
    struct hf_table table;
    struct stat again;
    int status;

    *ret_soon = false;
    if ((status = hf_table_read_header(fd, shm_name, &header, why, why_size)) != 0 ||
        (status = hf_table_judge_header(shm_name, &header, (uint64_t)st->st_size, &places, why,
                                        why_size)) != 0 ||
        (status = table_open_refuse_state(shm_name, &header, ret_soon, why, why_size)) != 0)
        return status;
    if (copy && st->st_size > COPY_MOST) {
        hf_table_say(why, why_size, "/dev/shm%s is too large for a reader of another user",
                     shm_name);
        return HF_ETABLE;
    }
    status = hf_table_map(copy ? -1 : fd, shm_name, st, false, &places, &table, why, why_size);
    if (status != 0)
        return status;
    if (copy && (status = table_open_fill_copy(fd, shm_name, &table, why, why_size)) != 0) {
        hf_table_close(&table);
        return status;
    }
    if (fstat(fd, &again) != 0 || again.st_size != st->st_size) {
        hf_table_close(&table);
        hf_table_say(why, why_size, "/dev/shm%s changed its size while it was opened", shm_name);
        return HF_ETABLE;
    }
    status = table_open_refuse_holes(shm_name, &again, &header, &places, why, why_size);
    if (status != 0) {
        hf_table_close(&table);
        return status;
    }
    *ret_table = table;
    return 0;
}

static int open_failed(const char *shm_name, int error, char *why, size_t why_size)
{
    switch (error) {
    case ENOENT:
        hf_table_say(why, why_size, "there is no /dev/shm%s: no agent of this name has run",
                     shm_name);
        return HF_ENOAGENT;
    case EACCES:
        hf_table_say(why, why_size,
                     "not allowed to read /dev/shm%s: its mode is for its owner and group only",
                     shm_name);
        return HF_EPERM;
    case ELOOP:
    case ENXIO:
    case EISDIR:
    case EINVAL: /* what shm_open() gives for a directory */
        hf_table_say(
            why, why_size,
            "/dev/shm%s is not a regular file: somebody squats the name; have it removed or "
            "use another agent name",
            shm_name);
        return HF_ETABLE;
    default:
        hf_table_say(why, why_size, "cannot open /dev/shm%s: %s", shm_name, strerror(error));
        errno = error;
        return HF_ESYS;
    }
}

/* `ret_soon`: its agent is starting, or makes another one. */
static int open_now(const char *shm_name, uid_t owner, bool copy, struct hf_table *ret_table,
                    bool *ret_soon, char *why, size_t why_size)
{
    struct stat st;
    int status, error;
    /* O_NONBLOCK: a named pipe of that name must not hold us up. */
    int fd = shm_open(shm_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);

    *ret_soon = false;
    if (fd < 0)
        return open_failed(shm_name, errno, why, why_size);
    if (fstat(fd, &st) != 0)
        status = open_failed(shm_name, errno, why, why_size);
    else if ((status = hf_table_judge_file(shm_name, &st, owner, why, why_size)) == 0)
        status = open_checked(fd, shm_name, &st, copy, ret_table, ret_soon, why, why_size);
    error = errno;
    close(fd);
    errno = error;
    return status;
}

int hf_table_open(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                  size_t why_size)
{
    bool soon;

    return open_now(shm_name, owner, false, ret_table, &soon, why, why_size);
}

static int open_waiting(const char *shm_name, uid_t owner, bool copy, struct hf_table *ret_table,
                        char *why, size_t why_size)
{
    const struct timespec pause = {.tv_nsec = WAIT_EVERY_MS * 1000000L};
    bool soon;
    int status;

    for (int waited = 0;; waited += WAIT_EVERY_MS) {
        status = open_now(shm_name, owner, copy, ret_table, &soon, why, why_size);
        if (status == 0 || !soon || waited >= WAIT_MOST_MS)
            return status;
        (void)nanosleep(&pause, NULL);
    }
}

int hf_table_open_waiting(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                          size_t why_size)
{
    return open_waiting(shm_name, owner, false, ret_table, why, why_size);
}

int hf_table_open_copy(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                       size_t why_size)
{
    return open_waiting(shm_name, owner, true, ret_table, why, why_size);
}

int hf_table_peek(const char *shm_name, uid_t owner, struct hf_table_header *ret_header)
{
    int fd = shm_open(shm_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0), status;
    struct hf_table_places places;
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? HF_ENOAGENT : HF_ESYS;
    status = fstat(fd, &st) == 0 ? HF_OK : HF_ESYS;
    if (status == HF_OK)
        status = hf_table_judge_file(shm_name, &st, owner, NULL, 0);
    if (status == HF_OK)
        status = hf_table_read_header(fd, shm_name, ret_header, NULL, 0);
    if (status == HF_OK)
        status =
            hf_table_judge_header(shm_name, ret_header, (uint64_t)st.st_size, &places, NULL, 0);
    close(fd);
    return status;
}

int hf_table_open_fd(int fd, struct hf_table *ret_table, char *why, size_t why_size)
{
    static const char name[] = " (the agent's table)";
    bool soon;
    struct stat st;
    int status, error;

    if (fstat(fd, &st) != 0) {
        status = open_failed(name, errno, why, why_size);
    } else if (!S_ISREG(st.st_mode)) {
        hf_table_say(why, why_size, "what the agent sent as its table is not a regular file");
        status = HF_ETABLE;
    } else {
        status = open_checked(fd, name, &st, false, ret_table, &soon, why, why_size);
    }
    error = errno;
    close(fd);
    errno = error;
    return status;
}

#define TERMS_TRIES 64

/* (!) The writer stores INIT first, then these, then the incarnation, then another state. */
struct hf_table_terms hf_table_terms(const struct hf_table *table)
{
    const struct hf_table_header *h = table->header;
    struct hf_table_terms terms;

    for (unsigned try = 0;; try++) {
        uint32_t incarnation = atomic_load_explicit(&h->incarnation, memory_order_acquire);

        terms.nodes = atomic_load_explicit(&h->nodes, memory_order_acquire);
        terms.quorum = atomic_load_explicit(&h->quorum, memory_order_acquire);
        terms.ttl_ms = atomic_load_explicit(&h->ttl_ms, memory_order_acquire);
        terms.ttl_max_ms = atomic_load_explicit(&h->ttl_max_ms, memory_order_acquire);
        terms.mixed = atomic_load_explicit(&h->state, memory_order_acquire) == HF_TABLE_INIT ||
                      atomic_load_explicit(&h->incarnation, memory_order_relaxed) != incarnation;
        if (!terms.mixed || try == TERMS_TRIES)
            return terms;
        if (try >= TERMS_TRIES / 2)
            sched_yield();
    }
}

/* By its path: a shortage of descriptors must not look like a removal. */
bool hf_table_is_linked(const struct hf_table *table, const char *shm_name)
{
    char path[sizeof("/dev/shm") + HF_TABLE_NAME_MAX];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/dev/shm%s", shm_name);
    return lstat(path, &st) == 0 && st.st_dev == table->dev && st.st_ino == table->inode;
}

void hf_table_close(struct hf_table *table)
{
    if (table->header) {
        munmap(table->header, table->size);
        if (table->fd >= 0)
            close(table->fd);
    }
    memset(table, 0, sizeof(*table));
}

/* --- a table that is copied ------------------------------------------------------------------- */

/* A reader's private copy of a table whose owner it does not trust: a mapping would raise SIGBUS when the owner truncates the object. */

#define TRIES 16
#define CHUNK 1024 /* slots */

/* What has memory. Holes stay as they are in the copy: zero. */
static int table_copy_bytes(int fd, char *base, off_t size)
{
    off_t at = 0, end;

    while (at < size) {
        off_t from = lseek(fd, at, SEEK_DATA);

        /* Nothing but a hole is left; or it was truncated, which shows at the end. */
        if (from < 0 && errno == ENXIO)
            break;
        end = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
        if (end < 0)
            return HF_ESYS;
        if (end > size)
            end = size;
        for (at = from; at < end;) {
            ssize_t got = pread(fd, base + at, (size_t)(end - at), at);

            if (got <= 0)
                return HF_ETABLE;
            at += got;
        }
    }
    return HF_OK;
}

/* Whether the header's slot count and index are as they were when the copy began. */
static bool table_copy_index_stands(const struct hf_table *table, const struct hf_table_header *now)
{
    uint32_t seq = atomic_load_explicit(&now->index_seq, memory_order_relaxed);

    return !(seq & 1) &&
           seq == atomic_load_explicit(&table->header->index_seq, memory_order_relaxed);
}

/* (!) A slot was copied byte by byte, and its text after it: the copy is of one moment only if its count is the same now. What is not
 * gets an odd count, as of a writer that was killed inside. Returns how many; negative: the object is shorter. */
static int table_copy_judge_slots(struct hf_table *table)
{
    uint32_t used = atomic_load_explicit(&table->header->slots_used, memory_order_relaxed);
    off_t base = (char *)table->slots - (char *)table->header;
    struct hf_slot now[CHUNK];
    int changed = 0;

    if (used > table->slot_room)
        used = table->slot_room;
    for (uint32_t i = 0; i < used; i += CHUNK) {
        uint32_t count = used - i < CHUNK ? used - i : CHUNK;

        if (pread(table->fd, now, count * sizeof(*now), base + (off_t)i * (off_t)sizeof(*now)) !=
            (ssize_t)(count * sizeof(*now)))
            return HF_ETABLE;
        for (uint32_t j = 0; j < count; j++) {
            struct hf_slot *slot = &table->slots[i + j];
            uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);

            if (seq == atomic_load_explicit(&now[j].seq, memory_order_relaxed))
                continue;
            atomic_store_explicit(&slot->seq, seq | 1, memory_order_relaxed);
            changed++;
        }
    }
    return changed;
}

int hf_table_refresh(struct hf_table *table)
{
    int rc = HF_OK;

    if (table->fd < 0 || table->writable)
        return HF_OK;
    for (int i = 0; i < TRIES; i++) {
        struct hf_table_header now;
        bool stands;

        rc = table_copy_bytes(table->fd, (char *)table->header, (off_t)table->size);
        if (rc < 0)
            return rc;
        if (hf_table_read_header(table->fd, "", &now, NULL, 0) != 0)
            return HF_ETABLE;
        stands = table_copy_index_stands(table, &now);
        rc = table_copy_judge_slots(table);
        if (rc < 0)
            return rc;
        if (stands && rc == 0)
            return HF_OK;
        if (i == TRIES - 1)
            return stands ? HF_OK : HF_ETABLE; /* some slots cannot be read */
    }
    return HF_OK;
}

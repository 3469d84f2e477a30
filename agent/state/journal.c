/* The journal's file: finding it, judging it, making it and taking room for it. What stands in it of each lease is
 * written and read by journal_leases.c. */
#include "agent/state/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/state/state_file.h"
#include "agent/state/journal_layout.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define JOURNAL_MAGIC UINT64_C(0x314c4e524a4648) /* "HFJRNL1" */

/* --- layout ----------------------------------------------------------------------------------- */

/* Two builds whose records differ refuse each other, so a change costs an upgrade its leases. */
static uint64_t journal_fingerprint(void)
{
    static const uint32_t facts[] = {
        HF_NODES_MAX,
        TOKEN_LEN,
        sizeof(struct lease_record),
        sizeof(struct lease_half),
        offsetof(struct lease_half, d_ns),
        HALF_LINE,
        sizeof(struct token_block),
        offsetof(struct token_block, token),
        offsetof(struct token_block, name),
        sizeof(struct holder),
        offsetof(struct holder, birth),
        offsetof(struct holder, request_id),
        offsetof(struct holder, heartbeat_ms),
        offsetof(struct holder, since),
        offsetof(struct holder, is_job),
        offsetof(struct holder, note),
        offsetof(struct holder, comm),
        JOURNAL_PAGE,
        offsetof(struct journal_page, slots),
        BLOCK,
        0x01020304,
    };

    return state_file_fingerprint(facts, HF_LENGTH(facts));
}

/* Of one lease half; nodes <= HF_NODES_MAX. */
static size_t journal_half_size_for(uint32_t nodes)
{
    size_t used = offsetof(struct lease_half, d_ns) + nodes * sizeof(int64_t);

    return (used + HALF_LINE - 1) / HALF_LINE * HALF_LINE;
}

static size_t journal_block_size_for(uint32_t nodes)
{
    return BLOCK * (2 * journal_half_size_for(nodes) + sizeof(struct lease_record));
}

size_t journal_size_for(uint32_t slots, int nodes)
{
    return STATE_FILE_HEADER +
           (slots + BLOCK - 1) / BLOCK * journal_block_size_for((uint32_t)nodes);
}

bool journal_page_fits(const struct journal *j, uint64_t size)
{
    return slots_of(j) <= j->capacity && size >= journal_size_for(slots_of(j), j->nodes);
}

void journal_place(struct journal *j, void *map, uint32_t capacity, uint32_t nodes)
{
    hf_assert(capacity >= 1 && capacity <= HF_SLOTS_MAX && nodes <= HF_NODES_MAX,
              "capacity %u, nodes %u", (unsigned)capacity, (unsigned)nodes);
    j->map = map;
    j->capacity = capacity;
    j->nodes = (int)nodes;
    j->size = journal_size_for(capacity, j->nodes);
    j->half_size = journal_half_size_for(nodes);
    j->block_size = journal_block_size_for(nodes);
}

struct state_file_header journal_header(uint32_t slots, int nodes, const char *list_hash,
                                        const struct boot_clock *clock)
{
    struct state_file_header want = {.magic = JOURNAL_MAGIC,
                                     .fingerprint = journal_fingerprint(),
                                     .size = journal_size_for(slots, nodes),
                                     .in_use = 1,
                                     .nodes = (uint32_t)nodes};

    want.clock = *clock;
    snprintf(want.list_hash, sizeof(want.list_hash), "%s", list_hash);
    return want;
}

/* --- halves ----------------------------------------------------------------------------------- */

static struct state_file_header *journal_page_header(const struct journal *j)
{
    return j->map;
}

static void journal_find_holders(struct journal *j)
{
    for (uint32_t slot = 0; slot < slots_of(j); slot++)
        j->holder[slot] = (uint8_t)holder_now(j, slot);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void journal_unmap(struct journal *j)
{
    if (j->map)
        (void)munmap(j->map, j->size);
    j->map = NULL;
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    free(j->holder);
    j->holder = NULL;
}

static int journal_refuse_damaged(const struct journal *j, char *why, size_t why_size)
{
    snprintf(why, why_size,
             "%s is damaged, so the leases in it cannot be released or readopted; when no job "
             "of an earlier agent runs any more, remove it",
             j->path);
    return HF_ETABLE;
}

typedef int map_fn(const char *path, int fd, size_t size, void **ret_map, char *why,
                   size_t why_size);

/* HF_ETABLE: what its page says cannot be. */
static int journal_map_with(map_fn *map_it, struct journal *j, uint32_t capacity, int fd,
                            uint32_t nodes, char *why, size_t why_size)
{
    struct stat st;
    void *map = NULL;
    int rc = fstat(fd, &st) < 0
                 ? state_file_say("look at", j->path, why, why_size)
                 : map_it(j->path, fd, journal_size_for(capacity, (int)nodes), &map, why, why_size);

    if (rc < 0)
        return rc;
    journal_place(j, map, capacity, nodes);
    j->holder = calloc(capacity, sizeof(*j->holder));
    if (!j->holder) {
        journal_unmap(j);
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    if (journal_page_fits(j, (uint64_t)st.st_size))
        return HF_OK;
    journal_unmap(j);
    return journal_refuse_damaged(j, why, why_size);
}

enum judgement { KEEP, ELSEWHERE, EMPTY, COPY, REFUSE };

/* Judges an existing file before its records are looked at. ELSEWHERE: its times are of another time namespace. */
static enum judgement journal_judge_header(const struct journal *j, int fd,
                                           const struct state_file_header *want,
                                           struct state_file_header *ret_header, char *why,
                                           size_t why_size)
{
    const struct state_file_header *h = ret_header;

    switch (state_file_judge(fd, want, ret_header)) {
    case STATE_FILE_GOOD:
        if (h->nodes <= HF_NODES_MAX)
            return KEEP;
        break;
    case STATE_FILE_OF_ANOTHER_CLOCK:
        if (h->nodes <= HF_NODES_MAX)
            return ELSEWHERE;
        break;
    case STATE_FILE_OF_ANOTHER_BOOT:
        return EMPTY;
    case STATE_FILE_COPY:
        return COPY;
    case STATE_FILE_OF_ANOTHER_LAYOUT:
        if (!h->in_use)
            return EMPTY;
        break;
    case STATE_FILE_DAMAGED:
        (void)journal_refuse_damaged(j, why, why_size);
        return REFUSE;
    case STATE_FILE_FOREIGN:
        snprintf(why, why_size, "look at %s and remove it: it is not a private file of this agent",
                 j->path);
        return REFUSE;
    }
    snprintf(
        why, why_size,
        "%s was written by another version of holdfastd; start that one and end its leases, or "
        "wait until they are over and remove the file",
        j->path);
    return REFUSE;
}

/* The records that are not FREE. */
struct live {
    uint32_t count, end; /* end: one more than the last of their slots */
    hf_time until;       /* when the last of them may be valid */
    bool same_list;
};

static struct live journal_count_live(const struct journal *j, const struct state_file_header *have,
                                      const struct state_file_header *want)
{
    struct live live = {.until = HF_TIME_PAST,
                        .same_list = have->nodes == want->nodes &&
                                     strcmp(have->list_hash, want->list_hash) == 0};

    for (uint32_t slot = 0; slot < slots_of(j); slot++) {
        int half = half_newest(halves_of(j, slot), j->half_size);

        if (half < 0 || (half_of(j, slot, half)->state & STATE_MASK) == JOURNAL_FREE)
            continue;
        live.count++;
        live.end = slot + 1;
        for (int i = 0; i < j->nodes; i++)
            live.until = hf_time_max(live.until, (hf_time){half_of(j, slot, half)->d_ns[i]});
    }
    return live;
}

/* Another list is fine when no lease is left that may be valid. Records that are
 * dropped then (unfinished rounds and releases, records that cannot be read) leave their keys to the TTL: no
 * release of them will leave, so none of their check words can be untrue. */
static enum judgement journal_judge_records(const struct journal *j, const struct live *live,
                                            char *why, size_t why_size)
{
    hf_time now = clock_now();

    if (live->same_list)
        return KEEP;
    if (live->count == 0 || hf_time_reached(now, live->until))
        return EMPTY;
    snprintf(why, why_size,
             "%s has %" PRIu32
             " leases of an earlier agent with another list of nodes or key_format, the last valid "
             "for %" PRId64
             " s more: wait until then, or start with the earlier list and key_format",
             j->path, live->count, hf_time_since(live->until, now).ns / HF_NS_PER_SEC + 1);
    return REFUSE;
}

/* (!) Check words and guardians of its leases go by the BOOTTIME of there: no agent here may readopt or release them.
 * Both offsets are known, so their end is known, too. */
static enum judgement journal_judge_elsewhere(const struct journal *j, const struct live *live,
                                              const struct state_file_header *have,
                                              const struct state_file_header *want, char *why,
                                              size_t why_size)
{
    hf_time now_there =
        hf_time_add(clock_now(), hf_ns(have->clock.offset_ns - want->clock.offset_ns));

    if (live->count == 0 || hf_time_reached(now_there, live->until))
        return EMPTY;
    snprintf(why, why_size,
             "%s has %" PRIu32
             " leases of an agent in another time namespace, the last valid for %" PRId64
             " s more; wait until then, or start this agent in that time namespace",
             j->path, live->count, hf_time_since(live->until, now_there).ns / HF_NS_PER_SEC + 1);
    return REFUSE;
}

static enum judgement journal_judge_live(const struct journal *j, enum judgement header,
                                         const struct live *live,
                                         const struct state_file_header *have,
                                         const struct state_file_header *want, char *why,
                                         size_t why_size)
{
    return header == ELSEWHERE ? journal_judge_elsewhere(j, live, have, want, why, why_size)
                               : journal_judge_records(j, live, why, why_size);
}

/* KEEP leaves the file mapped in `j`. */
static enum judgement journal_take_existing(struct journal *j, int fd,
                                            const struct state_file_header *want,
                                            uint32_t *ret_found, char *why, size_t why_size)
{
    struct state_file_header have;
    enum judgement judgement = journal_judge_header(j, fd, want, &have, why, why_size);
    bool elsewhere = judgement == ELSEWHERE;
    struct live live;

    if (judgement != KEEP && !elsewhere)
        return judgement;
    if (journal_map_with(state_file_map, j, j->capacity, fd, have.nodes, why, why_size) < 0)
        return REFUSE;
    live = journal_count_live(j, &have, want);
    judgement = journal_judge_live(j, judgement, &live, &have, want, why, why_size);
    if (judgement == EMPTY && live.count)
        log_warn("%s has %" PRIu32 " records of an earlier agent %s, none valid: dropped, their "
                 "keys expire by their TTL",
                 j->path, live.count,
                 elsewhere ? "in another time namespace"
                           : "with another list of nodes or key_format");
    if (judgement != KEEP) {
        journal_unmap(j);
        return judgement;
    }
    *ret_found = live.count;
    j->slots_live = live.end;
    state_file_lock(j->map, 0, journal_size_for(slots_of(j), j->nodes));
    journal_find_holders(j);
    state_file_sign(j->map);
    journal_page_header(j)->in_use = 1;
    return KEEP;
}

uint32_t journal_slots_live(const struct journal *j)
{
    return j->slots_live;
}

bool journal_is_kept(const struct journal *j)
{
    return j->kept;
}

uint64_t journal_table(const struct journal *j)
{
    return j->map ? atomic_load(&page_of(j)->table) : 0;
}

void journal_shown_in(struct journal *j, uint64_t table_id)
{
    atomic_store(&page_of(j)->table, table_id);
}

/* A journal as it is wanted, and nothing of a file yet. */
static struct journal *journal_new_journal(const char *dir, uint32_t capacity, int nodes,
                                           const char *list_hash, const struct boot_clock *clock)
{
    struct journal *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    snprintf(j->path, sizeof(j->path), "%s/journal", dir);
    j->fd = -1;
    j->capacity = capacity;
    j->want = journal_header(0, nodes, list_hash, clock);
    return j;
}

int journal_find(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                 const struct boot_clock *clock, struct journal **ret_journal, uint32_t *ret_found,
                 char *why, size_t why_size)
{
    struct journal *j = journal_new_journal(dir, capacity, nodes, list_hash, clock);
    enum judgement judgement = EMPTY;
    uint32_t found = 0;
    int fd, rc;

    if (!j) {
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    fd = open(j->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT) {
        rc = state_file_say("open", j->path, why, why_size);
        goto error;
    }
    if (fd >= 0 && (rc = state_file_own(j->path, fd, why, why_size)) < 0) {
        close(fd);
        goto error;
    }
    state_file_abandon(j->path);
    state_file_unreserve(j->path);
    if (fd >= 0) {
        judgement = journal_take_existing(j, fd, &j->want, &found, why, why_size);
        if (judgement == KEEP)
            j->fd = fd;
        else
            close(fd);
    }
    if (judgement == REFUSE) {
        rc = HF_ETABLE;
        goto error;
    }
    /* (!) Its agent may go on renewing these leases: their words are in another table, their holders perhaps out of sight. */
    if (judgement == COPY)
        log_warn(JOURNAL_IS_COPY, dir);
    j->kept = judgement == KEEP;
    *ret_journal = j;
    *ret_found = found;
    return HF_OK;

error:
    free(j);
    return rc;
}

/* As journal_take_existing(), and changes nothing. */
static int journal_look_at(struct journal *j, int fd, struct journal_view *view, char *why,
                           size_t why_size)
{
    struct state_file_header have;
    enum judgement judgement = journal_judge_header(j, fd, &j->want, &have, why, why_size);
    bool elsewhere = judgement == ELSEWHERE;
    struct live live;
    int rc;

    view->refused = judgement == REFUSE;
    view->copy = judgement == COPY;
    if (judgement != KEEP && !elsewhere)
        return HF_OK;
    rc = journal_map_with(state_file_view, j, j->capacity, fd, have.nodes, why, why_size);
    if (rc == HF_ETABLE) {
        view->refused = true;
        return HF_OK;
    }
    if (rc < 0)
        return rc;
    live = journal_count_live(j, &have, &j->want);
    judgement = journal_judge_live(j, judgement, &live, &have, &j->want, why, why_size);
    view->refused = judgement == REFUSE;
    view->dropped = judgement == EMPTY && live.count;
    view->other_list = !elsewhere && !live.same_list;
    view->live = live.count;
    view->until = live.until;
    view->nodes = (int)have.nodes;
    memcpy(view->list_hash, have.list_hash, sizeof(view->list_hash));
    j->slots_live = live.end;
    if (judgement == KEEP || view->other_list)
        view->journal = j;
    return HF_OK;
}

int journal_dry_run(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                    const struct boot_clock *clock, struct journal_view *ret_view, char *why,
                    size_t why_size)
{
    struct journal *j = journal_new_journal(dir, capacity, nodes, list_hash, clock);
    struct journal_view view = {0};
    int fd, rc = HF_OK;

    if (!j) {
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    fd = open(j->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        rc = journal_look_at(j, fd, &view, why, why_size);
        close(fd);
    } else if (errno != ENOENT) {
        rc = state_file_say("open", j->path, why, why_size);
    }
    if (!view.journal)
        journal_close(j);
    if (rc == HF_OK)
        *ret_view = view;
    return rc;
}

/* (!) The file is whole before it has its name. */
static int journal_make_file(const struct journal *j, uint32_t first, int *ret_fd, char *why,
                             size_t why_size)
{
    const struct journal_page page = {.slots = first};
    int fd, rc = state_file_begin(j->path, "the journal", &j->want, &fd, why, why_size);

    if (rc < 0)
        return rc;
    if (pwrite(fd, &page, sizeof(page), JOURNAL_PAGE) == (ssize_t)sizeof(page)) {
        rc = state_file_commit(j->path, why, why_size);
    } else {
        rc = state_file_say("write", j->path, why, why_size);
        state_file_abandon(j->path);
    }
    if (rc < 0)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

int journal_make(struct journal *j, uint32_t first, char *why, size_t why_size)
{
    int fd, rc;

    if (j->kept)
        return HF_OK;
    hf_assert(!j->map && first >= 1 && first <= j->capacity, "first %u, capacity %u",
              (unsigned)first, (unsigned)j->capacity);
    j->want.size = journal_size_for(first, (int)j->want.nodes);
    rc = journal_make_file(j, first, &fd, why, why_size);
    if (rc < 0)
        return rc;
    rc = journal_map_with(state_file_map, j, j->capacity, fd, j->want.nodes, why, why_size);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    j->fd = fd;
    state_file_lock(j->map, 0, j->want.size);
    return HF_OK;
}

uint32_t journal_slots(const struct journal *j)
{
    return slots_of(j);
}

int journal_take_slots(struct journal *j, uint32_t slots)
{
    size_t have = journal_size_for(slots_of(j), j->nodes), want = journal_size_for(slots, j->nodes);

    hf_assert(j->map && j->fd >= 0, "slots %u", (unsigned)slots);
    if (slots <= slots_of(j))
        return HF_OK;
    if (slots > j->capacity || (want > have && state_file_take(j->fd, have, want) != 0))
        return HF_EFULL;
    hf_assert(want <= j->size, "slots %u: %zu bytes of %zu", (unsigned)slots, want, j->size);
    if (want > have)
        state_file_lock(j->map, have, want);
    /* (!) Room first: the next agent looks at all that this tells of. */
    atomic_store_explicit(&page_of(j)->slots, slots, memory_order_release);
    return HF_OK;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    journal_unmap(j);
    free(j);
}

void journal_close_empty(struct journal *j)
{
    journal_page_header(j)->in_use = 0;
    journal_close(j);
}

void journal_remove(struct journal *j)
{
    if (!j)
        return;
    (void)unlink(j->path);
    journal_close(j);
}

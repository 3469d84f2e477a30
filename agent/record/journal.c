/* The file, in order: a header page, `capacity` pairs of lease halves, as many lease records. Halves are
 * written at every renewal, so they are close together. */
#include "agent/record/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/crc32.h"
#include "agent/base/log.h"
#include "agent/record/boot_file.h"
#include "agent/record/halves.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define JOURNAL_MAGIC UINT64_C(0x314c4e524a4648) /* "HFJRNL1" */
/* lease_half.state, slot_state */
#define STATE_MASK   0xffu
#define OWNER_SHIFT  8
#define REASON_SHIFT 8

struct lease_half {
    _Atomic uint64_t seq;            /* 0: never written; the half with the higher one counts */
    uint32_t crc;                    /* of seq and all that follows */
    uint32_t state;                  /* number of the owner block << 8 | state */
    uint32_t slot_state, generation; /* slot_state: reason << 8 | state */
    uint64_t fence;
    int64_t d_ns[HF_NODES_MAX]; /* of the configured nodes; the rest of the last line is 0 */
};
#define HALF_LINE                                                                                  \
    64 /* bytes of a cache line; a half takes one for up to 4 nodes, and two for more */
_Static_assert(sizeof(struct lease_half) <= 2 * HALF_LINE, "as journal_put() has room for");

/* The part that all holders of one token share. */
struct token_block {
    uint32_t crc; /* of all that follows */
    uint32_t ttl_ms;
    char token[TOKEN_LEN + 1]; /* in hex */
    uint8_t name_len;
    uint8_t name[HF_NAME_MAX];
};

struct owner_block {
    uint32_t crc; /* of all that follows */
    uint32_t max_hold_ms, pid, uid;
    uint64_t start_time, pidns_inode, cookie_hash, request_id;
    uint32_t heartbeat_ms, beat_word;
    int64_t since_ns, since_wall_ms;
    uint8_t note_len, comm_len, run;
    char note[HF_NOTE_MAX + 1], comm[HF_COMM_MAX + 1];
};

struct lease_record {
    struct token_block what;
    struct owner_block who[2]; /* the newest half says which counts */
};

struct journal {
    char path[BOOT_FILE_PATH];
    void *map;
    size_t size;
    uint32_t capacity;
    int nodes;
    char *halves;     /* of leases */
    size_t half_size; /* of one of them */
    struct lease_record *lease;
    uint8_t *owner; /* per slot: the owner block that the next state refers to */
    uint32_t slots_live;
    bool kept;
    struct boot_file_header want; /* the header that a new file would have */
};

/* --- layout ----------------------------------------------------------------------------------- */

/* Two builds whose records differ refuse each other, so a change costs an upgrade its leases. */
static uint64_t fingerprint(void)
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
        sizeof(struct owner_block),
        offsetof(struct owner_block, start_time),
        offsetof(struct owner_block, request_id),
        offsetof(struct owner_block, heartbeat_ms),
        offsetof(struct owner_block, since_ns),
        offsetof(struct owner_block, run),
        offsetof(struct owner_block, note),
        offsetof(struct owner_block, comm),
        0x01020304,
    };
    uint32_t low = crc32c(0, facts, sizeof(facts));

    return (uint64_t)crc32c(low, facts, sizeof(facts)) << 32 | low;
}

/* Of one lease half; nodes <= HF_NODES_MAX. */
static size_t half_size_for(uint32_t nodes)
{
    size_t used = offsetof(struct lease_half, d_ns) + nodes * sizeof(int64_t);

    return (used + HALF_LINE - 1) / HALF_LINE * HALF_LINE;
}

static size_t size_for(uint32_t capacity, uint32_t nodes)
{
    return BOOT_FILE_HEADER +
           (size_t)capacity * (2 * half_size_for(nodes) + sizeof(struct lease_record));
}

static void place(struct journal *j, void *map, size_t size, uint32_t capacity, int nodes)
{
    j->map = map;
    j->size = size;
    j->capacity = capacity;
    j->nodes = nodes;
    j->half_size = half_size_for((uint32_t)nodes);
    j->halves = (char *)map + BOOT_FILE_HEADER;
    j->lease = (struct lease_record *)(void *)(j->halves + (size_t)capacity * 2 * j->half_size);
}

static void *halves_of(const struct journal *j, uint32_t slot)
{
    return j->halves + (size_t)slot * 2 * j->half_size;
}

static const struct lease_half *half_of(const struct journal *j, uint32_t slot, int number)
{
    const char *halves = halves_of(j, slot);

    return (const struct lease_half *)(const void *)(halves + (size_t)number * j->half_size);
}

/* --- halves ----------------------------------------------------------------------------------- */

/* The owner block that the newest half refers to. */
static int owner_now(const struct journal *j, uint32_t slot)
{
    int newer = half_seq(half_of(j, slot, 1)) > half_seq(half_of(j, slot, 0));

    return half_of(j, slot, newer)->state >> OWNER_SHIFT & 1;
}

static void mend(struct journal *j)
{
    for (uint32_t slot = 0; slot < j->capacity; slot++) {
        half_mend(halves_of(j, slot), j->half_size);
        j->owner[slot] = (uint8_t)owner_now(j, slot);
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

static void unmap(struct journal *j)
{
    if (j->map)
        (void)munmap(j->map, j->size);
    j->map = NULL;
    free(j->owner);
    j->owner = NULL;
}

static int map_file(struct journal *j, int fd, const struct boot_file_header *h, char *why,
                    size_t why_size)
{
    void *map;
    int rc = boot_file_map(j->path, fd, h->size, &map, why, why_size);

    if (rc < 0)
        return rc;
    place(j, map, h->size, h->capacity, (int)h->nodes);
    j->owner = calloc(h->capacity, sizeof(*j->owner));
    if (!j->owner) {
        unmap(j);
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    return HF_OK;
}

enum judgement { KEEP, EMPTY, REFUSE };

/* Judges an existing file before its records are looked at. */
static enum judgement judge_header(const struct journal *j, int fd,
                                   const struct boot_file_header *want,
                                   struct boot_file_header *ret_header, char *why, size_t why_size)
{
    const struct boot_file_header *h = ret_header;

    switch (boot_file_judge(fd, want, ret_header)) {
    case BOOT_FILE_GOOD:
        if (h->nodes <= HF_NODES_MAX && h->size == size_for(h->capacity, h->nodes))
            return KEEP;
        break;
    case BOOT_FILE_OF_ANOTHER_BOOT:
        return EMPTY;
    case BOOT_FILE_OF_ANOTHER_LAYOUT:
        break;
    case BOOT_FILE_DAMAGED:
        snprintf(why, why_size,
                 "%s is damaged, so the leases in it cannot be released or readopted; when no job "
                 "of an earlier "
                 "agent runs any more, remove it",
                 j->path);
        return REFUSE;
    case BOOT_FILE_FOREIGN:
        snprintf(why, why_size, "%s is not a private file of ours; look at it and remove it",
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

/* How many records are not FREE, one more than the last of their slots, and until when one of them may be
 * valid. */
static uint32_t count_live(const struct journal *j, uint32_t *ret_end, hf_time *ret_until)
{
    uint32_t live = 0;

    *ret_end = 0;
    *ret_until = HF_TIME_PAST;
    for (uint32_t slot = 0; slot < j->capacity; slot++) {
        int half;

        if (half_seq(half_of(j, slot, 0)) == 0 && half_seq(half_of(j, slot, 1)) == 0)
            continue;
        half = half_newest(halves_of(j, slot), j->half_size);
        if (half >= 0 && (half_of(j, slot, half)->state & STATE_MASK) == JOURNAL_FREE)
            continue;
        live++;
        *ret_end = slot + 1;
        for (int i = 0; half >= 0 && i < j->nodes; i++)
            *ret_until = hf_time_max(*ret_until, (hf_time){half_of(j, slot, half)->d_ns[i]});
    }
    return live;
}

/* Another capacity is always fine. Another list is fine when no lease is left that may be valid. Records that are
 * dropped then (unfinished rounds and releases, records that cannot be read) leave their keys to the TTL: no
 * release of them will leave, so none of their check words can be untrue. */
static enum judgement judge_records(struct journal *j, const struct boot_file_header *have,
                                    const struct boot_file_header *want, uint32_t *ret_found,
                                    char *why, size_t why_size)
{
    bool same_list = have->nodes == want->nodes && strcmp(have->list_hash, want->list_hash) == 0;
    hf_time until, now = clock_now();
    uint32_t end, live = count_live(j, &end, &until);

    if (same_list && (live > 0 || have->capacity == want->capacity)) {
        *ret_found = live;
        j->slots_live = end;
        return KEEP;
    }
    if (live == 0 || hf_time_reached(now, until)) {
        if (live)
            log_warn("%s has %" PRIu32 " records of an earlier agent with another list of nodes or "
                     "key_format, none valid: dropped, their keys expire by their TTL",
                     j->path, live);
        return EMPTY;
    }
    snprintf(why, why_size,
             "%s has %" PRIu32
             " leases of an earlier agent with another list of nodes or key_format, the last valid "
             "for %" PRId64 " s more: wait, or start with the earlier one",
             j->path, live, hf_time_since(until, now).ns / HF_NS_PER_SEC + 1);
    return REFUSE;
}

/* --- growing ---------------------------------------------------------------------------------- */

/* Copies halves and records of all slots, generations included, to their places in a larger file. */
static void copy_slots(const struct journal *from, struct journal *to)
{
    memcpy(to->halves, from->halves, (size_t)from->capacity * 2 * from->half_size);
    memcpy(to->lease, from->lease, from->capacity * sizeof(*from->lease));
}

/* (!) The larger file is whole before it takes the place of the other. */
static int fill_larger(struct journal *j, const struct boot_file_header *want, int fd, char *why,
                       size_t why_size)
{
    struct journal larger = *j;
    int rc = map_file(&larger, fd, want, why, why_size);

    if (rc < 0)
        return rc;
    copy_slots(j, &larger);
    rc = boot_file_commit(j->path, why, why_size);
    if (rc < 0) {
        unmap(&larger);
        return rc;
    }
    unmap(j);
    *j = larger;
    return HF_OK;
}

/* Without room for the larger file the agent goes on with this one. */
static void grow(struct journal *j, const struct boot_file_header *want)
{
    char why[BOOT_FILE_PATH + 200];
    int fd, rc = boot_file_begin(j->path, "a larger journal", want, &fd, why, sizeof(why));

    if (rc == HF_OK) {
        rc = fill_larger(j, want, fd, why, sizeof(why));
        close(fd);
        if (rc < 0)
            boot_file_abandon(j->path);
    }
    if (rc < 0)
        log_warn("the capacity stays at %" PRIu32 " and is not %" PRIu32
                 ", with all leases kept; restart the agent when this is mended: %s",
                 j->capacity, want->capacity, why);
}

/* KEEP leaves the file mapped in `j`. */
static enum judgement take_existing(struct journal *j, int fd, const struct boot_file_header *want,
                                    uint32_t *ret_found, char *why, size_t why_size)
{
    struct boot_file_header have;
    enum judgement judgement = judge_header(j, fd, want, &have, why, why_size);

    if (judgement != KEEP)
        return judgement;
    if (map_file(j, fd, &have, why, why_size) < 0)
        return REFUSE;
    judgement = judge_records(j, &have, want, ret_found, why, why_size);
    if (judgement != KEEP) {
        unmap(j);
        return judgement;
    }
    if (j->capacity < want->capacity)
        grow(j, want);
    mend(j);
    return KEEP;
}

uint32_t journal_capacity(const struct journal *j)
{
    return j->capacity;
}

uint32_t journal_slots_live(const struct journal *j)
{
    return j->slots_live;
}

bool journal_is_kept(const struct journal *j)
{
    return j->kept;
}

int journal_find(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                 const uint8_t boot_id[16], struct journal **ret_journal, uint32_t *ret_found,
                 char *why, size_t why_size)
{
    struct boot_file_header want = {.magic = JOURNAL_MAGIC,
                                    .fingerprint = fingerprint(),
                                    .size = size_for(capacity, (uint32_t)nodes),
                                    .capacity = capacity,
                                    .nodes = (uint32_t)nodes};
    struct journal *j = calloc(1, sizeof(*j));
    enum judgement judgement = EMPTY;
    uint32_t found = 0;
    int fd, rc;

    if (!j) {
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    memcpy(want.boot_id, boot_id, sizeof(want.boot_id));
    snprintf(want.list_hash, sizeof(want.list_hash), "%s", list_hash);
    snprintf(j->path, sizeof(j->path), "%s/journal", dir);
    j->want = want;
    boot_file_abandon(j->path);

    fd = open(j->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT) {
        rc = boot_file_say("open", j->path, why, why_size);
        goto error;
    }
    if (fd >= 0) {
        judgement = take_existing(j, fd, &want, &found, why, why_size);
        close(fd);
    }
    if (judgement == REFUSE) {
        rc = HF_ETABLE;
        goto error;
    }
    j->kept = judgement == KEEP;
    if (!j->kept)
        j->capacity = capacity; /* that it will have: journal_make() */
    *ret_journal = j;
    *ret_found = found;
    return HF_OK;

error:
    free(j);
    return rc;
}

int journal_make(struct journal *j, char *why, size_t why_size)
{
    int fd, rc;

    if (j->kept)
        return HF_OK;
    rc = boot_file_make(j->path, "the journal", &j->want, &fd, why, why_size);
    if (rc < 0)
        return rc;
    rc = map_file(j, fd, &j->want, why, why_size);
    close(fd);
    return rc;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    unmap(j);
    free(j);
}

void journal_remove(struct journal *j)
{
    if (!j)
        return;
    (void)unlink(j->path);
    journal_close(j);
}

/* --- leases ----------------------------------------------------------------------------------- */

/* A CRC comes first and covers all that follows. */
static uint32_t block_crc(const void *block, size_t size)
{
    return crc32c(0, (const char *)block + sizeof(uint32_t), size - sizeof(uint32_t));
}

/* (!) Into the block that the newest state does not refer to: no state names it until the next put. */
void journal_put_owner(struct journal *j, uint32_t slot, const struct journal_identity *id)
{
    int idle = !owner_now(j, slot);
    struct owner_block block;

    memset(&block, 0, sizeof(block)); /* padding is under the CRC, too */
    block.max_hold_ms = id->max_hold_ms;
    block.pid = id->pid;
    block.uid = id->uid;
    block.start_time = id->start_time;
    block.pidns_inode = id->pidns_inode;
    block.cookie_hash = id->cookie_hash;
    block.request_id = id->request_id;
    block.heartbeat_ms = id->heartbeat_ms;
    block.beat_word = id->beat_word;
    block.since_ns = id->since_ns;
    block.since_wall_ms = id->since_wall_ms;
    block.note_len = id->note_len;
    block.comm_len = id->comm_len;
    block.run = id->run;
    memcpy(block.note, id->note, sizeof(block.note));
    memcpy(block.comm, id->comm, sizeof(block.comm));
    block.crc = block_crc(&block, sizeof(block));
    j->lease[slot].who[idle] = block;
    j->owner[slot] = (uint8_t)idle;
    /* Before the state that refers to it. */
    atomic_thread_fence(memory_order_release);
}

void journal_put_identity(struct journal *j, uint32_t slot, const struct journal_identity *id)
{
    struct token_block *what = &j->lease[slot].what;

    memset(what, 0, sizeof(*what));
    what->ttl_ms = id->ttl_ms;
    token_text(&id->token, what->token);
    what->name_len = id->name_len;
    memcpy(what->name, id->name, sizeof(what->name));
    what->crc = block_crc(what, sizeof(*what));
    journal_put_owner(j, slot, id);
}

void journal_put(struct journal *j, uint32_t slot, const struct journal_lease *state)
{
    union {
        struct lease_half half;
        char bytes[2 * HALF_LINE];
    } body;

    memset(body.bytes, 0, j->half_size); /* padding is under the CRC, too */
    body.half.state = (uint32_t)state->state | (uint32_t)j->owner[slot] << OWNER_SHIFT;
    body.half.slot_state = (uint32_t)state->slot_state | (uint32_t)state->reason << REASON_SHIFT;
    body.half.generation = state->generation;
    body.half.fence = state->fence;
    for (int i = 0; i < j->nodes; i++)
        body.half.d_ns[i] = state->d[i].ns;
    half_commit(halves_of(j, slot), j->half_size, &body);
}

/* HF_ETABLE when its CRC is wrong. */
static int get_identity(const struct lease_record *r, int owner, struct journal_identity *ret)
{
    const struct token_block *what = &r->what;
    const struct owner_block *who = &r->who[owner];
    struct token token;

    if (what->name_len == 0 || token_read(what->token, &token) < 0 ||
        what->token[TOKEN_LEN] != '\0' || what->crc != block_crc(what, sizeof(*what)) ||
        who->note_len > HF_NOTE_MAX || who->comm_len > HF_COMM_MAX ||
        who->crc != block_crc(who, sizeof(*who)))
        return HF_ETABLE;
    memset(ret, 0, sizeof(*ret));
    ret->token = token;
    ret->ttl_ms = what->ttl_ms;
    ret->name_len = what->name_len;
    memcpy(ret->name, what->name, sizeof(ret->name));
    ret->max_hold_ms = who->max_hold_ms;
    ret->pid = who->pid;
    ret->uid = who->uid;
    ret->start_time = who->start_time;
    ret->pidns_inode = who->pidns_inode;
    ret->cookie_hash = who->cookie_hash;
    ret->request_id = who->request_id;
    ret->heartbeat_ms = who->heartbeat_ms;
    ret->beat_word = who->beat_word;
    ret->since_ns = who->since_ns;
    ret->since_wall_ms = who->since_wall_ms;
    ret->note_len = who->note_len;
    ret->comm_len = who->comm_len;
    ret->run = who->run;
    memcpy(ret->note, who->note, sizeof(ret->note));
    memcpy(ret->comm, who->comm, sizeof(ret->comm));
    return HF_OK;
}

int journal_get(const struct journal *j, uint32_t slot, struct journal_identity *ret_identity,
                struct journal_lease *ret_state)
{
    const struct lease_record *r = &j->lease[slot];
    const struct lease_half *h;
    int half = half_newest(halves_of(j, slot), j->half_size), rc;
    uint32_t state, owner;

    if (half < 0)
        return half;
    h = half_of(j, slot, half);
    state = h->state & STATE_MASK;
    owner = h->state >> OWNER_SHIFT;
    if (state == JOURNAL_FREE)
        return HF_ENOTHELD;
    if (state > JOURNAL_ENDING || owner > 1)
        return HF_ETABLE;
    rc = get_identity(r, (int)owner, ret_identity);
    if (rc < 0)
        return rc;
    ret_state->state = (enum journal_state)state;
    ret_state->slot_state = (enum hf_slot_state)(h->slot_state & STATE_MASK);
    ret_state->reason = (enum hf_loss_reason)(h->slot_state >> REASON_SHIFT);
    ret_state->generation = h->generation;
    ret_state->fence = h->fence;
    for (int i = 0; i < HF_NODES_MAX; i++)
        ret_state->d[i] = i < j->nodes ? (hf_time){h->d_ns[i]} : HF_TIME_PAST;
    return HF_OK;
}

int journal_get_previous(const struct journal *j, uint32_t slot,
                         struct journal_identity *ret_identity)
{
    return get_identity(&j->lease[slot], !owner_now(j, slot), ret_identity);
}

uint32_t journal_generation(const struct journal *j, uint32_t slot)
{
    uint32_t highest = 0;

    /* The higher one: a generation too high costs one number, a generation too low could
     * make a dead handle valid again. */
    for (int i = 0; i < 2; i++) {
        uint32_t generation = half_of(j, slot, i)->generation;

        if (generation > highest && generation <= HF_GEN_MAX)
            highest = generation;
    }
    return highest;
}

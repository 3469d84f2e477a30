/* The journal's file, in order: a header page, then blocks for 64 slots: 64 pairs of lease halves, as many lease records.
 * Halves are written at every renewal, so they are close together. It is mapped for the largest capacity, and takes room
 * at its end. For journal.c and journal_leases.c only. */
#ifndef HOLDFAST_AGENT_STATE_JOURNAL_LAYOUT_H
#define HOLDFAST_AGENT_STATE_JOURNAL_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/state/state_file.h"
#include "agent/state/journal.h"

/* lease_half.state, slot_state */
#define STATE_MASK   0xffu
#define HOLDER_SHIFT 8
#define REASON_SHIFT 8

struct lease_half {
    _Atomic uint64_t seq;            /* 0: never written; the half with the higher one counts */
    uint32_t state;                  /* number of the holder block << 8 | state */
    uint32_t slot_state, generation; /* slot_state: reason << 8 | state */
    uint64_t fence;
    int64_t d_ns[HF_NODES_MAX]; /* of the configured nodes; the rest of the last line is 0 */
};
#define HALF_LINE                                                                                  \
    64 /* bytes of a cache line; a half takes one for up to 4 nodes, and two for more */
_Static_assert(sizeof(struct lease_half) <= 2 * HALF_LINE, "as journal_put() has room for");

/* The part that all holders of one token share. */
struct token_block {
    uint32_t ttl_ms;
    char token[TOKEN_LEN + 1]; /* in hex */
    uint8_t name_len;
    uint8_t name[HF_NAME_MAX];
};

struct lease_record {
    struct token_block what;
    struct holder who[2]; /* the newest half says which counts */
};

#define BLOCK ((size_t)64) /* slots */

/* In the header's page, behind what all such files have. */
struct journal_page {
    _Atomic uint64_t table; /* journal_table() */
    _Atomic uint32_t slots; /* that have room, halves and records; it only grows */
};
#define JOURNAL_PAGE 256 /* bytes from the file's beginning */
_Static_assert(sizeof(struct state_file_header) <= JOURNAL_PAGE, "behind it");
_Static_assert(JOURNAL_PAGE + sizeof(struct journal_page) <= STATE_FILE_HEADER, "one page");

struct journal {
    char path[STATE_FILE_PATH];
    int fd; /* to take more room; -1: it is looked at only */
    void *map;
    size_t size;
    uint32_t capacity; /* slots that it is mapped for */
    int nodes;
    size_t half_size;  /* of a lease half */
    size_t block_size; /* of BLOCK slots */
    uint8_t *holder;   /* per slot: the holder block that the next state refers to */
    uint32_t slots_live;
    bool kept;
    struct state_file_header want; /* the header that a new file would have */
};

/* journal.c. The header of a file of that shape, and its size; how a mapped file is read. */
struct state_file_header journal_header(uint32_t slots, int nodes, const char *list_hash,
                                        const struct boot_clock *clock);
void journal_place(struct journal *journal, void *map, uint32_t capacity, uint32_t nodes);
size_t journal_size_for(uint32_t slots, int nodes);
/* False: the page of a file of `size` bytes is damaged. */
bool journal_page_fits(const struct journal *journal, uint64_t size);

static inline struct journal_page *page_of(const struct journal *j)
{
    return (struct journal_page *)(void *)((char *)j->map + JOURNAL_PAGE);
}

static inline uint32_t slots_of(const struct journal *j)
{
    return atomic_load_explicit(&page_of(j)->slots, memory_order_acquire);
}

static inline void *halves_of(const struct journal *j, uint32_t slot)
{
    return (char *)j->map + STATE_FILE_HEADER + slot / BLOCK * j->block_size +
           slot % BLOCK * 2 * j->half_size;
}

static inline struct lease_record *record_of(const struct journal *j, uint32_t slot)
{
    char *block = (char *)j->map + STATE_FILE_HEADER + slot / BLOCK * j->block_size;

    return (struct lease_record *)(void *)(block + BLOCK * 2 * j->half_size) + slot % BLOCK;
}

static inline const struct lease_half *half_of(const struct journal *j, uint32_t slot, int number)
{
    const char *halves = halves_of(j, slot);

    return (const struct lease_half *)(const void *)(halves + (size_t)number * j->half_size);
}

/* The holder block that the newest half refers to. */
static inline int holder_now(const struct journal *j, uint32_t slot)
{
    int newer = half_seq(half_of(j, slot, 1)) > half_seq(half_of(j, slot, 0));

    return half_of(j, slot, newer)->state >> HOLDER_SHIFT & 1;
}

/* Room for what carries journal and node records over to another list of nodes (agent/state/fleet_memory.h): it is taken
 * before the record with that list is kept, so that the start by that record needs none.
 */

/* For a list of that many nodes. HF_ESYS with `why`: there is none, and none is taken. What was taken stays until it is
 * used or given back. */
int carry_room_take(const char *dir, int nodes, char *why, size_t why_size);
void carry_room_give(const char *dir);

#endif

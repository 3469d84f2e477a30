/* Who holds a name: what each node says of its key, and what that comes to. Pure.
 *
 * A value counts as a holder by its id (agent/redis/link.h). Held: one id is on q nodes. Free: q
 * nodes have no such key, so that nobody holds it and an acquire can win. Split: neither, and what
 * the silent nodes could add would change nothing; acquires are under way, or leave remains behind.
 * Unknown: the nodes that do not answer could make it held or free. q is of the configured list.
 */
#ifndef HOLDFAST_AGENT_CORE_TALLY_H
#define HOLDFAST_AGENT_CORE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/server.h"
#include "shm/layout.h"
#include "shm/nstime.h"

#define TALLY_ID_LEN 40

enum tally_outcome {
    TALLY_OPEN, /* answers to come may decide it */
    TALLY_HELD,
    TALLY_FREE,
    TALLY_SPLIT,
    TALLY_UNKNOWN,
};

enum tally_word { /* of one node */
                  TALLY_NO_WORD = 0,
                  TALLY_SILENT, /* away, an error, too late */
                  TALLY_NO_KEY,
                  TALLY_A_KEY,
};

struct tally {
    int n, q;
    struct twins twins; /* the caller fills it in: which nodes are one server */
    struct {
        enum tally_word word;
        char id[TALLY_ID_LEN + 1]; /* "": a key of another type */
        int64_t pttl_ms;           /* -1: never expires */
    } node[HF_NODES_MAX];
};

void tally_init(struct tally *t, int n, int q);
void tally_silent(struct tally *t, int node);
void tally_no_key(struct tally *t, int node);
void tally_key(struct tally *t, int node, const char *id, int64_t pttl_ms);

enum tally_outcome tally_decide(const struct tally *t);
/* Whether nothing is awaited from any node. */
bool tally_complete(const struct tally *t);
int tally_answered(const struct tally *t);
/* A node that has the id that most nodes have (the first of several); -1: none has a key. */
int tally_leader(const struct tally *t);
/* How many servers have what `node` has. */
int tally_count(const struct tally *t, int node);
/* When fewer than q nodes have `node`'s key if nobody extends it: the q-th largest of what is left
 * (of all when it is on fewer), in milliseconds; -1: never. */
int64_t tally_lapse_ms(const struct tally *t, int node);

/* On how many nodes a lease was found to be outbid: the node has a fence higher than the lease's,
 * set by another token. A split leaves such fences behind on some nodes; the same other
 * token on enough of them is a later grant (lease_fsm_outbid()). What was seen is remembered, since a third token may set a
 * still higher fence on some of those nodes.
 *
 * It is kept for few leases, by slot: two leases that meet in one place overwrite each other's
 * until the nodes are asked again. Tokens are told apart by 64 bits of their tags, which are SHA-1s
 * of random bytes. Pure. One thread.
 */

#define RIVALS_MOST 16384 /* leases */

struct rivals {
    uint32_t room; /* leases */
    int n;         /* nodes */
    /* Per lease: which lease it is, then for each node the tag seen there, 0: none. */
    uint64_t *words;
};

/* Places for a table of `capacity` leases. The owner makes `words`, rivals_words() of them,
 * zeroed. */
static inline uint32_t rivals_room(uint32_t capacity)
{
    return capacity < RIVALS_MOST ? capacity : RIVALS_MOST;
}
static inline size_t rivals_words(uint32_t room, int n)
{
    return (size_t)room * (size_t)(n + 1);
}

/* The node showed that the token with the tag `id`, 40 hex digits, outbid the lease in `slot`,
 * whose token was granted with `generation` (not 0). Returns the nodes (bit per node) on which that
 * token was seen. */
uint32_t rivals_seen(struct rivals *r, uint32_t slot, uint32_t generation, int node,
                     const char *id);

#endif

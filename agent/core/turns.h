/* Whose turn it is among the hosts that want one lock. Pure.
 *
 * Who is nearest to the nodes hears of a release first and would have every lock, and who is a few
 * milliseconds further away none. So hosts let each other go first, without talking to each other:
 * each remembers which others had the lock since it wants it, and after a release steps back by one
 * step for each of them that had no turn since its own last one. Who waited longest is missing
 * nobody, and goes at once. A host that steps back watches the key, so it sees the turn that
 * somebody takes meanwhile. A step that nobody used ends the expectation: one who does not want the
 * lock any more costs the others a step, once.
 *
 * A host that never had it is known to nobody. For such hosts all others leave a gap after the first
 * release in each stretch of the nodes' time, which is the same for all of them; now and then a
 * long one, for hosts far away. (!) A host that was passed over leaves none. A host that knows of nobody
 * leaves one in eight stretches: who acquires again later than that does not notice.
 *
 * It is about order, never about safety: who counts wrong, or not at all (an older agent, another
 * client), goes too early or some steps late. Hosts of one name are taken for one. */
#ifndef HOLDFAST_AGENT_CORE_TURNS_H
#define HOLDFAST_AGENT_CORE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

/* For one host that goes first: a notice, a round and some delay, if its round trips take 8 ms
 * longer. */
#define TURNS_STEP      hf_ms(12)
#define TURNS_STEP_DRAW hf_ms(2)
#define TURNS_HOSTS     8 /* are remembered, those that had it last */

/* 2.3 % of the time, and the long ones 1.6 %. */
#define TURNS_GAP       hf_ms(12)
#define TURNS_GAP_LONG  hf_ms(64)
#define TURNS_GAP_EVERY hf_ms(512)
#define TURNS_LONG_IN   8 /* stretches, one with a long gap */

struct turns {
    uint64_t last;              /* fence of the last turn, of others or ours; 0: none */
    int64_t stretch;            /* in which the last gap was left */
    uint32_t host[TURNS_HOSTS]; /* others, the one whose turn is longest ago first */
    uint16_t passed;            /* turns of others since our own, or since somebody waits again */
    uint8_t known;              /* of `host` */
    uint8_t had;                /* of these, the last: had a turn since our own */
    bool fresh;                 /* somebody waits who did not at the end of our last turn */
};

/* What tells hosts apart; not 0. */
uint32_t turns_host(const char *name);
/* The last grant, as a majority has it, counted once unless it was ours. `host` 0: not known. Whether
 * it is another one. */
bool turns_seen(struct turns *t, uint64_t fence, uint32_t host);
/* The nodes granted it to us with that fence. */
void turns_ours(struct turns *t, uint64_t fence);
/* Somebody begins to wait, and this host does not step back from its own last turn any more. */
void turns_fresh(struct turns *t);
/* How long after a release we let others go first. `stretch`: of the nodes' time; notes that its gap
 * is left. */
hf_dur turns_step_back(struct turns *t, int64_t stretch, uint32_t random);
/* The same for a host that knows of nobody: whether it owes a gap after this release. `before`, `ours`:
 * fences of our last two grants, as nodes have them; 0: none. */
bool turns_owes_gap_alone(uint64_t before, uint64_t ours, hf_nodetime now);
/* The number of the stretch of the nodes' time that this instant is in. */
int64_t turns_stretch(hf_nodetime nodes);

#endif

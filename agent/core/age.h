/* The age of a node: how long, at the least, it has forgotten nothing. Pure. What a node says of a
 * key that it did not vote for counts for a lease only once the node is old enough.
 *
 * (!) A rival's round may have a vote that a node gave before it forgot everything. That round is
 * decided within `round_most` of its first byte (agent/core/ballot.h). So a heal is sent at once,
 * for it keeps others out from then on, but it counts only where it was sent `timing_age()` or more
 * after the node forgot. By then every round with such a vote is over, and if one was granted, our
 * lease had no quorum at that moment without this node. Whether our key has stood since an earlier
 * heal does not matter: the hit must be later than the rival's decision, and a renewal that is sent
 * once the node is of age is later.
 *
 * A node's age is the smaller of
 *  - the age of its process: a restart may have brought back an older state, nonce and all, so
 *    nothing that a younger process says counts, not even that our key is there;
 *  - the age of its keys: the time since its sentinel was made, since the sentinel was seen to
 *    change, or since the clock was seen to step (a step ends keys early). Where our vote stood and
 *    no SET of ours can have run since, a renewal counts all the same: the key was ours throughout,
 *    so no rival had it. So a step costs no lease whose keys it leaves, on however many nodes.
 * Acquire votes need no age: a node in quarantine is not asked for its vote, and the script
 * compares the nonce, so that a late vote, too, shows that the node forgot nothing between our
 * judgement of it and its vote.
 *
 * What an agent sees happen, it dates by its own clock. When it meets a node it believes the node's
 * uptime and `created`, unless an earlier agent's journal knows the node as one that votes: such a
 * node is old enough. With --dev or --assume-fresh the operator vouches for the process and the
 * sentinel that are found first.
 */
#ifndef HOLDFAST_AGENT_CORE_AGE_H
#define HOLDFAST_AGENT_CORE_AGE_H

#include <stdbool.h>

#include "agent/core/node_trust.h"

struct node_age {
    hf_time process; /* it began at this instant or before; HF_TIME_NEVER: not heard of yet */
    hf_time keys; /* the node forgot, or its clock stepped, at this instant or before; likewise */
    bool word;    /* the operator vouches for what is found first */
    bool proven;  /* the journal knows the node as one that votes */
    bool met;     /* `keys` is when we met the node: `created` may make it older */
};

void age_init(struct node_age *age, bool word, bool proven);

/* Each is called after the function of node_trust.h that has the same news. `before`: the trust
 * before that call (the journal's, when nothing was heard yet). */
void age_on_facts(struct node_age *age, const struct node_trust *before,
                  const struct node_facts *facts, hf_time now);
void age_on_nonce(struct node_age *age, const struct node_trust *before, const struct node_trust *t,
                  hf_time now);
void age_on_sentinel(struct node_age *age, const struct node_trust *t, hf_time now);
void age_on_step(struct node_age *age, hf_time now);

/* A command's answer counts if it was sent at this instant or later. `stood`: our vote stood there,
 * or only a step voided it, and no SET of ours can have run there since. */
hf_time age_due(const struct node_age *age, hf_dur least, bool stood);

#endif

/* How old a node is: since when, at the latest, it has forgotten nothing. Pure. Only a node that is
 * old enough counts for a lease by what it says of a key that was not voted for.
 *
 * (!) A rival's round may have the vote of a node from before that forgot; it is decided within
 * `round_most` of its first byte (agent/core/ballot.h). So a heal is sent at once, for it keeps
 * others out from then on, and counts only where it was sent `timing_age()` after the node forgot:
 * every round that has such a vote is over by then, granted or not, and if it was granted the lease
 * had no quorum at that moment without this node. Whether the key has stood since an earlier heal is
 * of no account: what is asked for is that a hit be later than the rival's decision, and a renewal
 * that was sent after the node came of age is.
 *
 * A node is as old as the smallest of
 *  - its process: a restart may have brought back an older state, nonce and all, so whatever a
 *    younger process says does not count, not even that our key is there;
 *  - what it has: the time since its sentinel was made, since it was seen to change, or since the
 *    clock was seen to step (keys go early by that). Where our vote stood and no SET of ours can have
 *    run since, a renewal counts all the same: the key was ours throughout, so no rival had it. So a
 *    step costs the leases nothing whose keys it leaves, on however many nodes.
 * Acquire votes are not asked for their age: a node in quarantine is not asked for its vote, and the
 * script compares the nonce, so that of a late one, too, nothing was forgotten between our judgement
 * of the node and its vote.
 *
 * What an agent sees happen is as old as that. Of a node that it meets it believes uptime and
 * `created`, unless an earlier agent's journal knows it as one that votes: those are older than that.
 * The operator's word for fresh nodes (--dev, --assume-fresh) covers the process and the sentinel
 * that are found first.
 */
#ifndef HOLDFAST_AGENT_CORE_AGE_H
#define HOLDFAST_AGENT_CORE_AGE_H

#include <stdbool.h>

#include "agent/core/node_trust.h"

struct node_age {
    hf_time process; /* it began then at the latest; HF_TIME_NEVER: not heard of yet */
    hf_time keys;    /* it forgot, or its clock stepped, then at the latest; likewise */
    bool word;       /* the operator's, for what is found first */
    bool proven;     /* what the journal knows gives votes */
    bool met;        /* `keys` is when we met it: `created` may tell more */
};

void age_init(struct node_age *age, bool word, bool proven);

/* Each after the function of node_trust.h that has the same news; `before`: the trust as it was
 * before that (the journal's, when nothing was heard yet). */
void age_on_facts(struct node_age *age, const struct node_trust *before,
                  const struct node_facts *facts, hf_time now);
void age_on_nonce(struct node_age *age, const struct node_trust *before, const struct node_trust *t,
                  hf_time now);
void age_on_sentinel(struct node_age *age, const struct node_trust *t, hf_time now);
void age_on_step(struct node_age *age, hf_time now);

/* From when on a command must have been sent for its answer to count. `stood`: our vote did, or was
 * voided by a step alone, and no SET of ours can have run there since. */
hf_time age_due(const struct node_age *age, hf_dur least, bool stood);

#endif

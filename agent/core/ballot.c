#include "agent/core/ballot.h"

#include "agent/core/fence.h"

#include <assert.h>

uint32_t ballot_electorate(uint32_t may_vote, uint32_t overdue, int q, bool contended)
{
    uint32_t prompt = may_vote & ~overdue;

    return contended && __builtin_popcount(prompt) >= q ? prompt : may_vote;
}

void ballot_init(struct ballot *b, int n, int q, uint64_t fence, hf_time begun)
{
    assert(n >= 1 && n <= HF_NODES_MAX && q >= 1);
    *b = (struct ballot){.n = n, .q = q, .fence = fence, .begun = begun};
    for (int i = 0; i < HF_NODES_MAX; i++)
        b->node[i].a = HF_TIME_PAST;
}

void ballot_ask(struct ballot *b, int node)
{
    b->node[node].vote = BALLOT_ASKED;
}

void ballot_answer(struct ballot *b, int node, enum ballot_vote vote, hf_time a, uint64_t seen)
{
    if (vote == BALLOT_YES || vote == BALLOT_YES_LOW) {
        if (b->node[node].a.ns == HF_TIME_PAST.ns)
            b->node[node].a = a; /* a raise, later, does not arm the key again */
        /* A fence that it accepted is our own: no reason to go higher. */
        if (vote == BALLOT_YES_LOW && seen > b->highest_seen)
            b->highest_seen = seen;
        if (seen != b->fence)
            vote = BALLOT_YES_LOW; /* it accepted the fence that we had before a raise */
    }
    b->node[node].vote = vote;
}

uint64_t ballot_raise(struct ballot *b)
{
    uint64_t before = b->fence;

    b->fence = fence_raise(before, b->highest_seen);
    for (int i = 0; i < b->n && b->fence != before; i++)
        if (b->node[i].vote == BALLOT_YES)
            b->node[i].vote = BALLOT_YES_LOW;
    return b->fence;
}

static hf_time vote_ends(const struct ballot *b, const struct timing *timing, int node)
{
    return hf_time_add(b->node[node].a, timing->span);
}

hf_time ballot_ends(const struct ballot *b, const struct timing *timing)
{
    return hf_time_add(b->begun, timing->round_most);
}

enum ballot_outcome ballot_decide(const struct ballot *b, const struct timing *timing, hf_time now)
{
    /* V >= now + T/2 just when q of the votes last as long, so only those count. */
    hf_time least = hf_time_add(now, timing->grant_least);
    bool over = hf_time_before(ballot_ends(b, timing), now);
    int yes = 0, low = 0, asked = 0, taken = 0, old = 0;

    for (int i = 0; i < b->n; i++) {
        bool lasts = !over && hf_time_reached(vote_ends(b, timing, i), least);
        switch (b->node[i].vote) {
        case BALLOT_YES:
            lasts ? yes++ : old++;
            break;
        case BALLOT_YES_LOW:
            lasts ? low++ : old++;
            break;
        case BALLOT_ASKED:
            asked += !over;
            break;
        case BALLOT_TAKEN:
            taken++;
            break;
        case BALLOT_NOT_ASKED:
        case BALLOT_NO:
            break;
        }
    }
    if (yes >= b->q)
        return BALLOT_WON;
    /* Does not wait for the last answer: a node that is away would cost a whole attempt, while a
     * raise costs a round trip. */
    if (yes + low >= b->q)
        return BALLOT_RAISE;
    if (yes + low + asked >= b->q)
        return BALLOT_UNDECIDED;
    if (yes + low + old >= b->q)
        return BALLOT_TOO_LATE;
    return taken > 0 ? BALLOT_TAKEN_BY_OTHER : BALLOT_FAILED;
}

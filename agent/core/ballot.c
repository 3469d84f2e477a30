#include "agent/core/ballot.h"

#include "agent/core/fence.h"
#include "shm/assert.h"

/* A node answers an acquire, and a raise for each fence that another node has shown; twice as often at most. */
#define ANSWERS_MOST(n) (2 * ((n) + 1))

#define PATIENCE_LEAST  hf_ms(50) /* a scheduler's turn on both hosts */
#define PATIENCE_RTTS   4
#define RTT_OF_FAR      hf_ms(100) /* of a node that is far, and not late */

/* The q-th smallest is the largest that fewer than q are below. */
hf_dur ballot_round_time(const hf_dur rtt[], int n, int q)
{
    hf_dur most = hf_ns(0);

    hf_assert(q >= 1 && q <= n, "n %d, q %d", n, q);
    for (int i = 0; i < n; i++) {
        int below = 0;

        for (int k = 0; k < n; k++)
            below += rtt[k].ns < rtt[i].ns;
        if (below < q)
            most = hf_dur_max(most, rtt[i]);
    }
    return most;
}

hf_dur ballot_patience(hf_dur round_time, hf_dur rtt)
{
    hf_dur most = hf_dur_min(hf_dur_max(round_time, RTT_OF_FAR), rtt);

    return hf_dur_max(PATIENCE_LEAST, hf_ns(PATIENCE_RTTS * most.ns));
}

uint32_t ballot_electorate(uint32_t may_vote, uint32_t overdue, const struct twins *twins, int q,
                           bool contended)
{
    uint32_t prompt = may_vote & ~overdue;

    hf_assert(may_vote >> HF_NODES_MAX == 0 && q >= 1, "may_vote %x, q %d", (unsigned)may_vote, q);
    return contended && twins_count(twins, prompt) >= q ? prompt : may_vote;
}

void ballot_init(struct ballot *b, int n, int q, uint64_t fence, uint64_t limit, hf_time begun)
{
    hf_assert(n >= 1 && n <= HF_NODES_MAX && q >= 1, "n %d, q %d", n, q);
    *b = (struct ballot){.n = n, .q = q, .fence = fence, .limit = limit, .begun = begun};
    for (int i = 0; i < HF_NODES_MAX; i++)
        b->node[i].a = HF_TIME_PAST;
}

static void ballot_check(const struct ballot *b, int node)
{
    hf_assert(b->n >= 1 && b->n <= HF_NODES_MAX, "n %d", b->n);
    hf_assert(b->q >= 1 && b->q <= b->n, "q %d, n %d", b->q, b->n);
    hf_assert(node >= 0 && node < b->n, "node %d of %d", node, b->n);
    hf_assert(b->node[node].vote <= BALLOT_NO, "vote %d of node %d", (int)b->node[node].vote, node);
    hf_assert(b->fence != 0, "node %d", node);
}

void ballot_ask(struct ballot *b, int node)
{
    ballot_check(b, node);
    b->node[node].vote = BALLOT_ASKED;
}

void ballot_answer(struct ballot *b, int node, enum ballot_vote vote, hf_time a, uint64_t seen)
{
    bool again = b->node[node].answers > 0;

    ballot_check(b, node);
    hf_assert(vote != BALLOT_NOT_ASKED && vote != BALLOT_ASKED, "vote %d of node %d", (int)vote,
              node);
    hf_assert(b->node[node].vote != BALLOT_NOT_ASKED, "vote %d of node %d", (int)vote, node);
    if (vote == BALLOT_YES || vote == BALLOT_YES_LOW) {
        if (b->node[node].a.ns == HF_TIME_PAST.ns)
            b->node[node].a = a; /* a raise, later, does not arm the key again */
        /* A fence that it accepted is our own: no reason to go higher. */
        if (vote == BALLOT_YES_LOW && !again)
            b->node[node].shown = seen;
        b->node[node].answers++;
        if ((again && seen > b->fence) || b->node[node].answers > ANSWERS_MOST(b->n))
            vote = BALLOT_NO;
        else if (seen != b->fence)
            vote = BALLOT_YES_LOW; /* it accepted the fence that we had before a raise */
    } else if (vote == BALLOT_TAKEN) {
        b->node[node].shown = seen;
    }
    b->node[node].vote = vote;
}

static uint64_t ballot_believed(const struct ballot *b)
{
    uint64_t shown[HF_NODES_MAX];

    for (int i = 0; i < b->n; i++)
        shown[i] = b->node[i].shown;
    return fence_believed(b->limit, shown, &b->twins, b->n, b->q);
}

static bool ballot_is_believed(const struct ballot *b, int node, uint64_t most)
{
    return b->node[node].shown <= most && fence_can_rise(b->node[node].shown);
}

bool ballot_doubts(const struct ballot *b, int node, uint64_t fence)
{
    struct ballot as_if = *b;

    as_if.node[node].shown = fence;
    return !ballot_is_believed(&as_if, node, ballot_believed(&as_if));
}

enum ballot_vote ballot_vote_of(const struct ballot *b, int node)
{
    enum ballot_vote vote = b->node[node].vote;

    return vote == BALLOT_YES_LOW && !ballot_is_believed(b, node, ballot_believed(b))
               ? BALLOT_DOUBTED
               : vote;
}

uint64_t ballot_raise(struct ballot *b)
{
    uint64_t before = b->fence, most = ballot_believed(b), highest = 0;

    for (int i = 0; i < b->n; i++)
        if (b->node[i].vote == BALLOT_YES_LOW && ballot_is_believed(b, i, most) &&
            b->node[i].shown > highest)
            highest = b->node[i].shown;
    b->fence = fence_raise(before, highest);
    hf_assert(b->fence >= before, "fence %llu after %llu", (unsigned long long)b->fence,
              (unsigned long long)before);
    for (int i = 0; i < b->n && b->fence != before; i++)
        if (b->node[i].vote == BALLOT_YES)
            b->node[i].vote = BALLOT_YES_LOW;
    return b->fence;
}

static hf_time ballot_vote_ends(const struct ballot *b, const struct timing *timing, int node)
{
    return hf_time_add(b->node[node].a, timing->span);
}

hf_time ballot_ends(const struct ballot *b, const struct timing *timing)
{
    return hf_time_add(b->begun, timing->round_most);
}

static bool ballot_is_quorum(const struct ballot *b, uint32_t nodes)
{
    hf_assert(nodes >> b->n == 0, "nodes %x of %d", (unsigned)nodes, b->n);
    return twins_count(&b->twins, nodes) >= b->q;
}

enum ballot_outcome ballot_decide(const struct ballot *b, const struct timing *timing, hf_time now)
{
    /* V >= now + T/2 just when q of the votes last as long, so only those count. */
    hf_time least = hf_time_add(now, timing->grant_least);
    bool over = hf_time_before(ballot_ends(b, timing), now);
    uint32_t yes = 0, low = 0, asked = 0, old = 0, doubted = 0;
    bool taken = false;

    ballot_check(b, 0);
    for (int i = 0; i < b->n; i++) {
        bool lasts = !over && hf_time_reached(ballot_vote_ends(b, timing, i), least);
        uint32_t node = UINT32_C(1) << i;

        switch (ballot_vote_of(b, i)) {
        case BALLOT_YES:
            *(lasts ? &yes : &old) |= node;
            break;
        case BALLOT_YES_LOW:
            *(lasts ? &low : &old) |= node;
            break;
        case BALLOT_ASKED:
            asked |= over ? 0 : node;
            break;
        case BALLOT_TAKEN:
            taken = true;
            break;
        case BALLOT_DOUBTED:
            doubted |= node;
            break;
        case BALLOT_NOT_ASKED:
        case BALLOT_NO:
            break;
        }
    }
    hf_assert(((yes & low) | ((yes | low) & (old | asked | doubted))) == 0,
              "a node counts twice: yes %x, low %x, old %x, asked %x, doubted %x", (unsigned)yes,
              (unsigned)low, (unsigned)old, (unsigned)asked, (unsigned)doubted);
    if (ballot_is_quorum(b, yes))
        return BALLOT_WON;
    /* Does not wait for the last answer: a node that is away would cost a whole attempt, while a
     * raise costs a round trip. */
    if (ballot_is_quorum(b, yes | low))
        return BALLOT_RAISE;
    /* Who is still to answer may show as high a fence. */
    if (ballot_is_quorum(b, yes | low | asked | (asked ? doubted : 0)))
        return BALLOT_UNDECIDED;
    if (ballot_is_quorum(b, yes | low | old))
        return BALLOT_TOO_LATE;
    return taken ? BALLOT_TAKEN_BY_OTHER : BALLOT_FAILED;
}

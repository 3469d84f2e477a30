#include "agent/broker/locks/round_words.h"

#include <stdio.h>

#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/nodes/nodes.h"

static enum round_why round_why_of(const struct round *round, int node)
{
    switch (ballot_vote_of(&round->ballot, node)) {
    case BALLOT_YES:
    case BALLOT_YES_LOW:
        return WHY_VOTED;
    case BALLOT_NOT_ASKED:
        return WHY_UNASKED;
    case BALLOT_ASKED:
        return WHY_SILENT;
    case BALLOT_TAKEN:
        return WHY_TAKEN;
    case BALLOT_DOUBTED:
        return WHY_FENCE;
    case BALLOT_NO:
        break;
    }
    return round->why[node] ? round->why[node] : WHY_FENCE;
}

struct round_whys round_whys(const struct round *round)
{
    struct round_whys whys = {.late = round->late};

    for (int i = 0; i < round->locks->n; i++)
        whys.node[i] = (uint8_t)round_why_of(round, i);
    return whys;
}

static const char *words_of(uint8_t why)
{
    switch (why) {
    case WHY_UNASKED:
        return "may not vote";
    case WHY_STALE:
        return "got the command too late by its clock";
    case WHY_RECORD:
        return "has another fleet record or sentinel";
    case WHY_GONE:
        return "has lost the key";
    case WHY_TAKEN:
        return "has another holder's key";
    case WHY_FENCE:
        return "has a fence that is not believed";
    case WHY_BROKEN:
        return "ended the connection";
    case WHY_TRUST:
        return "lost its vote meanwhile";
    case WHY_ERROR:
        return "answered with an error";
    default:
        return "has not answered in time";
    }
}

bool round_explain(const struct nodes *nodes, const struct round_whys *whys, char *ret_text,
                   size_t size)
{
    uint32_t voted = 0;
    size_t used;

    if (whys->node[0] == WHY_UNKNOWN)
        return false;
    for (int i = 0; i < nodes->n; i++)
        if (whys->node[i] == WHY_VOTED)
            voted |= UINT32_C(1) << i;
    used = (size_t)snprintf(
        ret_text, size, "too few nodes agreed in time: %d of %d voted%s, %d are needed",
        servers_count(&nodes->servers, voted), nodes->n, whys->late ? ", too late" : "", nodes->q);
    for (int i = 0; i < nodes->n && used < size; i++)
        if (whys->node[i] != WHY_VOTED)
            used += (size_t)snprintf(ret_text + used, size - used, "; %s %s",
                                     nodes->config->nodes[i].id, words_of(whys->node[i]));
    return true;
}

bool round_has_winner(const struct round *round)
{
    const struct locks *locks = round->locks;

    for (int i = 0; i < locks->n; i++) {
        uint32_t same = 0;

        for (int k = 0; k < locks->n; k++)
            if (round->in_way[i] != 0 && round->in_way[k] == round->in_way[i])
                same |= UINT32_C(1) << k;
        if (servers_count(&locks->nodes->servers, same) >= locks->q)
            return true;
    }
    return false;
}

bool round_is_slow(const struct round *round, hf_time now)
{
    if (!round)
        return false;
    for (int i = 0; i < round->locks->n; i++)
        if (round->ballot.node[i].vote == BALLOT_TAKEN)
            return false;
    return hf_time_since(now, round->started).ns >= round->timing.attempt.ns / 4;
}

void round_note_fence(const struct round *round, int node, const struct link_reply *reply)
{
    struct nodes *nodes = round->locks->nodes;

    if (reply->outcome != LINK_ANSWERED)
        return;
    if (reply->verdict == VERDICT_LOW && ballot_doubts(&round->ballot, node, reply->fence))
        nodes_doubt(nodes, node, DOUBT_FENCE, round->key, round->key_len);
    else if (reply->verdict == VERDICT_OK)
        nodes_believe(nodes, node, DOUBT_FENCE, round->key, round->key_len);
}

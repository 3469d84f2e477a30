#include "agent/core/tally.h"

#include <stdio.h>
#include <string.h>

void tally_init(struct tally *t, int n, int q)
{
    memset(t, 0, sizeof(*t));
    t->n = n;
    t->q = q;
}

void tally_silent(struct tally *t, int node)
{
    t->node[node].word = TALLY_SILENT;
}

void tally_no_key(struct tally *t, int node)
{
    t->node[node].word = TALLY_NO_KEY;
}

void tally_key(struct tally *t, int node, const char *id, int64_t pttl_ms)
{
    t->node[node].word = TALLY_A_KEY;
    snprintf(t->node[node].id, sizeof(t->node[node].id), "%s", id);
    t->node[node].pttl_ms = pttl_ms;
}

static int words(const struct tally *t, enum tally_word word)
{
    int count = 0;

    for (int i = 0; i < t->n; i++)
        count += t->node[i].word == word;
    return count;
}

static bool same_key(const struct tally *t, int a, int b)
{
    return t->node[a].word == TALLY_A_KEY && t->node[b].word == TALLY_A_KEY &&
           strcmp(t->node[a].id, t->node[b].id) == 0;
}

int tally_count(const struct tally *t, int node)
{
    int count = 0;

    for (int i = 0; i < t->n; i++)
        count += same_key(t, node, i);
    return count;
}

int tally_leader(const struct tally *t)
{
    int leader = -1;

    for (int i = 0; i < t->n; i++)
        if (t->node[i].word == TALLY_A_KEY &&
            (leader < 0 || tally_count(t, i) > tally_count(t, leader)))
            leader = i;
    return leader;
}

bool tally_complete(const struct tally *t)
{
    return words(t, TALLY_NO_WORD) == 0;
}

int tally_answered(const struct tally *t)
{
    return words(t, TALLY_NO_KEY) + words(t, TALLY_A_KEY);
}

enum tally_outcome tally_decide(const struct tally *t)
{
    int leader = tally_leader(t), most = leader < 0 ? 0 : tally_count(t, leader);
    int without = words(t, TALLY_NO_KEY), missing = t->n - tally_answered(t);

    if (most >= t->q)
        return TALLY_HELD;
    if (without >= t->q)
        return TALLY_FREE;
    if (most + missing < t->q && without + missing < t->q)
        return TALLY_SPLIT;
    return tally_complete(t) ? TALLY_UNKNOWN : TALLY_OPEN;
}

int64_t tally_lapse_ms(const struct tally *t, int node)
{
    int64_t left_ms[HF_NODES_MAX]; /* falling; never comes first */
    int count = 0;

    for (int i = 0; i < t->n; i++) {
        int64_t own_ms = t->node[i].pttl_ms < 0 ? INT64_MAX : t->node[i].pttl_ms;
        int at = count;

        if (!same_key(t, node, i))
            continue;
        for (; at > 0 && left_ms[at - 1] < own_ms; at--)
            left_ms[at] = left_ms[at - 1];
        left_ms[at] = own_ms;
        count++;
    }
    if (count == 0)
        return -1;
    count = count < t->q ? count : t->q;
    return left_ms[count - 1] == INT64_MAX ? -1 : left_ms[count - 1];
}

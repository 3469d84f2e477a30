#include "agent/core/census.h"

#include <stdio.h>
#include <string.h>

void census_init(struct census *c, int n, int q)
{
    memset(c, 0, sizeof(*c));
    c->n = n;
    c->q = q;
}

void census_silent(struct census *c, int node)
{
    c->node[node].word = CENSUS_SILENT;
}

void census_no_key(struct census *c, int node)
{
    c->node[node].word = CENSUS_NO_KEY;
}

void census_key(struct census *c, int node, const char *id, int64_t pttl_ms)
{
    c->node[node].word = CENSUS_A_KEY;
    snprintf(c->node[node].id, sizeof(c->node[node].id), "%s", id);
    c->node[node].pttl_ms = pttl_ms;
}

static int words(const struct census *c, enum census_word word)
{
    int count = 0;

    for (int i = 0; i < c->n; i++)
        count += c->node[i].word == word;
    return count;
}

static bool same_key(const struct census *c, int a, int b)
{
    return c->node[a].word == CENSUS_A_KEY && c->node[b].word == CENSUS_A_KEY &&
           strcmp(c->node[a].id, c->node[b].id) == 0;
}

int census_count(const struct census *c, int node)
{
    int count = 0;

    for (int i = 0; i < c->n; i++)
        count += same_key(c, node, i);
    return count;
}

int census_leader(const struct census *c)
{
    int leader = -1;

    for (int i = 0; i < c->n; i++)
        if (c->node[i].word == CENSUS_A_KEY &&
            (leader < 0 || census_count(c, i) > census_count(c, leader)))
            leader = i;
    return leader;
}

bool census_complete(const struct census *c)
{
    return words(c, CENSUS_NO_WORD) == 0;
}

int census_answered(const struct census *c)
{
    return words(c, CENSUS_NO_KEY) + words(c, CENSUS_A_KEY);
}

enum census_outcome census_decide(const struct census *c)
{
    int leader = census_leader(c), most = leader < 0 ? 0 : census_count(c, leader);
    int without = words(c, CENSUS_NO_KEY), missing = c->n - census_answered(c);

    if (most >= c->q)
        return CENSUS_HELD;
    if (without >= c->q)
        return CENSUS_FREE;
    if (most + missing < c->q && without + missing < c->q)
        return CENSUS_SPLIT;
    return census_complete(c) ? CENSUS_UNKNOWN : CENSUS_OPEN;
}

int64_t census_lapse_ms(const struct census *c, int node)
{
    int64_t left[HF_NODES_MAX]; /* falling; never comes first */
    int count = 0;

    for (int i = 0; i < c->n; i++) {
        int64_t own = c->node[i].pttl_ms < 0 ? INT64_MAX : c->node[i].pttl_ms;
        int at = count;

        if (!same_key(c, node, i))
            continue;
        for (; at > 0 && left[at - 1] < own; at--)
            left[at] = left[at - 1];
        left[at] = own;
        count++;
    }
    if (count == 0)
        return -1;
    count = count < c->q ? count : c->q;
    return left[count - 1] == INT64_MAX ? -1 : left[count - 1];
}

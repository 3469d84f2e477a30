#include "agent/core/tally.h"

#include <stdio.h>
#include <string.h>

#include "shm/assert.h"

void tally_init(struct tally *t, int n, int q)
{
    hf_assert(n >= 1 && n <= HF_NODES_MAX && q >= 1 && q <= n, "n %d, q %d", n, q);
    memset(t, 0, sizeof(*t));
    t->n = n;
    t->q = q;
}

static void tally_check(const struct tally *t, int node)
{
    hf_assert(t->n >= 1 && t->n <= HF_NODES_MAX, "n %d", t->n);
    hf_assert(t->q >= 1 && t->q <= t->n, "q %d, n %d", t->q, t->n);
    hf_assert(node >= 0 && node < t->n, "node %d of %d", node, t->n);
    hf_assert(t->node[node].word <= TALLY_A_KEY, "word %d of node %d", (int)t->node[node].word,
              node);
}

void tally_silent(struct tally *t, int node)
{
    tally_check(t, node);
    t->node[node].word = TALLY_SILENT;
}

void tally_no_key(struct tally *t, int node)
{
    tally_check(t, node);
    t->node[node].word = TALLY_NO_KEY;
}

void tally_key(struct tally *t, int node, const char *id, int64_t pttl_ms)
{
    tally_check(t, node);
    t->node[node].word = TALLY_A_KEY;
    snprintf(t->node[node].id, sizeof(t->node[node].id), "%s", id);
    t->node[node].pttl_ms = pttl_ms;
}

static uint32_t tally_bit(int node)
{
    return UINT32_C(1) << node;
}

static uint32_t tally_words(const struct tally *t, enum tally_word word)
{
    uint32_t nodes = 0;

    for (int i = 0; i < t->n; i++)
        if (t->node[i].word == word)
            nodes |= tally_bit(i);
    return nodes;
}

static bool tally_same_key(const struct tally *t, int a, int b)
{
    return t->node[a].word == TALLY_A_KEY && t->node[b].word == TALLY_A_KEY &&
           strcmp(t->node[a].id, t->node[b].id) == 0;
}

static uint32_t tally_alike(const struct tally *t, int node)
{
    uint32_t nodes = 0;

    for (int i = 0; i < t->n; i++)
        if (tally_same_key(t, node, i))
            nodes |= tally_bit(i);
    return nodes;
}

int tally_count(const struct tally *t, int node)
{
    tally_check(t, node);
    return twins_count(&t->twins, tally_alike(t, node));
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
    return tally_words(t, TALLY_NO_WORD) == 0;
}

int tally_answered(const struct tally *t)
{
    return __builtin_popcount(tally_words(t, TALLY_NO_KEY) | tally_words(t, TALLY_A_KEY));
}

static bool tally_decides(const struct tally *t, uint32_t nodes)
{
    return twins_count(&t->twins, nodes) >= t->q;
}

enum tally_outcome tally_decide(const struct tally *t)
{
    int leader = tally_leader(t);
    uint32_t most = leader < 0 ? 0 : tally_alike(t, leader);
    uint32_t without = tally_words(t, TALLY_NO_KEY);
    uint32_t missing = tally_words(t, TALLY_NO_WORD) | tally_words(t, TALLY_SILENT);

    hf_assert((most & without) == 0 && ((most | without) & missing) == 0,
              "a node counts twice: %x, %x, %x", (unsigned)most, (unsigned)without,
              (unsigned)missing);
    if (tally_decides(t, most))
        return TALLY_HELD;
    if (tally_decides(t, without))
        return TALLY_FREE;
    if (!tally_decides(t, most | missing) && !tally_decides(t, without | missing))
        return TALLY_SPLIT;
    return tally_complete(t) ? TALLY_UNKNOWN : TALLY_OPEN;
}

int64_t tally_lapse_ms(const struct tally *t, int node)
{
    hf_time left[HF_NODES_MAX], until; /* in milliseconds, for a node may show any number */
    int count = tally_count(t, node);

    if (count == 0)
        return -1;
    for (int i = 0; i < t->n; i++) {
        left[i] = HF_TIME_PAST;
        if (tally_same_key(t, node, i))
            left[i] = t->node[i].pttl_ms < 0 ? HF_TIME_NEVER : (hf_time){t->node[i].pttl_ms};
    }
    until = twins_validity(&t->twins, left, t->n, count < t->q ? count : t->q);
    return until.ns == HF_TIME_NEVER.ns ? -1 : until.ns;
}

/* --- rivals ----------------------------------------------------------------------------------- */

#define TAG_DIGITS 16

/* Not 0. */
static uint64_t rivals_tag_of(const char *id)
{
    uint64_t tag = 0;

    for (int i = 0; i < TAG_DIGITS; i++)
        tag = tag << 4 | (uint64_t)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
    return tag ? tag : 1;
}

uint32_t rivals_seen(struct rivals *r, uint32_t slot, uint32_t generation, int node, const char *id)
{
    uint64_t *words = r->words + rivals_words(slot % r->room, r->n), *tags = words + 1;
    uint64_t lease = (uint64_t)slot << 32 | generation;
    uint32_t nodes = 0;

    hf_assert(node >= 0 && node < r->n, "node %d of %d", node, r->n);
    if (words[0] != lease) {
        memset(tags, 0, (size_t)r->n * sizeof(*tags));
        words[0] = lease;
    }
    tags[node] = rivals_tag_of(id);
    for (int i = 0; i < r->n; i++)
        if (tags[i] == tags[node])
            nodes |= UINT32_C(1) << i;
    hf_assert(nodes >> node & 1, "nodes %x, node %d", (unsigned)nodes, node);
    return nodes;
}

#include "agent/core/server.h"

#include <string.h>

#include "shm/assert.h"

static void server_set(char *to, const char *run_id)
{
    *stpncpy(to, run_id, TRUST_RUN_ID_LEN) = '\0';
}

static bool server_is_same(const char *run_id, const char *other)
{
    return run_id[0] != '\0' && strcmp(run_id, other) == 0;
}

static bool server_may_be_alike(const struct server *one, const struct server *other)
{
    return server_is_same(one->run_id, other->run_id) ||
           server_is_same(one->run_id, other->before) ||
           server_is_same(one->before, other->run_id) || server_is_same(one->before, other->before);
}

static void server_look(struct servers *s)
{
    s->alike = false;
    for (int i = 0; i < HF_NODES_MAX; i++)
        for (int k = 0; k < i; k++)
            s->alike |= server_may_be_alike(&s->node[i], &s->node[k]);
}

void servers_meet(struct servers *s, int node, const char *run_id)
{
    hf_assert(node >= 0 && node < HF_NODES_MAX, "node %d", node);
    s->node[node] = (struct server){.since = HF_TIME_PAST};
    server_set(s->node[node].run_id, run_id);
    server_look(s);
}

static void server_move(struct server *server, const char *run_id, hf_dur least, hf_time now)
{
    bool voteless = hf_time_before(now, hf_time_add(server->since, least));

    if (!voteless)
        memcpy(server->before, server->run_id, sizeof(server->before));
    server->since = now;
    if (strcmp(server->before, run_id) == 0) { /* and back again */
        server->before[0] = '\0';
        server->since = HF_TIME_PAST;
    }
}

void servers_on_run_id(struct servers *s, int node, const char *run_id, hf_dur least, hf_time now)
{
    struct server *server = &s->node[node];

    hf_assert(node >= 0 && node < HF_NODES_MAX, "node %d", node);
    if (strcmp(server->run_id, run_id) == 0)
        return;
    if (server->run_id[0])
        server_move(server, run_id, least, now);
    server_set(server->run_id, run_id);
    server_look(s);
}

/* A vote that was sent before the node led where it leads now. */
static bool server_is_early(const struct server *server, hf_time a)
{
    return server->before[0] && hf_time_before(a, server->since);
}

static const char *server_giver(const struct server *server, hf_time a)
{
    return server_is_early(server, a) ? server->before : server->run_id;
}

/* (!) A server is followed at `one` by the one that is there now: the vote of `one` was sent before that, and the other one to
 * it; or after it, and the other one before. Two addresses that were swapped are no such thing. */
static bool server_is_followed(const struct server *one, hf_time a, const struct server *other,
                               hf_time b)
{
    if (server_is_early(one, a))
        return !server_is_early(other, b) && server_is_same(one->run_id, other->run_id);
    return hf_time_before(b, one->since) && server_is_same(one->before, server_giver(other, b));
}

static bool server_are_one(const struct server *one, hf_time a, const struct server *other,
                           hf_time b)
{
    return server_is_same(server_giver(one, a), server_giver(other, b)) ||
           server_is_followed(one, a, other, b) || server_is_followed(other, b, one, a);
}

void servers_twins(const struct servers *s, const hf_time *a, int count, struct twins *ret_twins)
{
    hf_assert(count >= 0 && count <= HF_NODES_MAX, "count %d", count);
    memset(ret_twins, 0, sizeof(*ret_twins));
    if (!s || !s->alike)
        return;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (server_are_one(&s->node[i], a ? a[i] : HF_TIME_NEVER, &s->node[k],
                               a ? a[k] : HF_TIME_NEVER))
                twins_pair(ret_twins, i, k);
}

static void server_twins_of_votes(const struct servers *s, const hf_time *d, hf_dur span, int count,
                                  struct twins *ret_twins)
{
    hf_time a[HF_NODES_MAX];

    for (int i = 0; i < count; i++)
        a[i] = d[i].ns == HF_TIME_PAST.ns ? d[i] : hf_time_sub(d[i], span);
    servers_twins(s, a, count, ret_twins);
}

hf_time servers_validity(const struct servers *s, const hf_time *d, hf_dur span, int count, int q)
{
    struct twins twins;

    server_twins_of_votes(s, d, span, count, &twins);
    return twins_validity(&twins, d, count, q);
}

int servers_votes(const struct servers *s, const hf_time *d, hf_dur span, int count, hf_time now)
{
    uint32_t votes = 0;
    struct twins twins;

    for (int i = 0; i < count; i++)
        if (hf_time_before(now, d[i]))
            votes |= UINT32_C(1) << i;
    server_twins_of_votes(s, d, span, count, &twins);
    return twins_count(&twins, votes);
}

int servers_count(const struct servers *s, uint32_t nodes)
{
    struct twins twins;

    servers_twins(s, NULL, HF_NODES_MAX, &twins);
    return twins_count(&twins, nodes);
}

int servers_twin(const struct servers *s, int node)
{
    for (int i = 0; i < HF_NODES_MAX; i++)
        if (i != node && server_is_same(s->node[node].run_id, s->node[i].run_id))
            return i;
    return -1;
}

/* --- twins ------------------------------------------------------------------------------------ */

static uint32_t twins_bit(int node)
{
    return UINT32_C(1) << node;
}

void twins_pair(struct twins *t, int one, int other)
{
    hf_assert(one >= 0 && one < HF_NODES_MAX && other >= 0 && other < HF_NODES_MAX, "nodes %d, %d",
              one, other);
    hf_assert(one != other, "node %d", one);
    t->of[one] = (uint16_t)(t->of[one] | twins_bit(other));
    t->of[other] = (uint16_t)(t->of[other] | twins_bit(one));
}

/* A node that has twins among them counts, and they do not; or the other way about. */
int twins_count(const struct twins *t, uint32_t nodes)
{
    hf_assert(nodes >> HF_NODES_MAX == 0, "nodes %x", (unsigned)nodes);
    for (int i = 0; t && i < HF_NODES_MAX; i++) {
        uint32_t others = nodes & ~twins_bit(i);
        int with, without;

        if (!(nodes & twins_bit(i)) || !(t->of[i] & others))
            continue;
        with = 1 + twins_count(t, others & ~(uint32_t)t->of[i]);
        without = twins_count(t, others);
        return with > without ? with : without;
    }
    return __builtin_popcount(nodes);
}

hf_time twins_validity(const struct twins *t, const hf_time *d, int count, int q)
{
    hf_time best = HF_TIME_PAST;

    hf_assert(count >= 0 && count <= HF_NODES_MAX && q >= 1, "count %d, q %d", count, q);
    for (int i = 0; i < count; i++) {
        uint32_t as_late = 0;

        for (int k = 0; k < count; k++)
            if (hf_time_reached(d[k], d[i]))
                as_late |= twins_bit(k);
        if (hf_time_before(best, d[i]) && twins_count(t, as_late) >= q)
            best = d[i];
    }
    return best;
}

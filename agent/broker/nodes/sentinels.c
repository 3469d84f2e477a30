/* The sentinel of each node, by which it shows that it has not forgotten: read, compared with this
 * fleet's constants, made where none is, and given another nonce where the clock stepped. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/broker_internal.h"
#include "agent/config/list_hash.h"
#include "shm/hex.h"
#include "shm/status.h"

/* How long a sentinel is not made while some node has not told whether it has one: on any
 * disagreement none is made. */
#define SENTINEL_PATIENCE HF_NS_PER_SEC

static void sentinel_done(struct link *link, const struct link_reply *reply, void *arg);

/* Whether the node's sentinel is of another fleet than ours, and how, as text. */
static bool fleet_differs(const struct node_sentinel *s, const struct config *c, int i,
                          char *ret_text, size_t size)
{
    const char *id = c->nodes[i].id;
    char ids_only[sizeof(c->list_hash)];

    list_hash(c->nodes, c->node_count, ids_only);
    if (!s->present)
        return false; /* flushed: a new one is made, and the quarantine begins */
    if (s->ttl_max_ms != c->ttl_max_ms)
        snprintf(ret_text, size, "ttl_max is %" PRId64 " ms on node %s and %" PRIu32 " ms here",
                 s->ttl_max_ms, id, c->ttl_max_ms);
    else if (s->nodes != c->node_count)
        snprintf(ret_text, size, "node %s belongs to a list of %d nodes, ours has %d", id, s->nodes,
                 c->node_count);
    else if (strcmp(s->list_hash, c->list_hash) == 0)
        return false;
    else if (strcmp(s->list_hash, ids_only) == 0)
        snprintf(ret_text, size,
                 "the hosts of node %s have no key_format or key_format_for, and this one has", id);
    else
        snprintf(ret_text, size,
                 "node %s belongs to a list with other ids, another order or other key formats "
                 "than ours",
                 id);
    return true;
}

static void compare_with_fleet(struct broker *b, int i)
{
    struct node *node = &b->nodes[i];

    if (!fleet_differs(&node->trust.sentinel, b->config, i, node->fleet_text,
                       sizeof(node->fleet_text))) {
        node->fleet_text[0] = '\0';
        if (node->trust.refused && node->trust.refusal == HF_REFUSED_FLEET)
            (void)trust_refuse(&node->trust, HF_REFUSED_NOT);
    } else if (!node->trust.refused) {
        (void)trust_refuse(&node->trust, HF_REFUSED_FLEET);
    }
}

/* It can be written to, as far as is known. */
static bool is_ours(const struct node *node)
{
    return !node->trust.refused || node->trust.refusal == HF_REFUSED_EVICTION;
}

static bool new_nonce(char ret_nonce[TRUST_NONCE_LEN + 1])
{
    uint8_t bytes[TRUST_NONCE_LEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    hf_hex_text(bytes, sizeof(bytes), ret_nonce);
    return true;
}

static void send_sentinel(struct broker *b, int i, struct link_sentinel s, link_reply_fn *done,
                          hf_time now)
{
    struct node *node = &b->nodes[i];

    s.wall = clock_wall();
    s.ttl_max_ms = b->config->ttl_max_ms;
    s.nodes = b->n;
    s.list_hash = b->config->list_hash;
    if (link_sentinel(node->link, &s, hf_time_add(now, b->config->timing.attempt), done, b) ==
        HF_OK) {
        node->asking_sentinel = true;
        node->reread = false;
        link_flush(node->link);
    }
}

static void ask_sentinel(struct broker *b, int i, bool replace, hf_time now)
{
    char nonce[TRUST_NONCE_LEN + 1];
    struct link_sentinel s = {.make = true, .replace = replace, .nonce = nonce};

    if (new_nonce(nonce))
        send_sentinel(b, i, s, sentinel_done, now);
}

/* --- a step's trace --------------------------------------------------------------------------- */

static void trace_done(struct link *link, const struct link_reply *reply, void *arg)
{
    struct broker *b = arg;
    int i = link_node(link);

    sentinel_done(link, reply, arg);
    if (reply->outcome != LINK_ANSWERED)
        return;
    trust_on_traced(&b->nodes[i].trust);
    node_records_put(b->agent->node_records, i, &b->nodes[i].trust);
}

/* (!) Before it leaves, the next agent and the renewal thread know the nonce: whatever becomes of the
 * command, it is no change to them. */
static void leave_trace(struct broker *b, int i, hf_time now)
{
    struct node_trust *t = &b->nodes[i].trust;
    char nonce[TRUST_NONCE_LEN + 1];
    struct link_sentinel s = {.nonce = t->trace, .stepped = t->step_nonce};

    if (!t->trace[0]) {
        if (!new_nonce(nonce))
            return;
        trust_choose_trace(t, nonce);
        node_records_put(b->agent->node_records, i, t);
    }
    atomic_store(&b->agent->trace[i], agent_trace_word(t->trace));
    send_sentinel(b, i, s, trace_done, now);
}

/* Wherever one is owed and the node can be asked. Again at the next review if it does not answer, or refuses
 * writes. */
void sentinels_trace(struct broker *b, hf_time now)
{
    for (int i = 0; i < b->n; i++) {
        const struct node *node = &b->nodes[i];

        if (node->up && node->trust.step_nonce[0] && !node->asking_sentinel &&
            !node->fleet_text[0] && is_ours(node))
            leave_trace(b, i, now);
    }
}

/* --- making it -------------------------------------------------------------------------------- */

/* There is none, or another one than the one that was read. */
static bool sentinel_wanted(const struct node *node)
{
    return node->reread || !node->trust.sentinel.present ||
           strcmp(node->trust.sentinel.nonce, node->trust.nonce) != 0;
}

/* A sentinel is made only where none is, only while no node disagrees, and not before every node
 * had its chance to. */
void sentinels_make(struct broker *b, hf_time now)
{
    bool all_read = true;

    for (int i = 0; i < b->n; i++) {
        if (!b->nodes[i].up)
            all_read = false;
        if (b->nodes[i].fleet_text[0] && b->config->new_list && !b->nodes[i].replaced &&
            b->nodes[i].up && !b->nodes[i].asking_sentinel) {
            log_warn("node %s: replacing its sentinel (--new-list): %s", b->config->nodes[i].id,
                     b->nodes[i].fleet_text);
            ask_sentinel(b, i, true, now);
        }
        if (b->nodes[i].fleet_text[0])
            return;
    }
    if (!all_read && hf_time_before(now, hf_time_add(b->started, hf_ns(SENTINEL_PATIENCE))))
        return;
    for (int i = 0; i < b->n; i++) {
        struct node *node = &b->nodes[i];

        if (node->up && sentinel_wanted(node) && !node->asking_sentinel && is_ours(node))
            ask_sentinel(b, i, false, now);
    }
}

unsigned sentinel_adopt(struct broker *b, int i, const struct link_reply *reply, hf_time now)
{
    unsigned events =
        trust_on_sentinel(&b->nodes[i].trust, &reply->sentinel, reply->sentinel_created, now);

    compare_with_fleet(b, i);
    return events;
}

static void sentinel_done(struct link *link, const struct link_reply *reply, void *arg)
{
    struct broker *b = arg;
    int i = link_node(link);
    hf_time now = clock_now();

    if (reply->final)
        b->nodes[i].asking_sentinel = false;
    nodes_on_reply(b, i, reply);
    nodes_on_write(b, i, reply, reply->outcome == LINK_ANSWERED && reply->sentinel_created);
    if (reply->outcome == LINK_ANSWERED) {
        unsigned events = sentinel_adopt(b, i, reply, now);

        if (reply->sentinel_created) {
            b->nodes[i].replaced = true;
            nodes_tell_renewal(b, i, events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED));
        }
        nodes_note(b, i, events, now);
        loop_timer_set(b->loop, &b->review, now);
    }
    /* Without an answer it is asked for again at the next review, not at once: a node that cannot
     * write says so as fast as it is asked. */
}

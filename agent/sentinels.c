/* The sentinel of each node, by which it shows that it has not forgotten: read, compared with this
 * fleet's constants, and made where none is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/broker_internal.h"
#include "agent/clock.h"
#include "agent/list_hash.h"
#include "agent/log.h"
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

static void ask_sentinel(struct broker *b, int i, bool replace, hf_time now)
{
    struct node *node = &b->nodes[i];
    uint8_t bytes[TRUST_NONCE_LEN / 2];
    char nonce[TRUST_NONCE_LEN + 1];
    struct link_sentinel s = {.make = true,
                              .replace = replace,
                              .nonce = nonce,
                              .wall = clock_wall(),
                              .ttl_max_ms = b->config->ttl_max_ms,
                              .nodes = b->n,
                              .list_hash = b->config->list_hash};

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return;
    hf_hex_text(bytes, sizeof(bytes), nonce);
    if (link_sentinel(node->link, &s, hf_time_add(now, b->config->timing.attempt), sentinel_done,
                      b) == HF_OK) {
        node->asking_sentinel = true;
        node->reread = false;
        link_flush(node->link);
    }
}

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

        if (node->up && sentinel_wanted(node) && !node->asking_sentinel &&
            !(node->trust.refused && node->trust.refusal != HF_REFUSED_EVICTION))
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

/* The sentinel of each node, by which it shows that it has not forgotten: read, compared with this
 * fleet's constants, made where none is, and given another nonce where the clock stepped. */
#include "agent/broker/nodes/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/nodes/node_fleet.h"
#include "agent/config/config.h"
#include "shm/assert.h"
#include "shm/text.h"
#include "shm/status.h"

/* How long no sentinel is made while some node has not told whether it has one: if the nodes
 * disagree, none is made. */
#define SENTINEL_PATIENCE HF_NS_PER_SEC
#define TRACES_APART      hf_ms(250)
#define REREADS_AT_ONCE   16 /* of one node; then one a second: it may tell another stamp each time */

static void sentinel_done(struct link *link, const struct link_reply *reply, void *arg);

/* The same ids, and no key formats. */
static bool sentinels_is_of_default_keys(const struct node_sentinel *s, const struct config *c)
{
    char ids_only[sizeof(c->list_hash)];

    list_hash(c->nodes, c->node_count, ids_only);
    return strcmp(s->list_hash, ids_only) == 0;
}

bool sentinel_differs(const struct node_sentinel *s, const struct config *c, int i, char *ret_text,
                      size_t size)
{
    const char *id = c->nodes[i].id;

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
    else if (sentinels_is_of_default_keys(s, c))
        snprintf(ret_text, size,
                 "the other hosts of node %s have no key_format, key_format_for or database, and "
                 "this host has one",
                 id);
    else
        snprintf(ret_text, size,
                 "node %s belongs to a list with other ids, another order or other key formats "
                 "than ours",
                 id);
    return true;
}

static bool sentinels_is_refused_by_fleet(const struct node *node)
{
    return node->trust.refused &&
           (node->trust.refusal == HF_REFUSED_FLEET || node->trust.refusal == HF_REFUSED_MISPLACED);
}

static void sentinels_compare_with_fleet(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];
    const struct fleet *f = &nodes->fleet_view;
    /* A fleet that changed has other constants than the sentinels that it was founded with. */
    bool recorded = (node->trust.sentinel.present && f->node[i].digest[0]) ||
                    (f->known && f->record.version > 1);

    if (recorded ? !fleet_is_foreign(f, i, node->fleet_text, sizeof(node->fleet_text))
                 : !sentinel_differs(&node->trust.sentinel, nodes->config, i, node->fleet_text,
                                     sizeof(node->fleet_text))) {
        node->fleet_text[0] = '\0';
        if (sentinels_is_refused_by_fleet(node))
            (void)trust_refuse(&node->trust, HF_REFUSED_NOT);
    } else if (!node->trust.refused || sentinels_is_refused_by_fleet(node)) {
        (void)trust_refuse(&node->trust, recorded && fleet_misplaced(f, i) >= 0
                                             ? HF_REFUSED_MISPLACED
                                             : HF_REFUSED_FLEET);
    }
}

/* What a node told may be judged otherwise since: a record is gone by, or another node showed which servers these are. */
void sentinels_judge(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].up)
            sentinels_compare_with_fleet(nodes, i);
}

/* As far as is known, it takes writes. */
static bool sentinels_is_ours(const struct node *node)
{
    return !node->trust.refused || node->trust.refusal == HF_REFUSED_EVICTION;
}

static bool sentinels_new_nonce(char ret_nonce[TRUST_NONCE_LEN + 1])
{
    uint8_t bytes[TRUST_NONCE_LEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    hf_hex_text(bytes, sizeof(bytes), ret_nonce);
    return true;
}

static void sentinels_send_sentinel(struct nodes *nodes, int i, struct link_sentinel s,
                                    link_reply_fn *done, hf_time now)
{
    struct node *node = &nodes->node[i];

    hf_assert(i >= 0 && i < nodes->n && (!s.make || s.nonce[0]), "node %d of %d", i, nodes->n);
    hf_assert(!node->asking_sentinel, "node %d", i);
    s.wall = clock_wall();
    s.ttl_max_ms = nodes->config->ttl_max_ms;
    s.nodes = nodes->n;
    s.list_hash = nodes->config->list_hash;
    if (link_sentinel(node->link, &s, hf_time_add(now, nodes->config->timing.attempt), done,
                      nodes) == HF_OK) {
        node->asking_sentinel = true;
        node->reread = false;
        link_flush(node->link);
    }
}

static void sentinels_ask_sentinel(struct nodes *nodes, int i, bool replace, hf_time now)
{
    char nonce[TRUST_NONCE_LEN + 1];
    struct link_sentinel s = {.make = true, .replace = replace, .nonce = nonce};
    const struct fleet_node *seen = &nodes->fleet_view.node[i];

    if (replace && seen->digest[0]) {
        s.other_nonce = seen->nonce;
        s.other = seen->read; /* (!) the one that was judged */
    }
    if (sentinels_new_nonce(nonce))
        sentinels_send_sentinel(nodes, i, s, sentinel_done, now);
}

/* --- a step's trace --------------------------------------------------------------------------- */

static void sentinels_trace_done(struct link *link, const struct link_reply *reply, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);

    sentinel_done(link, reply, arg);
    if (reply->outcome != LINK_ANSWERED)
        return;
    trust_on_traced(&nodes->node[i].trust);
    node_records_put(nodes->agent->node_records, i, &nodes->node[i].trust);
}

/* (!) Before it leaves, the next agent and the renewal thread know the nonce: whatever happens to the
 * command, it is no change to them. */
static void sentinels_leave_trace(struct nodes *nodes, int i, hf_time now)
{
    struct node_trust *t = &nodes->node[i].trust;
    char nonce[TRUST_NONCE_LEN + 1];
    struct link_sentinel s = {.nonce = t->trace, .stepped = t->step_nonce};

    if (!t->trace[0]) {
        if (!sentinels_new_nonce(nonce))
            return;
        trust_choose_trace(t, nonce);
        node_records_put(nodes->agent->node_records, i, t);
    }
    nodes->node[i].traced = now;
    atomic_store(&nodes->agent->trace[i], agent_trace_word(t->trace));
    sentinels_send_sentinel(nodes, i, s, sentinels_trace_done, now);
}

/* On each node that is owed a trace and can be asked. Repeated at the next review if the node does not answer, or
 * refuses writes. (!) Not at once after another: a clock that steps with each answer would be traced and asked without a pause. */
void sentinels_trace(struct nodes *nodes, hf_time now)
{
    for (int i = 0; i < nodes->n; i++) {
        struct node *node = &nodes->node[i];

        if (node->traced.ns && hf_time_before(now, hf_time_add(node->traced, TRACES_APART)))
            continue;
        if (node->up && node->trust.step_nonce[0] && !node->asking_sentinel &&
            !node->fleet_text[0] && sentinels_is_ours(node))
            sentinels_leave_trace(nodes, i, now);
    }
}

/* --- making it -------------------------------------------------------------------------------- */

/* The sentinel is missing, or another one than was read. */
static bool sentinel_wanted(const struct node *node)
{
    return node->reread || !node->trust.sentinel.present ||
           strcmp(node->trust.sentinel.nonce, node->trust.nonce) != 0;
}

/* A sentinel is made only where there is none, only while no node disagrees, and not before every
 * node had its chance to disagree. A host that disagrees with the fleet's record makes none: its constants would be
 * another fleet's to the other hosts. */
void sentinels_make(struct nodes *nodes, hf_time now)
{
    bool all_read = true;
    char text[256];

    for (int i = 0; i < nodes->n; i++) {
        if (!nodes->node[i].up)
            all_read = false;
        if (nodes->node[i].fleet_text[0] && nodes->config->reset_fleet &&
            !nodes->node[i].replaced && nodes->node[i].up && !nodes->node[i].asking_sentinel &&
            fleet_is_seated(&nodes->fleet_view, i)) {
            log_warn("node %s: replacing its sentinel (--reset-fleet): %s",
                     nodes->config->nodes[i].id, nodes->node[i].fleet_text);
            sentinels_ask_sentinel(nodes, i, true, now);
        }
        if (nodes->node[i].fleet_text[0] && !nodes->fleet_view.known)
            return;
    }
    if (!all_read && hf_time_before(now, hf_time_add(nodes->started, hf_ns(SENTINEL_PATIENCE))))
        return;
    if (fleet_differs(&nodes->fleet_view, text, sizeof(text)))
        return;
    for (int i = 0; i < nodes->n; i++) {
        struct node *node = &nodes->node[i];

        if (node->up && sentinel_wanted(node) && !node->asking_sentinel &&
            sentinels_is_ours(node) && fleet_is_seated(&nodes->fleet_view, i))
            sentinels_ask_sentinel(nodes, i, false, now);
    }
}

void sentinel_reread(struct nodes *nodes, int i, hf_time now)
{
    const struct link_sentinel read_only = {.nonce = ""};

    if (!nodes->node[i].asking_sentinel &&
        bucket_take(&nodes->node[i].rereads_paid, hf_ns(HF_NS_PER_SEC), REREADS_AT_ONCE, now))
        sentinels_send_sentinel(nodes, i, read_only, sentinel_done, now);
}

unsigned sentinel_adopt(struct nodes *nodes, int i, const struct link_reply *reply, hf_time now)
{
    unsigned events =
        trust_on_sentinel(&nodes->node[i].trust, &reply->sentinel, reply->sentinel_created, now);

    sentinels_compare_with_fleet(nodes, i);
    return events;
}

static void sentinel_done(struct link *link, const struct link_reply *reply, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);
    hf_time now = clock_now();

    ASSERT_BROKER_THREAD();
    if (reply->final)
        nodes->node[i].asking_sentinel = false;
    nodes_on_reply(nodes, i, reply);
    nodes_on_write(nodes, i, reply, reply->outcome == LINK_ANSWERED && reply->sentinel_created);
    if (reply->outcome == LINK_ANSWERED) {
        unsigned events;

        node_fleet_read(nodes, i, reply);
        events = sentinel_adopt(nodes, i, reply, now);

        if (reply->sentinel_created) {
            nodes->node[i].replaced = true;
            nodes_tell_renewal(nodes, i, events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED));
        }
        nodes_note(nodes, i, events, now);
        loop_timer_set(nodes->loop, &nodes->review, now);
    }
    /* Without an answer it is tried again at the next review, not at once: a node that refuses
     * writes answers as fast as it is asked. */
}

/* What this thread knows of the nodes: whether their clocks and sentinels are to be trusted, the fleet's record, links
 * and their seats, and which answers count. */
#include "agent/renewal/renewal_internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/core/fence.h"
#include "agent/state/stores.h"
#include "shm/assert.h"
#include "shm/status.h"

#define SAME_STEP  hf_ms(6000) /* within this, both threads' links have seen a step */
#define PROBE_MOST hf_ms(5000)

/* --- trust ------------------------------------------------------------------------------------ */

static void nodes_tell_trust(struct renewal_node *node, unsigned events)
{
    struct message *message;

    events &= TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED;
    if (!events)
        return;
    message = message_new(MSG_TRUST);
    message->node_number = node->number;
    message->events = events;
    if (events & TRUST_STEPPED) {
        memcpy(message->nonce, node->trust.step_nonce, sizeof(message->nonce));
        trust_on_traced(&node->trust); /* the broker deals with it */
    }
    mailbox_post(&node->renewal->agent->to_broker, message);
}

/* "No sentinel" was answered before the broker's link made the one that this thread was told of. */
static bool nodes_is_outdated(const struct renewal_node *node, const struct link_reply *reply)
{
    return reply->nonce[0] == '\0' && hf_time_before(reply->sent, node->told);
}

/* The broker's trace of a step, which both threads see. */
static bool nodes_is_own_trace(const struct renewal_node *node, const char *nonce) IN_RENEWAL_THREAD
{
    return strcmp(nonce, renewal_nonce(node)) != 0 && nonce[0] &&
           atomic_load(&node->renewal->agent->trace[node->number]) == agent_trace_word(nonce);
}

static void nodes_note_way_back(struct renewal_node *node, const char *nonce,
                                bool back) IN_RENEWAL_THREAD
{
    if (node->went_back[0] && strcmp(nonce, node->went_back) != 0)
        node->went_back[0] = '\0';
    if (back)
        memcpy(node->went_back, node->trust.step_nonce, sizeof(node->went_back));
}

unsigned renewal_learn(struct renewal_node *node, const struct link_reply *reply)
{
    struct node_trust before = node->trust;
    bool knew = renewal_nonce(node)[0] != '\0';
    unsigned events = trust_on_time(&node->trust, reply->node_time, reply->sent, reply->received);
    bool back = events & TRUST_STEPPED && node->trust.high_us < before.low_us;
    unsigned forgot = TRUST_NOTHING;
    uint32_t mark = node->trust.mark;

    if (!nodes_is_outdated(node, reply)) {
        if (nodes_is_own_trace(node, reply->nonce))
            trust_on_own_trace(&node->trust, reply->nonce);
        else
            forgot = trust_on_nonce(&node->trust, reply->nonce, reply->received);
        age_on_nonce(&node->age, &before, &node->trust, clock_now());
    }
    if (knew && node->trust.mark != mark)
        node->forgot = clock_now();
    if (events & TRUST_STEPPED) {
        node->step_seen = reply->received;
        age_on_step(&node->age, clock_now());
    }
    if (knew)
        events |= forgot; /* the broker deals with a sentinel that was absent */
    else if (renewal_nonce(node)[0])
        renewal_hurry_heals(node);
    nodes_note_way_back(node, reply->nonce, back);
    nodes_tell_trust(node, events);
    return back ? events & ~(unsigned)TRUST_STEPPED : events;
}

/* At the end of a handshake, and at every probe. */
static void nodes_learn_facts(struct renewal_node *node, const struct node_facts *facts,
                              const struct link_reply *reply) IN_RENEWAL_THREAD
{
    const struct config *config = node->renewal->config;
    struct node_trust before;
    unsigned events;

    node->age.word &= trust_has_word(&node->trust, node->renewal->started, clock_now());
    before = node->trust;
    events = trust_on_facts(&node->trust, facts, agent_allowed(config), clock_now());
    age_on_facts(&node->age, &before, facts, clock_now());
    servers_on_run_id(&node->renewal->servers, node->number, facts->run_id,
                      node->renewal->age_least, clock_now());
    if (reply->outcome == LINK_ANSWERED) {
        if (renewal_learn(node, reply) & TRUST_STEPPED)
            renewal_stepped(node, reply->sent);
        if (!nodes_is_outdated(node, reply)) {
            (void)trust_on_sentinel(&node->trust, &reply->sentinel, false, clock_now());
            age_on_sentinel(&node->age, &node->trust, clock_now());
        }
    }
    nodes_tell_trust(node, events);
}

/* --- links ------------------------------------------------------------------------------------ */

static const char *nodes_place_of(const struct renewal_node *node)
{
    const struct fleet_record *record = node->renewal->fleet;
    const struct fleet_seat *seats;

    if (!record)
        return NULL;
    (void)fleet_record_list(record, &seats);
    return seats[node->number].address;
}

void renewal_seat_up(struct renewal_node *node)
{
    char peer[HF_NODE_TEXT_MAX + 1];

    link_peer(node->link, peer);
    node->seated = node->renewal->fleet && strcmp(peer, nodes_place_of(node)) == 0;
    node->astray = node->renewal->fleet && !node->seated;
}

static void nodes_on_up(struct link *link, const struct node_facts *facts,
                        const struct link_reply *sentinel, void *arg)
{
    struct renewal *r = arg;
    struct renewal_node *node = &r->node[link_node(link)];

    ASSERT_RENEWAL_THREAD();
    renewal_seat_up(node);
    nodes_learn_facts(node, facts, sentinel);
    node->ready = clock_now();
    key_deleter_link_up(r->key_deleter, node->number);
}

static void nodes_on_probed(struct link *link, const struct node_facts *facts,
                            const struct link_reply *sentinel, void *arg)
{
    struct renewal *r = arg;

    ASSERT_RENEWAL_THREAD();
    nodes_learn_facts(&r->node[link_node(link)], facts, sentinel);
}

static void nodes_on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    /* Every command in flight was ended; the broker's link to the same node reports it. */
    struct renewal *r = arg;

    ASSERT_RENEWAL_THREAD();
    (void)error;
    (void)text;
    r->node[link_node(link)].seated = false;
    r->node[link_node(link)].astray = r->fleet != NULL;
}

static const struct link_events events = {.up = nodes_on_up,
                                          .probed = nodes_on_probed,
                                          .down = nodes_on_down,
                                          .noticed = renewal_noticed};
static const struct link_events events_untracked = {
    .up = nodes_on_up, .probed = nodes_on_probed, .down = nodes_on_down};

/* Events of the broker's link. Its nonce counts only while this thread has none: our own replies show the
 * rest. Both threads see a step; votes renewed since ours showed it are not voided again. */
void renewal_told(struct renewal_node *node, const struct message *message)
{
    hf_time now = clock_now();

    if (message->events & TRUST_STEPPED &&
        hf_time_reached(now, hf_time_add(node->step_seen, SAME_STEP))) {
        trust_on_told(&node->trust, TRUST_STEPPED, now);
        age_on_step(&node->age, now);
        renewal_stepped(node, now);
    }
    /* The broker's link is up first: a lease may have votes of that server before this link is. */
    if (!node->renewal->servers.node[node->number].run_id[0])
        servers_on_run_id(&node->renewal->servers, node->number, message->run_id,
                          node->renewal->age_least, now);
    if (message->nonce[0] && !renewal_nonce(node)[0]) {
        struct node_trust before = node->trust;

        (void)trust_on_nonce(&node->trust, message->nonce, now);
        age_on_nonce(&node->age, &before, &node->trust, now);
        node->told = now;
        renewal_hurry_heals(node);
    }
}

static struct link_options nodes_options_of(struct renewal *r, int i)
{
    const struct config *config = r->config;

    return (struct link_options){
        .loop = r->loop,
        .resolver = r->resolver,
        .address = seat_address(&r->node[i].seat),
        .node = i,
        .connect_timeout = hf_dur_max(config->timing.attempt, hf_ms(200)),
        .silence = timing_silence(config->timing.ttl),
        /* The nodes' probes are not in step: what they find voids votes
         * until these are renewed. */
        .probe = hf_dur_scale(hf_dur_min(config->timing.renew_after, PROBE_MOST), 100 + 7 * i, 100),
        .events = config->track_held ? &events : &events_untracked,
        .arg = r,
    };
}

int renewal_node_begin(struct renewal *r, int i)
{
    struct renewal_node *node = &r->node[i];
    const struct config *config = r->config;
    struct link_options options;
    struct node_trust before;

    node->renewal = r;
    node->number = i;
    node->ready = r->started;
    node->step_seen = node->void_before = node->forgot = node->told = HF_TIME_PAST;
    trust_init(&node->trust, timing_quarantine(hf_ms(config->ttl_longest_ms)),
               config->assume_fresh || config->ephemeral);
    age_init(&node->age, node->trust.word_age, false);
    if (stores_known_node(r->agent, i, &before)) {
        trust_restore(&node->trust, &before, r->agent->fleet_shown, r->started);
        age_init(&node->age, node->trust.word_age, trust_may_vote(&node->trust, r->started));
    }
    node->first_mark = node->trust.mark;
    servers_meet(&r->servers, i, node->trust.facts.run_id);
    seat_configure(&node->seat, &config->nodes[i]);
    options = nodes_options_of(r, i);
    return link_create(&options, &node->link);
}

void renewal_configure_link(struct renewal_node *node)
{
    const struct link_options options = nodes_options_of(node->renewal, node->number);

    link_configure(node->link, &options);
}

/* --- the fleet's record ------------------------------------------------------------------------ */

/* (!) The server there before was not the fleet's: the one at the seat is met for the first time. */
static void nodes_forget_server(struct renewal_node *node)
{
    const struct config *config = node->renewal->config;

    trust_init(&node->trust, timing_quarantine(hf_ms(config->ttl_longest_ms)),
               config->assume_fresh || config->ephemeral);
    age_init(&node->age, node->trust.word_age, false);
    servers_meet(&node->renewal->servers, node->number, "");
}

static void nodes_aim(struct renewal_node *node) IN_RENEWAL_THREAD
{
    char peer[HF_NODE_TEXT_MAX + 1];

    link_peer(node->link, peer);
    node->seated = strcmp(peer, nodes_place_of(node)) == 0;
    if (!seat_aim(&node->seat, nodes_place_of(node), peer, node->renewal->fleet_here))
        return;
    if (peer[0])
        nodes_forget_server(node);
    renewal_configure_link(node);
}

static void nodes_go_by(struct renewal *r, const struct fleet_record *record)
{
    char text[FLEET_TEXT_SIZE];
    size_t length = fleet_record_text(record, text);

    fleet_record_digest(text, length, r->fleet_digest);
}

void renewal_fleet_begin(struct renewal *r)
{
    if (!r->agent->fleet)
        return;
    r->fleet = malloc(sizeof(*r->fleet));
    if (!r->fleet)
        return; /* the broker tells it again */
    *r->fleet = *r->agent->fleet;
    r->fleet_here = r->agent->fleet_here;
    nodes_go_by(r, r->fleet);
}

void renewal_take_fleet(struct renewal *r, struct fleet_record *record, bool here)
{
    r->fleet_here = here;
    free(r->fleet);
    r->fleet = record;
    nodes_go_by(r, record);
    for (int i = 0; i < r->n; i++)
        if (link_is_up(r->node[i].link))
            nodes_aim(&r->node[i]);
}

void renewal_fleet_end(struct renewal *r)
{
    free(r->fleet);
    r->fleet = NULL;
}

void renewal_mend_seats(struct renewal *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->node[i].astray) {
            r->node[i].astray = false;
            nodes_aim(&r->node[i]);
        }
}

/* The broker would find it with its next probe of the node, and nothing is renewed there until then. */
void renewal_tell_another(struct renewal_node *node, const struct link_reply *reply)
{
    struct message *message;

    if (!node->renewal->fleet || !node->seated || !reply->digest[0] ||
        strcmp(reply->digest, node->renewal->fleet_digest) == 0 ||
        strcmp(reply->digest, node->another) == 0)
        return;
    memcpy(node->another, reply->digest, sizeof(node->another));
    message = message_new(MSG_ANOTHER);
    message->node_number = node->number;
    mailbox_post(&node->renewal->agent->to_broker, message);
}

bool renewal_counts(const struct renewal_node *node, const struct link_reply *reply)
{
    if (!node->renewal->fleet)
        return !reply->digest[0];
    return node->seated && node->renewal->config->counting >> node->number & 1 &&
           strcmp(reply->digest, node->renewal->fleet_digest) == 0;
}

/* --- fence records ---------------------------------------------------------------------------- */

/* The nodes' fence records of our leases, which show other hosts who holds them. They are written
 * again from time to time (agent/core/refresh.h), where they are missing, and after a hand-off.
 * What they show of other leases is judged. */

/* One record in flight. */
struct description {
    struct renewal_node *node;
    uint32_t slot, generation;
};

struct link_lock renewal_lock(const struct renewal_node *node, const struct lease *lease)
{
    return (struct link_lock){
        .key = lease_key(lease),
        .key_len = lease->key_len,
        .token = &lease->token,
        .ttl_ms = lease->ttl_ms,
        .nonce = renewal_nonce(node),
        .digest = node->renewal->fleet ? node->renewal->fleet_digest : "",
        .fence = fence_node_part(lease->fence),
        .holder = {.host = node->renewal->agent->host,
                   .command = lease_comm(lease),
                   .note = lease_note(lease),
                   .pid = lease->pid,
                   .uid = lease->uid,
                   .since = lease->since_wall},
    };
}

bool renewal_outbid(struct renewal_node *node, struct lease *lease, const struct link_reply *reply)
{
    struct renewal *r = node->renewal;
    struct lease_before before = lease_before(lease, -1, HF_LOSS_NONE);
    uint32_t seen;

    if (!*reply->id || reply->fence <= fence_node_part(lease->fence))
        return false;
    seen = rivals_seen(&r->rivals, lease->slot, lease->generation - fence_handoffs(lease->fence),
                       node->number, reply->id);
    renewal_act(r, lease, lease_fsm_outbid(&lease->fsm, seen, clock_now()), &before);
    return lease_is_over(lease);
}

static void records_on_described(struct link *link, const struct link_reply *reply, void *arg)
{
    ASSERT_RENEWAL_THREAD();

    struct description *d = arg;
    struct renewal *r = d->node->renewal;
    struct lease *lease = r->closing ? NULL : renewal_find_token(r, d->slot, d->generation);

    (void)link;
    hf_assert(d->generation >= 1, "slot %u, node %d", (unsigned)d->slot, d->node->number);
    if (lease && !lease_is_over(lease) && reply->outcome == LINK_ANSWERED &&
        reply->verdict == VERDICT_LOW)
        (void)renewal_outbid(d->node, lease, reply);
    if (reply->final)
        free(d);
}

/* Same fence, same tag: in the record only the holder changes and its expiry is set anew. Nothing is
 * written where the key is gone. */
void renewal_describe(struct renewal_node *node, struct lease *lease, hf_time now)
{
    struct link_lock lock = renewal_lock(node, lease);
    struct description *d = malloc(sizeof(*d));

    if (!d)
        return;
    *d = (struct description){node, lease->slot, lease->generation};
    if (link_raise(node->link, &lock, hf_time_add(now, lease_timing(lease).attempt),
                   records_on_described, d) != HF_OK) {
        free(d);
        return;
    }
    lease->undescribed = (uint16_t)(lease->undescribed & ~(1u << node->number));
    link_flush(node->link);
}

void renewal_refresh(struct renewal *r, hf_time now)
{
    uint32_t slot;

    while (refresh_take(&r->refresh, now, &slot))
        if (slot < r->slots_used && r->slots[slot].lease)
            r->slots[slot].lease->undescribed = (uint16_t)renewal_all_nodes(r);
}

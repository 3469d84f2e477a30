#include "agent/renewal/renewal_internal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/real_time.h"
#include "agent/base/thread.h"
#include "agent/base/thread_role.h"
#include "agent/core/ballot.h"
#include "agent/core/draw.h"
#include "agent/record/beats.h"
#include "agent/record/config_order.h"
#include "agent/record/stores.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/measures.h"
#include "shm/status.h"

#define AGAIN_MOST                                                                                 \
    hf_ms(100) /* for releases, before the agent starts again: leases are not renewed meanwhile */
#define BEAT            hf_ms(100)  /* the heartbeat's longest interval */
#define AWAY_LEAST      hf_ms(250)  /* shorter standstills are no reason for a loss */
#define AWAY_TOLD       hf_ms(1000) /* worth an event and a line */
#define MESSAGES_A_TURN 4096        /* so that the clock is read in between */
#define SAME_STEP       hf_ms(6000) /* within this, both threads' links have seen a step */
#define PROBE_MOST      hf_ms(5000)

/* Jitter only: nobody gains from guessing it. */
uint32_t renewal_random(struct renewal *r)
{
    return draw_next(&r->random);
}

/* --- trust in the nodes ---------------- ------------------------------------------------------- */

static void tell_trust(struct renewal_node *node, unsigned events)
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
static bool is_outdated(const struct renewal_node *node, const struct link_reply *reply)
{
    return reply->nonce[0] == '\0' && hf_time_before(reply->sent, node->told);
}

/* The broker's trace of a step, which both threads see. */
static bool is_own_trace(const struct renewal_node *node, const char *nonce) IN_RENEWAL_THREAD
{
    return strcmp(nonce, renewal_nonce(node)) != 0 && nonce[0] &&
           atomic_load(&node->renewal->agent->trace[node->number]) == agent_trace_word(nonce);
}

unsigned renewal_learn(struct renewal_node *node, const struct link_reply *reply)
{
    struct node_trust before = node->trust;
    bool knew = renewal_nonce(node)[0] != '\0';
    unsigned events = trust_on_time(&node->trust, reply->node_time, reply->sent, reply->received);
    unsigned forgot = TRUST_NOTHING;
    uint32_t mark = node->trust.mark;

    if (!is_outdated(node, reply)) {
        if (is_own_trace(node, reply->nonce))
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
    tell_trust(node, events);
    return events;
}

/* At the end of a handshake, and at every probe. */
static void learn_facts(struct renewal_node *node, const struct node_facts *facts,
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
        if (!is_outdated(node, reply)) {
            (void)trust_on_sentinel(&node->trust, &reply->sentinel, false, clock_now());
            age_on_sentinel(&node->age, &node->trust, clock_now());
        }
    }
    tell_trust(node, events);
}

static void on_up(struct link *link, const struct node_facts *facts,
                  const struct link_reply *sentinel, void *arg)
{
    struct renewal *r = arg;
    struct renewal_node *node = &r->node[link_node(link)];

    is_renewal_thread();
    renewal_seat_up(node);
    learn_facts(node, facts, sentinel);
    node->ready = clock_now();
    releaser_link_up(r->releaser, node->number);
}

static void on_probed(struct link *link, const struct node_facts *facts,
                      const struct link_reply *sentinel, void *arg)
{
    struct renewal *r = arg;

    is_renewal_thread();
    learn_facts(&r->node[link_node(link)], facts, sentinel);
}

static void on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    /* Every command in flight was ended; the broker's link to the same node reports it. */
    struct renewal *r = arg;

    is_renewal_thread();
    (void)error;
    (void)text;
    r->node[link_node(link)].seated = false;
    r->node[link_node(link)].astray = r->fleet != NULL;
}

static const struct link_events events = {
    .up = on_up, .probed = on_probed, .down = on_down, .noticed = renewal_noticed};
static const struct link_events events_untracked = {
    .up = on_up, .probed = on_probed, .down = on_down};

/* Events of the broker's link. Its nonce counts only while this thread has none: our own replies show the
 * rest. Both threads see a step; votes renewed since ours showed it are not voided again. */
static void on_told(struct renewal_node *node, const struct message *message) IN_RENEWAL_THREAD
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

/* --- configuration ---------------------------------------------------------------------------- */

static struct link_options options_of(struct renewal *r, int i)
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

void renewal_configure_link(struct renewal_node *node)
{
    const struct link_options options = options_of(node->renewal, node->number);

    link_configure(node->link, &options);
}

/* (!) Between two turns: nothing points into the configuration before after this. Leases keep the times of
 * their own TTL. */
static void take_order(struct renewal *r, struct config_order *order) IN_RENEWAL_THREAD
{
    r->config = order->config;
    for (int i = 0; i < r->n; i++) {
        seat_configure(&r->node[i].seat, &r->config->nodes[i]);
        renewal_configure_link(&r->node[i]);
    }
    config_order_taken(order);
}

/* --- messages --------------------------------------------------------------------------------- */

static void on_stop(struct renewal *r)
{
    hf_time now = clock_now(), over = releaser_attempts_over(r->releaser);

    r->stopping = true;
    /* Releases that have begun get the time of one attempt to leave; some had that time while the
     * broker was going away. */
    if (atomic_load_explicit(&r->agent->stays, memory_order_acquire))
        over = hf_time_min(over, hf_time_add(now, AGAIN_MOST));
    if (loop_timer_set(r->loop, &r->finished, hf_time_max(now, over)) != HF_OK)
        loop_stop(r->loop);
}

static void on_message(struct renewal *r, const struct message *message) IN_RENEWAL_THREAD
{
    struct lease *lease = renewal_find(r, message->slot, message->generation);

    switch (message->kind) {
    case MSG_GRANTED:
        hf_assert(message->lease, "slot %u", (unsigned)message->slot);
        renewal_adopt(r, message->lease, clock_now());
        break;
    case MSG_VOTE:
        lease = renewal_find_token(r, message->slot, message->generation);
        if (lease)
            renewal_vote(r, lease, message->node_number, message->at);
        break;
    case MSG_HAND_OVER:
        hf_assert(message->handoff, "slot %u", (unsigned)message->slot);
        renewal_hand_over(r, message->handoff);
        break;
    case MSG_RELEASE:
        if (lease)
            renewal_release(r, lease, message->reason);
        break;
    case MSG_LOSE:
        if (lease)
            renewal_lose(r, lease, message->reason, message->killing, message->by);
        break;
    case MSG_ABANDON:
        if (lease)
            renewal_abandon(r, lease);
        break;
    case MSG_BEATS:
        if (lease)
            renewal_bind_beats(r, lease, message->beats);
        else
            beats_drop(message->beats);
        break;
    case MSG_TRUST:
        hf_assert(message->node_number >= 0 && message->node_number < r->n, "node %d of %d",
                  message->node_number, r->n);
        on_told(&r->node[message->node_number], message);
        break;
    case MSG_STOP:
        on_stop(r);
        break;
    case MSG_CONFIG:
        take_order(r, message->order);
        break;
    case MSG_FLEET:
        renewal_take_fleet(r, message->fleet, message->here);
        break;
    case MSG_ANOTHER:
    case MSG_CHANGED:
    case MSG_HANDED_OVER:
    case MSG_ENDED:
    case MSG_GO_AWAY:
    case MSG_FLEET_CHANGE:
        hf_assert(message->kind == MSG_STOP, "message %d is the broker's", (int)message->kind);
        break;
    }
}

static void take_messages(struct renewal *r) IN_RENEWAL_THREAD
{
    struct message *message;

    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        message = mailbox_take(&r->agent->to_renewal);
        if (!message)
            return;
        on_message(r, message);
        free(message);
    }
    loop_wake(r->loop);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Stopped, suspended with the host, or without CPU: else hardly more than BEAT passes between turns. */
static void look_for_gap(struct renewal *r, hf_time now)
{
    hf_dur gap = hf_time_since(now, r->turn);

    r->away = r->turn.ns != HF_TIME_PAST.ns && gap.ns >= AWAY_LEAST.ns;
    r->away_since = r->turn;
    if (!r->away || gap.ns < AWAY_TOLD.ns)
        return;
    log_warn("the agent was stopped, suspended or without CPU for %" PRId64
             " ms, and renewed nothing meanwhile",
             hf_dur_ms(gap));
    event_agent_away(r->agent, gap);
}

/* (!) First in every turn, before any descriptor: a lease that the clock has ended is over, whatever
 * an answer says. */
static void on_turn(void *arg, hf_time now)
{
    struct renewal *r = arg;

    is_renewal_thread();
    look_for_gap(r, now);
    r->turn = now;
    atomic_store_explicit(&r->agent->table.header->renewal_beat_ns, now.ns, memory_order_relaxed);
    renewal_tick(r, now);
    renewal_refresh(r, now);
}

static void on_wake(void *arg)
{
    struct renewal *r = arg;

    is_renewal_thread();
    take_messages(r);
    resolver_deliver(r->resolver);
}

/* Last in every turn: all that the turn wrote leaves together. */
static bool on_idle(void *arg)
{
    struct renewal *r = arg;
    hf_time next, now;

    is_renewal_thread();
    renewal_mend_seats(r);
    renewal_pump(r);
    now = clock_now();
    next = hf_time_min(hf_time_add(now, BEAT), renewal_next_due(r));
    next = hf_time_min(next, renewal_next_event(r));
    if (loop_timer_set(r->loop, &r->wake, next) != HF_OK || r->turn.ns == HF_TIME_PAST.ns)
        return false;
    if (hf_time_since(now, r->turn).ns > r->turn_max_ns) {
        r->turn_max_ns = hf_time_since(now, r->turn).ns;
        hf_counter_set(&r->agent->table, HF_COUNTER_TURN_MAX_NS, (uint64_t)r->turn_max_ns);
    }
    hf_extreme_add_ns(&r->agent->table, HF_EXTREME_TURN, hf_time_since(now, r->turn).ns, now);
    if (r->stopping && releaser_busy(r->releaser) == 0)
        loop_stop(r->loop);
    return false;
}

/* Only a turn of the loop is wanted. */
static void on_wake_timer(struct loop_timer *timer, hf_time now)
{
    (void)timer;
    (void)now;
}

static void on_finished(struct loop_timer *timer, hf_time now)
{
    (void)now;
    loop_stop(HF_CONTAINER(timer, struct renewal, finished)->loop);
}

static void *thread_main(void *arg)
{
    struct renewal *r = arg;

    thread_role_now = THREAD_ROLE_RENEWAL;
    is_renewal_thread();
    (void)pthread_setname_np(pthread_self(), "hf-renewal");
    rcu_register_thread();
    /* Leases of an earlier agent come first: their votes were given under the sentinels in the node
     * records. */
    take_messages(r);
    for (int i = 0; i < r->n; i++)
        link_start(r->node[i].link);
    loop_run(r->loop);
    rcu_unregister_thread();
    return NULL;
}

/* --- start and end ---------------------------------------------------------------------------- */

/* A place for each possible lease, so that no queue ever has to grow. */
static int heap_reserve(struct heap *heap, uint32_t capacity)
{
    heap->room = (size_t)capacity + 1;
    heap->items = calloc(heap->room, sizeof(struct heap_item *));
    return heap->items ? HF_OK : HF_ENOMEM;
}

static int cohorts_reserve(struct cohorts *c, uint32_t capacity)
{
    c->room = cohorts_room(capacity);
    c->all = calloc(c->room, sizeof(*c->all));
    c->free = calloc(c->room, sizeof(*c->free));
    c->home = calloc(capacity, sizeof(*c->home));
    c->singles = calloc(capacity, sizeof(*c->singles));
    c->free_singles = calloc(capacity, sizeof(*c->free_singles));
    if (!c->all || !c->free || !c->home || !c->singles || !c->free_singles)
        return HF_ENOMEM;
    return heap_reserve(&c->heap, c->room) == HF_OK ? heap_reserve(&c->alone, capacity) : HF_ENOMEM;
}

static void cohorts_release(struct cohorts *c)
{
    free(c->all);
    free(c->free);
    free(c->home);
    free(c->heap.items);
    free(c->singles);
    free(c->free_singles);
    free(c->alone.items);
}

static int slots_reserve(struct renewal *r, uint32_t capacity)
{
    r->slots = calloc(capacity, sizeof(*r->slots));
    r->by_key.buckets = chains_buckets(capacity);
    r->by_key.first = calloc(r->by_key.buckets, sizeof(uint32_t));
    r->rivals = (struct rivals){.room = rivals_room(capacity), .n = r->n};
    r->rivals.words = calloc(rivals_words(r->rivals.room, r->n), sizeof(uint64_t));
    if (!r->slots || !r->by_key.first || !r->rivals.words)
        return HF_ENOMEM;
    r->by_key.links = &r->slots->same_key;
    r->by_key.step = sizeof(*r->slots);
    return HF_OK;
}

static int node_create(struct renewal *r, int i)
{
    struct renewal_node *node = &r->node[i];
    const struct config *config = r->config;
    struct link_options options;
    struct node_trust before;
    int rc = cohorts_reserve(&node->renewals, r->agent->table.capacity);

    if (rc != HF_OK)
        return rc;
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
    options = options_of(r, i);
    return link_create(&options, &node->link);
}

int renewal_create(struct agent *agent, struct renewal **ret_renewal) BEFORE_OR_AFTER_THREADS
{
    struct renewal *r = calloc(1, sizeof(*r));
    struct link *links[HF_NODES_MAX];
    int rc;

    if (!r)
        return HF_ENOMEM;
    r->agent = agent;
    r->config = agent->config;
    r->n = agent->config->node_count;
    r->q = agent->config->quorum;
    r->age_least = timing_age(hf_ms(agent->config->ttl_longest_ms));
    r->started = clock_now();
    r->turn = HF_TIME_PAST;
    r->wake.fn = on_wake_timer;
    r->finished.fn = on_finished;
    if (getrandom(&r->random, sizeof(r->random), 0) != sizeof(r->random) || r->random == 0)
        r->random = 1;
    phases_init(&r->phases, renewal_random(r));
    refresh_init(&r->refresh, agent->table.capacity, renewal_random(r), r->started);
    (void)!getrandom(r->hash_key, sizeof(r->hash_key), 0);
    rc = loop_create(&r->loop);
    if (rc != HF_OK) {
        free(r);
        return rc;
    }
    mailbox_init(&agent->to_renewal, r->loop);
    rc = resolver_create(r->loop, &r->resolver);
    if (rc == HF_OK)
        rc = cohorts_reserve(&r->looks, agent->table.capacity);
    if (rc == HF_OK)
        rc = slots_reserve(r, agent->table.capacity);
    renewal_fleet_begin(r);
    for (int i = 0; i < r->n && rc == HF_OK; i++) {
        rc = node_create(r, i);
        links[i] = r->node[i].link;
    }
    if (rc == HF_OK)
        rc = releaser_create(r->loop, links, &r->servers, r->n, r->q, renewal_release_counts, r,
                             &r->releaser);
    if (rc != HF_OK) {
        renewal_destroy(r);
        return rc;
    }
    loop_on_turn(r->loop, on_turn, r);
    loop_on_wake(r->loop, on_wake, r);
    loop_on_idle(r->loop, on_idle, r);
    *ret_renewal = r;
    return HF_OK;
}

int renewal_start(struct renewal *r)
{
    const struct config *config = r->agent->config;
    sigset_t all, before;
    char why[256];
    int rc;

    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    rc = thread_start("renewal", thread_main, r, &r->thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc < 0)
        return rc;
    if (config->renewal_priority &&
        real_time_thread(r->thread, (int)config->renewal_priority, why, sizeof(why)) < 0)
        log_warn("%s; renewals go without it", why);
    return HF_OK;
}

void renewal_join(struct renewal *r)
{
    (void)pthread_join(r->thread, NULL);
}

void renewal_destroy(struct renewal *r)
{
    if (!r)
        return;
    r->closing = true;
    for (int i = 0; i < r->n; i++)
        if (r->node[i].link)
            link_destroy(r->node[i].link);
    releaser_destroy(r->releaser);
    if (r->resolver)
        resolver_destroy(r->resolver);
    mailbox_fini(&r->agent->to_renewal);
    loop_destroy(r->loop);
    for (int i = 0; i < r->n; i++)
        cohorts_release(&r->node[i].renewals);
    cohorts_release(&r->looks);
    free(r->slots);
    free(r->by_key.first);
    free(r->rivals.words);
    renewal_fleet_end(r);
    free(r);
}

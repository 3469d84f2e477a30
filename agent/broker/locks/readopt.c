/* What an earlier agent of this boot left in the journal: leases of living holders are readopted
 * as they stood, everything else is released. Recovery is from the journal, never from the
 * table; the table can only take away: a check word that has run out may have been read as "not
 * held", though the journal has a later V.
 *
 * (!) Before any release leaves, the check word is zero in every table object that a living process
 * may still map. Where the table of the earlier agent is not ours to write any more (it was removed
 * or made anew), the release waits for the journaled V.
 */
#include "agent/base/thread.h"
#include "agent/core/timing.h"
#include "agent/broker/locks/locks_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/fence.h"
#include "agent/state/events.h"
#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"

#define SPARE 32 /* two connections to each of nine nodes, and what the threads need */

struct record {
    struct journal_identity id;
    struct journal_lease state;
};

/* A release that waits until nobody can rely on the lease any more. */
struct later {
    LIST_ENTRY(later) all;
    struct loop_timer timer;
    struct name *name;
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
    struct token token;
    hf_dur attempt, ttl;
};

static void readopt_released(const struct release_outcome *outcome, void *arg, void *owner)
{
    ASSERT_BROKER_THREAD();
    (void)outcome;
    (void)owner;
    grant_undone(arg);
}

static void readopt_on_later(struct loop_timer *timer, hf_time now)
{
    struct later *l = HF_CONTAINER(timer, struct later, timer);
    struct locks *locks = name_locks(l->name);
    uint32_t nodes = (1u << locks->n) - 1;
    struct delete_request request =
        delete_request(l->key, l->key_len, &l->token, l->attempt, l->ttl, nodes);

    delete_request_doubt(&request, nodes, hf_time_add(now, l->attempt));
    delete_request_tell(&request, readopt_released, l->name);
    if (key_deleter_start(locks->key_deleter, &request) < 0)
        readopt_released(0, l->name, locks);
    LIST_REMOVE(l, all);
    free(l);
}

void readopt_destroy(struct locks *locks)
{
    struct later *l;

    while ((l = LIST_FIRST(&locks->laters))) {
        loop_timer_cancel(locks->loop, &l->timer);
        LIST_REMOVE(l, all);
        free(l);
    }
}

/* A slot's text that is still its record's name. */
struct old_text {
    uint32_t off;
    uint8_t name_len, note_len, comm_len;
    bool stands, same; /* same: note and command are the record's, too */
};

static bool readopt_same_text(const struct hf_slot_view *view, const struct journal_identity *id)
{
    return view->note_len == id->who.note_len && view->comm_len == id->who.comm_len &&
           memcmp(view->note, id->who.note, id->who.note_len) == 0 &&
           memcmp(view->comm, id->who.comm, id->who.comm_len) == 0;
}

/* All of it belongs to one lease, though a writer was killed inside. */
static bool readopt_is_whole(const struct hf_slot_view *view, const struct record *rec)
{
    return view->generation == rec->state.generation && view->fence == rec->state.fence &&
           view->pid == rec->id.who.pid && view->uid == rec->id.who.uid &&
           view->ttl_ms == rec->id.ttl_ms && readopt_same_text(view, &rec->id);
}

static struct old_text readopt_old_text_of(struct locks *locks, uint32_t slot,
                                           const struct record *rec)
{
    const struct hf_table *table = &locks->agent->table;
    struct old_text text = {0};
    struct hf_slot_view view;
    bool odd;

    text.off = atomic_load_explicit(&table->slots[slot].text_off, memory_order_relaxed);
    if (hf_slot_peek(table, slot, &view, &odd) != HF_OK || view.name_len != rec->id.name_len ||
        memcmp(view.name, rec->id.name, view.name_len) != 0 ||
        (odd && !readopt_is_whole(&view, rec)))
        return text;
    text.name_len = view.name_len;
    text.note_len = view.note_len;
    text.comm_len = view.comm_len;
    text.same = readopt_same_text(&view, &rec->id);
    text.stands = hf_text_pool_reserve(locks->text, text.off, view.name_len, view.note_len,
                                       view.comm_len) == HF_OK;
    return text;
}

/* The journal says that the slot was never used, so its text is nobody's. Most slots are as they should be:
 * a million of them are only read. */
static void readopt_clear_unused(struct locks *locks, uint32_t slot)
{
    struct hf_slot *s = &locks->agent->table.slots[slot];
    struct hf_slot_view view;
    bool odd;

    if (atomic_load_explicit(&s->check, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&s->seq, memory_order_relaxed) & 1 ||
        hf_slot_peek(&locks->agent->table, slot, &view, &odd) != HF_ENOTHELD)
        hf_slot_clear(s);
}

/* (!) All of them before any text is put: readers go on reading slots that have not had their turn, and
 * no other text may be written over those. */
static int readopt_reserve_texts(struct locks *locks)
{
    locks->old_texts = calloc(locks->slots_used + 1, sizeof(*locks->old_texts));
    if (!locks->old_texts)
        return HF_ENOMEM;
    for (uint32_t slot = 0; slot < locks->slots_used && locks->agent->warm; slot++) {
        struct record rec;
        int rc = journal_get(locks->agent->journal, slot, &rec.id, &rec.state);

        if (rc == HF_ENOTHELD)
            hf_slot_clear(&locks->agent->table.slots[slot]);
        else if (rc == HF_OK)
            locks->old_texts[slot] = readopt_old_text_of(locks, slot, &rec);
    }
    for (uint32_t slot = locks->slots_used;
         slot < locks->agent->table.slots_there && locks->agent->warm; slot++)
        readopt_clear_unused(locks, slot);
    return HF_OK;
}

/* Keeps the slot's text. Returns whether its note and command are the record's, too. */
static bool readopt_keep_text(struct locks *locks, struct name *name)
{
    const struct old_text *text = &locks->old_texts[name->slot];

    if (!text->stands)
        return false;
    name->has_text = name->indexed = true;
    name->text_off = text->off;
    name->text_note_len = text->note_len;
    name->text_comm_len = text->comm_len;
    return text->same;
}

/* The slot of a lease that is not readopted: it shows every reader that the lease is over. `lost`: why it was; NONE: it was
 * not. */
static void readopt_slot_over(struct locks *locks, uint32_t slot, enum hf_loss_reason lost)
{
    const struct old_text *text = &locks->old_texts[slot];
    struct name *name = locks->by_slot[slot];
    struct hf_slot *s = &locks->agent->table.slots[slot];

    if (!locks->agent->warm)
        return;
    hf_slot_withdraw(s);
    if (name && !name->has_text)
        (void)readopt_keep_text(locks, name);
    if (name && name->has_text) {
        hf_slot_end(s, lost != HF_LOSS_NONE ? HF_SLOT_LOST : HF_SLOT_ENDED, lost);
        return;
    }
    hf_slot_clear(s);
    if (text->stands)
        hf_text_drop(locks->text, text->off, text->name_len, text->note_len, text->comm_len);
}

/* How long a command of a lease with this TTL may still run: the deadline of an acquire or heal. */
static hf_dur readopt_attempt_of(const struct locks *locks, hf_dur ttl)
{
    struct timing timing;
    char why[160];

    if (timing_derive(ttl, hf_dur_max(ttl, hf_ms(locks->config->ttl_max_ms)), &timing, why,
                      sizeof(why)) == HF_OK)
        return timing.attempt;
    return locks->config->timing.attempt;
}

/* Release only: an unfinished round or release, or a lease that is over. Not before `at`: until then the
 * journal keeps the lease, as lost, for the agent after this one. `lost`: as its slot is to say. */
static int readopt_release_record(struct locks *locks, const struct record *rec, uint32_t slot,
                                  hf_time at, enum hf_loss_reason lost)
{
    struct journal_lease over = rec->state;
    struct journal_lease free_record = {.state = JOURNAL_FREE, .generation = rec->state.generation};
    struct name *name = locks->by_slot[slot]; /* there if it could not be readopted */
    struct later *l;
    int rc = HF_OK;

    over.state = hf_time_before(clock_now(), at) ? JOURNAL_HELD : JOURNAL_ENDING;
    if (over.slot_state < HF_SLOT_LOST && (lost != HF_LOSS_NONE || over.state == JOURNAL_HELD)) {
        over.slot_state = HF_SLOT_LOST;
        over.reason = HF_LOSS_RESTART;
    }
    /* (!) The agent after this one may have neither the table nor the list of nodes that `at` came from. */
    for (int i = 0; i < locks->n && over.state == JOURNAL_HELD; i++)
        over.d[i] = hf_time_max(over.d[i], at);
    journal_put(locks->agent->journal, slot, &over);
    l = calloc(1, sizeof(*l));
    if (!l)
        return HF_ENOMEM;
    if (!name)
        rc = name_at(locks, rec->id.name, rec->id.name_len, slot, &name);
    if (rc == HF_OK && !name_state(name))
        rc = HF_ENOMEM;
    readopt_slot_over(locks, slot, lost);
    if (rc < 0 ||
        config_key(locks->config, rec->id.name, rec->id.name_len, l->key, &l->key_len) < 0) {
        free(l);
        journal_put(locks->agent->journal, slot, &free_record);
        return rc == HF_EBUSY ? HF_OK : rc;
    }
    name->undoing = true;
    name->generation = rec->state.generation;
    name->state->barred_until = at;
    l->name = name;
    l->timer.fn = readopt_on_later;
    l->ttl = hf_ms(rec->id.ttl_ms);
    l->attempt = readopt_attempt_of(locks, l->ttl);
    l->token = rec->id.token;
    LIST_INSERT_HEAD(&locks->laters, l, all);
    return loop_timer_set(locks->loop, &l->timer, at);
}

static int readopt_take_up(struct locks *locks, const struct record *rec, uint32_t slot,
                           struct client *holder, bool abandoned, const struct timing *timing,
                           hf_time frozen, hf_time now) IN_BROKER_THREAD
{
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
    struct name *name;
    struct lease *lease;
    struct message *m;
    uint32_t mark[HF_NODES_MAX];
    hf_time max_hold = HF_TIME_NEVER;
    uint32_t flags = HF_SLOT_F_READOPTED | (rec->id.who.is_job ? HF_SLOT_F_JOB : 0) |
                     (abandoned ? HF_SLOT_F_ORPHAN : 0);
    bool same;
    int rc = config_key(locks->config, rec->id.name, rec->id.name_len, key, &key_len);

    if (rc < 0 || (rc = name_at(locks, rec->id.name, rec->id.name_len, slot, &name)) < 0)
        return rc;
    lease = lease_new(locks->n, &(struct lease_words){.name = rec->id.name,
                                                      .name_len = rec->id.name_len,
                                                      .key = key,
                                                      .key_len = key_len,
                                                      .holder = &rec->id.who,
                                                      .extra = rec->id.who.max_hold_ms != 0});
    if (!lease)
        return HF_ENOMEM;
    for (int i = 0; i < HF_NODES_MAX; i++)
        mark[i] = i < locks->n ? locks->nodes->node[i].trust.mark : 0;
    if (rec->id.who.max_hold_ms)
        max_hold = hf_time_add(rec->id.who.since, hf_ms(rec->id.who.max_hold_ms));
    name->generation = rec->state.generation;
    lease->slot = slot;
    lease->generation = rec->state.generation;
    lease->ttl_ms = (uint32_t)hf_dur_ms(timing->ttl);
    lease->fence = rec->state.fence;
    lease->since = rec->id.who.since;
    lease->since_wall = rec->id.who.since_wall;
    if (lease->has_extra)
        lease_set_token(lease, lease->since, max_hold);
    lease->token = rec->id.token;
    lease_fsm_readopt(&lease->fsm, &locks->nodes->servers, locks->n, locks->q, timing,
                      lease->is_job, max_hold, rec->state.d, mark,
                      rec->state.slot_state == HF_SLOT_LOSING);
    lease_fsm_freeze(&lease->fsm, frozen);
    if (abandoned)
        lease_fsm_was_abandoned(&lease->fsm);
    if (lease->fsm.state == HF_SLOT_LOSING)
        lease->fsm.reason = rec->state.reason;
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, (uint8_t)lease->fsm.state);
    same = readopt_keep_text(locks, name);
    rc = name_publish(name, lease, same, lease->fsm.valid,
                      (uint32_t)lease_fsm_votes(&lease->fsm, now), flags);
    if (rc < 0) {
        lease_free(lease);
        return rc;
    }
    if (lease->fsm.state == HF_SLOT_LOSING)
        hf_slot_mark(&locks->agent->table.slots[slot], lease->fsm.state, flags, lease->fsm.reason);
    grant_hold(name, lease, holder);
    name->last_fence = fence_node_part(rec->state.fence);
    event_readopted(locks->agent, lease);
    m = message_new(MSG_GRANTED);
    m->lease = lease;
    tell_renewal(locks, m);
    return HF_OK;
}

bool readopt_is_held(const struct journal_lease *state)
{
    return journal_is_held(state->state) && state->slot_state < HF_SLOT_LOST;
}

bool readopt_fits(const struct config *config, const struct journal_identity *id,
                  struct timing *ret_timing, char *why, size_t why_size)
{
    hf_dur ttl = hf_ms(id->ttl_ms), most = hf_ms(config->ttl_max_ms);

    /* After the fleet's ttl_max went down. */
    if (config->by_record)
        ttl = hf_dur_min(ttl, most);
    return timing_derive(ttl, most, ret_timing, why, why_size) == HF_OK;
}

enum fate {
    FATE_TAKEN_UP,
    FATE_UNSEEN, /* taken up, to lapse */
    FATE_RELEASED,
    FATE_LOST,
    FATES
};

/* (!) Of another PID namespace: its number means nothing here, so it may live. */
static bool readopt_is_out_of_sight(const struct locks *locks, const struct journal_identity *id)
{
    return id->who.pidns_inode != locks->agent->pidns_inode;
}

static struct client *readopt_living_client(struct locks *locks,
                                            const struct journal_identity *id) IN_BROKER_THREAD
{
    struct client *client;

    if (readopt_is_out_of_sight(locks, id) ||
        client_ghost(locks->clients, id->who.pid, id->who.birth, id->who.uid, id->who.cookie_hash,
                     id->who.comm, &client) < 0)
        return NULL;
    return client;
}

/* (!) The job of a lost lease may live until then, whatever happened to the votes: the agent that lost it left the keys to
 * expire, too. Where V fell at once, with the votes, the guardians hear of it and kill no earlier than the agent that ends
 * with it: then this host keeps the lock from others for as long as the keys would. */
static hf_time readopt_lost_job_time(struct locks *locks, const struct record *rec, uint32_t slot,
                                     hf_time now)
{
    hf_time latest = earlier_validity_latest(locks, &rec->id, &rec->state, slot);
    hf_time keys_end = hf_time_add(now, hf_ms(rec->id.ttl_ms));

    return rec->state.state == JOURNAL_ENDING ? hf_time_max(latest, keys_end) : latest;
}

/* When a lease that is over may be released; an instant in the past means now. */
static hf_time readopt_release_time(struct locks *locks, const struct record *rec, uint32_t slot,
                                    hf_time now)
{
    const struct journal_lease *state = &rec->state;

    if (rec->id.who.is_job && state->slot_state == HF_SLOT_LOST)
        return readopt_lost_job_time(locks, rec, slot, now);
    /* HELD: no release has left, and none may before the time that readopt_release_record() put there. Another table: the agent
     * may have been killed between ENDING and the check word, which is out of reach now. */
    if (state->state == JOURNAL_HELD || !locks->agent->warm)
        return validity_latest(state->d, locks->n);
    return HF_TIME_PAST;
}

/* Ended by an agent that was killed before its release was complete. */
static int readopt_complete(struct locks *locks, const struct record *rec, uint32_t slot,
                            hf_time now) IN_BROKER_THREAD
{
    const struct journal_lease *state = &rec->state;
    bool ended = state->slot_state == HF_SLOT_ENDED;
    enum hf_loss_reason lost = state->slot_state == HF_SLOT_LOST        ? state->reason
                               : state->state == JOURNAL_HELD && !ended ? HF_LOSS_RESTART
                                                                        : HF_LOSS_NONE;
    struct client *holder;
    int rc;

    if (ended)
        event_not_readopted(locks->agent, slot, &rec->id, state, HF_EVENT_RELEASED, HF_LOSS_NONE);
    else if (state->slot_state == HF_SLOT_LOST)
        event_not_readopted(locks->agent, slot, &rec->id, state, HF_EVENT_LOST, state->reason);
    rc = readopt_release_record(
        locks, rec, slot, hf_time_max(now, readopt_release_time(locks, rec, slot, now)), lost);
    if (rc == HF_OK && ended && locks->by_slot[slot] &&
        (holder = readopt_living_client(locks, &rec->id)))
        (void)pending_release_add(holder, locks->by_slot[slot], slot, state->generation);
    return rc;
}

/* A run's first guardian is gone: its tree may live. Waits for the other guardian's word, or lets the
 * lease lapse. Or a holder that is out of sight. */
static struct client *readopt_absent_holder(struct locks *locks,
                                            const struct journal_identity *id) IN_BROKER_THREAD
{
    struct client *holder = client_new(locks->clients);

    if (!holder)
        return NULL;
    holder->user = user_get(locks->clients, id->who.uid);
    if (!holder->user) {
        client_settle(holder);
        return NULL;
    }
    holder->pid = id->who.pid;
    holder->uid = id->who.uid;
    holder->birth = id->who.birth;
    holder->cookie_hash = id->who.cookie_hash;
    return holder;
}

/* The previous holder may ask again for the release that was not answered. */
static void readopt_remember_previous(struct locks *locks, const struct record *rec,
                                      uint32_t slot) IN_BROKER_THREAD
{
    struct journal_identity before;
    struct client *client;

    if (fence_handoffs(rec->state.fence) > 0 &&
        journal_get_previous(locks->agent->journal, slot, &before) == HF_OK &&
        (client = readopt_living_client(locks, &before)))
        (void)pending_release_add(client, NULL, slot, rec->state.generation - 1);
}

/* (!) A hand-off was under way: the old holder's check word goes first, because from here on the lease is
 * the new holder's or nobody's. Never through 0 if the new holder has its word already. */
static void readopt_finish_handoff(struct locks *locks, struct record *rec, uint32_t slot)
{
    struct hf_slot *s = &locks->agent->table.slots[slot];

    if (rec->state.state != JOURNAL_HANDOFF)
        return;
    rec->state.state = JOURNAL_HELD;
    if (locks->agent->warm && atomic_load(&s->check) >> HF_CHECK_GEN_SHIFT != rec->state.generation)
        hf_slot_withdraw(s);
}

static int readopt_decide(struct locks *locks, const struct record *rec, uint32_t slot, hf_time now,
                          enum fate *ret_fate) IN_BROKER_THREAD
{
    struct client *holder = NULL;
    struct timing timing;
    char why[160];
    hf_time frozen = earlier_validity_frozen(locks, &rec->state, slot), over = HF_TIME_PAST,
            valid = hf_time_max(frozen, servers_validity(&locks->nodes->servers, rec->state.d,
                                                         timing_of(hf_ms(rec->id.ttl_ms)).span,
                                                         locks->n, locks->q));
    bool ahead = hf_time_before(now, valid);
    bool alive, unseen = readopt_is_out_of_sight(locks, &rec->id);
    int rc;

    *ret_fate = FATE_RELEASED;
    if (!readopt_is_held(&rec->state))
        return readopt_complete(locks, rec, slot, now);
    holder = readopt_living_client(locks, &rec->id);
    alive = holder;
    if (ahead && locks->agent->warm &&
        !earlier_validity_ran_out(locks, slot, rec->state.generation, now) &&
        !locks->config->ephemeral && (alive || unseen || rec->id.who.is_job) &&
        readopt_fits(locks->config, &rec->id, &timing, why, sizeof(why))) {
        if (!holder)
            holder = readopt_absent_holder(locks, &rec->id);
        rc = holder ? readopt_take_up(locks, rec, slot, holder, !alive, &timing, frozen, now)
                    : HF_ENOMEM;
        if (rc == HF_OK) {
            *ret_fate = unseen ? FATE_UNSEEN : FATE_TAKEN_UP;
            if (unseen)
                release_begin(locks->by_slot[slot], RELEASE_UNSEEN);
            else if (!alive)
                requests_client_gone(locks, holder);
            return HF_OK;
        }
        /* A lease that cannot be kept must not cost the others. */
        log_error("the lease of slot %u cannot be readopted (%s): it is released", slot,
                  hf_status_text(rc));
    }
    *ret_fate = alive || unseen ? FATE_LOST : FATE_RELEASED;
    if (holder)
        client_settle(holder);
    if (ahead && !alive && !unseen)
        event_not_readopted(locks->agent, slot, &rec->id, &rec->state, HF_EVENT_RELEASED,
                            HF_LOSS_HOLDER);
    else
        event_not_readopted(locks->agent, slot, &rec->id, &rec->state, HF_EVENT_LOST,
                            HF_LOSS_RESTART);
    /* (!) A vote may have been void in the journal, and the agent killed before the guardians were shown
     * the earlier V: the job lives until the V that they know. Of other leases nobody relies on that V,
     * except where the table cannot be written. */
    if (rec->id.who.is_job)
        over = earlier_validity_latest(locks, &rec->id, &rec->state, slot);
    else if (!locks->agent->warm || unseen)
        over = validity_latest(rec->state.d, locks->n);
    return readopt_release_record(locks, rec, slot, hf_time_max(now, over), HF_LOSS_RESTART);
}

/* Descriptors that the agent needs before any client has them: ghosts do without a watch rather than use
 * them up. */
static void readopt_spare_take(int fds[SPARE])
{
    for (int i = 0; i < SPARE; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void readopt_spare_give(const int fds[SPARE])
{
    for (int i = 0; i < SPARE; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

int readopt(struct locks *locks) BEFORE_OR_AFTER_THREADS
{
    int spare[SPARE];
    struct agent *agent = locks->agent;
    hf_time now = clock_now();
    unsigned fates[FATES] = {0};
    bool believed = false; /* a lease of the earlier agent may be valid */
    uint32_t capacity = agent->table.capacity;
    int rc;

    event_agent_started(agent);
    for (uint32_t slot = 0; slot < capacity; slot++) {
        locks->generations[slot] = journal_generation(agent->journal, slot);
        if (locks->generations[slot])
            locks->slots_used = slot + 1;
    }
    rc = readopt_reserve_texts(locks);
    if (rc < 0)
        return rc;
    readopt_spare_take(spare);
    for (uint32_t slot = 0; slot < locks->slots_used; slot++) {
        struct record rec;
        enum fate fate;

        rc = journal_get(agent->journal, slot, &rec.id, &rec.state);
        if (rc == HF_ENOTHELD)
            continue;
        if (rc < 0) {
            /* Neither half can be believed: nothing can be released for it, but nobody may rely on
             * it either. */
            log_error("journal record %u cannot be read; its key expires by its TTL", slot);
            readopt_slot_over(locks, slot, HF_LOSS_RESTART);
            continue;
        }
        validity_drop(rec.state.d, locks->n, locks->config->counting);
        readopt_remember_previous(locks, &rec, slot);
        readopt_finish_handoff(locks, &rec, slot);
        rc = readopt_decide(locks, &rec, slot, now, &fate);
        if (rc < 0)
            log_error("the lease of slot %u cannot be released (%s): its key expires by its TTL",
                      slot, hf_status_text(rc));
        fates[fate]++;
        believed |= fate == FATE_TAKEN_UP || fate == FATE_UNSEEN ||
                    (hf_time_before(now, validity_latest(rec.state.d, locks->n)) &&
                     (rec.id.who.is_job || !agent->warm));
    }
    readopt_spare_give(spare);
    free(locks->old_texts);
    locks->old_texts = NULL;
    agent->readopted = true;
    journal_shown_in(agent->journal, hf_table_id(&agent->table));
    atomic_store_explicit(&agent->table.header->slots_used, locks->slots_used,
                          memory_order_release);
    if (agent->warm)
        names_index(locks);
    if (fates[FATE_TAKEN_UP] + fates[FATE_RELEASED] + fates[FATE_LOST])
        log_info("from an earlier agent: %u leases readopted, %u released, %u lost",
                 fates[FATE_TAKEN_UP], fates[FATE_RELEASED], fates[FATE_LOST]);
    if (fates[FATE_UNSEEN])
        log_warn("the holders of %u leases are in another PID namespace: these leases are not "
                 "renewed, and lapse; "
                 "start each agent in the PID namespace of the one before, such as the host's",
                 fates[FATE_UNSEEN]);
    if (believed && locks->config->assume_fresh && !locks->config->ephemeral) {
        log_warn("--assume-fresh is not followed: leases of an earlier agent are still valid");
        for (int i = 0; i < locks->n; i++)
            trust_take_word_back(&locks->nodes->node[i].trust);
    }
    return HF_OK;
}

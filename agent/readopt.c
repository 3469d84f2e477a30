/* What an earlier agent of this boot left in the journal: leases of living holders are taken up
 * where they stood, everything else is released. Recovery is from the journal, never from the
 * table; the table can only take away: a word that has run out may have been read as "not held",
 * though the journal has a later V.
 *
 * (!) Before any release leaves, the check word is zero in every table object that a living process
 * may still map. Where the table of the earlier agent is not ours to write any more (it was removed
 * or made anew), the release waits for the journaled V.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/broker_internal.h"
#include "agent/clock.h"
#include "agent/log.h"
#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"

struct record {
    struct journal_identity id;
    struct journal_lease state;
};

/* A release that waits until nobody can believe in the lease any more. */
struct later {
    LIST_ENTRY(later) all;
    struct loop_timer timer;
    struct resource *resource;
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
    char token[TOKEN_LEN + 1];
    hf_dur attempt, ttl;
};

static void released(int answered, void *arg)
{
    (void)answered;
    resource_undone(arg);
}

static void on_later(struct loop_timer *timer, hf_time now)
{
    struct later *l = HF_CONTAINER(timer, struct later, timer);
    struct broker *b = l->resource->b;
    struct release_order order = {.key = l->key,
                                  .key_len = l->key_len,
                                  .token = l->token,
                                  .nodes = (1u << b->n) - 1,
                                  .in_doubt = (1u << b->n) - 1,
                                  .doubt_until = hf_time_add(now, l->attempt),
                                  .attempt = l->attempt,
                                  .ttl = l->ttl,
                                  .done = released,
                                  .arg = l->resource};

    if (releaser_start(b->releaser, &order) < 0)
        released(0, l->resource);
    LIST_REMOVE(l, all);
    free(l);
}

void readopt_destroy(struct broker *b)
{
    struct later *l;

    while ((l = LIST_FIRST(&b->laters))) {
        loop_timer_cancel(b->loop, &l->timer);
        LIST_REMOVE(l, all);
        free(l);
    }
}

/* Keeps the slot's text where it is still the name, so that no other text is put over it. */
static bool keep_text(struct broker *b, struct resource *r)
{
    struct hf_slot_view view;
    struct hf_slot *slot = &b->agent->table.slots[r->slot];
    uint32_t off = atomic_load_explicit(&slot->text_off, memory_order_relaxed);

    if (!b->agent->warm || hf_slot_read(&b->agent->table, r->slot, &view) != HF_OK ||
        view.name_len != r->name_len || memcmp(view.name, r->name, r->name_len) != 0 ||
        hf_text_pool_reserve(b->text, off, view.name_len, view.note_len, view.comm_len) != HF_OK)
        return false;
    r->has_text = r->indexed = true;
    r->text_off = off;
    r->text_note_len = view.note_len;
    r->text_comm_len = view.comm_len;
    return true;
}

/* The slot of a lease that is not taken up: over, for everybody who still looks. */
static void slot_over(struct broker *b, uint32_t slot, bool was_held)
{
    struct resource *r = b->by_slot[slot];
    struct hf_slot *s = &b->agent->table.slots[slot];

    if (!b->agent->warm)
        return;
    hf_slot_withdraw(s);
    if (r && keep_text(b, r))
        hf_slot_end(s, was_held ? HF_SLOT_LOST : HF_SLOT_ENDED,
                    was_held ? HF_LOSS_RESTART : HF_LOSS_NONE);
    else
        hf_slot_clear(s);
}

/* Release only: a half-won round, an unfinished release, or a lease that is over. Not before `at`:
 * until then the journal keeps the lease, as lost, for an agent that comes after this one. */
static int release_record(struct broker *b, const struct record *rec, uint32_t slot, hf_time at,
                          bool was_held)
{
    struct journal_lease over = rec->state;
    struct journal_lease free_record = {.state = JOURNAL_FREE, .generation = rec->state.generation};
    struct resource *r;
    struct later *l = calloc(1, sizeof(*l));
    int rc;

    if (!l)
        return HF_ENOMEM;
    over.state = hf_time_before(clock_now(), at) ? JOURNAL_HELD : JOURNAL_ENDING;
    over.slot_state = HF_SLOT_LOST;
    journal_put(b->agent->journal, slot, &over);
    rc = resource_at(b, rec->id.name, rec->id.name_len, slot, &r);
    slot_over(b, slot, was_held);
    if (rc < 0 || config_key(b->config, rec->id.name, rec->id.name_len, l->key, &l->key_len) < 0) {
        free(l);
        journal_put(b->agent->journal, slot, &free_record);
        return rc == HF_EBUSY ? HF_OK : rc;
    }
    r->undoing = true;
    r->generation = rec->state.generation;
    r->barred_until = at;
    l->resource = r;
    l->timer.fn = on_later;
    l->ttl = hf_ms(rec->id.ttl_ms);
    l->attempt = b->config->timing.attempt;
    memcpy(l->token, rec->id.token, sizeof(l->token));
    LIST_INSERT_HEAD(&b->laters, l, all);
    return loop_timer_set(b->loop, &l->timer, at);
}

static int take_up(struct broker *b, const struct record *rec, uint32_t slot, struct client *holder,
                   const struct timing *timing, hf_time now)
{
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
    struct resource *r;
    struct lease *lease;
    struct message *m;
    uint32_t mark[HF_NODES_MAX];
    hf_time max_hold = HF_TIME_NEVER;
    int rc = config_key(b->config, rec->id.name, rec->id.name_len, key, &key_len);

    if (rc < 0 || (rc = resource_at(b, rec->id.name, rec->id.name_len, slot, &r)) < 0)
        return rc;
    lease = lease_new(rec->id.name, rec->id.name_len, key, key_len);
    if (!lease)
        return HF_ENOMEM;
    for (int i = 0; i < HF_NODES_MAX; i++)
        mark[i] = i < b->n ? b->nodes[i].trust.mark : 0;
    if (rec->id.max_hold_ms)
        max_hold = hf_time_add((hf_time){rec->id.since_ns}, hf_ms(rec->id.max_hold_ms));
    r->generation = rec->state.generation;
    lease->slot = slot;
    lease->generation = rec->state.generation;
    lease->ttl_ms = rec->id.ttl_ms;
    lease->pid = rec->id.pid;
    lease->uid = rec->id.uid;
    lease->client_id = holder->id;
    lease->request_id = rec->id.request_id;
    lease->fence = rec->state.fence;
    lease->since = (hf_time){rec->id.since_ns};
    lease->since_wall = (hf_wall){rec->id.since_wall_ms};
    lease->run = rec->id.run;
    lease->note_len = rec->id.note_len;
    lease->comm_len = rec->id.comm_len;
    memcpy(lease->token, rec->id.token, sizeof(lease->token));
    memcpy(lease->note, rec->id.note, sizeof(lease->note));
    memcpy(lease->comm, rec->id.comm, sizeof(lease->comm));
    /* What was sent before is in doubt: whoever is not known to hold our key is released again at
     * the end. */
    lease->unanswered = (1u << b->n) - 1;
    lease_fsm_restore(&lease->fsm, b->n, b->q, timing, lease->run, max_hold, rec->state.d, mark,
                      rec->state.slot_state == HF_SLOT_LOSING);
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, (uint32_t)lease->fsm.state);
    (void)keep_text(b, r);
    rc = resource_publish(r, lease, lease->fsm.valid, (uint32_t)lease_fsm_votes(&lease->fsm, now),
                          HF_SLOT_F_READOPTED | (lease->run ? HF_SLOT_F_RUN : 0));
    if (rc < 0) {
        lease_free(lease);
        return rc;
    }
    resource_hold(r, lease, holder);
    r->last_fence = rec->state.fence >> 16;
    m = message_new(MSG_GRANTED);
    m->lease = lease;
    broker_tell_renewal(b, m);
    return HF_OK;
}

/* Killed between the journal's d_i and the check word that follows from them, an agent leaves a word
 * that ends earlier, or (a grant) none. */
static bool word_holds(const struct broker *b, uint32_t slot, uint32_t generation, hf_time now)
{
    uint64_t word = atomic_load(&b->agent->table.slots[slot].check);

    return b->agent->warm && hf_check_holds(word, generation, now);
}

enum fate { FATE_TAKEN_UP, FATE_RELEASED, FATE_LOST, FATES };

static int decide(struct broker *b, const struct record *rec, uint32_t slot, hf_time now,
                  enum fate *ret_fate)
{
    struct client *holder = NULL;
    struct timing timing;
    char why[160];
    hf_time valid = validity_qth(rec->state.d, b->n, b->q);
    bool ahead = hf_time_before(now, valid);
    bool alive;

    *ret_fate = FATE_RELEASED;
    if (rec->state.state == JOURNAL_HELD && rec->state.slot_state == HF_SLOT_LOST) {
        /* Told lost already, by an agent that then waited for V. */
        return release_record(b, rec, slot, hf_time_max(now, valid), true);
    }
    if (rec->state.state != JOURNAL_HELD) {
        /* A word that this agent cannot write may stand until V: killed between ENDING and 0. */
        return release_record(b, rec, slot, b->agent->warm ? now : hf_time_max(now, valid), false);
    }
    alive = rec->id.pidns_inode == b->agent->pidns_inode &&
            client_ghost(b, rec->id.pid, rec->id.start_time, rec->id.uid, rec->id.cookie_hash,
                         rec->id.comm, &holder) == HF_OK;
    if (ahead && word_holds(b, slot, rec->state.generation, now) && !b->config->dev_nodes &&
        (alive || rec->id.run) &&
        timing_derive(hf_ms(rec->id.ttl_ms), hf_ms(b->config->ttl_max_ms), &timing, why,
                      sizeof(why)) == HF_OK) {
        struct resource *r;
        int rc;

        if (!holder) {
            /* The tree of a run may live without its first guardian: wait for the other's word, or
             * let it lapse. */
            holder = client_new(b);
            if (!holder || !(holder->user = user_get(b, rec->id.uid)))
                return HF_ENOMEM;
            holder->pid = rec->id.pid;
            holder->uid = rec->id.uid;
            holder->start_time = rec->id.start_time;
            holder->cookie_hash = rec->id.cookie_hash;
        }
        rc = take_up(b, rec, slot, holder, &timing, now);
        if (rc < 0)
            return rc;
        *ret_fate = FATE_TAKEN_UP;
        r = b->by_slot[slot];
        if (!alive)
            resources_client_gone(r->holder);
        return HF_OK;
    }
    *ret_fate = alive ? FATE_LOST : FATE_RELEASED;
    if (holder)
        client_settle(holder);
    /* A run's tree is dead before V; so is everybody's belief where the table cannot be written any
     * more. */
    return release_record(b, rec, slot, ahead && (rec->id.run || !b->agent->warm) ? valid : now,
                          true);
}

int readopt(struct broker *b)
{
    struct agent *agent = b->agent;
    hf_time now = clock_now();
    unsigned fates[FATES] = {0};
    bool believed = false; /* somebody may rightly believe in a lease of the earlier agent */
    uint32_t capacity = agent->table.capacity;

    for (uint32_t slot = 0; slot < capacity; slot++) {
        b->generations[slot] = journal_generation(agent->journal, slot);
        if (b->generations[slot])
            b->slots_used = slot + 1;
    }
    for (uint32_t slot = 0; slot < b->slots_used; slot++) {
        struct record rec;
        enum fate fate;
        int rc;

        if (agent->warm)
            hf_slot_repair(&agent->table.slots[slot]);
        rc = journal_get(agent->journal, slot, &rec.id, &rec.state);
        if (rc == HF_ENOTHELD) {
            if (agent->warm)
                hf_slot_clear(&agent->table.slots[slot]);
            continue;
        }
        if (rc < 0) {
            /* Neither half can be believed: nothing can be released for it, but nobody may believe
             * in it either. */
            log_error("journal record %u cannot be read; its key lapses by its TTL", slot);
            slot_over(b, slot, true);
            continue;
        }
        rc = decide(b, &rec, slot, now, &fate);
        if (rc < 0)
            return rc;
        fates[fate]++;
        believed |=
            fate == FATE_TAKEN_UP || (hf_time_before(now, validity_qth(rec.state.d, b->n, b->q)) &&
                                      (rec.id.run || !agent->warm));
    }
    atomic_store_explicit(&agent->table.header->slots_used, b->slots_used, memory_order_release);
    if (agent->warm)
        hf_index_rebuild(&agent->table);
    if (fates[FATE_TAKEN_UP] + fates[FATE_RELEASED] + fates[FATE_LOST])
        log_info("from an earlier agent: %u leases taken up, %u released, %u lost",
                 fates[FATE_TAKEN_UP], fates[FATE_RELEASED], fates[FATE_LOST]);
    if (believed && b->config->assume_fresh && !b->config->dev_nodes) {
        log_warn("--assume-fresh is not followed: leases of an earlier agent are still valid");
        for (int i = 0; i < b->n; i++)
            b->nodes[i].trust.fresh_word = b->nodes[i].trust.word_run_id =
                b->nodes[i].trust.word_age = false;
    }
    return HF_OK;
}

#include "tests/sim/sharers.h"

#include <stdlib.h>
#include <string.h>

#include "libclient/internal.h"
#include "shm/status.h"
#include "tests/sim/host.h"
#include "tests/sim/wide.h"

#define SHARERS_MAX 6
#define HANDS       3
#define REAL_SLOTS  (HANDS - 1)
#define LOOK_NS     (50 * SIM_MS) /* of the library, at what is kept */

struct hand {
    struct sharer *sharer;
    struct sim_proc *proc;
    hf_op *op; /* asked for; NULL: nothing */
    struct claim *claim;
    struct hfc_lease lease;
};

struct sharer {
    struct sim_host *host;
    struct hand hand[HANDS];
    struct sim_event act, turn;
    hf_op *whole; /* under way */
    bool alone, holds;
    hf_lease *leases[HF_EXCLUSIVE_LEASES]; /* that it holds */
    sim_ns until;
};

static struct sharer sharers[SHARERS_MAX];
static int sharer_count;
static bool resetting;               /* what is left of the schedule before is freed */
static struct hfc_lease others_slot; /* of slots that nobody wants */

static struct sim_rng *chance(void)
{
    return wide_rng(WIDE_SHARED);
}

static void act_in(struct sharer *s, sim_ns low, sim_ns high)
{
    sim_at(&s->act, sim.now + rng_between(chance(), low, high));
}

static void turn_soon(struct sharer *s)
{
    sim_at(&s->turn, sim.now + SIM_US);
}

/* --- what the library's files stand on -------------------------------------------------------- */

static const struct hfc_kind ask_kind = {.wire_op = HF_OP_ACQUIRE};

static struct hand *hand_of(hf_lease *lease)
{
    return HF_CONTAINER(hfc_lease_of(lease), struct hand, lease);
}

int64_t hfc_now(void)
{
    return sim.now;
}

int hfc_client_check(const hf_client *client)
{
    (void)client;
    return HF_OK;
}

void hfc_lock(hf_client *client) NO_THREAD_SAFETY
{
    (void)client;
}

void hfc_unlock(hf_client *client) NO_THREAD_SAFETY
{
    (void)client;
}

int hfc_acquire_check(const struct hf_acquire_options *options)
{
    (void)options;
    return HF_OK;
}

int hfc_acquire_check_name(const void *name, size_t name_len)
{
    (void)name;
    (void)name_len;
    return HF_OK;
}

int hfc_acquire_explain(const hf_op *op, const char *preface)
{
    (void)preface;
    return op->status;
}

void hfc_timer_pull(hf_client *client, int64_t at_ns)
{
    struct sharer *s = (struct sharer *)client;
    sim_ns at = at_ns > sim.now ? at_ns : sim.now + SIM_US;

    if (at_ns < HFC_NEVER && !resetting)
        sim_at(&s->turn, at);
}

void hfc_op_init(hf_op *op, hf_client *client, const struct hfc_kind *kind)
{
    op->client = client;
    op->kind = kind;
    op->start_ns = sim.now;
}

void hfc_op_move(hf_op *op, enum hfc_op_place place)
{
    op->place = place;
}

void hfc_op_expire(hf_op *op, int64_t now_ns)
{
    if (op->kind->expire)
        op->kind->expire(op, now_ns);
}

int64_t hfc_op_next(const hf_op *op)
{
    return op->kind->next ? op->kind->next(op) : HFC_NEVER;
}

void hfc_op_wait(hf_op *op)
{
    (void)op;
    abort(); /* nothing blocks here */
}

void hfc_op_settle(hf_client *client)
{
    (void)client;
    abort();
}

/* "r0", "r0#N". NULL: a slot that nobody wants. */
static struct hand *hand_named(struct sharer *s, const struct hf_acquire_options *options)
{
    char name[16] = "";
    int slot;

    memcpy(name, options->name, options->name_len);
    if (options->name_len == 2)
        return &s->hand[0];
    slot = atoi(name + 3);
    return slot < REAL_SLOTS ? &s->hand[1 + slot] : NULL;
}

static void ask_if_idle(struct hand *hand)
{
    hf_op *op = hand->op;

    if (!op || op->sent || op->done || !hand->proc->alive || hand->proc->state != PROC_IDLE)
        return;
    op->sent = true;
    proc_asks_for(hand->proc, (int)(hand - hand->sharer->hand), op->entry.ttl_ms,
                  op->entry.deadline_ns);
}

int hfc_acquire_begin(hf_client *client, const struct hf_acquire_options *options, hf_op **ret_op)
{
    struct sharer *s = (struct sharer *)client;
    struct hand *hand = hand_named(s, options);
    hf_op *op = calloc(1, sizeof(*op));

    hfc_op_init(op, client, &ask_kind);
    op->entry.ttl_ms = options->ttl_ms;
    if (options->wait_ms < 0)
        op->entry.deadline_ns = INT64_MAX;
    else if (options->wait_ms > 0)
        op->entry.deadline_ns = host_now(s->host).ns + options->wait_ms * SIM_MS;
    *ret_op = op;
    if (!hand) {
        op->done = true;
        op->lease = &others_slot.handle;
        turn_soon(s);
        return HF_OK;
    }
    if (hand->op)
        abort(); /* one asks for a lock once */
    hand->op = op;
    ask_if_idle(hand);
    return HF_OK;
}

void hfc_acquire_give_back(hf_lease *lease)
{
    struct hand *hand = lease == &others_slot.handle ? NULL : hand_of(lease);

    if (!hand || resetting)
        return;
    hand->claim = NULL;
    if (hand->proc->alive && hand->proc->state == PROC_HOLDING)
        proc_leaves(hand->proc);
}

void hfc_acquire_cancel(hf_op *op)
{
    if (op->lease)
        hfc_acquire_give_back(op->lease);
    op->lease = NULL;
}

void hfc_op_abandon(hf_op *op)
{
    struct sharer *s = (struct sharer *)op->client;

    if (op->kind->cancel)
        op->kind->cancel(op);
    else
        hfc_acquire_cancel(op);
    for (int i = 0; i < HANDS; i++) {
        struct hand *hand = &s->hand[i];

        if (hand->op != op)
            continue;
        hand->op = NULL;
        if (op->sent && !op->done && !resetting && hand->proc->alive &&
            hand->proc->state == PROC_WAITING)
            proc_cancels(hand->proc);
    }
    free(op);
}

static bool is_held(hf_lease *lease)
{
    if (lease == &others_slot.handle)
        return true;
    return hand_of(lease)->claim && claim_believes(hand_of(lease)->claim);
}

int hf_state(hf_lease *lease)
{
    const struct claim *claim;
    int64_t left_ns;

    if (lease == &others_slot.handle)
        return HF_STATE_HELD;
    if (!is_held(lease))
        return HF_STATE_LOST;
    claim = hand_of(lease)->claim;
    if (atomic_load(&claim->slot->lengths) >> 24 == HF_SLOT_LOSING)
        return HF_STATE_LOSING;
    left_ns = atomic_load(&claim->slot->deadline_ns) - host_now(claim->host).ns;
    return left_ns < (int64_t)atomic_load(&claim->slot->ttl_ms) * SIM_MS / 2 ? HF_STATE_LATE
                                                                             : HF_STATE_HELD;
}

int64_t hf_valid_until_ns(hf_lease *lease)
{
    (void)lease;
    return sim.now + LOOK_NS;
}

/* --- what they do ----------------------------------------------------------------------------- */

static size_t lease_count(const struct sharer *s)
{
    return s->alone ? HF_EXCLUSIVE_LEASES : 1;
}

/* As hf_held_all(). */
static bool believes(const struct sharer *s)
{
    for (size_t i = 0; s->holds && i < lease_count(s); i++)
        if (!is_held(s->leases[i]))
            return false;
    return s->holds;
}

static void give_up(struct sharer *s) NO_THREAD_SAFETY
{
    sim_trace("h%d a program gives up r0, %s", s->host->number, s->alone ? "alone" : "shared");
    s->holds = false;
    for (size_t i = 0; i < lease_count(s); i++)
        hfc_acquire_give_back(s->leases[i]);
    act_in(s, SIM_MS, SIM_MS * sim.plan.ttl_ms / 2);
}

static void ask(struct sharer *s)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.name = "r0";
    options.name_len = 2;
    options.ttl_ms = sim.plan.ttl_ms;
    options.wait_ms = -1;
    if (rng_chance(chance(), 0.2))
        options.wait_ms = rng_chance(chance(), 0.5) ? 0 : rng_log(chance(), 10, 4000);
    s->alone = rng_chance(chance(), 0.4);
    sim_trace("h%d a program asks for r0, %s", s->host->number, s->alone ? "alone" : "shared");
    if (s->alone)
        (void)hf_acquire_exclusive_start((hf_client *)s, &options, &s->whole);
    else
        (void)hf_acquire_shared_start((hf_client *)s, &options, REAL_SLOTS, &s->whole);
    turn_soon(s);
}

static void on_turn(struct sim_event *event) NO_THREAD_SAFETY
{
    struct sharer *s = HF_CONTAINER(event, struct sharer, turn);
    hf_op *whole = s->whole;
    int status;

    if (!whole)
        return;
    if (sim.now < s->hand[0].proc->stopped_until && !sim.settling) {
        sim_at(event, sim.now + 10 * SIM_MS);
        return;
    }
    hfc_op_expire(whole, sim.now);
    if (!whole->done)
        return;
    s->whole = NULL;
    status = whole->kind->result(whole, s->leases);
    s->holds = status == HF_OK;
    if (s->holds) {
        sim_trace("h%d a program has r0, %s", s->host->number, s->alone ? "alone" : "shared");
        sim.seen[s->alone ? SEEN_ALONE : SEEN_SHARED] = true;
        s->until = sim.now + rng_log(chance(), SIM_MS, 3 * SIM_MS * (sim_ns)sim.plan.ttl_ms);
    }
    act_in(s, 0, 20 * SIM_MS);
}

static bool all_there(const struct sharer *s)
{
    for (int i = 0; i < HANDS; i++)
        if (!s->hand[i].proc->alive)
            return false;
    return true;
}

static void on_act(struct sim_event *event) NO_THREAD_SAFETY
{
    struct sharer *s = HF_CONTAINER(event, struct sharer, act);

    if (sim.now < s->hand[0].proc->stopped_until && !sim.settling) {
        sim_at(event, sim.now + 10 * SIM_MS);
    } else if (s->holds) {
        if (sim.now >= s->until || sim.settling || !believes(s))
            give_up(s);
        else
            act_in(s, SIM_MS, 20 * SIM_MS);
    } else if (s->whole) {
        return;
    } else if (!sim.settling && all_there(s)) {
        ask(s);
        if (rng_chance(chance(), 0.1)) {
            hfc_op_abandon(s->whole); /* as cancelled at once */
            s->whole = NULL;
            act_in(s, SIM_MS, 50 * SIM_MS);
        }
    } else if (!sim.settling) {
        act_in(s, SIM_MS, 100 * SIM_MS);
    }
}

/* --- its hands -------------------------------------------------------------------------------- */

void hand_hears(struct sim_proc *proc, int status)
{
    struct hand *hand = proc->hand;
    hf_op *op = hand->op;

    if (!op || !op->sent || op->done)
        return;
    op->done = true;
    op->status = status;
    if (status == HF_OK) {
        hand->claim = proc->claim;
        op->lease = &hand->lease.handle;
    }
    turn_soon(hand->sharer);
}

void hand_is_idle(struct sim_proc *proc)
{
    ask_if_idle(proc->hand);
}

void hand_ended(struct sim_proc *proc) NO_THREAD_SAFETY
{
    struct sharer *s = proc->hand->sharer;

    resetting = true;
    if (s->whole)
        hfc_op_abandon(s->whole);
    resetting = false;
    s->whole = NULL;
    s->holds = false;
    sim_cancel(&s->turn);
    for (int i = 0; i < HANDS; i++) {
        s->hand[i].claim = NULL;
        proc_ends(s->hand[i].proc);
    }
    act_in(s, SIM_MS, SIM_MS * sim.plan.ttl_ms);
}

void hand_stops(struct sim_proc *proc, sim_ns until)
{
    for (int i = 0; i < HANDS; i++)
        proc->hand->sharer->hand[i].proc->stopped_until = until;
}

/* --- beginning and end ------------------------------------------------------------------------ */

void sharers_begin(void) NO_THREAD_SAFETY
{
    resetting = true;
    for (int i = 0; i < sharer_count; i++)
        if (sharers[i].whole)
            hfc_op_abandon(sharers[i].whole);
    resetting = false;
    memset(sharers, 0, sizeof(sharers));
    sharer_count = 0;
    if (!wide_has(WIDE_SHARED))
        return;
    sharer_count = (int)rng_between(chance(), 2, SHARERS_MAX);
    for (int i = 0; i < sharer_count; i++) {
        struct sharer *s = &sharers[i];

        s->host = sim.host[i % sim.plan.hosts];
        s->act.fn = on_act;
        s->turn.fn = on_turn;
        for (int k = 0; k < HANDS; k++) {
            s->hand[k].sharer = s;
            s->hand[k].proc = proc_hand(s->host, &s->hand[k]);
        }
        act_in(s, 0, 300 * SIM_MS);
    }
}

void sharers_settle(void)
{
    for (int i = 0; i < sharer_count; i++)
        if (sharers[i].holds)
            sim_at(&sharers[i].act, sim.now);
}

bool sharers_settled(void)
{
    for (int i = 0; i < sharer_count; i++)
        if (sharers[i].whole || sharers[i].holds)
            return false;
    return true;
}

void sharers_check(void)
{
    const struct sharer *alone = NULL, *shares = NULL;

    for (int i = 0; i < sharer_count; i++) {
        const struct sharer *s = &sharers[i];

        if (!s->holds || !believes(s))
            continue;
        if (alone || (s->alone && shares))
            sim_violation("sharing", "r0 is held by a program of h%d, %s, beside one of h%d, %s",
                          s->host->number, s->alone ? "alone" : "shared",
                          (alone ? alone : shares)->host->number, alone ? "alone" : "shared");
        *(s->alone ? &alone : &shares) = s;
    }
}

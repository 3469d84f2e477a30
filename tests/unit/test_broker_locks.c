/* The locks of a host, with the test in place of nodes, clients, key deleter and renewal thread, and of whoever is above:
 * who is served when, what is answered, and in which order things are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/config/config.h"
#include "shm/index.h"
#include "shm/waiters.h"
#include "tests/support/journal.h"
#include "tests/unit/broker_fixture.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/sessions_fixture.h"

#define SHORT_HOLD_MS hf_dur_ms(timing_short_hold())

static struct nodes nodes;
static struct locks *locks;
static char dir[64];
static int forgone;

/* --- below: the nodes ------------------------------------------------------------------------- */

bool nodes_may_vote(HF_UNUSED const struct nodes *n, int node, HF_UNUSED hf_time now)
{
    return links[node].up;
}

static uint32_t of_another_record; /* nodes: bits */

bool nodes_has_our_record(HF_UNUSED const struct nodes *n, int node)
{
    return !(of_another_record >> node & 1);
}

int nodes_up(HF_UNUSED const struct nodes *n)
{
    int count = 0;

    for (int i = 0; i < NODES; i++)
        count += links[i].up;
    return count;
}

int nodes_voting(const struct nodes *n, HF_UNUSED hf_time now)
{
    return nodes_up(n);
}

int nodes_granting(const struct nodes *n, HF_UNUSED hf_time now)
{
    return nodes_up(n);
}

unsigned nodes_on_reply(HF_UNUSED struct nodes *n, HF_UNUSED int node,
                        HF_UNUSED const struct link_reply *reply)
{
    return 0;
}

void nodes_on_write(HF_UNUSED struct nodes *n, HF_UNUSED int node,
                    HF_UNUSED const struct link_reply *reply, HF_UNUSED bool written)
{
}

bool nodes_settling(HF_UNUSED const struct nodes *n, HF_UNUSED hf_time now)
{
    return false;
}

uint64_t nodes_situation(const struct nodes *n, HF_UNUSED hf_time now)
{
    return 1 + (uint64_t)nodes_up(n);
}

bool nodes_time(HF_UNUSED const struct nodes *n, HF_UNUSED hf_time now, hf_nodetime *ret_time)
{
    *ret_time = (hf_nodetime){clock_wall().ms * 1000};
    return true;
}

const char *nodes_fleet_text(HF_UNUSED const struct nodes *n)
{
    return "";
}

void nodes_explain(HF_UNUSED const struct nodes *n, HF_UNUSED hf_time now, char *ret_text,
                   size_t size)
{
    snprintf(ret_text, size, "too few nodes");
}

void nodes_explain_round(HF_UNUSED const struct nodes *n, HF_UNUSED uint32_t errors, char *ret_text,
                         size_t size)
{
    snprintf(ret_text, size, "too few nodes");
}

void nodes_doubt(HF_UNUSED struct nodes *n, HF_UNUSED int node, HF_UNUSED enum node_doubt what,
                 HF_UNUSED const void *key, HF_UNUSED size_t key_len)
{
}

void nodes_believe(HF_UNUSED struct nodes *n, HF_UNUSED int node, HF_UNUSED enum node_doubt what,
                   HF_UNUSED const void *key, HF_UNUSED size_t key_len)
{
}

/* --- below: releases -------------------------------------------------------------------------- */

static struct delete_request releases[MOST];
static struct token released_token[MOST]; /* the request's may be gone by the time of its end */
static int release_count;

int key_deleter_start(HF_UNUSED struct key_deleter *key_deleter,
                      const struct delete_request *request)
{
    assert_true(release_count < MOST);
    released_token[release_count] = *request->token;
    releases[release_count++] = *request;
    return HF_OK;
}

/* q nodes have answered it. */
static void release_answered(int i)
{
    releases[i].done(&(struct release_outcome){.done = QUORUM}, releases[i].arg, NULL);
    end_turn();
}

/* --- below: clients --------------------------------------------------------------------------- */

void client_signal(struct client *c, HF_UNUSED const struct session *but)
{
    assert_non_null(c);
    hear("signal");
}

void client_settle(HF_UNUSED struct client *c)
{
    hear("settle");
}

void answers_owe_no_more(HF_UNUSED struct answers *a)
{
    forgone++;
}

struct client *client_new(HF_UNUSED struct clients *c)
{
    return NULL;
}

int client_ghost(HF_UNUSED struct clients *c, HF_UNUSED uint32_t pid, HF_UNUSED uint64_t start_time,
                 HF_UNUSED uint32_t uid, HF_UNUSED uint64_t hash, HF_UNUSED const char *comm,
                 HF_UNUSED struct client **ret_client)
{
    return HF_ELOST;
}

struct user *user_get(HF_UNUSED struct clients *c, HF_UNUSED uint32_t uid)
{
    return NULL;
}

static unsigned searched; /* leases */

void user_searched(HF_UNUSED const struct clients *c, HF_UNUSED struct user *u, unsigned looked_at,
                   HF_UNUSED hf_time now)
{
    searched += looked_at;
}

uint64_t user_text_units(HF_UNUSED size_t name_len, HF_UNUSED size_t note_len)
{
    return 1;
}

bool user_may_hold(HF_UNUSED const struct clients *c, HF_UNUSED const struct user *u)
{
    return true;
}

void user_say_held(HF_UNUSED const struct clients *c, HF_UNUSED const struct user *u, char *text,
                   size_t size)
{
    snprintf(text, size, "too many");
}

int user_judge_acquire(HF_UNUSED const struct clients *c, HF_UNUSED const struct user *u,
                       HF_UNUSED uint64_t units, HF_UNUSED char *text, HF_UNUSED size_t size)
{
    return HF_OK;
}

/* --- above ------------------------------------------------------------------------------------ */

static void on_lease_changed(void *arg, HF_UNUSED struct client *c)
{
    assert_ptr_equal(arg, &nodes);
    hear("changed");
}

static void on_lease_over(HF_UNUSED void *arg, HF_UNUSED struct client *c)
{
    hear("over");
}

static void on_name_over(HF_UNUSED void *arg, const void *name, size_t name_len)
{
    char word[40];

    snprintf(word, sizeof(word), "name-over:%.*s", (int)name_len, (const char *)name);
    hear(word);
}

/* --- the room --------------------------------------------------------------------------------- */

static void take_steps(void)
{
    locks_step(locks);
}

static int make(void **state)
{
    static const uint8_t hash_key[16] = {1};
    const struct locks_owner owner = {.lease_changed = on_lease_changed,
                                      .lease_over = on_lease_over,
                                      .name_over = on_name_over,
                                      .arg = &nodes};
    char why[WHY_SIZE] = "";
    uint32_t found;

    (void)state;
    rcu_register_thread();
    make_agent();
    make_links();
    make_sessions();
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    if (journal_open(dir, CAPACITY, NODES, "cafe", &agent.clock, &agent.journal, &found, why,
                     sizeof(why)) < 0)
        fail_msg("%s", why);
    assert_int_equal(lease_table_create(CAPACITY, &agent.leases), HF_OK);
    memset(&nodes, 0, sizeof(nodes));
    nodes.config = &config;
    nodes.n = NODES;
    nodes.q = QUORUM;
    nodes.started = its_time;
    for (int i = 0; i < NODES; i++) {
        nodes.node[i].up = true;
        nodes.node[i].trust = trusted();
        nodes.links[i] = nodes.node[i].link = &links[i];
    }
    release_count = forgone = 0;
    of_another_record = 0;
    assert_int_equal(locks_create(&agent, loop, &nodes, &the_clients, hash_key, &owner, &locks),
                     HF_OK);
    last_in_turn = take_steps;
    heard[0] = '\0';
    return 0;
}

/* As the broker ends it. */
static int unmake(void **state)
{
    (void)state;
    locks_go_away(locks, false);
    locks_close(locks);
    for (int i = 0; i < NODES; i++)
        link_destroy(&links[i]);
    locks_destroy(locks);
    lease_table_destroy(agent.leases);
    journal_remove(agent.journal);
    rmdir(dir);
    unmake_agent();
    rcu_unregister_thread();
    return 0;
}

static uint32_t its_flags; /* of acquires: HF_REQ_JOB, HF_REQ_SECOND_GUARDIAN */

static void acquire(int s, uint64_t id, const char *name, hf_time deadline)
{
    struct hf_request_entry q = {.op = HF_OP_ACQUIRE,
                                 .id = id,
                                 .flags = its_flags,
                                 .name_len = (uint8_t)strlen(name),
                                 .deadline_ns = deadline.ns == HF_TIME_PAST.ns ? 0 : deadline.ns};

    memcpy(q.name, name, strlen(name));
    request_acquire(locks, &sessions[s], &q);
    end_turn();
}

static void wait_for(int s, uint64_t id, const char *name)
{
    acquire(s, id, name, HF_TIME_NEVER);
}

static void try_for(int s, uint64_t id, const char *name)
{
    acquire(s, id, name, HF_TIME_PAST);
}

/* Every node answers what it was asked last. */
static void all_say(enum link_verdict verdict)
{
    struct command *asked[NODES];

    for (int i = 0; i < NODES; i++)
        asked[i] = newest(i);
    for (int i = 0; i < NODES; i++)
        if (!asked[i]->answered)
            answer(asked[i], verdict);
}

static struct lease *lease_of(const char *text)
{
    struct name *name = name_find(locks, text, strlen(text));

    return name ? name_lease(name) : NULL;
}

/* The renewal thread is done with it. */
static void ends(struct lease *lease)
{
    hf_slot_withdraw(&agent.table.slots[lease->slot]);
    grant_ended(locks, lease);
    end_turn();
}

/* Granted, and no business of the broker any more. */
static struct lease *granted(int s, uint64_t id, const char *name)
{
    struct lease *lease;

    wait_for(s, id, name);
    all_say(VERDICT_OK);
    assert_int_equal(answered(s, id)->status, HF_OK);
    lease = lease_of(name);
    assert_non_null(lease);
    pass((int)SHORT_HOLD_MS);
    was_posted(MSG_GRANTED);
    heard[0] = '\0';
    return lease;
}

static void release_slot(int s, uint64_t id, uint32_t slot, uint32_t generation)
{
    request_release(locks, &sessions[s],
                    &(struct hf_request_entry){
                        .op = HF_OP_RELEASE, .id = id, .slot = slot, .generation = generation});
    end_turn();
}

static void release(int s, uint64_t id, const struct lease *lease)
{
    release_slot(s, id, lease->slot, lease->generation);
}

/* --- first come first served ------------------------------------------------------------------ */

/* What the renewal thread does when it hands over; whose lease it is then. */
static const struct session *handed_over(void)
{
    struct message *m = posted(MSG_HAND_OVER);
    struct handoff *h = m->handoff;
    const struct session *to = h->waiter->session;
    hf_time a[HF_NODES_MAX];
    uint32_t mark[HF_NODES_MAX] = {0};

    free(m);
    for (int i = 0; i < HF_NODES_MAX; i++)
        a[i] = its_time;
    lease_fsm_init(&h->to->fsm, NULL, NODES, QUORUM, &config.timing, false, HF_TIME_NEVER, a, mark);
    atomic_init(&h->to->valid_ns, h->to->fsm.valid.ns);
    atomic_init(&h->to->state, HF_SLOT_HELD);
    h->verdict = HANDOFF_YES;
    h->valid = h->to->fsm.valid;
    handoff_answered(h);
    end_turn();
    return to;
}

static void waiters_are_served_as_they_came(void **state)
{
    (void)state;
    granted(0, 1, "a");
    wait_for(2, 2, "a");
    wait_for(1, 3, "a");
    wait_for(3, 4, "a");
    assert_int_equal(links[0].asked, 1); /* nodes are not asked for what this host holds */
    release(0, 5, lease_of("a"));
    assert_ptr_equal(handed_over(), &sessions[2]);
    assert_int_equal(answered(2, 2)->status, HF_OK);
    assert_int_equal(answered(0, 5)->status, HF_OK);
    release(2, 6, lease_of("a"));
    assert_ptr_equal(handed_over(), &sessions[1]);
    assert_int_equal(answered(1, 3)->status, HF_OK);
    assert_true(answered(1, 3)->fence > answered(2, 2)->fence);
    release(1, 7, lease_of("a"));
    assert_ptr_equal(handed_over(), &sessions[3]);
    assert_int_equal(times_answered(3, 4), 1);
    assert_int_equal(locks->waiter_count, 0);
}

/* The same where each needs a round. */
static void rounds_are_for_who_came_first(void **state)
{
    (void)state;
    wait_for(2, 1, "a");
    wait_for(0, 2, "a");
    assert_int_equal(links[0].asked, 1); /* one contender of this host */
    all_say(VERDICT_OK);
    assert_int_equal(answered(2, 1)->status, HF_OK);
    assert_int_equal(answers_of[0].count, 0);
    assert_int_equal(progress_of[0].count, 1); /* by whom it is held */
}

static void a_request_sent_again_is_the_same(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    wait_for(0, 1, "a");
    assert_int_equal(forgone, 1);
    all_say(VERDICT_OK);
    assert_int_equal(times_answered(0, 1), 1);
}

/* (!) Its first answer did not count, for it was in doubt who gave it: the key may stand all the same. */
static void what_was_sent_again_is_released_whatever_is_answered_then(void **state)
{
    struct link_reply doubted = reply_now(its_time);

    (void)state;
    wait_for(0, 1, "a");
    doubted.outcome = LINK_ERROR;
    doubted.error = HF_NODE_ERR_NOSCRIPT;
    answer_with(newest(0), doubted);
    assert_int_equal(links[0].asked, 2);
    answer(newest(0), VERDICT_SENTINEL);
    answer(newest(1), VERDICT_SENTINEL);
    assert_int_equal(release_count, 1);
    assert_int_equal(releases[0].nodes, 1 | 4); /* and where no answer has come */
}

/* --- cancel ----------------------------------------------------------------------------------- */

/* (!) A token that was released is never SET again, and its release ends before the next one is written. */
static void a_cancelled_round_is_undone_first(void **state)
{
    struct token first;

    (void)state;
    wait_for(0, 1, "a");
    wait_for(1, 2, "a");
    first = newest(0)->token;
    request_cancel(&sessions[0], 1);
    end_turn();
    assert_int_equal(answered(0, 1)->status, HF_ECANCELED);
    assert_int_equal(release_count, 1);
    assert_int_equal(releases[0].nodes, 7);
    assert_memory_equal(&released_token[0], &first, sizeof(first));
    assert_int_equal(links[0].asked, 1);
    /* It stood there after all: that node is told once more. */
    answer(newest(0), VERDICT_OK);
    assert_int_equal(release_count, 2);
    assert_int_equal(releases[1].nodes, 1);
    assert_int_equal(links[0].asked, 1);
    release_answered(0);
    assert_int_equal(links[0].asked, 2);
    assert_memory_not_equal(&newest(0)->token, &first, sizeof(first));
    assert_true(newest(0)->fence > links[0].commands[0].fence);
    answer(&links[1].commands[0], VERDICT_TAKEN); /* late, and of the first */
    assert_int_equal(answers_of[1].count, 0);
    all_say(VERDICT_OK);
    assert_int_equal(answered(1, 2)->status, HF_OK);
    assert_int_equal(times_answered(0, 1), 1);
    answer(&links[2].commands[0], VERDICT_TAKEN);
    assert_int_equal(locks->round_count, 0);
}

static void a_cancelled_waiter_leaves_the_round_alone(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    wait_for(1, 2, "a");
    request_cancel(&sessions[1], 2);
    end_turn();
    assert_int_equal(answered(1, 2)->status, HF_ECANCELED);
    assert_int_equal(release_count, 0);
    all_say(VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
}

/* What was granted meanwhile is the newest: it is found at once. Who asks for what is not there pays for the search. */
static void a_cancel_in_vain_is_paid_for(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 5; i++) {
        wait_for(0, i, (const char *[]){"a", "b", "c", "d", "e"}[i - 1]);
        all_say(VERDICT_OK);
        assert_int_equal(answered(0, i)->status, HF_OK);
    }
    searched = 0;
    request_cancel(&sessions[0], 5);
    assert_int_equal(searched, 0);
    request_cancel(&sessions[0], 99);
    assert_in_range(searched, 4, 5);
}

static void a_session_that_ends_leaves_its_place(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    wait_for(1, 2, "a");
    sessions[0].closing = true;
    requests_drop_session(&sessions[0]);
    end_turn();
    assert_int_equal(users[0].waiters, 0);
    assert_int_equal(release_count, 1);
    release_answered(0);
    assert_int_equal(links[0].asked, 2);
    all_say(VERDICT_OK);
    assert_int_equal(answered(1, 2)->status, HF_OK);
    assert_int_equal(answers_of[0].count, 0);
}

/* --- what a vote is worth --------------------------------------------------------------------- */

/* (!) Its key stands since the command was sent, however late the answer came. */
/* (!) Whatever word it answers: an honest node writes nothing for another record. */
static void a_vote_of_another_record_does_not_count(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    of_another_record = 1u << 2;
    answer(newest(2), VERDICT_OK);
    answer(newest(1), VERDICT_OK);
    assert_int_equal(times_answered(0, 1), 0);
    of_another_record |= 1u << 1; /* it voted before its record changed */
    answer(newest(0), VERDICT_OK);
    assert_int_equal(times_answered(0, 1), 0);
    assert_null(lease_of("a"));
}

static void a_late_vote_of_another_record_does_not_count(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    answer(newest(0), VERDICT_OK);
    answer(newest(1), VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    pass((int)SHORT_HOLD_MS);
    was_posted(MSG_GRANTED);
    of_another_record = 1u << 2;
    answer(newest(2), VERDICT_OK);
    nothing_was_posted();
}

static void a_vote_counts_from_its_send(void **state)
{
    hf_time sent = its_time;
    const struct lease *lease;

    (void)state;
    wait_for(0, 1, "a");
    pass(10);
    answer(newest(0), VERDICT_OK);
    pass(10);
    answer(newest(1), VERDICT_OK);
    pass(10);
    answer(newest(2), VERDICT_OK);
    lease = lease_of("a");
    assert_non_null(lease);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(lease_fsm_d(&lease->fsm, i).ns, hf_time_add(sent, config.timing.span).ns);
}

/* (!) The answer itself showed the step: by a clock that was behind for a moment the key ends early. */
static void a_late_vote_of_a_clock_that_stepped_does_not_count(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    answer(newest(0), VERDICT_OK);
    answer(newest(1), VERDICT_OK);
    nodes.node[2].trust.reasons = HF_QUARANTINE_CLOCK;
    answer(newest(2), VERDICT_OK);
    assert_true(lease_fsm_is_void(&lease_of("a")->fsm, 2));
}

static void say_low(int node)
{
    struct link_reply reply = reply_now(newest(node)->sent);

    reply.verdict = VERDICT_LOW;
    reply.fence = newest(node)->fence + 1000;
    answer_with(newest(node), reply);
}

/* (!) A raise arms nothing anew: the acquire before it counts. */
static void a_late_raise_counts_from_its_acquire(void **state)
{
    hf_time sent = its_time;
    const struct lease *lease;

    (void)state;
    wait_for(0, 1, "a");
    say_low(2);
    pass(10);
    say_low(0); /* a quorum did: these two are told a higher one */
    answer(newest(0), VERDICT_OK);
    say_low(1);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(newest(i)->kind, RAISE);
    answer(newest(1), VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    pass(10);
    answer(newest(2), VERDICT_OK);
    lease = lease_of("a");
    assert_int_equal(lease_fsm_d(&lease->fsm, 2).ns, hf_time_add(sent, config.timing.span).ns);
}

/* (!) Nobody knows the node's clock to the microsecond: too late would be an orphan key. */
static void an_acquires_deadline_is_the_earliest_it_may_be_there(void **state)
{
    struct node_trust *trust = &nodes.node[0].trust;
    hf_time deadline = hf_time_add(its_time, config.timing.attempt);
    hf_nodetime low, high;

    (void)state;
    trust->high_us += 5000;
    assert_true(trust_node_time(trust, deadline, &low, &high));
    assert_true(low.us < high.us);
    wait_for(0, 1, "a");
    assert_int_equal(newest(0)->deadline.us, low.us);
}

/* (!) A node that forgot meanwhile, or goes by another record, writes nothing. */
static void an_acquire_names_the_sentinel_and_the_record_that_were_judged(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    for (int i = 0; i < NODES; i++)
        assert_string_equal(newest(i)->stamp, NODE_NONCE);
    strcpy(nodes.fleet_view.digest, "01234567");
    wait_for(1, 2, "b");
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(newest(i)->kind, ACQUIRE);
        assert_string_equal(newest(i)->stamp, NODE_NONCE ":01234567");
    }
}

/* --- in doubt --------------------------------------------------------------------------------- */

/* (!) It may still run, and set a key that nobody holds: that node is told at the end of the lease, and twice. */
static void a_broken_acquire_is_released_with_its_lease(void **state)
{
    struct lease *lease;
    hf_time deadline = hf_time_add(its_time, config.timing.attempt);

    (void)state;
    wait_for(0, 1, "a");
    answer(newest(0), VERDICT_OK);
    answer(newest(1), VERDICT_OK);
    break_off(newest(2));
    lease = lease_of("a");
    pass((int)SHORT_HOLD_MS);
    was_posted(MSG_GRANTED);
    release(0, 2, lease);
    was_posted(MSG_RELEASE);
    assert_int_equal(release_count, 0);
    ends(lease);
    assert_int_equal(release_count, 1);
    assert_int_equal(releases[0].nodes, 1 << 2);
    assert_int_equal(releases[0].in_doubt, 1 << 2);
    assert_int_equal(releases[0].doubt_until.ns, deadline.ns);
    assert_int_equal(locks->round_count, 0);
}

static void so_is_one_that_breaks_before_the_round_is_decided(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    break_off(newest(2));
    answer(newest(0), VERDICT_TAKEN);
    assert_int_equal(release_count, 1);
    assert_int_equal(releases[0].nodes,
                     1 << 1 | 1 << 2); /* one was told that nothing of ours is there */
    assert_int_equal(releases[0].in_doubt, 1 << 2);
}

static void so_is_one_that_breaks_after_its_round(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    request_cancel(&sessions[0], 1);
    end_turn();
    assert_int_equal(releases[0].in_doubt, 0);
    break_off(newest(2));
    assert_int_equal(release_count, 2);
    assert_int_equal(releases[1].nodes, 1 << 2);
    assert_int_equal(releases[1].in_doubt, 1 << 2);
}

/* --- notices ---------------------------------------------------------------------------------- */

static void nodes_tell(void)
{
    for (int i = 0; i < NODES; i++)
        links[i].tells = true;
}

/* Every node was asked for this last. */
static void all_were_asked(enum command_kind kind, bool tracked)
{
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(newest(i)->kind, kind);
        assert_int_equal(newest(i)->tracked, tracked);
    }
}

static void a_free_lock_is_not_tracked(void **state)
{
    (void)state;
    nodes_tell();
    wait_for(0, 1, "a");
    all_were_asked(ACQUIRE, false);
    all_say(VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    assert_int_equal(links[0].asked, 1);
}

/* (!) Else a waiter would sleep through the release. */
static void who_finds_it_held_asks_for_notices(void **state)
{
    (void)state;
    nodes_tell();
    wait_for(0, 1, "a");
    all_say(VERDICT_TAKEN);
    all_were_asked(QUERY, true);
    assert_int_equal(times_answered(0, 1), 0);
    /* It was released meanwhile. */
    all_say(VERDICT_FREE);
    release_answered(0);
    pass(1);
    all_were_asked(ACQUIRE, true);
    all_say(VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
}

static void a_try_asks_for_no_notices(void **state)
{
    (void)state;
    nodes_tell();
    try_for(0, 1, "a");
    all_were_asked(ACQUIRE, false);
    all_say(VERDICT_TAKEN);
    assert_int_equal(links[0].asked, 1);
}

/* The node tells from the first command on, until one finds the lock free. */
static void the_wait_after_one_that_met_a_holder_is_tracked_at_once(void **state)
{
    (void)state;
    nodes_tell();
    wait_for(0, 1, "a");
    all_say(VERDICT_TAKEN);
    all_say(VERDICT_FREE);
    release_answered(0);
    pass(1);
    for (int i = 1; i < 4; i++) {
        int before;

        all_say(VERDICT_OK);
        release(0, 10, lease_of("a"));
        release_answered(i);
        before = links[0].asked;
        wait_for(0, (uint64_t)i + 1, "a");
        pass(100); /* it may leave other hosts a gap */
        assert_int_equal(links[0].asked, before + 1);
        all_were_asked(ACQUIRE, i == 1);
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

/* So many names take the agent 200 ms to ask for. */
/* (!) In one turn the last waiter goes, the lease ends, and a new name wants a slot: what is known of the wait is not left to a
 * name that is forgotten. */
static void a_slot_whose_wait_ends_in_this_turn_is_given_away_in_the_next(void **state)
{
    (void)state;
    config.capacity = 1;
    wait_for(0, 1, "a");
    all_say(VERDICT_TAKEN);
    for (int i = 0; i < release_count; i++)
        release_answered(i);
    wait_for(1, 2, "a");
    try_for(2, 3, "a"); /* has the next round begin, for the first */
    all_say(VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    pass((int)SHORT_HOLD_MS);
    was_posted(MSG_GRANTED);
    last_in_turn = NULL;
    request_cancel(&sessions[1], 2);
    ends(lease_of("a"));
    wait_for(1, 4, "b");
    assert_int_equal(answered(1, 4)->status, HF_EFULL);
    last_in_turn = take_steps;
    end_turn();
    wait_for(1, 5, "b");
    all_say(VERDICT_OK);
    assert_int_equal(answered(1, 5)->status, HF_OK);
}

/* It waits for the next round of nobody: that wait is over. */
static void who_comes_as_the_last_one_goes_begins_anew(void **state)
{
    int before;

    (void)state;
    wait_for(0, 1, "a");
    all_say(VERDICT_TAKEN);
    for (int i = 0; i < release_count; i++)
        release_answered(i);
    before = links[0].asked;
    last_in_turn = NULL;
    request_cancel(&sessions[0], 1);
    wait_for(1, 2, "a");
    last_in_turn = take_steps;
    end_turn();
    assert_int_equal(links[0].asked, before + 1);
    all_say(VERDICT_OK);
    assert_int_equal(answered(1, 2)->status, HF_OK);
}

/* The next name after number `*i` that falls on place 0 of the table's index. */
static void name_that_collides(uint32_t *i, char name[32])
{
    do
        snprintf(name, 32, "c%u", ++*i);
    while (hf_name_hash(agent.table.header->index_key, name, strlen(name)) &
           (agent.table.index_size - 1));
}

/* (!) Every local user can read the index's key. */
static void whoever_has_all_places_of_a_name_does_not_hide_it(void **state)
{
    struct hf_slot_view view;
    char name[32];
    uint32_t i = 0;

    (void)state;
    for (uint64_t id = 1; id <= HF_INDEX_PROBES; id++) {
        name_that_collides(&i, name);
        (void)granted(1, id, name);
    }
    assert_int_equal(atomic_load(&agent.table.header->unindexed), 0);
    name_that_collides(&i, name);
    (void)granted(0, 1, name);
    assert_int_equal(atomic_load(&agent.table.header->unindexed), 1);
    assert_int_equal(hf_index_find(&agent.table, name, strlen(name), &view), HF_OK);
    assert_int_equal(view.state, HF_SLOT_HELD);
}

#define CROWD 50

/* Its key is another's, on all nodes. */
static void find_taken(int s, uint64_t id, const char *name, int64_t pttl_ms)
{
    struct command *asked[NODES];

    wait_for(s, id, name);
    for (int i = 0; i < NODES; i++)
        asked[i] = newest(i);
    for (int i = 0; i < NODES; i++) {
        struct link_reply reply = reply_now(asked[i]->sent);

        reply.verdict = VERDICT_TAKEN;
        reply.holder.pttl_ms = pttl_ms;
        answer_with(asked[i], reply);
    }
    release_answered(release_count - 1);
}

/* Session 0 waits for a crowd of names, whose keys expire soon. */
static void crowd_waits(void)
{
    char name[16];

    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof(name), "crowd%d", i);
        find_taken(0, (uint64_t)i + 1, name, 30);
    }
}

/* A round for it is under way: nodes do not answer here. */
static bool has_round(const char *text)
{
    const struct name *name = name_find(locks, text, strlen(text));

    return name->state->round != NULL;
}

static void a_users_many_names_do_not_delay_another_users(void **state)
{
    (void)state;
    crowd_waits();
    find_taken(1, 1, "mine", 60);
    pass(100);
    assert_true(links[0].asked < CROWD + 40); /* many of the others still wait for a turn */
    assert_true(has_round("mine"));
}

/* (!) Session 0 was the first. */
static void nor_that_of_a_name_that_both_wait_for(void **state)
{
    (void)state;
    crowd_waits();
    find_taken(0, CROWD + 1, "ours", 60);
    wait_for(1, 1, "ours");
    pass(100);
    assert_true(has_round("ours"));
}

static void nor_where_the_other_user_comes_later(void **state)
{
    (void)state;
    crowd_waits();
    find_taken(0, CROWD + 1, "ours", 60);
    pass(90);
    assert_false(has_round("ours"));
    wait_for(1, 1, "ours");
    pass(20);
    assert_true(has_round("ours"));
}

static void a_waiter_that_leaves_its_turn_leaves_the_others(void **state)
{
    (void)state;
    crowd_waits();
    find_taken(0, CROWD + 1, "ours", 60);
    wait_for(0, CROWD + 2, "ours");
    find_taken(0, CROWD + 3, "mine", 60);
    pass(90);
    assert_false(has_round("ours"));
    request_cancel(&sessions[0], CROWD + 1);
    end_turn();
    request_cancel(&sessions[0], CROWD + 3);
    end_turn();
    pass(5 * CROWD);
    assert_true(has_round("ours"));
}

/* --- try once --------------------------------------------------------------------------------- */

static void a_try_is_answered_by_one_round(void **state)
{
    (void)state;
    try_for(0, 1, "a");
    all_say(VERDICT_TAKEN);
    assert_int_equal(answered(0, 1)->status, HF_EBUSY);
    assert_int_equal(release_count, 1);
    assert_int_equal(releases[0].nodes, 4); /* two told that nothing of ours is there */
    release_answered(0);
    pass(60000);
    assert_int_equal(links[0].asked, 1);
    assert_int_equal(times_answered(0, 1), 1);
}

/* What it tries for may have become free since the round before it began. */
static void a_later_try_has_a_round_of_its_own(void **state)
{
    (void)state;
    try_for(0, 1, "a");
    pass(1);
    try_for(1, 2, "a");
    all_say(VERDICT_TAKEN);
    assert_int_equal(answered(0, 1)->status, HF_EBUSY);
    assert_int_equal(times_answered(1, 2), 0);
    release_answered(0);
    assert_int_equal(links[0].asked, 2);
    all_say(VERDICT_TAKEN);
    assert_int_equal(answered(1, 2)->status, HF_EBUSY);
}

static void a_try_for_a_lock_of_this_host_asks_no_node(void **state)
{
    const struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    try_for(1, 2, "a");
    assert_int_equal(answered(1, 2)->status, HF_EBUSY);
    assert_int_equal(answered(1, 2)->holder.fence, lease->fence);
    assert_int_equal(links[0].asked, 1);
}

static void without_nodes_a_try_fails_and_a_waiter_waits(void **state)
{
    (void)state;
    links[0].up = links[1].up = false;
    try_for(0, 1, "a");
    wait_for(1, 2, "b");
    assert_int_equal(answered(0, 1)->status, HF_ENOQUORUM);
    assert_int_equal(times_answered(1, 2), 0);
    assert_int_equal(progress_of[1].entry[0].status, HF_ENOQUORUM);
    links[0].up = true;
    step_stalled(locks);
    end_turn();
    assert_int_equal(links[0].asked, 1);
    answer(newest(0), VERDICT_OK);
    answer(newest(2), VERDICT_OK);
    assert_int_equal(answered(1, 2)->status, HF_OK);
}

/* (!) It alone is told: those before it know. */
static void who_comes_to_a_stalled_name_is_told(void **state)
{
    int before;

    (void)state;
    links[0].up = links[1].up = false;
    wait_for(0, 1, "b");
    before = progress_of[0].count;
    wait_for(1, 2, "b");
    assert_int_equal(progress_of[1].entry[0].status, HF_ENOQUORUM);
    assert_int_equal(progress_of[1].entry[0].place, 2);
    try_for(1, 3, "b");
    assert_int_equal(answered(1, 3)->status, HF_ENOQUORUM);
    assert_int_equal(progress_of[0].count, before);
    assert_int_equal(links[2].asked, 0);
    links[0].up = true;
    step_stalled(locks);
    end_turn();
    answer(newest(0), VERDICT_OK);
    answer(newest(2), VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    assert_int_equal(times_answered(1, 2), 0);
}

/* --- what is told, in its order --------------------------------------------------------------- */

static void the_owner_hears_of_a_lease_in_order(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    grant_changed(locks, lease);
    assert_heard("changed signal");
    release(0, 2, lease);
    assert_heard("");
    was_posted(MSG_RELEASE);
    /* (!) The answer lies in the ring before the journal forgets, and before anybody looks for the name. */
    ends(lease);
    assert_heard("released over signal settle name-over:a");
    assert_int_equal(answered(0, 2)->status, HF_OK);
    assert_int_equal(people[0].held_count, 0);
    nothing_was_posted();
}

/* Who is next hears of the end only after all above have. */
static void the_next_round_begins_last(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    atomic_store(&lease->state, HF_SLOT_LOST);
    wait_for(1, 2, "a");
    heard[0] = '\0';
    ends(lease);
    assert_heard("over signal settle name-over:a");
    assert_int_equal(links[0].asked, 2);
    all_say(VERDICT_OK);
    assert_heard("answer");
}

static void a_lost_lease_that_was_to_be_released_is_lost(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    release(0, 2, lease);
    atomic_store(&lease->state, HF_SLOT_LOST);
    ends(lease);
    assert_int_equal(answered(0, 2)->status, HF_ELOST);
    was_posted(MSG_RELEASE);
}

static void a_dead_holder_is_told_of_after_its_orders(void **state)
{
    struct lease *lease;
    struct message *m;

    (void)state;
    lease = granted(0, 1, "a");
    requests_client_gone(locks, &people[0]);
    end_turn();
    m = posted(MSG_RELEASE);
    assert_int_equal(m->slot, lease->slot);
    assert_int_equal(m->reason, HF_LOSS_HOLDER);
    free(m);
    assert_heard("changed");
    assert_int_equal(counter(HF_COUNTER_HOLDER_DEATHS), 1);
    requests_client_gone(locks, &people[0]); /* it is being released */
    end_turn();
    nothing_was_posted();
}

/* --- the ways of a release --------------------------------------------------------------------- */

/* The lease of a job. */
static struct lease *granted_run(int s, uint64_t id, const char *name, uint32_t guarded)
{
    struct lease *lease;

    its_flags = HF_REQ_JOB | guarded;
    lease = granted(s, id, name);
    its_flags = 0;
    return lease;
}

/* The renewal thread would not, and releases it. */
static void refuse_handoff(struct lease *lease, enum hf_loss_reason reason)
{
    struct message *m = posted(MSG_HAND_OVER);

    assert_int_equal(m->slot, lease->slot);
    assert_int_equal(m->handoff->reason, reason);
    m->handoff->verdict = HANDOFF_SHORT;
    handoff_answered(m->handoff);
    end_turn();
    free(m);
    nothing_was_posted();
    ends(lease);
}

static void a_released_lease_goes_to_the_next_waiter(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    wait_for(1, 2, "a");
    release(0, 3, lease);
    assert_true(lease->ending);
    refuse_handoff(lease, HF_LOSS_NONE);
    assert_int_equal(answered(0, 3)->status, HF_OK);
    assert_int_equal(links[0].asked, 2); /* the waiter has a round after all */
}

/* (!) Nobody would ever release it. */
static void what_is_handed_to_a_waiter_who_went_is_given_on(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    wait_for(1, 2, "a");
    release(0, 3, lease);
    request_cancel(&sessions[1], 2);
    end_turn();
    assert_int_equal(times_answered(1, 2), 0); /* it may have it by now */
    handed_over();
    was_posted(MSG_RELEASE);
    assert_true(lease_of("a")->ending);
    ends(lease_of("a"));
    assert_null(lease_of("a"));
}

/* (!) The job may live: nobody else is given the lease, and its keys stay until they expire. */
static void a_lease_whose_job_may_live_is_abandoned(void **state)
{
    struct name *name;
    struct lease *lease;
    struct message *m;

    (void)state;
    lease = granted_run(0, 1, "a", 0);
    wait_for(1, 2, "a");
    requests_client_gone(locks, &people[0]);
    end_turn();
    m = posted(MSG_ABANDON);
    assert_int_equal(m->slot, lease->slot);
    assert_int_equal(m->generation, lease->generation);
    free(m);
    nothing_was_posted();
    assert_int_equal(release_count, 0);
    assert_true(lease->ending);
    /* Then the control group is found empty. It was renewed no more: nobody else is to have it. */
    name = name_find(locks, "a", 1);
    release_begin(name, RELEASE_TREE_DEAD);
    end_turn();
    m = posted(MSG_RELEASE);
    assert_int_equal(m->reason, HF_LOSS_HOLDER);
    free(m);
    nothing_was_posted();
    assert_int_equal(release_count, 0);
}

/* (!) A job is started once a guardian has joined; none may join from here on. */
static void a_lease_without_its_guardian_has_no_job(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted_run(0, 1, "a", HF_REQ_SECOND_GUARDIAN);
    wait_for(1, 2, "a");
    requests_client_gone(locks, &people[0]);
    end_turn();
    assert_true(people[0].over);
    refuse_handoff(lease, HF_LOSS_HOLDER);
}

static void a_lease_with_its_guardian_may_have_a_job(void **state)
{
    (void)state;
    granted_run(0, 1, "a", HF_REQ_SECOND_GUARDIAN);
    people[0].joined = true;
    wait_for(1, 2, "a");
    requests_client_gone(locks, &people[0]);
    end_turn();
    assert_false(people[0].over);
    was_posted(MSG_ABANDON);
    nothing_was_posted();
}

/* --- a short hold ----------------------------------------------------------------------------- */

static void ask_for(int s, uint64_t id, const char *name)
{
    struct hf_request_entry q = {
        .op = HF_OP_STOP_HOLDER, .id = id, .name_len = (uint8_t)strlen(name)};

    memcpy(q.name, name, strlen(name));
    request_stop_holder(locks, &sessions[s], &q);
    end_turn();
}

/* (!) Whatever is told of a lease comes behind the lease itself, and behind the votes that came meanwhile. */
static void a_short_hold_is_adopted_before_anything_is_told(void **state)
{
    struct message *m;

    (void)state;
    wait_for(0, 1, "a");
    answer(newest(0), VERDICT_OK);
    answer(newest(1), VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    answer(newest(2), VERDICT_OK);
    nothing_was_posted();
    ask_for(0, 2, "a");
    m = posted(MSG_GRANTED);
    assert_ptr_equal(m->lease, lease_of("a"));
    assert_int_equal(lease_fsm_votes(&m->lease->fsm, clock_now()), NODES); /* the late one, too */
    free(m);
    m = posted(MSG_LOSE);
    assert_int_equal(m->reason, HF_LOSS_ASKED);
    free(m);
    nothing_was_posted();
    pass((int)SHORT_HOLD_MS);
    nothing_was_posted(); /* once */
}

static void a_short_hold_ends_without_the_renewal_thread(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    all_say(VERDICT_OK);
    heard[0] = '\0';
    release(0, 2, lease_of("a"));
    assert_int_equal(release_count, 1);
    assert_heard("");
    release_answered(0);
    assert_heard("released over signal settle name-over:a");
    pass((int)SHORT_HOLD_MS);
    nothing_was_posted();
}

static void a_short_hold_lasts_no_longer(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    all_say(VERDICT_OK);
    pass((int)SHORT_HOLD_MS - 1);
    nothing_was_posted();
    pass(1);
    was_posted(MSG_GRANTED);
    nothing_was_posted();
}

static void the_agents_end_has_short_holds_adopted(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    all_say(VERDICT_OK);
    wait_for(1, 2, "a");
    wait_for(2, 3, "b");
    locks_go_away(locks, false);
    was_posted(MSG_GRANTED);
    assert_int_equal(answered(1, 2)->status, HF_ESHUTDOWN);
    assert_int_equal(answered(2, 3)->status, HF_ESHUTDOWN);
    assert_int_equal(release_count, 1); /* of the round for b */
    assert_true(locks_busy(locks));
    all_say(VERDICT_OK);
    assert_false(locks_busy(locks));
    wait_for(3, 4, "c");
    assert_int_equal(answered(3, 4)->status, HF_ESHUTDOWN);
}

/* As after a kill, they ask the next start. */
static void who_waits_is_told_nothing_when_the_agent_starts_again(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    all_say(VERDICT_OK);
    wait_for(1, 2, "a");
    wait_for(2, 3, "b");
    locks_go_away(locks, true);
    was_posted(MSG_GRANTED);
    assert_int_equal(times_answered(1, 2), 0);
    assert_int_equal(times_answered(2, 3), 0);
    assert_int_equal(release_count, 1); /* of the round for b */
    all_say(VERDICT_OK);
    assert_false(locks_busy(locks));
    forgone = 0;
    wait_for(3, 4, "c");
    assert_int_equal(times_answered(3, 4), 0);
    assert_int_equal(forgone, 1);
}

/* --- who waits, for people ---------------------------------------------------------------------- */

/* The requests in the table, by their rows: the number of each. */
static int shown_rows(uint64_t ret_numbers[HF_WAITERS_SHOWN])
{
    int count = 0;

    for (uint32_t i = 0; i < hf_waiters_room(&agent.table); i++) {
        struct hf_waiter_row row;

        if (hf_waiter_read(&agent.table, i, &row) == HF_OK)
            ret_numbers[count++] = row.number;
    }
    return count;
}

static void who_waits_stands_in_the_table_until_it_does_not(void **state)
{
    uint64_t numbers[HF_WAITERS_SHOWN];
    struct hf_waiter_row row;

    (void)state;
    granted(0, 1, "a");
    assert_int_equal(shown_rows(numbers), 0);
    try_for(1, 2, "a");
    assert_int_equal(shown_rows(numbers), 0);
    acquire(1, 3, "a", hf_time_add(its_time, hf_ms(500)));
    wait_for(2, 4, "a");
    assert_int_equal(shown_rows(numbers), 2);
    assert_int_equal(hf_waiter_read(&agent.table, 0, &row), HF_OK);
    assert_int_equal(row.pid, sessions[1].client->pid);
    assert_int_equal(row.uid, sessions[1].client->uid);
    assert_int_equal(row.since_ns, its_time.ns);
    assert_int_equal(row.deadline_ns, hf_time_add(its_time, hf_ms(500)).ns);
    assert_int_equal(row.ttl_ms, TTL_MS);
    assert_int_equal(row.name_len, 1);
    assert_int_equal(row.name[0], 'a');
    assert_int_equal(hf_waiter_read(&agent.table, 1, &row), HF_OK);
    assert_int_equal(row.deadline_ns, INT64_MAX);
    pass(501);
    assert_int_equal(answered(1, 3)->status, HF_ETIMEDOUT);
    assert_int_equal(shown_rows(numbers), 1);
    request_cancel(&sessions[2], 4);
    end_turn();
    assert_int_equal(shown_rows(numbers), 0);
}

static void of_more_than_there_are_rows_the_oldest_are_shown(void **state)
{
    uint64_t numbers[HF_WAITERS_SHOWN], first;

    (void)state;
    granted(0, 1, "a");
    locks->shown_waiters.free_count = 2;
    first = locks->shown_waiters.number + 1;
    for (uint64_t id = 2; id <= 5; id++)
        wait_for(1, id, "a");
    assert_int_equal(shown_rows(numbers), 2);
    request_cancel(&sessions[1], 2); /* its row goes to the oldest without one */
    end_turn();
    request_cancel(&sessions[1], 5); /* this one had none */
    end_turn();
    assert_int_equal(shown_rows(numbers), 2);
    assert_int_equal(numbers[0] + numbers[1], first + 1 + first + 2);
    request_cancel(&sessions[1], 3);
    end_turn();
    assert_int_equal(shown_rows(numbers), 1);
    request_cancel(&sessions[1], 4);
    end_turn();
    assert_int_equal(shown_rows(numbers), 0);
    assert_int_equal(locks->shown_waiters.free_count, 2);
}

/* --- an operator drains the host ---------------------------------------------------------------- */

#define OPERATOR 4

static const struct hf_completion_entry *order(int s, uint64_t id, uint32_t flags)
{
    drains_ask(locks, &sessions[s],
               &(struct hf_request_entry){.op = HF_OP_DRAIN, .id = id, .flags = flags});
    end_turn();
    return answered(s, id);
}

static const struct hf_completion_entry *drain(uint64_t id)
{
    sessions[OPERATOR].uid = (uint32_t)geteuid();
    return order(OPERATOR, id, 0);
}

static const struct hf_completion_entry *undrain(uint64_t id)
{
    return order(OPERATOR, id, HF_REQ_UNDRAIN);
}

/* What it was told last. */
static const struct hf_completion_entry *progress(int s)
{
    assert_true(progress_of[s].count > 0);
    return &progress_of[s].entry[progress_of[s].count - 1];
}

static void progress_without_room_is_told_later(void **state)
{
    (void)state;
    (void)granted(0, 1, "a");
    no_room_for_progress = true;
    wait_for(1, 2, "a");
    pass(700);
    assert_int_equal(progress_of[1].count, 0);
    no_room_for_progress = false;
    pass(700);
    assert_int_equal(progress(1)->status, HF_EBUSY);
    pass(700);
    assert_int_equal(progress_of[1].count, 1);
}

#define CROWD 50

static void a_crowd_waits(int s, const char *name, hf_time deadline)
{
    for (uint64_t id = 0; id < CROWD; id++)
        acquire(s, 1000 + id, name, deadline);
    looks = 0;
}

/* (!) The broker serves nobody else meanwhile. */
static void a_crowd_that_goes_costs_as_much_as_it_counts(void **state)
{
    (void)state;
    (void)granted(0, 1, "a");
    wait_for(2, 2, "a");
    no_room_for_progress = true;
    a_crowd_waits(1, "a", HF_TIME_NEVER);
    sessions[1].closing = true;
    requests_drop_session(&sessions[1]);
    end_turn();
    no_room_for_progress = false;
    assert_true(looks <= CROWD);
    assert_int_equal(locks->waiter_count, 1);
    assert_int_equal(users[1].waiters, 0);
    release(0, 3, lease_of("a"));
    assert_ptr_equal(handed_over(), &sessions[2]);
}

static void so_does_a_crowd_whose_time_is_up(void **state)
{
    (void)state;
    (void)granted(0, 1, "a");
    no_room_for_progress = true;
    a_crowd_waits(1, "a", hf_time_add(its_time, hf_ms(100)));
    pass(200);
    no_room_for_progress = false;
    assert_int_equal(answers_of[1].count, CROWD);
    assert_true(looks <= 2 * CROWD);
}

/* Nodes are away: each would be told anew of those that are left. */
static void so_does_a_crowd_that_is_cancelled(void **state)
{
    (void)state;
    links[0].up = links[1].up = false;
    a_crowd_waits(1, "a", HF_TIME_NEVER);
    for (uint64_t id = 0; id < CROWD; id++) {
        request_cancel(&sessions[1], 1000 + id);
        end_turn();
    }
    assert_int_equal(answers_of[1].count, CROWD);
    assert_true(looks <= 4 * CROWD);
    links[0].up = links[1].up = true;
    assert_int_equal(granted(1, 1, "a")->pid, people[1].pid);
}

/* Of several names each begins again, whoever waits there. */
static void each_name_that_a_session_leaves_goes_on(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    wait_for(0, 2, "b");
    wait_for(0, 3, "a");
    wait_for(1, 4, "a");
    wait_for(1, 5, "b");
    sessions[0].closing = true;
    requests_drop_session(&sessions[0]);
    end_turn();
    assert_int_equal(release_count, 2);
    release_answered(0);
    release_answered(1);
    all_say(VERDICT_OK);
    answer(&links[0].commands[2], VERDICT_OK);
    answer(&links[1].commands[2], VERDICT_OK);
    assert_int_equal(answered(1, 4)->status, HF_OK);
    assert_int_equal(answered(1, 5)->status, HF_OK);
    assert_int_equal(answers_of[0].count, 0);
    assert_int_equal(locks->waiter_count, 0);
}

static void each_is_told_its_place(void **state)
{
    const struct lease *held;

    (void)state;
    held = granted(0, 1, "a");
    no_room_for_progress = true;
    wait_for(1, 2, "a");
    wait_for(2, 3, "a");
    wait_for(3, 4, "a");
    no_room_for_progress = false;
    release(0, 5, held);
    assert_ptr_equal(handed_over(), &sessions[1]);
    pass(200); /* they hear of the new holder together */
    assert_int_equal(progress(2)->place, 1);
    assert_int_equal(progress(3)->place, 2);
    wait_for(4, 6, "a");
    assert_int_equal(progress(4)->place, 3);
}

static void a_drained_host_refuses_tries_and_lets_waiters_wait(void **state)
{
    const struct lease *held;

    (void)state;
    held = granted(0, 1, "a");
    drain(2);
    try_for(1, 3, "a"); /* held, but it would not get it anyway */
    try_for(1, 4, "b");
    assert_int_equal(answered(1, 3)->status, HF_EDRAINED);
    assert_int_equal(answered(1, 4)->status, HF_EDRAINED);
    assert_non_null(strstr(answered(1, 4)->text, "until holdfast undrain"));
    wait_for(2, 5, "b");
    acquire(3, 6, "a", hf_time_add(its_time, hf_ms(700)));
    assert_int_equal(progress(2)->status, HF_EDRAINED);
    assert_string_equal(progress(2)->text, answered(1, 4)->text);
    assert_int_equal(progress(3)->status, HF_EDRAINED);
    assert_int_equal(links[0].asked, 1); /* for the first lease only */
    pass(5000);
    assert_int_equal(answered(3, 6)->status, HF_EDRAINED);
    assert_non_null(strstr(answered(3, 6)->text, "until holdfast undrain"));
    assert_int_equal(times_answered(2, 5), 0);
    assert_int_equal(progress_of[2].count, 1); /* told once */
    assert_false(held->ending);
    nothing_was_posted();
}

static void an_undrained_host_serves_who_waits(void **state)
{
    (void)state;
    drain(1);
    wait_for(0, 2, "a");
    wait_for(1, 3, "a");
    undrain(4);
    assert_int_equal(links[0].asked, 1);
    all_say(VERDICT_OK);
    assert_int_equal(answered(0, 2)->status, HF_OK);
    assert_int_equal(progress(1)->status, HF_EBUSY);
}

/* (!) */
static void a_round_under_way_is_undone(void **state)
{
    (void)state;
    wait_for(0, 1, "a");
    try_for(1, 2, "b");
    answer(newest(0), VERDICT_OK);
    answer(&links[0].commands[0], VERDICT_OK);
    drain(3);
    assert_int_equal(release_count, 2);
    assert_int_equal(answered(1, 2)->status, HF_EDRAINED);
    assert_int_equal(progress(0)->status, HF_EDRAINED);
    all_say(VERDICT_OK);
    answer(&links[1].commands[0], VERDICT_OK);
    assert_int_equal(times_answered(0, 1), 0);
    assert_null(lease_of("a"));
    release_answered(0);
    release_answered(1);
    pass(1000);
    assert_int_equal(times_answered(0, 1), 0);
    assert_int_equal(links[0].asked, 2);
    undrain(4);
    all_say(VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
}

static void a_release_of_a_drained_host_goes_to_nobody(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    wait_for(1, 2, "a");
    drain(3);
    release(0, 4, lease);
    was_posted(MSG_RELEASE);
    ends(lease);
    assert_int_equal(answered(0, 4)->status, HF_OK);
    pass(1000);
    assert_int_equal(links[0].asked, 1);
    assert_int_equal(times_answered(1, 2), 0);
}

/* (!) The journal may name the waiter as the owner: it has no answer until that lease is over. */
static void a_handoff_under_way_is_told_to_nobody(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    acquire(1, 2, "a", hf_time_add(its_time, hf_ms(300)));
    release(0, 3, lease);
    drain(4);
    handed_over();
    was_posted(MSG_RELEASE); /* at once */
    assert_int_equal(answered(0, 3)->status, HF_OK);
    pass(1000);
    assert_int_equal(times_answered(1, 2), 0);
    request_cancel(&sessions[1], 2);
    end_turn();
    assert_int_equal(times_answered(1, 2), 0);
    ends(lease_of("a"));
    pass(0);
    assert_int_equal(answered(1, 2)->status, HF_EDRAINED);
    assert_int_equal(links[0].asked, 1);
}

static void a_handoff_goes_on_if_the_drain_is_over_by_then(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    wait_for(1, 2, "a");
    release(0, 3, lease);
    drain(4);
    undrain(5);
    handed_over();
    assert_int_equal(answered(1, 2)->status, HF_OK);
}

/* As after a restart: the client asks again for what it was granted. */
static void a_lease_that_stands_is_told_again(void **state)
{
    const struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    drain(2);
    wait_for(0, 1, "a");
    assert_int_equal(times_answered(0, 1), 2);
    assert_int_equal(answers_of[0].entry[answers_of[0].count - 1].fence, lease->fence);
}

static void a_drain_is_for_the_agents_user(void **state)
{
    (void)state;
    sessions[0].uid = (uint32_t)geteuid() + 1;
    assert_int_equal(order(0, 1, 0)->status, HF_EPERM);
    assert_false(agent.drained.stands);
    drain(2);
    assert_int_equal(order(0, 3, HF_REQ_UNDRAIN)->status, HF_EPERM);
    assert_true(agent.drained.stands);
}

static void a_drain_says_since_when_and_by_whom(void **state)
{
    const struct hf_completion_entry *first;
    struct hf_drained seen;

    (void)state;
    assert_int_equal(undrain(1)->drained_before, 0);
    first = drain(2);
    assert_int_equal(first->status, HF_OK);
    assert_int_equal(first->drained_before, 0);
    assert_int_equal(first->holder.since_wall_ms, clock_wall().ms);
    hf_drained_read(&agent.table, &seen);
    assert_true(seen.stands);
    assert_int_equal(seen.since_wall_ms, clock_wall().ms);
    assert_int_equal(seen.pid, sessions[OPERATOR].pid);
    pass(2000);
    assert_int_equal(drain(3)->drained_before, 1);
    assert_int_equal(answered(OPERATOR, 3)->holder.since_wall_ms, clock_wall().ms - 2000);
    assert_int_equal(undrain(4)->drained_before, 1);
    assert_int_equal(answered(OPERATOR, 4)->holder.since_wall_ms, clock_wall().ms - 2000);
    assert_int_equal(answered(OPERATOR, 4)->holder.pid, sessions[OPERATOR].pid);
    hf_drained_read(&agent.table, &seen);
    assert_false(seen.stands);
}

/* (!) It is on record before it is answered; without a record it is refused. */
static void a_drain_is_on_record_first(void **state)
{
    struct hf_drained kept;

    (void)state;
    snprintf(agent.drain_path, sizeof(agent.drain_path), "%s/none/drain", dir);
    assert_int_equal(drain(1)->status, HF_ESYS);
    assert_false(agent.drained.stands);
    snprintf(agent.drain_path, sizeof(agent.drain_path), "%s/drain", dir);
    drain(2);
    drain_record_read(agent.drain_path, &agent.clock, &kept);
    assert_true(kept.stands);
    assert_int_equal(unlink(agent.drain_path), 0); /* by somebody else */
    assert_int_equal(drain(4)->drained_before, 1);
    drain_record_read(agent.drain_path, &agent.clock, &kept);
    assert_true(kept.stands);
    assert_int_equal(kept.since_wall_ms, agent.drained.since_wall_ms);
    undrain(3);
    drain_record_read(agent.drain_path, &agent.clock, &kept);
    assert_false(kept.stands);
}

/* --- a release that is asked for again after a restart ----------------------------------------- */

static struct name *being_released(int s, uint32_t generation)
{
    struct name *name;

    assert_int_equal(name_get(locks, "a", 1, &name), HF_OK);
    assert_non_null(name_state(name));
    name->undoing = true;
    name_activate(name);
    assert_int_equal(pending_release_add(&people[s], name, name->slot, generation), HF_OK);
    return name;
}

static void a_release_asked_again_is_answered_at_its_end(void **state)
{
    struct name *name;

    (void)state;
    name = being_released(0, 9);
    release_slot(0, 1, name->slot, 9);
    assert_int_equal(times_answered(0, 1), 0);
    grant_undone(name);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    assert_int_equal(answered(0, 1)->generation, 9);
    /* Once more, as after a reconnect: it is over. */
    release_slot(0, 2, name->slot, 9);
    assert_int_equal(answered(0, 2)->status, HF_OK);
    pending_release_drop_client(&people[0]);
}

static void a_release_asked_again_is_its_holders(void **state)
{
    struct name *name;

    (void)state;
    name = being_released(0, 9);
    release_slot(1, 1, name->slot, 9);
    release_slot(0, 2, name->slot, 8);
    assert_int_equal(answered(1, 1)->status, HF_ELOST);
    assert_int_equal(answered(0, 2)->status, HF_ELOST);
    pending_release_drop_client(&people[0]);
    assert_null(name->state->pending_release);
    grant_undone(name);
}

static void who_asked_again_may_go(void **state)
{
    struct name *name;

    (void)state;
    name = being_released(0, 9);
    release_slot(0, 1, name->slot, 9);
    requests_drop_session(&sessions[0]);
    end_turn();
    grant_undone(name);
    assert_int_equal(times_answered(0, 1), 0);
    pending_release_drop_client(&people[0]);
}

static void what_was_over_before_is_answered_at_once(void **state)
{
    (void)state;
    assert_int_equal(pending_release_add(&people[0], NULL, 5, 9), HF_OK);
    release_slot(0, 1, 5, 9);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    pending_release_drop_client(&people[0]);
    release_slot(0, 2, 5, 9);
    assert_int_equal(answered(0, 2)->status, HF_ELOST);
}

/* --- rules ------------------------------------------------------------------------------------ */

/* As a reload does it: these rules and no others. Session s is user 1000 + s. */
static void only(const char *first, const char *second)
{
    static struct config next;
    const char *const rules[] = {first, second};
    char why[256];

    next = config;
    next.rules.count = 0;
    for (int i = 0; i < 2; i++)
        if (rules[i])
            assert_int_equal(config_allow_add(&next, rules[i], why, sizeof(why)), HF_OK);
    the_clients.config = &next;
    locks_configure(locks, &next);
    end_turn();
}

static uint64_t denied(void)
{
    return hf_counter_read(&agent.table, HF_COUNTER_DENIED);
}

static void who_may_not_take_a_name_asks_no_node(void **state)
{
    (void)state;
    only("a* user:1001", NULL);
    try_for(0, 1, "a");
    wait_for(0, 2, "ab");
    assert_int_equal(answered(0, 1)->status, HF_EPERM);
    assert_int_equal(answered(0, 2)->status, HF_EPERM);
    assert_non_null(strstr(answered(0, 2)->text, "have user 1000 added"));
    assert_non_null(strstr(answered(0, 2)->text, "\"allow = a* user:1001\""));
    assert_non_null(strstr(answered(0, 2)->text, "it may not take ab"));
    assert_null(name_find(locks, "a", 1));
    assert_int_equal(links[0].asked, 0);
    assert_int_equal(denied(), 2);
    granted(1, 3, "a");
    assert_int_equal(denied(), 2);
}

static void a_reload_ends_waits_that_it_forbids(void **state)
{
    const struct lease *held;

    (void)state;
    held = granted(0, 1, "a");
    wait_for(1, 2, "a");
    wait_for(2, 3, "a");
    wait_for(1, 4, "b"); /* its round is under way */
    wait_for(3, 5, "b");
    answer(newest(0), VERDICT_OK);
    only("* user:1002 user:1003", NULL);
    assert_int_equal(answered(1, 2)->status, HF_EPERM);
    assert_int_equal(answered(1, 4)->status, HF_EPERM);
    assert_int_equal(times_answered(2, 3), 0);
    assert_int_equal(times_answered(3, 5), 0);
    assert_int_equal(release_count, 1); /* the round is undone */
    assert_false(held->ending);         /* whose user may take it no more */
    assert_int_equal(denied(), 2);
    release(0, 6, held);
    assert_ptr_equal(handed_over(), &sessions[2]);
    assert_int_equal(answered(2, 3)->status, HF_OK);
}

static void a_handoff_under_way_is_completed(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    wait_for(1, 2, "a");
    release(0, 3, lease);
    only("a none", NULL);
    assert_int_equal(times_answered(1, 2), 0);
    handed_over();
    assert_int_equal(answered(1, 2)->status, HF_OK);
    wait_for(1, 4, "a");
    assert_int_equal(answered(1, 4)->status, HF_EPERM);
}

/* (!) It kept its place when a drain took its hand-off away, and must not get the lock later. */
static void who_was_withheld_is_judged_at_the_leases_end(void **state)
{
    struct lease *lease;

    (void)state;
    lease = granted(0, 1, "a");
    wait_for(1, 2, "a");
    release(0, 3, lease);
    drain(4);
    handed_over();
    was_posted(MSG_RELEASE);
    only("a none", NULL);
    assert_int_equal(times_answered(1, 2), 0); /* the journal may name it as the owner */
    undrain(5);
    ends(lease_of("a"));
    assert_int_equal(answered(1, 2)->status, HF_EPERM);
    pass(1000);
    assert_int_equal(links[0].asked, 1);
}

/* As after a restart with other rules: it would hold a lease of which it does not know. */
static void what_was_granted_is_told_again_whatever_the_rules(void **state)
{
    (void)state;
    granted(0, 1, "a");
    only("a none", NULL);
    wait_for(0, 1, "a");
    assert_int_equal(times_answered(0, 1), 2);
    assert_int_equal(answers_of[0].entry[answers_of[0].count - 1].status, HF_OK);
    wait_for(0, 2, "a");
    assert_int_equal(answered(0, 2)->status, HF_EPERM);
}

/* (!) Whether it is held, and by whom, is for who may see it. */
static void who_may_ask_for_a_lease(void **state)
{
    (void)state;
    granted(0, 1, "a");
    only("* user:1001 see", "a user:1002 force");
    ask_for(3, 2, "a");
    ask_for(3, 3, "free");
    assert_int_equal(answered(3, 2)->status, HF_EPERM);
    assert_int_equal(answered(3, 3)->status, HF_EPERM);
    assert_null(strstr(answered(3, 2)->text, "1000"));
    ask_for(1, 4, "a");
    ask_for(1, 5, "free");
    assert_int_equal(answered(1, 4)->status, HF_EPERM);
    assert_non_null(strstr(answered(1, 4)->text, "held by user 1000"));
    assert_int_equal(answered(1, 5)->status, HF_ENOTHELD);
    nothing_was_posted();
    ask_for(2, 6, "a");
    assert_int_equal(answered(2, 6)->status, HF_OK);
    was_posted(MSG_LOSE);
    ask_for(0, 7, "a");
    assert_int_equal(answered(0, 7)->status, HF_OK);
    was_posted(MSG_LOSE);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make, unmake)
    const struct CMUnitTest tests[] = {
        ROW(waiters_are_served_as_they_came),
        ROW(rounds_are_for_who_came_first),
        ROW(a_request_sent_again_is_the_same),
        ROW(what_was_sent_again_is_released_whatever_is_answered_then),
        ROW(a_cancelled_round_is_undone_first),
        ROW(a_cancelled_waiter_leaves_the_round_alone),
        ROW(a_cancel_in_vain_is_paid_for),
        ROW(a_session_that_ends_leaves_its_place),
        ROW(a_vote_of_another_record_does_not_count),
        ROW(a_late_vote_of_another_record_does_not_count),
        ROW(a_vote_counts_from_its_send),
        ROW(a_late_vote_of_a_clock_that_stepped_does_not_count),
        ROW(a_late_raise_counts_from_its_acquire),
        ROW(an_acquires_deadline_is_the_earliest_it_may_be_there),
        ROW(an_acquire_names_the_sentinel_and_the_record_that_were_judged),
        ROW(a_broken_acquire_is_released_with_its_lease),
        ROW(so_is_one_that_breaks_before_the_round_is_decided),
        ROW(so_is_one_that_breaks_after_its_round),
        ROW(a_users_many_names_do_not_delay_another_users),
        ROW(nor_that_of_a_name_that_both_wait_for),
        ROW(nor_where_the_other_user_comes_later),
        ROW(a_waiter_that_leaves_its_turn_leaves_the_others),
        ROW(a_try_is_answered_by_one_round),
        ROW(a_later_try_has_a_round_of_its_own),
        ROW(a_try_for_a_lock_of_this_host_asks_no_node),
        ROW(without_nodes_a_try_fails_and_a_waiter_waits),
        ROW(who_comes_to_a_stalled_name_is_told),
        ROW(the_owner_hears_of_a_lease_in_order),
        ROW(a_free_lock_is_not_tracked),
        ROW(who_finds_it_held_asks_for_notices),
        ROW(a_try_asks_for_no_notices),
        ROW(the_wait_after_one_that_met_a_holder_is_tracked_at_once),
        ROW(the_next_round_begins_last),
        ROW(a_lost_lease_that_was_to_be_released_is_lost),
        ROW(a_dead_holder_is_told_of_after_its_orders),
        ROW(a_released_lease_goes_to_the_next_waiter),
        ROW(what_is_handed_to_a_waiter_who_went_is_given_on),
        ROW(a_lease_whose_job_may_live_is_abandoned),
        ROW(a_lease_without_its_guardian_has_no_job),
        ROW(a_lease_with_its_guardian_may_have_a_job),
        ROW(a_short_hold_is_adopted_before_anything_is_told),
        ROW(a_short_hold_ends_without_the_renewal_thread),
        ROW(a_short_hold_lasts_no_longer),
        ROW(who_waits_is_told_nothing_when_the_agent_starts_again),
        ROW(who_waits_stands_in_the_table_until_it_does_not),
        ROW(of_more_than_there_are_rows_the_oldest_are_shown),
        ROW(the_agents_end_has_short_holds_adopted),
        ROW(progress_without_room_is_told_later),
        ROW(a_slot_whose_wait_ends_in_this_turn_is_given_away_in_the_next),
        ROW(who_comes_as_the_last_one_goes_begins_anew),
        ROW(whoever_has_all_places_of_a_name_does_not_hide_it),
        ROW(a_crowd_that_goes_costs_as_much_as_it_counts),
        ROW(so_does_a_crowd_whose_time_is_up),
        ROW(so_does_a_crowd_that_is_cancelled),
        ROW(each_name_that_a_session_leaves_goes_on),
        ROW(each_is_told_its_place),
        ROW(a_drained_host_refuses_tries_and_lets_waiters_wait),
        ROW(an_undrained_host_serves_who_waits),
        ROW(a_round_under_way_is_undone),
        ROW(a_release_of_a_drained_host_goes_to_nobody),
        ROW(a_handoff_under_way_is_told_to_nobody),
        ROW(a_handoff_goes_on_if_the_drain_is_over_by_then),
        ROW(a_lease_that_stands_is_told_again),
        ROW(a_drain_is_for_the_agents_user),
        ROW(a_drain_says_since_when_and_by_whom),
        ROW(a_drain_is_on_record_first),
        ROW(a_release_asked_again_is_answered_at_its_end),
        ROW(a_release_asked_again_is_its_holders),
        ROW(who_asked_again_may_go),
        ROW(what_was_over_before_is_answered_at_once),
        ROW(who_may_not_take_a_name_asks_no_node),
        ROW(a_reload_ends_waits_that_it_forbids),
        ROW(a_handoff_under_way_is_completed),
        ROW(who_was_withheld_is_judged_at_the_leases_end),
        ROW(what_was_granted_is_told_again_whatever_the_rules),
        ROW(who_may_ask_for_a_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

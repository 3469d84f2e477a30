/* The renewal thread on real nodes; the test is its broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/journal.h"
#include "agent/renewal.h"
#include "tests/unit/nodes_fixture.h"
#include "tests/unit/shm_fixture.h"

#define ALL       ((UINT32_C(1) << NODES) - 1)
#define QUORUM    2
#define CAPACITY  4096
#define TTL_MS    3000
#define NEW_NONCE "fedcba9876543210fedcba9876543210"
#define FENCE     UINT64_C(1700000000123)

static struct config config;
static struct agent agent;
static struct loop *loop; /* the broker's, which never runs */
static struct timing timing;
static char dir[64];
static uint32_t generation;
static unsigned told_events[NODES]; /* by MSG_TRUST */

/* --- clocks of the nodes, which a preloaded library shifts ----------------------------------- */

static int64_t *shift_us[NODES]; /* of the wall clock; NULL without that library */

/* Whatever starts from here on as a node has a clock of its own. */
static void own_clock(int node)
{
    char program[PATH_MAX] = "", library[PATH_MAX + 32], file[] = "/tmp/holdfast-unit-XXXXXX";
    int64_t zero[2] = {0, 0};
    int fd;

    assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
    snprintf(library, sizeof(library), "%s/clockshift.so", dirname(program));
    if (access(library, R_OK) != 0)
        return;
    fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, zero, sizeof(zero)), sizeof(zero));
    shift_us[node] = mmap(NULL, sizeof(zero), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(shift_us[node] != MAP_FAILED);
    close(fd);
    setenv("LD_PRELOAD", library, 1);
    setenv("CLOCKSHIFT_FILE", file, 1);
    assert_true(redis_server_start(&nodes[node], NULL));
    unsetenv("LD_PRELOAD");
    unlink(file);
}

static void step_clock(int node, int64_t ms)
{
    __atomic_fetch_add(shift_us[node], ms * 1000, __ATOMIC_RELAXED);
}

/* --- agent ----------------------------------------------------------------------------------- */

static int start_agent(void)
{
    char why[WHY_SIZE] = "";
    uint32_t found;

    memset(told_events, 0, sizeof(told_events));
    memset(&agent, 0, sizeof(agent));
    agent.config = &config;
    agent.table = fixture_table(CAPACITY);
    snprintf(agent.host, sizeof(agent.host), "host-a");
    assert_int_equal(loop_create(&loop), HF_OK);
    mailbox_init(&agent.to_broker, loop);
    snprintf(dir, sizeof(dir), "/tmp/holdfast-unit-XXXXXX");
    assert_non_null(mkdtemp(dir));
    if (journal_open(dir, CAPACITY, NODES, "cafe", agent.boot_id, &agent.journal, &found, why,
                     sizeof(why)) != HF_OK)
        fail_msg("%s", why);
    assert_int_equal(renewal_create(&agent, &agent.renewal), HF_OK);
    assert_int_equal(renewal_start(agent.renewal), HF_OK);
    return 0;
}

static void post(enum message_kind kind, const struct lease *lease, enum hf_loss_reason reason)
{
    struct message *message = message_new(kind);

    if (lease) {
        message->slot = lease->slot;
        message->generation = lease->generation;
    }
    message->reason = reason;
    mailbox_post(&agent.to_renewal, message);
}

static void stop_agent(void)
{
    if (!agent.renewal)
        return;
    post(MSG_STOP, NULL, HF_LOSS_NONE);
    renewal_join(agent.renewal);
    renewal_destroy(agent.renewal);
    mailbox_fini(&agent.to_broker);
    loop_destroy(loop);
    journal_remove(agent.journal);
    rmdir(dir);
    hf_table_close(&agent.table);
    agent.renewal = NULL;
}

static int set_up(void **state)
{
    char why[WHY_SIZE];

    (void)state;
    if (start_nodes() != 0)
        return -1;
    for (int i = 0; i < NODES; i++) {
        redis_server_kill(&nodes[i]);
        own_clock(i);
        if (!shift_us[i])
            assert_true(redis_server_start(&nodes[i], NULL));
        node_address(i, &config.nodes[i]);
        put_sentinel(i, NONCE);
    }
    assert_int_equal(timing_derive(hf_ms(TTL_MS), hf_ms(60000), &timing, why, sizeof(why)), HF_OK);
    config.node_count = NODES;
    snprintf(config.list_hash, sizeof(config.list_hash), "cafe");
    config.ttl_ms = TTL_MS;
    config.ttl_max_ms = 60000;
    config.capacity = CAPACITY;
    config.timing = timing;
    return start_agent();
}

static int tear_down(void **state)
{
    (void)state;
    stop_agent();
    remove_nodes();
    return 0;
}

/* A test that failed may have left nodes stopped and leases behind. */
static int start_afresh(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        redis_server_resume(&nodes[i]);
    return 0;
}

/* --- leases ---------------------------------------------------------------------------------- */

static struct journal_lease record_of(const struct lease *lease, enum journal_state state)
{
    struct journal_lease record = {.state = state,
                                   .slot_state = lease->fsm.state,
                                   .generation = lease->generation,
                                   .fence = lease->fence};

    for (int i = 0; i < HF_NODES_MAX; i++)
        record.d[i] = lease->fsm.node[i].d;
    return record;
}

/* What a broker does before it hands a lease over; the keys stand on the nodes of `votes` since
 * `a`. */
static struct lease *made(const char *name, uint32_t slot, uint32_t votes, bool run, hf_time a)
{
    struct lease *lease = lease_new(name, strlen(name), name, strlen(name));
    struct journal_identity identity = {.ttl_ms = TTL_MS, .name_len = (uint8_t)strlen(name)};
    struct hf_slot_identity id = {.flags = run ? HF_SLOT_F_RUN : 0};
    hf_time at[HF_NODES_MAX];
    uint32_t mark[HF_NODES_MAX] = {77, 78, 79}; /* the broker counts sentinels by itself */
    struct journal_lease record;

    for (int i = 0; i < HF_NODES_MAX; i++)
        at[i] = votes >> i & 1 ? a : HF_TIME_PAST;
    lease->slot = slot;
    lease->generation = ++generation;
    lease->ttl_ms = TTL_MS;
    lease->fence = FENCE << 16;
    lease->since = a;
    lease->run = run;
    memcpy(lease->token, TOKEN, sizeof(TOKEN));
    lease_fsm_init(&lease->fsm, NODES, QUORUM, &timing, run, HF_TIME_NEVER, at, mark);
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, HF_SLOT_HELD);
    memcpy(identity.token, TOKEN, sizeof(TOKEN));
    memcpy(identity.name, name, strlen(name));
    journal_put_identity(agent.journal, slot, &identity);
    record = record_of(lease, JOURNAL_HELD);
    journal_put(agent.journal, slot, &record);
    id.generation = lease->generation;
    id.ttl_ms = TTL_MS;
    id.fence = lease->fence;
    id.since = a;
    hf_slot_publish(&agent.table.slots[slot], &id, lease->fsm.valid, QUORUM);
    return lease;
}

static void hand_over(struct lease *lease)
{
    struct message *message = message_new(MSG_GRANTED);

    message->lease = lease;
    mailbox_post(&agent.to_renewal, message);
}

static void put_key(const char *name, uint32_t votes)
{
    for (int i = 0; i < NODES; i++)
        if (votes >> i & 1)
            ask(i, "SET %s %s PX %d", name, TOKEN, TTL_MS);
}

/* Slots are numbered through: a lease of one test is never met by another. */
static struct lease *granted(const char *name, uint32_t votes, bool run)
{
    hf_time a = clock_now();
    struct lease *lease;

    put_key(name, votes);
    lease = made(name, generation % CAPACITY, votes, run, a);
    hand_over(lease);
    return lease;
}

static struct hf_slot_view view_of(uint32_t slot)
{
    struct hf_slot_view view;

    assert_int_equal(hf_slot_read(&agent.table, slot, &view), HF_OK);
    return view;
}

static bool holds(uint32_t slot)
{
    uint64_t word = atomic_load_explicit(&agent.table.slots[slot].check, memory_order_acquire);

    return hf_check_holds(word, (uint32_t)(word >> HF_CHECK_GEN_SHIFT), clock_now());
}

/* As the next agent would read it, through a mapping of its own: the record is the thread's. */
static struct journal_lease journal_of(uint32_t slot)
{
    struct journal_identity identity;
    struct journal_lease record;
    struct journal *journal;
    char why[WHY_SIZE];
    uint32_t found;

    assert_int_equal(journal_open(dir, CAPACITY, NODES, "cafe", agent.boot_id, &journal, &found,
                                  why, sizeof(why)),
                     HF_OK);
    assert_int_equal(journal_get(journal, slot, &identity, &record), HF_OK);
    journal_close(journal);
    return record;
}

/* --- what the thread tells ------------------------------------------------------------------- */

/* The next message about leases, in order; NULL when none came within `ms`. */
static struct message *told(int ms)
{
    hf_time give_up = hf_time_add(clock_now(), hf_ms(ms));

    for (;;) {
        struct message *message = mailbox_take(&agent.to_broker);

        if (!message) {
            if (hf_time_reached(clock_now(), give_up))
                return NULL;
            sleep_ms(2);
        } else if (message->kind == MSG_TRUST) {
            told_events[message->node_number] |= message->events;
            free(message);
        } else {
            return message;
        }
    }
}

static void is_changed(struct lease *lease, enum hf_slot_state state, enum hf_loss_reason reason)
{
    struct message *message = told(FAR_MS);
    struct hf_slot_view view = view_of(lease->slot);

    assert_non_null(message);
    assert_int_equal(message->kind, MSG_CHANGED);
    assert_ptr_equal(message->lease, lease);
    assert_int_equal(message->reason, reason);
    free(message);
    assert_int_equal(view.state, state);
    assert_int_equal(view.reason, reason);
    assert_int_equal(atomic_load(&lease->state), state);
}

static void is_ended(struct lease *lease)
{
    struct message *message = told(FAR_MS);

    assert_non_null(message);
    assert_int_equal(message->kind, MSG_ENDED);
    assert_ptr_equal(message->lease, lease);
    free(message);
    assert_false(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).state, JOURNAL_ENDING);
    lease_free(lease);
}

static void is_quiet(int ms)
{
    struct message *message = told(ms);

    if (message)
        fail_msg("message %d, reason %d", message->kind, message->reason);
}

static void release(struct lease *lease)
{
    post(MSG_RELEASE, lease, HF_LOSS_NONE);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    is_ended(lease);
}

/* Whether the value of key on those nodes becomes this, before long. */
static bool becomes(const char *key, const char *value, uint32_t on)
{
    for (int waited = 0; waited < FAR_MS; waited += 5) {
        if ((holders_of(key, value) & on) == on)
            return true;
        sleep_ms(5);
    }
    return false;
}

/* For `ms`: held, and no less than half the TTL ahead on each of the nodes. */
static void stays_renewed(struct lease *lease, const char *key, uint32_t on, int ms)
{
    hf_time end = hf_time_add(clock_now(), hf_ms(ms));

    while (hf_time_before(clock_now(), end)) {
        assert_true(holds(lease->slot));
        for (int i = 0; i < NODES; i++)
            if (on >> i & 1)
                assert_in_range(ask_number(i, "PTTL", key), TTL_MS / 2, TTL_MS);
        sleep_ms(20);
    }
}

static uint64_t counter(enum hf_counter which)
{
    return hf_counter_read(&agent.table, which);
}

/* --- held ------------------------------------------------------------------------------------ */

static void test_renewed_until_released(void **state)
{
    struct lease *lease = granted("steady", ALL, false);
    hf_time first = lease->fsm.valid;

    (void)state;
    stays_renewed(lease, "steady", ALL, 2 * TTL_MS);
    assert_true(atomic_load(&lease->valid_ns) > first.ns);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_int_equal(view_of(lease->slot).deadline.ns, atomic_load(&lease->valid_ns));
    assert_true(journal_of(lease->slot).d[0].ns > first.ns);
    assert_int_equal(counter(HF_COUNTER_LEASES), 1);
    assert_true(counter(HF_COUNTER_RENEWED) >= NODES * 4);
    is_quiet(0);
    release(lease);
    assert_int_equal(holders_of("steady", ""), ALL);
    assert_int_equal(counter(HF_COUNTER_LEASES), 0);
    assert_int_equal(counter(HF_COUNTER_RELEASES), 1);
}

static void test_heartbeat(void **state)
{
    _Atomic int64_t *beat = &agent.table.header->renewal_beat_ns;

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_true(hf_time_since(clock_now(), (hf_time){atomic_load(beat)}).ns < HF_NS_PER_SEC);
        sleep_ms(20);
    }
}

static void test_one_node_away_changes_nothing(void **state)
{
    struct lease *lease = granted("minority", ALL, false);

    (void)state;
    redis_server_pause(&nodes[1]);
    for (int i = 0; i < 2 * TTL_MS / 20; i++) {
        assert_true(holds(lease->slot));
        assert_true(ask_number(0, "PTTL", "minority") >= TTL_MS / 2);
        sleep_ms(20);
    }
    is_quiet(0);
    redis_server_resume(&nodes[1]);
    assert_true(becomes("minority", TOKEN, ALL)); /* it lapsed there, and is healed */
    release(lease);
    assert_true(becomes("minority", "", ALL));
}

static void test_many_keys_in_one_script(void **state)
{
    enum { LEASES = 1000 };
    static struct lease *leases[LEASES];
    uint64_t calls = counter(HF_COUNTER_RENEW_CALLS), renewed = counter(HF_COUNTER_RENEWED);
    char name[32];
    hf_time a;

    (void)state;
    for (int k = 0; k < LEASES; k++) {
        snprintf(name, sizeof(name), "many-%d", k);
        put_key(name, ALL);
    }
    for (int i = 0; i < NODES; i++)
        ask(i, "CONFIG RESETSTAT");
    a = hf_time_sub(clock_now(), hf_ms(100));
    for (int k = 0; k < LEASES; k++) {
        snprintf(name, sizeof(name), "many-%d", k);
        for (int i = 0; i < NODES && k % 100 == 0; i++)
            ask(i, "PEXPIRE %s %d", name, TTL_MS);
        leases[k] = made(name, (uint32_t)(2000 + k), ALL, false, a);
    }
    for (int k = 0; k < LEASES; k++)
        hand_over(leases[k]);
    sleep_ms(2 * TTL_MS);
    for (int k = 0; k < LEASES; k++)
        assert_true(holds(leases[k]->slot));
    is_quiet(0);
    calls = counter(HF_COUNTER_RENEW_CALLS) - calls;
    renewed = counter(HF_COUNTER_RENEWED) - renewed;
    assert_true(renewed >= (uint64_t)LEASES * NODES * 4);
    assert_true(renewed / calls >= 10);
    assert_true(counter(HF_COUNTER_RENEW_LAG_MAX_NS) < (uint64_t)TTL_MS * HF_NS_PER_MS / 2);
    for (int k = 0; k < LEASES; k++)
        post(MSG_RELEASE, leases[k], HF_LOSS_NONE);
    for (int ended = 0; ended < LEASES;) {
        struct message *message = told(FAR_MS);

        assert_non_null(message);
        if (message->kind == MSG_ENDED) {
            lease_free(message->lease);
            ended++;
        }
        free(message);
    }
    assert_true(becomes("many-0", "", ALL));
    assert_true(becomes("many-999", "", ALL));
}

/* --- healed ---------------------------------------------------------------------------------- */

static void test_node_without_vote_is_healed(void **state)
{
    struct lease *lease = granted("partial", 1 << 0 | 1 << 1, false);

    (void)state;
    assert_true(becomes("partial", TOKEN, 1 << 2));
    assert_true(ask_number(2, "PTTL", "partial") > TTL_MS / 2);
    assert_string_equal(ask(2, "HGET holdfast:fence:partial fence"), "1700000000123");
    sleep_ms(50);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_true(counter(HF_COUNTER_HEALS) >= 1);
    release(lease);
}

static void test_late_vote_counts(void **state)
{
    struct lease *lease = granted("late-vote", 1 << 0 | 1 << 1, false);
    struct message *vote = message_new(MSG_VOTE);
    uint64_t heals = counter(HF_COUNTER_HEALS);

    (void)state;
    vote->slot = lease->slot;
    vote->generation = lease->generation;
    vote->node_number = 2;
    vote->at = clock_now();
    put_key("late-vote", 1 << 2);
    mailbox_post(&agent.to_renewal, vote);
    for (int i = 0; i < FAR_MS && view_of(lease->slot).votes != NODES; i++)
        sleep_ms(1);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_int_equal(counter(HF_COUNTER_HEALS), heals);
    release(lease);
    assert_true(becomes("late-vote", "", ALL));
}

static void test_deleted_key_is_healed(void **state)
{
    struct lease *lease = granted("deleted", ALL, false);

    (void)state;
    sleep_ms(100);
    ask(1, "DEL deleted");
    assert_true(becomes("deleted", TOKEN, ALL));
    assert_true(holds(lease->slot));
    assert_true(counter(HF_COUNTER_RENEW_MISSES) >= 1);
    is_quiet(0);
    release(lease);
}

/* It gives no votes, so it gets no keys. */
static void test_node_of_another_fleet_is_not_healed(void **state)
{
    struct lease *lease;

    (void)state;
    ask(2, "HSET holdfast:node ttl_max_ms 50000");
    sleep_ms(TTL_MS / 2); /* long enough for a probe */
    lease = granted("fleet", 1 << 0 | 1 << 1, false);
    is_quiet(TTL_MS / 2);
    assert_int_equal(holders_of("fleet", TOKEN), 1 << 0 | 1 << 1);
    ask(2, "HSET holdfast:node ttl_max_ms 60000");
    assert_true(becomes("fleet", TOKEN, ALL));
    release(lease);
}

/* The restarted node has no sentinel until the broker makes one; the heal waits for that. */
static void test_restarted_node_is_healed(void **state)
{
    struct lease *lease = granted("restarted", ALL, false);
    struct message *message;

    (void)state;
    is_quiet(200);
    redis_server_kill(&nodes[0]);
    assert_true(redis_server_start(&nodes[0], NULL));
    is_quiet(2000); /* neither lost nor late */
    assert_true(told_events[0] & TRUST_RESTARTED);
    assert_true(told_events[0] & TRUST_FORGOT);
    assert_int_equal(holders_of("restarted", TOKEN), 1 << 1 | 1 << 2);
    put_sentinel(0, NEW_NONCE);
    message = message_new(MSG_TRUST);
    message->node_number = 0;
    memcpy(message->nonce, NEW_NONCE, sizeof(NEW_NONCE));
    mailbox_post(&agent.to_renewal, message);
    assert_true(becomes("restarted", TOKEN, ALL));
    is_quiet(0);
    release(lease);
}

static void test_flushed_quorum_keeps_the_lease(void **state)
{
    struct lease *lease = granted("flushed", ALL, false);

    (void)state;
    is_quiet(200);
    for (int i = 0; i < QUORUM; i++) {
        ask(i, "FLUSHALL");
        put_sentinel(i, NEW_NONCE);
    }
    assert_true(becomes("flushed", TOKEN, ALL));
    assert_true(holds(lease->slot));
    is_quiet(0);
    assert_true(told_events[0] & TRUST_FORGOT);
    release(lease);
}

/* As the broker tells it: every vote of that node is void until renewed, so it is renewed at once.
 */
static void test_clock_step_renews_at_once(void **state)
{
    struct lease *lease = granted("stepped", ALL, false);
    struct message *message = message_new(MSG_TRUST);
    long before = calls_of(1, "pexpire");
    hf_time start = clock_now();

    (void)state;
    message->node_number = 1;
    message->events = TRUST_STEPPED;
    mailbox_post(&agent.to_renewal, message);
    while (calls_of(1, "pexpire") == before)
        sleep_ms(2);
    assert_true(hf_time_since(clock_now(), start).ns < timing.renew_after.ns / 2);
    sleep_ms(50);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_true(holds(lease->slot));
    release(lease);
}

/* The node's clock jumps ahead, and the key there is gone. */
static void test_clock_of_one_node_steps(void **state)
{
    struct lease *lease;

    (void)state;
    if (!shift_us[1])
        skip();
    lease = granted("jumped", ALL, false);
    is_quiet(200);
    step_clock(1, 10000);
    for (int waited = 0; !(told_events[1] & TRUST_STEPPED) && waited < FAR_MS; waited += 50)
        is_quiet(50);
    assert_true(told_events[1] & TRUST_STEPPED);
    assert_true(becomes("jumped", TOKEN, ALL));
    is_quiet(200);
    assert_true(holds(lease->slot));
    assert_int_equal(view_of(lease->slot).votes, NODES);
    release(lease);
}

/* The reply that shows a step counts as a renewal of its keys: not even all clocks lose them. */
static void test_clocks_of_all_nodes_step(void **state)
{
    struct lease *lease;

    (void)state;
    if (!shift_us[0])
        skip();
    lease = granted("all-jumped", ALL, false);
    is_quiet(200);
    memset(told_events, 0, sizeof(told_events));
    for (int i = 0; i < NODES; i++)
        step_clock(i, -5000);
    is_quiet(TTL_MS);
    for (int i = 0; i < NODES; i++)
        assert_true(told_events[i] & TRUST_STEPPED);
    assert_true(holds(lease->slot));
    assert_int_equal(view_of(lease->slot).votes, NODES);
    release(lease);
}

/* --- lost ------------------------------------------------------------------------------------ */

static void test_quorum_away_loses_by_the_clock(void **state)
{
    struct lease *lease = granted("lost", ALL, false);
    hf_time valid;

    (void)state;
    redis_server_pause(&nodes[0]);
    redis_server_pause(&nodes[1]);
    is_changed(lease, HF_SLOT_LATE, HF_LOSS_NONE);
    assert_true(holds(lease->slot));
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_QUORUM);
    assert_true(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).slot_state, HF_SLOT_LOSING);
    valid = view_of(lease->slot).deadline;
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_true(hf_time_reached(clock_now(), valid));
    assert_false(holds(lease->slot));
    assert_true(counter(HF_COUNTER_LOSSES) >= 1);
    is_ended(lease); /* an attempt later: one node answered */
    assert_string_equal(ask(2, "GET lost"), "");
    redis_server_resume(&nodes[0]);
    redis_server_resume(&nodes[1]);
    assert_true(becomes("lost", "", ALL));
}

static void test_back_in_time_is_held_again(void **state)
{
    struct lease *lease = granted("back", ALL, false);

    (void)state;
    redis_server_pause(&nodes[0]);
    redis_server_pause(&nodes[1]);
    is_changed(lease, HF_SLOT_LATE, HF_LOSS_NONE);
    redis_server_resume(&nodes[0]);
    redis_server_resume(&nodes[1]);
    is_changed(lease, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_true(holds(lease->slot));
    release(lease);
}

static void test_foreign_quorum_loses_at_once(void **state)
{
    struct lease *lease = granted("foreign", ALL, false);

    (void)state;
    ask(0, "SET foreign %s PX 60000", OTHER);
    is_quiet(TTL_MS); /* one is not enough */
    assert_true(holds(lease->slot));
    ask(1, "SET foreign %s PX 60000", OTHER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_FOREIGN);
    is_ended(lease);
    assert_int_equal(holders_of("foreign", OTHER), 1 << 0 | 1 << 1);
    assert_true(becomes("foreign", "", 1 << 2));
}

static void test_asked_to_stop(void **state)
{
    struct lease *lease = granted("asked", ALL, false);
    hf_time valid;

    (void)state;
    sleep_ms(100);
    post(MSG_LOSE, lease, HF_LOSS_ASKED);
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_ASKED);
    valid = view_of(lease->slot).deadline;
    assert_true(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).slot_state, HF_SLOT_LOSING);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_ASKED); /* not renewed any more */
    assert_int_equal(journal_of(lease->slot).d[0].ns >= valid.ns, 1);
    is_ended(lease);
}

/* --- runs ------------------------------------------------------------------------------------ */

static void test_lost_run_is_not_released(void **state)
{
    struct lease *lease = granted("run", ALL, true);
    long deleted;

    (void)state;
    assert_true(view_of(lease->slot).flags & HF_SLOT_F_RUN);
    deleted = calls_of(2, "del");
    post(MSG_LOSE, lease, HF_LOSS_GUARDIAN);
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_GUARDIAN);
    assert_true(view_of(lease->slot).flags & HF_SLOT_F_RUN);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_GUARDIAN);
    is_ended(lease); /* all keys have lapsed by then */
    assert_int_equal(holders_of("run", ""), ALL);
    assert_int_equal(calls_of(2, "del"), deleted);
}

static void test_lost_run_is_released_once_reaped(void **state)
{
    struct lease *lease = granted("reaped", ALL, true);

    (void)state;
    ask(0, "SET reaped %s PX 60000", OTHER);
    ask(1, "SET reaped %s PX 60000", OTHER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_FOREIGN);
    is_quiet(100);
    assert_true(holders_of("reaped", TOKEN) & 1 << 2);
    post(MSG_RELEASE, lease, HF_LOSS_NONE);
    is_ended(lease);
    assert_true(becomes("reaped", "", 1 << 2));
}

static void test_abandoned_run_lapses(void **state)
{
    struct lease *lease = granted("orphan", ALL, true);
    long deleted = calls_of(0, "del");
    hf_time valid;

    (void)state;
    sleep_ms(100);
    post(MSG_ABANDON, lease, HF_LOSS_HOLDER);
    while (!(view_of(lease->slot).flags & HF_SLOT_F_ORPHAN))
        sleep_ms(1);
    valid = view_of(lease->slot).deadline;
    is_changed(lease, HF_SLOT_LATE, HF_LOSS_NONE);
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_HOLDER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_HOLDER);
    assert_true(hf_time_reached(clock_now(), valid));
    is_ended(lease);
    assert_int_equal(holders_of("orphan", ""), ALL);
    assert_int_equal(calls_of(0, "del"), deleted);
}

/* --- the end --------------------------------------------------------------------------------- */

static void test_dead_holder(void **state)
{
    struct lease *lease = granted("dead", ALL, false);
    hf_time start = clock_now();

    (void)state;
    post(MSG_RELEASE, lease, HF_LOSS_HOLDER);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_HOLDER);
    is_ended(lease);
    assert_true(hf_time_since(clock_now(), start).ns < timing.attempt.ns);
    assert_true(becomes("dead", "", ALL));
}

/* (!) A heal that got no answer may still run: it is released again when its deadline has passed.
 */
static void test_heal_in_doubt_leaves_nothing(void **state)
{
    struct lease *lease;

    (void)state;
    redis_server_pause(&nodes[2]);
    lease = granted("doubt", 1 << 0 | 1 << 1, false);
    sleep_ms((int)hf_dur_ms(timing.attempt) * 2); /* the heal is on its way */
    post(MSG_RELEASE, lease, HF_LOSS_NONE);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    is_ended(lease);
    redis_server_resume(&nodes[2]);
    sleep_ms(100);
    assert_true(becomes("doubt", "", ALL));
}

static void test_messages_of_another_generation(void **state)
{
    struct lease *lease = granted("mismatch", ALL, false);
    struct lease other = {.slot = lease->slot, .generation = lease->generation + 1000};
    struct lease nowhere = {.slot = CAPACITY + 5, .generation = 1};

    (void)state;
    post(MSG_RELEASE, &other, HF_LOSS_NONE);
    post(MSG_LOSE, &other, HF_LOSS_ASKED);
    post(MSG_ABANDON, &nowhere, HF_LOSS_NONE);
    is_quiet(200);
    assert_true(holds(lease->slot));
    release(lease);
    post(MSG_RELEASE, &other, HF_LOSS_NONE);
    is_quiet(50);
}

static void test_stop_keeps_the_leases(void **state)
{
    struct lease *lease = granted("kept", ALL, false);

    (void)state;
    is_quiet(100);
    post(MSG_STOP, NULL, HF_LOSS_NONE);
    renewal_join(agent.renewal);
    assert_true(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).state, JOURNAL_HELD);
    assert_int_equal(holders_of("kept", TOKEN), ALL);

    /* The next agent takes it up from the journal. */
    {
        struct journal_lease record = journal_of(lease->slot);
        uint32_t mark[HF_NODES_MAX] = {0};

        renewal_destroy(agent.renewal);
        assert_int_equal(renewal_create(&agent, &agent.renewal), HF_OK);
        lease_fsm_restore(&lease->fsm, NODES, QUORUM, &timing, false, HF_TIME_NEVER, record.d, mark,
                          false);
        hand_over(lease);
        assert_int_equal(renewal_start(agent.renewal), HF_OK);
    }
    stays_renewed(lease, "kept", ALL, TTL_MS);
    release(lease);
    assert_true(becomes("kept", "", ALL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_renewed_until_released, start_afresh),
        cmocka_unit_test_setup(test_heartbeat, start_afresh),
        cmocka_unit_test_setup(test_one_node_away_changes_nothing, start_afresh),
        cmocka_unit_test_setup(test_many_keys_in_one_script, start_afresh),
        cmocka_unit_test_setup(test_node_without_vote_is_healed, start_afresh),
        cmocka_unit_test_setup(test_late_vote_counts, start_afresh),
        cmocka_unit_test_setup(test_deleted_key_is_healed, start_afresh),
        cmocka_unit_test_setup(test_node_of_another_fleet_is_not_healed, start_afresh),
        cmocka_unit_test_setup(test_clock_step_renews_at_once, start_afresh),
        cmocka_unit_test_setup(test_clock_of_one_node_steps, start_afresh),
        cmocka_unit_test_setup(test_clocks_of_all_nodes_step, start_afresh),
        cmocka_unit_test_setup(test_quorum_away_loses_by_the_clock, start_afresh),
        cmocka_unit_test_setup(test_back_in_time_is_held_again, start_afresh),
        cmocka_unit_test_setup(test_foreign_quorum_loses_at_once, start_afresh),
        cmocka_unit_test_setup(test_asked_to_stop, start_afresh),
        cmocka_unit_test_setup(test_lost_run_is_not_released, start_afresh),
        cmocka_unit_test_setup(test_lost_run_is_released_once_reaped, start_afresh),
        cmocka_unit_test_setup(test_abandoned_run_lapses, start_afresh),
        cmocka_unit_test_setup(test_dead_holder, start_afresh),
        cmocka_unit_test_setup(test_heal_in_doubt_leaves_nothing, start_afresh),
        cmocka_unit_test_setup(test_messages_of_another_generation, start_afresh),
        cmocka_unit_test_setup(test_stop_keeps_the_leases, start_afresh),
        cmocka_unit_test_setup(test_flushed_quorum_keeps_the_lease, start_afresh),
        cmocka_unit_test_setup(test_restarted_node_is_healed, start_afresh),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

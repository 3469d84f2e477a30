/* The renewal thread on three real nodes, with the test as its broker.
 * Include once, after cmocka.h. */
#ifndef HOLDFAST_TESTS_RENEWAL_FIXTURE_H
#define HOLDFAST_TESTS_RENEWAL_FIXTURE_H

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/core/fence.h"
#include "agent/state/journal.h"
#include "agent/renewal/renewal.h"
#include "shm/compiler.h"
#include "tests/support/journal.h"
#include "tests/support/scratch.h"
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

/* --- clocks of the nodes, which a preloaded library shifts ------------------------------------ */

static int64_t *shift_us[NODES]; /* of the wall clock; NULL without that library */

/* Whatever starts from here on as a node has a clock of its own. */
static HF_UNUSED void own_clock(int node)
{
    char program[PATH_MAX] = "", library[PATH_MAX + 32], file[64];
    int64_t zero[2] = {0, 0};
    int fd;

    assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
    snprintf(library, sizeof(library), "%s/clockshift.so", dirname(program));
    if (access(library, R_OK) != 0)
        return;
    scratch_path(file, sizeof(file));
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

static HF_UNUSED void step_clock(int node, int64_t ms)
{
    __atomic_fetch_add(shift_us[node], ms * 1000, __ATOMIC_RELAXED);
}

/* --- agent ------------------------------------------------------------------------------------ */

/* Its renewal thread does not run yet. */
static HF_UNUSED void make_agent(void)
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
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    if (journal_open(dir, CAPACITY, NODES, "cafe", &agent.clock, &agent.journal, &found, why,
                     sizeof(why)) != HF_OK)
        fail_msg("%s", why);
    assert_int_equal(
        node_records_open(dir, NODES, "cafe", &agent.clock, &agent.node_records, why, sizeof(why)),
        HF_OK);
    assert_int_equal(renewal_create(&agent, &agent.renewal), HF_OK);
}

static HF_UNUSED int start_agent(void)
{
    make_agent();
    assert_int_equal(renewal_start(agent.renewal), HF_OK);
    return 0;
}

static HF_UNUSED void post(enum message_kind kind, const struct lease *lease,
                           enum hf_loss_reason reason)
{
    struct message *message = message_new(kind);

    if (lease) {
        message->slot = lease->slot;
        message->generation = lease->generation;
    }
    message->reason = reason;
    mailbox_post(&agent.to_renewal, message);
}

/* Its renewal thread has ended, or never ran. */
static HF_UNUSED void remove_agent(void)
{
    renewal_destroy(agent.renewal);
    mailbox_fini(&agent.to_broker);
    loop_destroy(loop);
    journal_remove(agent.journal);
    node_records_remove(agent.node_records);
    rmdir(dir);
    hf_table_close(&agent.table);
    agent.renewal = NULL;
}

static HF_UNUSED void stop_agent(void)
{
    if (!agent.renewal)
        return;
    post(MSG_STOP, NULL, HF_LOSS_NONE);
    renewal_join(agent.renewal);
    remove_agent();
}

static HF_UNUSED void make_config(void)
{
    char why[WHY_SIZE];

    assert_int_equal(timing_derive(hf_ms(TTL_MS), hf_ms(TTL_MAX_MS), &timing, why, sizeof(why)),
                     HF_OK);
    config.node_count = NODES;
    snprintf(config.list_hash, sizeof(config.list_hash), "cafe");
    config.ttl_ms = TTL_MS;
    config.ttl_max_ms = TTL_MAX_MS;
    config_count_all(&config);
    config.assume_fresh = true;
    config.capacity = CAPACITY;
    config.timing = timing;
}

static HF_UNUSED int set_up(void **state)
{
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
    make_config();
    return start_agent();
}

static HF_UNUSED int tear_down(void **state)
{
    (void)state;
    stop_agent();
    remove_nodes();
    return 0;
}

/* A test that failed may have left nodes stopped and leases behind. */
static HF_UNUSED int start_afresh(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        redis_server_resume(&nodes[i]);
    return 0;
}

/* --- leases ----------------------------------------------------------------------------------- */

static HF_UNUSED struct journal_lease record_of(const struct lease *lease, enum journal_state state)
{
    struct journal_lease record = {.state = state,
                                   .slot_state = lease->fsm.state,
                                   .generation = lease->generation,
                                   .fence = lease->fence};

    for (int i = 0; i < HF_NODES_MAX; i++)
        record.d[i] = i < NODES ? lease_fsm_d(&lease->fsm, i) : HF_TIME_PAST;
    return record;
}

/* What a broker does before it hands a lease over; the keys stand on the nodes of `votes` since
 * `a`. */
static HF_UNUSED struct lease *made(const char *name, uint32_t slot, uint32_t votes, bool is_job,
                                    hf_time a)
{
    const struct lease_words words = {.name = name,
                                      .name_len = strlen(name),
                                      .key = name,
                                      .key_len = strlen(name),
                                      .holder = &(struct holder){0}};
    struct lease *lease = lease_new(NODES, &words);
    struct journal_identity identity = {.ttl_ms = TTL_MS, .name_len = (uint8_t)strlen(name)};
    struct hf_slot_identity id = {.flags = is_job ? HF_SLOT_F_JOB : 0};
    hf_time at[HF_NODES_MAX];
    uint32_t mark[HF_NODES_MAX] = {77, 78, 79}; /* the broker counts sentinels by itself */
    struct journal_lease record;

    for (int i = 0; i < HF_NODES_MAX; i++)
        at[i] = votes >> i & 1 ? a : HF_TIME_PAST;
    lease->slot = slot;
    lease->generation = ++generation;
    lease->ttl_ms = TTL_MS;
    lease->fence = fence_make(FENCE, 0);
    lease->since = a;
    lease->is_job = is_job;
    lease->token = token_bytes;
    lease_fsm_init(&lease->fsm, NULL, NODES, QUORUM, &timing, is_job, HF_TIME_NEVER, at, mark);
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, HF_SLOT_HELD);
    identity.token = token_bytes;
    memcpy(identity.name, name, strlen(name));
    journal_put_identity(agent.journal, slot, &identity);
    record = record_of(lease, JOURNAL_HELD);
    journal_put(agent.journal, slot, &record);
    id.generation = lease->generation;
    id.name_len = lease->name_len;
    id.ttl_ms = TTL_MS;
    id.fence = lease->fence;
    id.since = a;
    hf_slot_publish(&agent.table.slots[slot], &id, lease->fsm.valid, QUORUM);
    return lease;
}

static HF_UNUSED void hand_over(struct lease *lease)
{
    struct message *message = message_new(MSG_GRANTED);

    message->lease = lease;
    mailbox_post(&agent.to_renewal, message);
}

static HF_UNUSED void put_key(const char *name, uint32_t votes)
{
    for (int i = 0; i < NODES; i++)
        if (votes >> i & 1)
            ask(i, "SET %s %s PX %d", name, TOKEN, TTL_MS);
}

/* Slots are numbered through: a lease of one test is never met by another. */
static HF_UNUSED struct lease *granted(const char *name, uint32_t votes, bool is_job)
{
    hf_time a = clock_now();
    struct lease *lease;

    put_key(name, votes);
    lease = made(name, generation % CAPACITY, votes, is_job, a);
    hand_over(lease);
    return lease;
}

static HF_UNUSED struct hf_slot_view view_of(uint32_t slot)
{
    struct hf_slot_view view;

    assert_int_equal(hf_slot_read(&agent.table, slot, &view), HF_OK);
    return view;
}

static HF_UNUSED bool holds(uint32_t slot)
{
    uint64_t word = atomic_load_explicit(&agent.table.slots[slot].check, memory_order_acquire);

    return hf_check_holds(word, (uint32_t)(word >> HF_CHECK_GEN_SHIFT), clock_now());
}

/* As the next agent would read it, through a mapping of its own: the record is the thread's. */
static HF_UNUSED struct journal_lease journal_of(uint32_t slot)
{
    struct journal_identity identity;
    struct journal_lease record;
    struct journal_view view;
    char why[WHY_SIZE];
    int rc;

    do { /* the thread may be writing it */
        assert_int_equal(
            journal_dry_run(dir, CAPACITY, NODES, "cafe", &agent.clock, &view, why, sizeof(why)),
            HF_OK);
        assert_non_null(view.journal);
        rc = journal_get(view.journal, slot, &identity, &record);
        journal_close(view.journal);
    } while (rc == HF_ETABLE);
    assert_int_equal(rc, HF_OK);
    return record;
}

/* --- what the thread tells -------------------------------------------------------------------- */

/* The next message about leases, in order; NULL when none came within `ms`. */
static HF_UNUSED struct message *told(int ms)
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

static HF_UNUSED void is_changed(struct lease *lease, enum hf_slot_state state,
                                 enum hf_loss_reason reason)
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

static HF_UNUSED void is_ended(struct lease *lease)
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

static HF_UNUSED void is_quiet(int ms)
{
    struct message *message = told(ms);

    if (message)
        fail_msg("message %d, reason %d", message->kind, message->reason);
}

/* Told at most that V moved back. */
static HF_UNUSED void stays_held(struct lease *lease, int ms)
{
    for (struct message *message = told(ms); message; message = told(0)) {
        assert_int_equal(message->kind, MSG_CHANGED);
        free(message);
    }
    assert_true(holds(lease->slot));
    assert_int_equal(atomic_load(&lease->state), HF_SLOT_HELD);
}

static HF_UNUSED void release(struct lease *lease)
{
    post(MSG_RELEASE, lease, HF_LOSS_NONE);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    is_ended(lease);
}

/* Whether the value of key on those nodes becomes this, before long. */
static HF_UNUSED bool becomes(const char *key, const char *value, uint32_t on)
{
    for (int waited = 0; waited < FAR_MS; waited += 5) {
        if ((holders_of(key, value) & on) == on)
            return true;
        sleep_ms(5);
    }
    return false;
}

/* For `ms`: held, and no less than half the TTL ahead on each of the nodes. */
static HF_UNUSED void stays_renewed(struct lease *lease, const char *key, uint32_t on, int ms)
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

static HF_UNUSED uint64_t counter(enum hf_counter which)
{
    return hf_counter_read(&agent.table, which);
}

#endif

/* agent/state/journal.h: a writer that is killed leaves its last put or the one before, of whole leases
 * one after the other; and threads put side by side. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "agent/state/journal_layout.h"
#include "tests/unit/journal_fixture.h"

#define KILLS 200

/* --- a killed writer -------------------------------------------------------------------------- */

/* What the writer says about itself, in memory that outlives it. */
struct puts {
    _Atomic uint64_t put; /* `number` of the last journal_put() that returned */
};

#define LEASE_PUTS 16 /* INTENT, HELD and so on, ENDING, FREE */

static enum journal_state state_at(uint64_t number)
{
    switch (number % LEASE_PUTS) {
    case 0:
        return JOURNAL_INTENT;
    case LEASE_PUTS - 2:
        return JOURNAL_ENDING;
    case LEASE_PUTS - 1:
        return JOURNAL_FREE;
    default:
        return JOURNAL_HELD;
    }
}

/* The generation, and what the identity is made of. */
static uint32_t lease_at(uint64_t number)
{
    return (uint32_t)(number / LEASE_PUTS + 1) & HF_GEN_MAX;
}

static _Noreturn void write_until_killed(struct puts *puts)
{
    uint64_t number = atomic_load(&puts->put);

    for (;;) {
        number++;
        if (state_at(number) == JOURNAL_INTENT)
            put_identity(0, lease_at(number));
        put_lease(0, state_at(number), lease_at(number), number);
        atomic_store(&puts->put, number);
    }
}

/* It is the last put, or the one that the writer was killed in. */
static void check_lease(struct puts *puts)
{
    uint64_t put = atomic_load(&puts->put), number = put;
    struct journal_identity identity;
    struct journal_lease lease;
    int rc = journal_get(journal, 0, &identity, &lease);

    if (rc == HF_OK) {
        number = lease.fence - numbered_lease(JOURNAL_HELD, 1, 0).fence;
        assert_lease(&lease, state_at(number), lease_at(number), number);
        assert_identity(&identity, lease_at(number));
    } else {
        assert_int_equal(rc, HF_ENOTHELD);
        if (state_at(put) != JOURNAL_FREE)
            number++;
        assert_int_equal(state_at(number), JOURNAL_FREE);
    }
    assert_in_range(number, put, put + 1);
    /* One too high is allowed: it may have been given away. */
    assert_in_range(journal_generation(journal, 0), lease_at(number), lease_at(number + 1));
    assert_int_equal(found, rc == HF_OK ? 1 : 0);
    atomic_store(&puts->put, number);
}

TEST(a_kill_at_any_moment_leaves_the_last_put_or_the_one_before)
{
    struct puts *puts =
        mmap(NULL, sizeof(*puts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(puts != MAP_FAILED);
    atomic_init(&puts->put, LEASE_PUTS - 1); /* FREE */
    put_lease(0, JOURNAL_FREE, 0, LEASE_PUTS - 1);
    srandom((unsigned)getpid());
    for (int i = 0; i < KILLS; i++) {
        uint64_t before = atomic_load(&puts->put);
        pid_t writer = fork();

        if (writer == 0)
            write_until_killed(puts);
        assert_true(writer > 0);
        for (int ms = 0; ms < 5000 && atomic_load(&puts->put) == before; ms++)
            usleep(1000); /* until it has begun */
        usleep((useconds_t)(random() % 1000));
        assert_int_equal(kill(writer, SIGKILL), 0);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
        assert_true(atomic_load(&puts->put) > before);
        reopen();
        check_lease(puts);
    }
    munmap(puts, sizeof(*puts));
}

/* --- threads ---------------------------------------------------------------------------------- */

#define THREADS 3
#define PUTS    20000

static void *put_own_slot(void *arg)
{
    const uint32_t *slot = arg;

    hold(*slot, *slot);
    for (uint64_t number = 1; number <= PUTS; number++)
        put_lease(*slot, JOURNAL_HELD, *slot, number);
    return NULL;
}

TEST(each_thread_puts_into_records_of_its_own)
{
    pthread_t threads[THREADS];
    uint32_t slots[THREADS];
    struct journal_identity identity;
    struct journal_lease lease;

    for (uint32_t i = 0; i < THREADS; i++) {
        slots[i] = 10 + i; /* neighbours */
        assert_int_equal(pthread_create(&threads[i], NULL, put_own_slot, &slots[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    reopen();
    assert_int_equal(found, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(journal_get(journal, slots[i], &identity, &lease), HF_OK);
        assert_identity(&identity, slots[i]);
        assert_lease(&lease, JOURNAL_HELD, slots[i], PUTS);
    }
}

/* --- halves ----------------------------------------------------------------------------------- */

/* Its digits are what nodes have: one that came out as another token would release nothing. */
TEST(a_token_of_other_digits_is_not_believed)
{
    static const char digits[] = {'A', 'g', '\0', ' ', '/', ':', '`'};
    struct journal_identity identity = numbered_identity(9);
    char token[TOKEN_LEN];

    token_text(&identity.token, token);
    for (size_t i = 0; i < sizeof(digits); i++) {
        struct image image;
        uint8_t *at;

        hold(4, 9);
        assert_int_equal(get(4), HF_OK);
        close_journal();
        image = map_image();
        at = memmem(image.bytes, image.size, token, sizeof(token));
        assert_non_null(at);
        at[i * (TOKEN_LEN - 1) / (sizeof(digits) - 1)] = (uint8_t)digits[i];
        munmap(image.bytes, image.size);
        assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
        assert_int_equal(found, 1);
        assert_int_equal(get(4), HF_ETABLE);
        assert_int_equal(journal_generation(journal, 4), 9);
        put_lease(4, JOURNAL_FREE, 9, 0);
        assert_int_equal(get(4), HF_ENOTHELD);
    }
}

static void write_half(uint32_t slot, const struct journal_lease *lease)
{
    void *halves = halves_of(journal, slot);
    struct lease_half *half = halves;

    if (half_newest(halves, journal->half_size) == 1)
        half = (void *)((char *)halves + journal->half_size);
    half->state = (half->state & ~STATE_MASK) | lease->state;
    half->slot_state = (uint32_t)lease->slot_state | (uint32_t)lease->reason << REASON_SHIFT;
    half->generation = lease->generation;
    half->fence = lease->fence;
}

/* An agent that took such a lease up would fail an assertion, at each start. */
TEST(states_reasons_and_generations_that_no_agent_writes_are_not_believed)
{
    static const struct journal_lease wrong[] = {
        {.state = JOURNAL_HELD, .slot_state = HF_SLOT_ENDED + 1, .generation = 9, .fence = 9},
        {.state = JOURNAL_HELD,
         .slot_state = HF_SLOT_LOSING,
         .reason = HF_LOSS_AWAY + 1,
         .generation = 9,
         .fence = 9},
        {.state = JOURNAL_HELD,
         .slot_state = HF_SLOT_HELD,
         .generation = HF_GEN_MAX + 1,
         .fence = 9},
        {.state = JOURNAL_HANDOFF, .slot_state = HF_SLOT_HELD, .fence = 9},
        {.state = JOURNAL_HELD, .slot_state = HF_SLOT_HELD, .generation = 9},
    };

    for (size_t i = 0; i < HF_LENGTH(wrong); i++) {
        hold(4, 9);
        assert_int_equal(get(4), HF_OK);
        write_half(4, &wrong[i]);
        assert_int_equal(get(4), HF_ETABLE);
        put_lease(4, JOURNAL_FREE, 9, 0);
    }
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_kill_at_any_moment_leaves_the_last_put_or_the_one_before),
        ROW(each_thread_puts_into_records_of_its_own),
        ROW(a_token_of_other_digits_is_not_believed),
        ROW(states_reasons_and_generations_that_no_agent_writes_are_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Contract. Several resources at once: all or nothing, in one order, with what becomes of it while it waits. */
#include "client_fixture.h"

#include "libclient/holdfast_run.h"
#include "libclient/holdfast_sets.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct hf_acquire_options waiting(int64_t wait_ms)
{
    return (struct hf_acquire_options){.size = sizeof(struct hf_acquire_options),
                                       .wait_ms = wait_ms};
}

static int try_all(hf_client *client, const struct hf_name *names, size_t count, hf_lease **leases)
{
    struct hf_acquire_options options = waiting(0);

    return hf_acquire_all(client, &options, names, count, leases);
}

static hf_op *start_all(hf_client *client, const struct hf_name *names, size_t count)
{
    struct hf_acquire_options options = waiting(-1);
    hf_op *op = NULL;

    OK(hf_acquire_all_start(client, &options, names, count, &op));
    return op;
}

static int result_of(hf_op *op, hf_lease **leases)
{
    int status;

    EVENTUALLY((status = hf_op_result(op, leases)) != HF_EPENDING);
    return status;
}

/* Waits for a state of the agent's, while the op goes on. */
#define GOES_ON_UNTIL(op, condition)                                                               \
    EVENTUALLY((assert_int_equal(hf_op_result(op, leases), HF_EPENDING), (condition)))

static void grants_all_in_the_callers_order(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("c"), hf_str("a"), hf_str("b"), {"a\0", 2}};
    hf_lease *leases[4], *single;

    (void)state;
    OK(try_all(f.client, names, 4, leases));
    assert_true(hf_held_all(leases, 4));
    assert_int_equal(fake_agent_leases(f.agent), 4);
    fake_agent_change(f.agent, "c", HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_false(hf_held(leases[0]));
    assert_true(hf_held_all(leases + 1, 3));
    assert_false(hf_held_all(leases, 4));
    assert_false(hf_held_all(leases, 0));
    assert_int_equal(hf_release_all(leases, 4), HF_ELOST);
    assert_message_has("over");
    assert_int_equal(fake_agent_leases(f.agent), 0);

    OK(try_all(f.client, names, 1, leases)); /* a set of one */
    assert_true(fake_agent_holds(f.agent, "c"));
    OK(hf_release_all(leases, 1));
    single = must_acquire(f.client, "c");
    OK(hf_release(single));
    fixture_end(&f);
}

static void all_or_nothing(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("c"), hf_str("b"), hf_str("a")};
    hf_lease *leases[3] = {NULL, NULL, NULL};
    struct hf_holder holder;

    (void)state;
    fake_agent_foreign(f.agent, "b", true);
    assert_int_equal(try_all(f.client, names, 3, leases), HF_EBUSY);
    assert_message_has("b: ");
    assert_message_has("elsewhere");
    assert_null(leases[0]);
    assert_int_equal(hf_conflict_index(), 1);
    OK(hf_conflict(&holder));
    assert_int_equal(holder.pid, 4711);
    EVENTUALLY(fake_agent_leases(f.agent) == 0);
    fake_agent_foreign(f.agent, "b", false);
    OK(try_all(f.client, names, 3, leases));
    assert_int_equal(hf_conflict_index(), HF_ENOTHELD);
    OK(hf_release_all(leases, 3));
    fixture_end(&f);
}

static void refuses_what_is_no_set(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_name names[HF_SET_MAX + 1] = {hf_str("x"), hf_str("a"), hf_str("x")};
    struct hf_acquire_options options = waiting(0);
    hf_lease *leases[HF_SET_MAX + 1];
    hf_op *op;

    (void)state;
    assert_int_equal(try_all(f.client, names, 3, leases), HF_EINVAL);
    assert_message_has("name each lock once: names 0 and 2 of the set are the same");
    assert_int_equal(try_all(f.client, names, 0, leases), HF_EINVAL);
    assert_int_equal(try_all(f.client, names, HF_SET_MAX + 1, leases), HF_EINVAL);
    assert_message_has("64");
    assert_int_equal(try_all(f.client, NULL, 1, leases), HF_EINVAL);
    assert_int_equal(try_all(NULL, names, 2, leases), HF_EINVAL);
    assert_int_equal(try_all(f.client, names, 2, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_all_start(f.client, &options, names, 2, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_all_start(f.client, &options, names, 3, &op), HF_EINVAL);
    assert_int_equal(hf_acquire_all(f.client, NULL, names, 2, leases), HF_EINVAL);
    names[1] = hf_str("");
    assert_int_equal(try_all(f.client, names, 2, leases), HF_ENAME);
    assert_int_equal(hf_conflict_index(), 1);
    names[1] = hf_str(NULL);
    assert_int_equal(try_all(f.client, names, 2, leases), HF_ENAME);
    names[1] = hf_str("holdfast:node"); /* which the agent refuses */
    assert_int_equal(try_all(f.client, names, 2, leases), HF_ENAME);
    assert_int_equal(hf_conflict_index(), 1);
    options.name = "a";
    options.name_len = 1;
    assert_int_equal(hf_acquire_all(f.client, &options, names, 1, leases), HF_EINVAL);
    assert_message_has("options.name");
    EVENTUALLY(fake_agent_leases(f.agent) == 0);
    fixture_end(&f);
}

static void more_names_than_the_ring_has_places(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_name names[HF_SET_MAX];
    hf_lease *leases[HF_SET_MAX];
    char texts[HF_SET_MAX][8];

    (void)state;
    for (int i = 0; i < HF_SET_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "n%d", (i * 37) % HF_SET_MAX);
        names[i] = hf_str(texts[i]);
    }
    OK(try_all(f.client, names, HF_SET_MAX, leases));
    assert_int_equal(fake_agent_leases(f.agent), HF_SET_MAX);
    assert_true(hf_held_all(leases, HF_SET_MAX));
    OK(hf_release_all(leases, HF_SET_MAX));
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

/* Whoever waits holds only names before the one it waits for: no ring of waiters can close. */
static void waits_with_what_comes_before_only(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("d"), hf_str("b"), hf_str("c"), hf_str("a")};
    hf_lease *leases[4];
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "b", true);
    fake_agent_foreign(f.agent, "d", true);
    op = start_all(f.client, names, 4);
    GOES_ON_UNTIL(op, fake_agent_waiters(f.agent) == 1 && fake_agent_leases(f.agent) == 1);
    assert_true(fake_agent_holds(f.agent, "a"));

    fake_agent_foreign(f.agent, "b", false);
    GOES_ON_UNTIL(op, fake_agent_waiters(f.agent) == 1 && fake_agent_leases(f.agent) == 3);
    assert_true(fake_agent_holds(f.agent, "b") && fake_agent_holds(f.agent, "c"));

    fake_agent_foreign(f.agent, "d", false);
    OK(result_of(op, leases));
    assert_true(hf_held_all(leases, 4));
    OK(hf_release_all(leases, 4));
    fixture_end(&f);
}

static void one_limit_for_the_whole_wait(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("a"), hf_str("b"), hf_str("c")};
    struct hf_acquire_options options = waiting(300);
    int64_t start = boottime_ns();
    hf_lease *leases[3];

    (void)state;
    fake_agent_foreign(f.agent, "b", true);
    assert_int_equal(hf_acquire_all(f.client, &options, names, 3, leases), HF_ETIMEDOUT);
    assert_in_range(boottime_ns() - start, 300 * HF_NS_PER_MS, 5000 * HF_NS_PER_MS);
    assert_int_equal(hf_conflict_index(), 1);
    assert_message_has("b: ");
    EVENTUALLY(fake_agent_leases(f.agent) == 0);
    assert_int_equal(fake_agent_waiters(f.agent), 0);
    fixture_end(&f);
}

static void begins_anew_when_one_is(struct fixture *f, enum hf_slot_state became)
{
    const struct hf_name names[] = {hf_str("b"), hf_str("a")};
    hf_lease *leases[2], *first;
    uint64_t fence;
    hf_op *op;

    first = must_acquire(f->client, "a"); /* only to know a fence */
    fence = hf_fence(first);
    OK(hf_release(first));
    fake_agent_foreign(f->agent, "b", true);
    op = start_all(f->client, names, 2);
    GOES_ON_UNTIL(op, fake_agent_waiters(f->agent) == 1 && fake_agent_holds(f->agent, "a"));
    fake_agent_change(f->agent, "a", became, HF_LOSS_ASKED);
    /* It gives up its place in the queue of b, too: it holds nothing then. */
    GOES_ON_UNTIL(op, fake_agent_waiters(f->agent) == 0);
    GOES_ON_UNTIL(op, fake_agent_waiters(f->agent) == 1 && fake_agent_holds(f->agent, "a"));
    fake_agent_foreign(f->agent, "b", false);
    OK(result_of(op, leases));
    assert_true(hf_held_all(leases, 2));
    assert_true(hf_fence(leases[1]) >= fence + 2 * (UINT64_C(1) << 10));
    OK(hf_release_all(leases, 2));
    assert_int_equal(fake_agent_leases(f->agent), 0);
}

static void begins_anew_when_one_is_lost_meanwhile(void **state)
{
    struct fixture f = fixture_start(NULL);

    (void)state;
    begins_anew_when_one_is(&f, HF_SLOT_LOST);
    fixture_end(&f);
}

static void begins_anew_when_one_is_asked_for_meanwhile(void **state)
{
    struct fixture f = fixture_start(NULL);

    (void)state;
    begins_anew_when_one_is(&f, HF_SLOT_LOSING);
    fixture_end(&f);
}

static void a_cancelled_one_leaves_nothing(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("a"), hf_str("b"), hf_str("c")};
    hf_lease *leases[3];
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "c", true);
    op = start_all(f.client, names, 3);
    GOES_ON_UNTIL(op, fake_agent_waiters(f.agent) == 1 && fake_agent_leases(f.agent) == 2);
    hf_op_cancel(op);
    EVENTUALLY(fake_agent_waiters(f.agent) == 0 && fake_agent_leases(f.agent) == 0);

    op = start_all(f.client, names, 3); /* at once, with the tries still out */
    hf_op_cancel(op);
    (void)start_all(f.client, names, 3); /* hf_disconnect() frees it */
    hf_disconnect(f.client);
    EVENTUALLY(fake_agent_clients(f.agent) == 0);
    fake_agent_free(f.agent);
}

/* Of "a" and "b"; waits for "b". */
static hf_op *start_with_b_taken(struct fixture *f)
{
    const struct hf_name names[] = {hf_str("a"), hf_str("b")};
    hf_lease *leases[2];
    hf_op *op;

    fake_agent_foreign(f->agent, "b", true);
    op = start_all(f->client, names, 2);
    GOES_ON_UNTIL(op, fake_agent_waiters(f->agent) == 1);
    return op;
}

static int in_a_fork(void *arg)
{
    struct fixture *f = ((void **)arg)[0];
    hf_op *op = ((void **)arg)[1];
    hf_lease *leases[2];
    int status = hf_op_result(op, leases);

    hf_op_cancel(op);
    hf_disconnect(f->client);
    return status == HF_EFORKED ? 0 : 1;
}

static void a_forked_child_leaves_it_alone(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_op *op = start_with_b_taken(&f);
    hf_lease *leases[2];

    (void)state;
    assert_int_equal(in_child(in_a_fork, (void *[]){&f, op}), 0);
    assert_true(fake_agent_holds(f.agent, "a"));
    fake_agent_foreign(f.agent, "b", false);
    OK(result_of(op, leases));
    OK(hf_release_all(leases, 2));
    fixture_end(&f);
}

static void goes_on_with_the_next_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_op *op = start_with_b_taken(&f);
    hf_lease *leases[2];

    (void)state;
    fake_agent_kill(f.agent);
    pause_ms(50);
    assert_int_equal(hf_op_result(op, leases), HF_EPENDING);
    fake_agent_revive(f.agent, true); /* a is lost with the table */
    fake_agent_foreign(f.agent, "b", false);
    OK(result_of(op, leases));
    assert_true(hf_held_all(leases, 2));
    OK(hf_release_all(leases, 2));
    fixture_end(&f);
}

static void note_index(const struct hf_progress *progress, void *arg)
{
    if (progress->reason == HF_EBUSY)
        *(int *)arg = (int)progress->index;
}

/* Nothing but poll() and hf_dispatch(), as an event loop does it. */
static void in_an_event_loop(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("c"), hf_str("b"), hf_str("a")};
    struct hf_acquire_options options = waiting(-1);
    struct pollfd p = {.fd = hf_fd(f.client), .events = POLLIN};
    int index = -1, turns = 0, status;
    hf_lease *leases[3];
    hf_op *op;

    (void)state;
    options.progress = note_index;
    options.arg = &index;
    options.heartbeat_ms = 100;
    fake_agent_foreign(f.agent, "b", true);
    OK(hf_acquire_all_start(f.client, &options, names, 3, &op));
    while (index < 0 || fake_agent_beats(f.agent, "a") < 3) {
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        OK(hf_dispatch(f.client));
        assert_true(++turns < 1000); /* and it is no busy loop */
    }
    assert_int_equal(index, 1);
    fake_agent_foreign(f.agent, "b", false);
    while ((status = hf_op_result(op, leases)) == HF_EPENDING) {
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        OK(hf_dispatch(f.client));
        assert_true(++turns < 1000);
    }
    OK(status);
    OK(hf_release_all(leases, 3));
    fixture_end(&f);
}

#define ROUNDS 100

struct contender {
    struct fixture *f;
    struct hf_name names[2];
    size_t count;
    unsigned *inside; /* of each of the names */
    int held, overlaps;
};

static void *contend(void *arg)
{
    struct contender *c = arg;
    struct hf_acquire_options options = waiting(PATIENCE_MS);
    hf_client *client = another_client(c->f);
    hf_lease *leases[2];

    for (int i = 0; i < ROUNDS; i++) {
        if (hf_acquire_all(client, &options, c->names, c->count, leases) < 0)
            break;
        for (size_t k = 0; k < c->count; k++) {
            unsigned *inside = &c->inside[*(const char *)c->names[k].bytes - 'a'];

            c->overlaps += __atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST) != 0;
            (void)__atomic_fetch_sub(inside, 1, __ATOMIC_SEQ_CST);
        }
        c->held++;
        if (hf_release_all(leases, c->count) < 0)
            break;
    }
    hf_disconnect(client);
    return NULL;
}

/* {a, b}, {b, c}, {c, a}, each way round, and holders of one among them. */
static void overlapping_sets_do_not_stop_each_other(void **state)
{
    struct fixture f = fixture_start(NULL);
    const char *const sets[][2] = {{"a", "b"}, {"b", "c"}, {"c", "a"}, {"b", "a"},
                                   {"c", "b"}, {"a", "c"}, {"b", NULL}};
    struct contender contenders[COUNT(sets)];
    pthread_t threads[COUNT(sets)];
    unsigned inside[3] = {0};
    size_t held = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(sets); i++) {
        contenders[i] = (struct contender){.f = &f,
                                           .names = {hf_str(sets[i][0]), hf_str(sets[i][1])},
                                           .count = sets[i][1] ? 2 : 1,
                                           .inside = inside};
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &contenders[i]), 0);
    }
    for (size_t i = 0; i < COUNT(sets); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(contenders[i].overlaps, 0);
        held += contenders[i].held;
    }
    assert_int_equal(held, COUNT(sets) * ROUNDS); /* none gave up */
    EVENTUALLY(fake_agent_leases(f.agent) == 0);
    fixture_end(&f);
}

struct shared {
    hf_client *client;
    const char *first, *second;
    unsigned *over, held;
};

static void *take_and_give(void *arg)
{
    struct shared *s = arg;
    const struct hf_name names[] = {hf_str(s->first), hf_str(s->second)};
    struct hf_acquire_options options = waiting(PATIENCE_MS);
    hf_lease *leases[2];

    for (int i = 0; i < ROUNDS; i++)
        if (hf_acquire_all(s->client, &options, names, 2, leases) == HF_OK &&
            hf_release_all(leases, 2) == HF_OK)
            s->held++;
    (void)__atomic_fetch_add(s->over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Whoever has a turn with the client brings the sets of all its threads on. */
static void by_many_threads_of_one_client(void **state)
{
    struct fixture f = fixture_start(NULL);
    unsigned over = 0;
    struct shared shared[] = {{f.client, "a", "b", &over, 0},
                              {f.client, "c", "b", &over, 0},
                              {f.client, "c", "a", &over, 0}};
    struct pollfd p = {.fd = hf_fd(f.client), .events = POLLIN};
    pthread_t threads[COUNT(shared)];

    (void)state;
    for (size_t i = 0; i < COUNT(shared); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &shared[i]), 0);
    while (__atomic_load_n(&over, __ATOMIC_SEQ_CST) < COUNT(shared)) {
        poll(&p, 1, 5);
        OK(hf_dispatch(f.client));
    }
    for (size_t i = 0; i < COUNT(shared); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(shared[i].held, ROUNDS);
    }
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static void guardians_join_them_all(void **state)
{
    struct fixture f = fixture_start(NULL);
    const struct hf_name names[] = {hf_str("a"), hf_str("b")};
    struct hf_acquire_options options = waiting(0);
    hf_client *second = NULL, *other = another_client(&f);
    hf_lease *leases[2], *joined[2] = {NULL, NULL}, *single = must_acquire(other, "c");
    struct hf_ticket tickets[2], mixed[2];

    (void)state;
    options.flags = HF_ACQUIRE_JOB;
    OK(hf_acquire_all(f.client, &options, names, 2, leases));
    OK(hf_lease_ticket(leases[0], &tickets[0]));
    OK(hf_lease_ticket(leases[1], &tickets[1]));
    mixed[0] = tickets[0];
    OK(hf_lease_ticket(single, &mixed[1]));
    assert_int_equal(hf_join_all(mixed, 2, &second, joined), HF_EINVAL);
    assert_int_equal(hf_join_all(tickets, 0, &second, joined), HF_EINVAL);
    assert_null(joined[0]);
    OK(hf_join_all(tickets, 2, &second, joined));
    assert_true(hf_held_all(joined, 2));
    OK(hf_release_all_reaped(joined, 2));
    assert_true(fake_agent_saw_reaped(f.agent));
    assert_int_equal(hf_release_all_reaped(leases, 2), HF_ELOST);
    assert_int_equal(hf_join_all(tickets, 2, &second, joined), HF_ELOST);
    hf_disconnect(second);
    hf_disconnect(other);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_all_in_the_callers_order),
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(refuses_what_is_no_set),
        cmocka_unit_test(more_names_than_the_ring_has_places),
        cmocka_unit_test(waits_with_what_comes_before_only),
        cmocka_unit_test(one_limit_for_the_whole_wait),
        cmocka_unit_test(begins_anew_when_one_is_lost_meanwhile),
        cmocka_unit_test(begins_anew_when_one_is_asked_for_meanwhile),
        cmocka_unit_test(a_cancelled_one_leaves_nothing),
        cmocka_unit_test(a_forked_child_leaves_it_alone),
        cmocka_unit_test(goes_on_with_the_next_agent),
        cmocka_unit_test(in_an_event_loop),
        cmocka_unit_test(overlapping_sets_do_not_stop_each_other),
        cmocka_unit_test(by_many_threads_of_one_client),
        cmocka_unit_test(guardians_join_them_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

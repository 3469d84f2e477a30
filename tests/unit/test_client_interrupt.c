/* Signal handlers that end what blocks, and those that do not. */
#include "client_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "libclient/holdfast_sets.h"

/* A call in a thread of its own, with signals until it is over: a handler that runs just before the
 * thread sleeps goes unnoticed. */
struct call {
    struct fixture *f;
    int (*fn)(struct call *call);
    hf_lease *lease;
    hf_client *client;
    int status;
    char text[320];
    _Atomic bool over;
};

static void on_signal(int number)
{
    (void)number;
}

static void install(int number, int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static void uninstall(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    sigaction(number, &action, NULL);
}

static void *make_call(void *arg)
{
    struct call *call = arg;

    call->status = call->fn(call);
    snprintf(call->text, sizeof(call->text), "%s", hf_last_message());
    atomic_store(&call->over, true);
    return NULL;
}

static int interrupted(struct call *call)
{
    pthread_t thread;

    pthread_create(&thread, NULL, make_call, call);
    EVENTUALLY((pthread_kill(thread, SIGUSR1), atomic_load(&call->over)));
    pthread_join(thread, NULL);
    return call->status;
}

static int acquire(struct call *call)
{
    return hf_acquire(call->f->client, "taken", 0, -1, &call->lease);
}

static int acquire_all(struct call *call)
{
    const struct hf_name names[] = {hf_str("free"), hf_str("taken")};
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *leases[2];

    options.wait_ms = -1;
    return hf_acquire_all(call->f->client, &options, names, 2, leases);
}

static int acquire_slot(struct call *call)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    unsigned slot;

    options.name = "taken";
    options.name_len = 5;
    options.wait_ms = -1;
    return hf_acquire_slot(call->f->client, &options, 1, &call->lease, &slot);
}

static int wait_for_change(struct call *call)
{
    return hf_wait(call->lease, HF_STATE_HELD, -1);
}

static int connect_to_it(struct call *call)
{
    return hf_connect(fake_agent_path(call->f->agent), &call->client);
}

static int release_it(struct call *call)
{
    return hf_release(call->lease);
}

static void ends_waits(void **state)
{
    int (*const waits[])(struct call * call) = {acquire, acquire_all, acquire_slot};
    struct fixture f = fixture_start(NULL);

    (void)state;
    install(SIGUSR1, 0);
    fake_agent_foreign(f.agent, "taken", true);
    fake_agent_foreign(f.agent, "taken#0", true);
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        struct call call = {.f = &f, .fn = waits[i]};

        assert_int_equal(interrupted(&call), HF_EINTR);
        assert_non_null(strstr(call.text, "signal"));
        EVENTUALLY(fake_agent_waiters(f.agent) == 0); /* it was withdrawn */
        /* A grant that crossed the cancel is given back by the next call. */
        EVENTUALLY((hf_dispatch(f.client), fake_agent_leases(f.agent) == 0));
    }
    /* What comes free is nobody's. */
    fake_agent_foreign(f.agent, "taken", false);
    assert_int_equal(fake_agent_leases(f.agent), 0);
    uninstall(SIGUSR1);
    fixture_end(&f);
}

static void ends_the_wait_for_a_change(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct call call = {.f = &f, .fn = wait_for_change, .lease = must_acquire(f.client, "a")};

    (void)state;
    install(SIGUSR1, 0);
    assert_int_equal(interrupted(&call), HF_EINTR);
    assert_true(hf_held(call.lease));
    OK(hf_release(call.lease));
    uninstall(SIGUSR1);
    fixture_end(&f);
}

static void ends_connecting(void **state)
{
    const struct fake_agent_options silent = {.silent = true};
    struct fixture f = {.agent = fake_agent_start(&silent)};
    struct call call = {.f = &f, .fn = connect_to_it};

    (void)state;
    install(SIGUSR1, 0);
    assert_int_equal(interrupted(&call), HF_EINTR);
    assert_null(call.client);
    uninstall(SIGUSR1);
    fake_agent_free(f.agent);
}

/* The lease is over and freed whatever comes: there is nothing left to be called off. */
static void does_not_end_a_release(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct call call = {.f = &f, .fn = release_it, .lease = must_acquire(f.client, "a")};
    pthread_t thread;

    (void)state;
    install(SIGUSR1, 0);
    fake_agent_freeze(f.agent, true);
    pthread_create(&thread, NULL, make_call, &call);
    for (int i = 0; i < 20; i++) {
        pthread_kill(thread, SIGUSR1);
        pause_ms(5);
    }
    assert_false(atomic_load(&call.over));
    fake_agent_freeze(f.agent, false);
    pthread_join(thread, NULL);
    assert_int_equal(call.status, HF_OK);
    assert_false(fake_agent_holds(f.agent, "a"));
    uninstall(SIGUSR1);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_waits),
        cmocka_unit_test(ends_the_wait_for_a_change),
        cmocka_unit_test(ends_connecting),
        cmocka_unit_test(does_not_end_a_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

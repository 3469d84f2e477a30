/* Contract. Two guardians of one lease, stopping a holder, and the views. */
#include "client_fixture.h"

#include "libclient/holdfast_run.h"
#include "libclient/holdfast_admin.h"

static hf_lease *acquire_run(struct fixture *f, const char *name)
{
    struct hf_acquire_options options = options_for(name, 0);
    hf_lease *lease = NULL;

    options.flags = HF_ACQUIRE_JOB;
    options.note = "nightly";
    OK(hf_acquire_with(f->client, &options, &lease));
    return lease;
}

static void a_second_guardian_joins(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = acquire_run(&f, "job"), *joined = NULL;
    hf_client *second = NULL;
    struct hf_ticket ticket;

    (void)state;
    OK(hf_lease_ticket(lease, &ticket));
    OK(hf_join(&ticket, &second, &joined));
    assert_true(hf_held(joined));
    assert_true(hf_fence(joined) == hf_fence(lease));
    assert_int_equal(hf_valid_until_ns(joined), hf_valid_until_ns(lease));

    OK(hf_begin_losing(joined));
    OK(hf_begin_killing(joined));
    assert_int_equal(hf_wait(lease, HF_STATE_HELD, PATIENCE_MS), HF_STATE_LOSING);
    assert_int_equal(hf_state(joined), HF_STATE_LOSING);

    /* The first one dies; the lease stays until somebody says that the job is reaped. */
    hf_disconnect(f.client);
    EVENTUALLY(fake_agent_clients(f.agent) == 1);
    assert_true(fake_agent_holds(f.agent, "job"));
    assert_true(hf_held(joined));
    assert_false(fake_agent_saw_reaped(f.agent));
    OK(hf_release_reaped(joined));
    assert_true(fake_agent_saw_reaped(f.agent));
    assert_false(fake_agent_holds(f.agent, "job"));
    hf_disconnect(second);
    fake_agent_free(f.agent);
}

static void one_release_ends_both(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = acquire_run(&f, "job"), *joined;
    hf_client *second;
    struct hf_ticket ticket;

    (void)state;
    OK(hf_lease_ticket(lease, &ticket));
    OK(hf_join(&ticket, &second, &joined));
    OK(hf_release_reaped(lease));
    assert_false(hf_held(joined));
    EVENTUALLY(hf_state(joined) == HF_STATE_RELEASED);
    assert_int_equal(hf_release_reaped(joined), HF_ELOST);
    hf_disconnect(second);
    fixture_end(&f);
}

static void an_old_ticket_is_refused(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = acquire_run(&f, "job"), *joined = NULL;
    hf_client *second = NULL;
    struct hf_ticket ticket;

    (void)state;
    OK(hf_lease_ticket(lease, &ticket));
    OK(hf_release_reaped(lease));
    assert_int_equal(hf_join(&ticket, &second, &joined), HF_ELOST);
    assert_null(second);
    assert_null(joined);
    memset(ticket.path, 'x', sizeof(ticket.path));
    assert_int_equal(hf_join(&ticket, &second, &joined), HF_EINVAL);
    assert_int_equal(hf_join(NULL, &second, &joined), HF_EINVAL);
    fixture_end(&f);
}

static void asks_a_holder_to_stop(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_client *other = another_client(&f);
    hf_lease *lease = must_acquire(f.client, "a");

    (void)state;
    assert_int_equal(hf_ask(other, "b", 1), HF_ENOTHELD);
    assert_int_equal(hf_ask(other, "", 0), HF_ENAME);
    OK(hf_ask(other, "a", 1));
    assert_int_equal(hf_state(lease), HF_STATE_LOSING);
    assert_true(hf_held(lease));
    hf_disconnect(other);
    fixture_end(&f);
}

/* --- views ------------------------------------------------------------------------------------ */

static int count(const struct hf_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static int stop_at_first(const struct hf_info *info, void *arg)
{
    (void)arg;
    return (int)info->name_len;
}

static hf_view *open_view(struct fixture *f)
{
    hf_view *view = NULL;

    OK(hf_view_open(fake_agent_path(f->agent), &view));
    return view;
}

static void a_view_shows_leases(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = acquire_run(&f, "job"), *other = must_acquire(f.client, "b");
    hf_view *view = open_view(&f);
    struct hf_info info = {.size = sizeof(info)};
    int64_t beat = 0;
    int n = 0;

    (void)state;
    OK(hf_view_find(view, "job", 3, &info));
    assert_int_equal(info.name_len, 3);
    assert_memory_equal(info.name, "job", 3);
    assert_int_equal(info.state, HF_STATE_HELD);
    assert_int_equal(info.held, 1);
    assert_int_equal(info.is_job, 1);
    assert_int_equal(info.pid, getpid());
    assert_int_equal(info.uid, getuid());
    assert_int_equal(info.ttl_ms, 30000);
    assert_int_equal(info.votes, 3);
    assert_true(info.fence == hf_fence(lease));
    assert_true(info.valid_until_ns > info.since_ns);
    assert_string_equal(info.note, "nightly");
    assert_string_equal(info.reason, "");
    assert_true(strncmp(info.command, "test_client_guardian", 15) == 0);

    assert_int_equal(hf_view_walk(view, count, &n), HF_OK);
    assert_int_equal(n, 2);
    assert_int_equal(hf_view_walk(view, stop_at_first, NULL), 3);

    fake_agent_change(f.agent, "job", HF_SLOT_LOSING, HF_LOSS_ASKED);
    OK(hf_view_find(view, "job", 3, &info));
    assert_int_equal(info.state, HF_STATE_LOSING);
    assert_non_null(strstr(info.reason, "asked"));

    OK(hf_release(other));
    assert_int_equal(hf_view_find(view, "b", 1, &info), HF_ENOTHELD);
    assert_int_equal(hf_view_find(view, "nobody", 6, &info), HF_ENOTHELD);
    assert_int_equal(hf_view_find(view, "", 0, &info), HF_ENAME);
    info.size = 1;
    assert_int_equal(hf_view_find(view, "job", 3, &info), HF_EINVAL);

    EVENTUALLY(hf_view_heartbeat_ns(view, &beat) == HF_OK && beat > 0);
    hf_view_close(view);
    hf_view_close(NULL);
    fixture_end(&f);
}

static int look_at_view(void *arg)
{
    struct hf_info info = {.size = sizeof(info)};

    return hf_view_find(arg, "a", 1, &info) == HF_OK && info.held ? 0 : 1;
}

static void a_view_needs_no_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_info info = {.size = sizeof(info)};
    int64_t beat;
    hf_view *view;

    (void)state;
    must_acquire(f.client, "a");
    fake_agent_kill(f.agent);
    view = open_view(&f);
    OK(hf_view_find(view, "a", 1, &info));
    assert_int_equal(info.held, 1); /* still valid */
    assert_int_equal(in_child(look_at_view, view), 0);
    fake_agent_revive(f.agent, true);
    assert_int_equal(hf_view_heartbeat_ns(view, &beat), HF_ETABLE);
    hf_view_close(view);
    fixture_end(&f);
    assert_int_equal(hf_view_open("nobody-has-this-name", &view), HF_ENOAGENT);
    assert_int_equal(hf_view_open("sock/", &view), HF_ENOAGENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_guardian_joins),  cmocka_unit_test(one_release_ends_both),
        cmocka_unit_test(an_old_ticket_is_refused), cmocka_unit_test(asks_a_holder_to_stop),
        cmocka_unit_test(a_view_shows_leases),      cmocka_unit_test(a_view_needs_no_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The way of a run to its grant, with a library, a clock and messages made up for it: what is asked, what is said, and
 * how a wait ends. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/common/args.h"
#include "tools/common/since.h"
#include "tools/run/acquire.h"
#include "tools/run/say.h"
#include "tools/run/timeline.h"

#define NS_PER_MS INT64_C(1000000)
#define SAID_MAX  8
#define STEP_MS   300 /* goes by with each look at the client */

/* What the neighbours are to answer, and what they were told. */
static struct {
    int64_t now_ns;
    int connect[4], connects; /* results of hf_connect_result(), the last one again and again */
    int result[4], results;   /* the same of hf_op_result() */
    int progress_reason;      /* told with each look at the client; 0: nothing */
    const char *progress_text;
    int conflict_index; /* -1: none */
    int conflict_count;
    enum run_mode asked_mode;
    const char *last_message;
    struct hf_acquire_options asked;
    size_t asked_names;
    unsigned asked_slots;
    int cancels, disconnects;
    char said[SAID_MAX][512];
    size_t said_count;
    bool terminal;
    char line[512], last_line[512]; /* that is rewritten */
} fake;

static int client_fd[2], signal_fd[2];

/* --- the neighbours --------------------------------------------------------------------------- */

int64_t timeline_now_ns(void)
{
    return fake.now_ns;
}

int64_t wall_now_ms(void)
{
    return 0;
}

void say(const char *format, ...)
{
    va_list args;

    assert_true(fake.said_count < SAID_MAX);
    va_start(args, format);
    vsnprintf(fake.said[fake.said_count++], sizeof(fake.said[0]), format, args);
    va_end(args);
}

bool say_can_rewrite(void)
{
    return fake.terminal;
}

void say_rewrite(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(fake.line, sizeof(fake.line), format, args);
    va_end(args);
    if (*fake.line)
        snprintf(fake.last_line, sizeof(fake.last_line), "%s", fake.line);
}

static int step(const int *results, size_t size, int *at)
{
    int result = results[*at];

    if ((size_t)*at < size - 1 && results[*at + 1])
        ++*at;
    return result == 1 ? HF_OK : result; /* 0 ends a list, so 1 stands for HF_OK */
}

int hf_connect_start(const char *agent, hf_client **ret_client)
{
    (void)agent;
    *ret_client = (hf_client *)&fake;
    fake.now_ns += STEP_MS * NS_PER_MS;
    return HF_OK;
}

int hf_connect_result(hf_client *client)
{
    (void)client;
    return step(fake.connect, 4, &fake.connects);
}

void hf_disconnect(hf_client *client)
{
    (void)client;
    fake.disconnects++;
}

int hf_fd(hf_client *client)
{
    (void)client;
    return client_fd[0];
}

int hf_agent_info(hf_client *client, struct hf_agent_info *ret_info)
{
    (void)client;
    (void)ret_info;
    return HF_ENOAGENT;
}

int hf_dispatch(hf_client *client)
{
    struct hf_progress progress = {.reason = fake.progress_reason, .nodes_up = 1};

    (void)client;
    fake.now_ns += STEP_MS * NS_PER_MS;
    if (fake.progress_text)
        snprintf(progress.text, sizeof(progress.text), "%s", fake.progress_text);
    if (fake.progress_reason && fake.asked.progress)
        fake.asked.progress(&progress, fake.asked.arg);
    return HF_OK;
}

static int asked(const struct hf_acquire_options *options, size_t names, unsigned slots,
                 hf_op **ret_op)
{
    fake.asked = *options;
    fake.asked_names = names;
    fake.asked_slots = slots;
    *ret_op = (hf_op *)&fake;
    return HF_OK;
}

int hf_acquire_start(hf_client *client, const struct hf_acquire_options *options, hf_op **ret_op)
{
    (void)client;
    return asked(options, 1, 0, ret_op);
}

int hf_acquire_slot_start(hf_client *client, const struct hf_acquire_options *options,
                          unsigned slots, hf_op **ret_op)
{
    (void)client;
    return asked(options, 1, slots, ret_op);
}

int hf_acquire_shared_start(hf_client *client, const struct hf_acquire_options *options,
                            unsigned slots, hf_op **ret_op)
{
    (void)client;
    fake.asked_mode = RUN_SHARED;
    return asked(options, 1, slots, ret_op);
}

int hf_acquire_exclusive_start(hf_client *client, const struct hf_acquire_options *options,
                               hf_op **ret_op)
{
    (void)client;
    fake.asked_mode = RUN_EXCLUSIVE;
    return asked(options, 1, 0, ret_op);
}

int hf_acquire_all_start(hf_client *client, const struct hf_acquire_options *options,
                         const struct hf_name *names, size_t count, hf_op **ret_op)
{
    (void)client;
    (void)names;
    return asked(options, count, 0, ret_op);
}

int hf_op_result(hf_op *op, hf_lease **ret_leases)
{
    (void)op;
    (void)ret_leases;
    return step(fake.result, 4, &fake.results);
}

void hf_op_cancel(hf_op *op)
{
    (void)op;
    fake.cancels++;
}

int hf_conflict(struct hf_holder *ret_holder)
{
    *ret_holder = (struct hf_holder){.host = "host9"};
    return HF_OK;
}

int hf_conflict_index(void)
{
    return fake.conflict_index;
}

int hf_conflict_count(void)
{
    return fake.conflict_count;
}

const char *hf_last_message(void)
{
    return fake.last_message;
}

const char *hf_strerror(int status)
{
    (void)status;
    return "an error";
}

/* --- the tests -------------------------------------------------------------------------------- */

static struct signals signals;

static struct acquire begin(const struct run_options *wanted)
{
    struct acquire acquire;

    memset(&fake, 0, sizeof(fake));
    fake.now_ns = 1000 * NS_PER_MS;
    fake.conflict_index = -1;
    fake.last_message = "";
    fake.connect[0] = fake.result[0] = 1;
    acquire_init(&acquire, wanted, &signals);
    return acquire;
}

/* Asks, and waits to the end; the exit code, EXIT_OK for a grant. */
static int ask_and_wait(struct acquire *acquire)
{
    hf_client *client = (hf_client *)&fake;
    hf_lease *leases[HF_EXCLUSIVE_LEASES];
    hf_op *op;
    int code = EXIT_OK;

    assert_int_equal(acquire_begin(acquire, client, &op), HF_OK);
    return acquire_await(acquire, client, op, leases, &code) ? EXIT_OK : code;
}

static void raise_in_wait(int number)
{
    struct signalfd_siginfo info = {.ssi_signo = (uint32_t)number};

    assert_int_equal(write(signal_fd[1], &info, sizeof(info)), sizeof(info));
}

static void each_kind_of_lock_is_asked_for_as_it_is(void **state)
{
    struct run_options one = {
        .names = {"a"}, .count = 1, .wait_ms = -1, .ttl_ms = 3000, .max_hold_ms = 5};
    struct run_options slots = {.names = {"a"}, .count = 1, .slots = 4, .wait_ms = 0};
    struct run_options shared = {.names = {"a"}, .count = 1, .mode = RUN_SHARED};
    struct run_options exclusive = {.names = {"a"}, .count = 1, .mode = RUN_EXCLUSIVE};
    struct run_options set = {.names = {"a", "b\n"}, .count = 2, .wait_ms = 700};
    struct acquire acquire = begin(&one);

    (void)state;
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked.ttl_ms, 3000);
    assert_int_equal(fake.asked.max_hold_ms, 5);
    assert_int_equal(fake.asked.wait_ms, -1);
    assert_int_equal(fake.asked.flags, HF_ACQUIRE_JOB | HF_ACQUIRE_SECOND_GUARDIAN);
    assert_int_equal(fake.asked_slots, 0);

    acquire = begin(&slots);
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked_slots, 4);
    assert_int_equal(fake.asked.wait_ms, 0);

    acquire = begin(&shared);
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked_mode, RUN_SHARED);
    assert_int_equal(fake.asked_slots, 0);
    acquire = begin(&exclusive);
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked_mode, RUN_EXCLUSIVE);
    assert_int_equal(fake.asked.flags, HF_ACQUIRE_JOB | HF_ACQUIRE_SECOND_GUARDIAN);

    acquire = begin(&set);
    assert_string_equal(acquire.shown, "a, b\\n");
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked_names, 2);
    assert_int_equal(fake.asked.wait_ms, 700);
}

/* What looking for the agent took is taken off; what is left is no try. */
static void the_wait_is_counted_from_the_command(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = 1000};
    struct acquire acquire = begin(&wanted);
    hf_client *client = NULL;
    int signal = 0;

    (void)state;
    assert_int_equal(acquire_connect(&acquire, &client, &signal), HF_OK);
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked.wait_ms, 1000 - STEP_MS);
    fake.now_ns += 5000 * NS_PER_MS;
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_int_equal(fake.asked.wait_ms, 1);
}

static void an_absent_agent_is_waited_for_with_w_only(void **state)
{
    struct run_options at_once = {.names = {"a"}, .count = 1, .wait_ms = -1};
    struct run_options with_w = {.names = {"a"}, .count = 1, .wait_ms = 1000};
    struct acquire acquire = begin(&at_once);
    hf_client *client = NULL;
    int signal = 0;

    (void)state;
    fake.connect[0] = HF_ENOAGENT;
    fake.last_message = "no agent";
    assert_int_equal(acquire_connect(&acquire, &client, &signal), HF_ENOAGENT);
    assert_null(client);
    assert_int_equal(fake.disconnects, 1);
    assert_int_equal(fake.said_count, 0);

    acquire = begin(&with_w);
    fake.connect[0] = fake.connect[1] = HF_ENOAGENT;
    fake.connect[2] = 1;
    fake.last_message = "no agent";
    assert_int_equal(acquire_connect(&acquire, &client, &signal), HF_OK);
    assert_non_null(client);
    assert_int_equal(fake.disconnects, 2);
    assert_int_equal(fake.said_count, 1); /* once */
    assert_string_equal(fake.said[0], "a: waiting: no agent");

    acquire = begin(&with_w);
    fake.connect[0] = HF_ENOAGENT;
    assert_int_equal(acquire_connect(&acquire, &client, &signal), HF_ENOAGENT);
    assert_true(fake.now_ns >= 1000 * NS_PER_MS + 1000 * NS_PER_MS);
    fake.last_message = "no agent";
    assert_int_equal(acquire_refused(&acquire, HF_ENOAGENT), EXIT_UNAVAILABLE);
}

static void a_wait_says_what_it_is_for_once(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = -1};
    struct acquire acquire = begin(&wanted);
    struct hf_progress progress = {
        .reason = HF_EBUSY, .holder = {.host = "host7"}, .text = "first"};

    (void)state;
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    fake.asked.progress(&progress, fake.asked.arg);
    assert_string_equal(fake.said[0], "a is held by host7; waiting");
    snprintf(progress.text, sizeof(progress.text),
             "second"); /* another holder: for those who asked */
    fake.asked.progress(&progress, fake.asked.arg);
    assert_int_equal(fake.said_count, 1);
    wanted.verbose = true;
    progress.place = 3;
    fake.asked.progress(&progress, fake.asked.arg);
    assert_string_equal(fake.said[1], "a is held by host7; waiting, place 3 on this host");

    progress = (struct hf_progress){.reason = HF_ENOQUORUM, .nodes_up = 2, .nodes_voting = 1};
    fake.asked.progress(&progress, fake.asked.arg);
    fake.asked.progress(&progress, fake.asked.arg);
    assert_int_equal(fake.said_count, 3);
    assert_string_equal(fake.said[2], "a: waiting: an error (2 nodes up, 1 may vote)");
    snprintf(progress.text, sizeof(progress.text), "n1 is down");
    fake.asked.progress(&progress, fake.asked.arg);
    assert_string_equal(fake.said[3], "a: waiting: n1 is down");
}

/* From the third second on, and nothing of it is left. */
static void a_long_wait_has_a_line_on_a_terminal(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = -1};
    struct acquire acquire = begin(&wanted);
    struct wait_line line = {
        .last = {.reason = HF_EBUSY, .place = 2, .holder = {.host = "host7", .pttl_ms = -2}}};
    char text[WAIT_LINE_SIZE];

    (void)state;
    assert_string_equal(wait_line_text(text, &line, "a\n", 72999, 300000, 0),
                        "waiting for 1m12s of 5m0s, place 2: a\\n is held by host7");
    line.last = (struct hf_progress){.reason = HF_ENOQUORUM, .text = "n1 is down"};
    assert_string_equal(wait_line_text(text, &line, "a", 4000, -1, 0),
                        "waiting for 4.0s: a: n1 is down");

    acquire.line = line;
    fake.terminal = true;
    assert_true(wait_line_show(&acquire.line, "a", 2999, -1));
    assert_string_equal(fake.line, "");
    assert_true(wait_line_show(&acquire.line, "a", 3000, -1));
    assert_string_equal(fake.line, "waiting for 3.0s: a: n1 is down");
    fake.now_ns += 5000 * NS_PER_MS;
    assert_int_equal(ask_and_wait(&acquire), EXIT_OK);
    assert_string_equal(fake.line, "");
    fake.terminal = false;
    assert_false(wait_line_show(&acquire.line, "a", 9000, -1));
    assert_string_equal(fake.line, "");
}

static void a_try_says_nothing_before_its_end(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = 0, .busy_code = 7};
    struct acquire acquire = begin(&wanted);

    (void)state;
    fake.result[0] = HF_EPENDING;
    fake.result[1] = HF_EBUSY;
    fake.progress_reason = HF_EBUSY;
    assert_int_equal(ask_and_wait(&acquire), 7);
    assert_int_equal(fake.said_count, 1);
    assert_string_equal(fake.said[0], "a is held by host9");
}

/* With -w: held until the end, or never heard of a holder at all. */
static void the_end_of_a_wait_tells_what_it_was_for(void **state)
{
    struct run_options wanted = {
        .names = {"a"}, .count = 1, .wait_ms = 5000, .busy_code = EXIT_BUSY};
    struct acquire acquire = begin(&wanted);

    (void)state;
    fake.result[0] = HF_ETIMEDOUT;
    assert_int_equal(ask_and_wait(&acquire), EXIT_BUSY);
    assert_string_equal(fake.said[0], "a is held by host9; the wait is over");

    acquire = begin(&wanted);
    fake.result[0] = HF_EPENDING;
    fake.result[1] = HF_ETIMEDOUT;
    fake.progress_reason = HF_ENOQUORUM;
    fake.progress_text = "n1 is down";
    fake.last_message = "too few nodes";
    assert_int_equal(ask_and_wait(&acquire), EXIT_UNAVAILABLE);
    assert_string_equal(fake.said[1], "a: too few nodes");
}

static void the_name_in_the_way_is_the_one_of_a_set(void **state)
{
    struct run_options set = {
        .names = {"a", "b"}, .count = 2, .wait_ms = 0, .busy_code = EXIT_BUSY};
    struct run_options slots = {
        .names = {"a"}, .count = 1, .slots = 4, .wait_ms = 0, .busy_code = EXIT_BUSY};
    struct acquire acquire = begin(&set);

    (void)state;
    fake.result[0] = HF_EBUSY;
    fake.conflict_index = 1;
    assert_int_equal(ask_and_wait(&acquire), EXIT_BUSY);
    assert_string_equal(fake.said[0], "b is held by host9");

    acquire = begin(&set);
    fake.result[0] = HF_ENAME;
    fake.conflict_index = 1;
    fake.last_message = "b: a bad name";
    assert_int_equal(ask_and_wait(&acquire), EXIT_USAGE);
    assert_string_equal(fake.said[0], "b: a bad name"); /* without the set's names */

    acquire = begin(&slots);
    fake.result[0] = HF_EBUSY;
    fake.conflict_index = 3;
    assert_int_equal(ask_and_wait(&acquire), EXIT_BUSY);
    assert_string_equal(fake.said[0], "a#3 is held by host9; all 4 slots are taken");
}

static void of_shared_and_exclusive_it_is_said_who_has_it_how(void **state)
{
    struct run_options shared = {
        .names = {"a"}, .count = 1, .mode = RUN_SHARED, .busy_code = EXIT_BUSY};
    struct run_options exclusive = {
        .names = {"a"}, .count = 1, .mode = RUN_EXCLUSIVE, .wait_ms = -1, .busy_code = EXIT_BUSY};
    struct hf_progress progress = {
        .reason = HF_EBUSY, .holder = {.host = "host7"}, .index = 5, .holders = 3};
    struct acquire acquire = begin(&shared);

    (void)state;
    fake.result[0] = HF_EBUSY;
    fake.conflict_index = HF_EXCLUSIVE_NAME;
    assert_int_equal(ask_and_wait(&acquire), EXIT_BUSY);
    assert_string_equal(fake.said[0], "a is held by host9");
    fake.conflict_index = 5;
    assert_int_equal(ask_and_wait(&acquire), EXIT_BUSY);
    assert_string_equal(fake.said[1], "a#5 is held by host9; all 64 slots are taken");

    acquire = begin(&exclusive);
    fake.result[0] = HF_EBUSY;
    fake.conflict_index = 7;
    fake.conflict_count = 2;
    assert_int_equal(ask_and_wait(&acquire), EXIT_BUSY);
    assert_string_equal(fake.said[0], "a is held shared by 2: a#7 is held by host9");
    fake.asked.progress(&progress, fake.asked.arg);
    assert_string_equal(fake.said[1], "a is held shared by 3: a#5 is held by host7; waiting");
    progress.holders = 2; /* one has left */
    progress.index = 8;
    fake.asked.progress(&progress, fake.asked.arg);
    assert_int_equal(fake.said_count, 2);
}

/* They may come as fast as they are read, and who holds a lock has it to judge. */
static void a_look_at_the_signals_has_an_end(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = -1};
    struct acquire acquire = begin(&wanted);
    int looks = 1, signal;

    (void)state;
    for (int i = 0; i < 3 * SIGNALS_AT_ONCE; i++)
        raise_in_wait(SIGWINCH);
    raise_in_wait(SIGTERM);
    for (; (signal = acquire_signal(&acquire)) == 0; looks++)
        assert_in_range(looks, 1, 4);
    assert_int_equal(signal, SIGTERM);
    assert_int_equal(looks, 4);
}

static void a_signal_ends_a_wait(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = -1};
    struct acquire acquire = begin(&wanted);
    hf_client *client = NULL;
    int signal = 0;

    (void)state;
    fake.result[0] = HF_EPENDING;
    raise_in_wait(SIGWINCH); /* nobody's end */
    raise_in_wait(SIGTERM);
    assert_int_equal(ask_and_wait(&acquire), EXIT_BY_SIGNAL + SIGTERM);
    assert_int_equal(fake.cancels, 1);
    assert_int_equal(fake.said_count, 0);

    acquire = begin(&wanted);
    fake.connect[0] = HF_EPENDING;
    raise_in_wait(SIGINT);
    (void)acquire_connect(&acquire, &client, &signal);
    assert_int_equal(signal, SIGINT);
    assert_null(client);
    assert_int_equal(fake.disconnects, 1);
}

static void an_agent_that_hangs_does_not_keep_a_wait(void **state)
{
    struct run_options wanted = {.names = {"a"}, .count = 1, .wait_ms = 1000};
    struct acquire acquire = begin(&wanted);

    (void)state;
    fake.result[0] = HF_EPENDING;
    assert_int_equal(ask_and_wait(&acquire), EXIT_UNAVAILABLE);
    assert_int_equal(fake.cancels, 1);
    assert_string_equal(fake.said[0], "a: the agent does not answer");
    assert_true(fake.now_ns > 1000 * NS_PER_MS + 3000 * NS_PER_MS); /* it had its time, and more */
    assert_true(fake.now_ns < 1000 * NS_PER_MS + 5000 * NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_lock_is_asked_for_as_it_is),
        cmocka_unit_test(the_wait_is_counted_from_the_command),
        cmocka_unit_test(an_absent_agent_is_waited_for_with_w_only),
        cmocka_unit_test(a_wait_says_what_it_is_for_once),
        cmocka_unit_test(a_long_wait_has_a_line_on_a_terminal),
        cmocka_unit_test(a_try_says_nothing_before_its_end),
        cmocka_unit_test(the_end_of_a_wait_tells_what_it_was_for),
        cmocka_unit_test(the_name_in_the_way_is_the_one_of_a_set),
        cmocka_unit_test(of_shared_and_exclusive_it_is_said_who_has_it_how),
        cmocka_unit_test(a_look_at_the_signals_has_an_end),
        cmocka_unit_test(a_signal_ends_a_wait),
        cmocka_unit_test(an_agent_that_hangs_does_not_keep_a_wait),
    };

    if (pipe2(client_fd, O_CLOEXEC) < 0 || pipe2(signal_fd, O_CLOEXEC | O_NONBLOCK) < 0 ||
        write(client_fd[1], "", 1) != 1) /* the client has news at any time */
        return 1;
    signals.fd = signal_fd[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}

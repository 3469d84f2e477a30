/* What the outer guardian does about an inner one that does nothing, hangs or is dead, and about many signals at once: with a clock, a
 * process tree, signals and a lease made up for it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/common/args.h"
#include "tools/run/guardian.h"
#include "tools/run/job.h"
#include "tools/run/say.h"

#define NS_PER_MS  INT64_C(1000000)
#define NS_PER_SEC INT64_C(1000000000)
#define TTL_NS     (3 * NS_PER_SEC)
#define START_NS   (1000 * NS_PER_SEC)
#define LOOKS_MOST 3000

static struct guardian_shared shared;
static const struct guardian_plan plan = {.name = "a", .ttl_ns = TTL_NS};
static struct guardian g;

static struct {
    int64_t now_ns;
    enum timeline_phase phase;
    bool hung;       /* the inner one: it does not die */
    bool traced;     /* the same: it dies, and another process reaps it */
    unsigned living; /* processes of the job */
    int endless;     /* this signal comes without end; 0: none */
    int in_one_look; /* signals that were read since the last judgement, and most of all */
    int most_in_one_look, looks, witness_looks, to_tree, told, releases;
    int64_t signal_at_ns; /* then comes SIGTERM; 0: never */
    int64_t end_at_ns;    /* then the inner one ends, as it does by itself; 0: never */
    char said[4][512];
    int said_count;
} fake;

static pid_t inner;

/* --- the neighbours --------------------------------------------------------------------------- */

void say(const char *format, ...)
{
    va_list args;

    assert_true(fake.said_count < 4);
    va_start(args, format);
    vsnprintf(fake.said[fake.said_count++], sizeof(fake.said[0]), format, args);
    va_end(args);
}

int64_t timeline_now_ns(void)
{
    return fake.now_ns;
}

int64_t timeline_next(const struct timeline *timeline, int64_t now_ns)
{
    (void)timeline;
    return now_ns + TTL_NS / 20;
}

void timeline_init(struct timeline *timeline, int64_t ttl_ns, int64_t lag_ns)
{
    *timeline = (struct timeline){.ttl_ns = ttl_ns, .lag_ns = lag_ns};
}

enum timeline_phase guardian_judge(struct guardian *guardian, int64_t now_ns)
{
    (void)guardian;
    (void)now_ns;
    fake.in_one_look = 0;
    return fake.phase;
}

/* It looks again at the time that it wants, or at once while signals come. */
void guardian_wait(struct guardian *guardian, int64_t until_ns)
{
    int64_t step_ns = fake.endless ? NS_PER_MS : until_ns - fake.now_ns;

    assert_true(++fake.looks < LOOKS_MOST);
    assert_true(until_ns > fake.now_ns); /* else it spins */
    fake.now_ns += step_ns;
    if (fake.end_at_ns && fake.now_ns >= fake.end_at_ns)
        kill(inner, SIGKILL);
    if (fake.traced && fake.now_ns >= fake.end_at_ns && !guardian->peer_gone)
        guardian->peer_gone = waitpid(inner, NULL, 0) == inner;
}

bool tree_reap(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    int status;

    (void)tree;
    if (fake.hung)
        return false;
    if (fake.traced)
        return fake.living == 0 && g.peer_gone;
    if (g.tree.spare && kill(inner, 0) == 0) {
        usleep(1000); /* a kill is acted on */
        if (waitpid(inner, &status, WNOHANG) == inner)
            fn(inner, status, arg);
    }
    return !g.tree.spare && fake.living == 0;
}

int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome)
{
    (void)tree;
    if (signal) {
        fake.to_tree = signal;
        if (signals_ends(signal))
            fake.living = 0;
    }
    if (ret_outcome)
        *ret_outcome = (struct tree_outcome){.living = fake.living};
    return 0;
}

bool guardian_is_over(struct guardian *guardian, bool empty, int64_t now_ns)
{
    (void)guardian;
    (void)now_ns;
    return empty;
}

void guardian_kill_tree(struct guardian *guardian, int64_t now_ns)
{
    guardian->kill_since_ns = now_ns;
    guardian->kill_next_ns = now_ns + NS_PER_MS;
    fake.living = 0;
}

void guardian_kill_in_time(struct guardian *guardian, int64_t now_ns)
{
    guardian_kill_tree(guardian, now_ns);
}

bool guardian_kill_failed(const struct guardian *guardian, int64_t now_ns)
{
    (void)guardian;
    (void)now_ns;
    return false;
}

void guardian_say_left(const struct guardian *guardian)
{
    (void)guardian;
}

void guardian_own_pages(struct guardian *guardian)
{
    (void)guardian;
}

void guardian_release(struct guardian *guardian)
{
    (void)guardian;
    fake.releases++;
}

void guardian_tell(const struct guardian *guardian, int word)
{
    (void)guardian;
    fake.told = word;
}

bool guardian_hear(const struct guardian *guardian, int *ret_word)
{
    (void)guardian;
    (void)ret_word;
    return false;
}

bool signals_next(const struct signals *signals, struct signalfd_siginfo *ret_info)
{
    (void)signals;
    *ret_info = (struct signalfd_siginfo){.ssi_signo = (uint32_t)fake.endless};
    if (fake.signal_at_ns && fake.now_ns >= fake.signal_at_ns) {
        fake.signal_at_ns = 0;
        ret_info->ssi_signo = SIGTERM;
    } else if (!fake.endless) {
        return false;
    }
    if (++fake.in_one_look > fake.most_in_one_look)
        fake.most_in_one_look = fake.in_one_look;
    assert_true(fake.in_one_look < LOOKS_MOST);
    return true;
}

bool signals_ends(int signal)
{
    return signal == SIGTERM || signal == SIGKILL;
}

void witness_begin(struct witness *witness, const struct signals *signals)
{
    (void)witness;
    (void)signals;
}

void witness_look(struct witness *witness)
{
    (void)witness;
    fake.witness_looks++;
}

bool witness_saw(struct witness *witness, int signal)
{
    (void)witness;
    (void)signal;
    return false;
}

bool witness_stand_in(struct witness *witness, pid_t of, struct guardian_shared *page)
{
    (void)witness;
    (void)of;
    (void)page;
    return true;
}

void witness_stand_down(struct witness *witness)
{
    (void)witness;
}

void witness_end(struct witness *witness)
{
    (void)witness;
}

int64_t beat_pass_on(struct beat *beat, const struct lease_group *leases, int64_t now_ns)
{
    (void)beat;
    (void)leases;
    (void)now_ns;
    return INT64_MAX;
}

void lease_group_begin_losing(const struct lease_group *leases)
{
    (void)leases;
}

bool cgroup_is_empty(struct cgroup *cgroup)
{
    (void)cgroup;
    return true;
}

void cgroup_remove(struct cgroup *cgroup)
{
    (void)cgroup;
}

void streams_let_go(void) {}

/* --- the tests -------------------------------------------------------------------------------- */

/* An inner guardian that does nothing, with or without a job. */
static void begin(bool started)
{
    memset(&fake, 0, sizeof(fake));
    memset(&shared, 0, sizeof(shared));
    fake.now_ns = START_NS;
    fake.phase = TIMELINE_HELD;
    fake.living = started;
    shared.started = started;
    shared.late_ns = START_NS + TTL_NS;
    g = (struct guardian){.plan = &plan, .shared = &shared};
    inner = fork();
    assert_true(inner >= 0);
    if (inner == 0)
        for (;;)
            pause();
}

/* Returns the exit code. */
static int watch(void)
{
    int code = guardian_outer(&g, inner);

    kill(inner, SIGKILL);
    (void)waitpid(inner, NULL, 0);
    return code;
}

static void one_that_never_starts_the_job_is_killed_and_keeps_no_lock(void **state)
{
    (void)state;
    for (int hung = 0; hung <= 1; hung++) {
        begin(false);
        fake.hung = hung;
        assert_int_equal(watch(), EXIT_FAILED);
        assert_int_equal(fake.releases, 1);
        assert_int_equal(fake.said_count, 1);
        assert_non_null(
            strstr(fake.said[0], "a: the job is not started: the inner guardian hangs"));
        assert_true(fake.now_ns >= START_NS + TTL_NS + 2 * NS_PER_SEC);
        assert_true(fake.now_ns <= START_NS + TTL_NS + 5 * NS_PER_SEC);
    }
}

static void one_that_is_stopped_is_told_of_and_a_signal_ends_the_job(void **state)
{
    (void)state;
    begin(true);
    fake.signal_at_ns = START_NS + 30 * NS_PER_SEC;
    assert_int_equal(watch(), EXIT_FAILED);
    assert_int_equal(fake.said_count, 1);
    assert_non_null(strstr(fake.said[0], "is stopped or hangs, and the lock is held"));
    assert_int_equal(fake.to_tree, SIGTERM);
    assert_int_equal(fake.told, 0);
    assert_int_equal(fake.releases, 1);
    assert_true(fake.now_ns >= START_NS + 30 * NS_PER_SEC);
    assert_true(fake.now_ns <= START_NS + 32 * NS_PER_SEC);
}

/* A moment is no hang: signals go to it as before. */
static void one_that_is_late_for_a_moment_is_none(void **state)
{
    (void)state;
    begin(true);
    shared.late_ns = START_NS + 2 * NS_PER_SEC;
    fake.signal_at_ns = START_NS + 3 * NS_PER_SEC;
    fake.end_at_ns = START_NS + 3 * NS_PER_SEC + NS_PER_SEC / 2;
    (void)watch();
    assert_int_equal(fake.told, SIGTERM);
    assert_int_equal(fake.to_tree, 0);
    assert_int_equal(fake.said_count, 1);
    assert_non_null(strstr(fake.said[0], "the inner guardian was killed"));
}

static void one_that_has_released_is_not_waited_for(void **state)
{
    (void)state;
    begin(true);
    fake.hung = true;
    fake.living = 0;
    shared.reaped = shared.released = 1;
    shared.exit_code = 7;
    assert_int_equal(watch(), 7);
    assert_int_equal(fake.said_count, 0);
    assert_int_equal(fake.releases, 0);
    assert_true(fake.now_ns <= START_NS + 2 * NS_PER_SEC);
}

static void what_one_leaves_to_this_one_is_released(void **state)
{
    (void)state;
    begin(false);
    fake.hung = true;
    shared.left_to_outer = shared.reaped = 1;
    shared.exit_code = EXIT_LOST;
    assert_int_equal(watch(), EXIT_LOST);
    assert_int_equal(fake.said_count, 0);
    assert_int_equal(fake.releases, 1);
    assert_true(fake.now_ns <= START_NS + 2 * NS_PER_SEC);
}

static void one_that_cannot_release_is_told_of_and_not_waited_for(void **state)
{
    (void)state;
    begin(true);
    fake.hung = true;
    fake.living = 0;
    shared.reaped = 1;
    shared.exit_code = 7;
    assert_int_equal(watch(), 7);
    assert_int_equal(fake.said_count, 1);
    assert_non_null(strstr(fake.said[0], "the agent does not answer"));
    assert_int_equal(fake.releases, 0);
    assert_true(fake.now_ns >= START_NS + 5 * NS_PER_SEC && fake.looks < 10);
}

static void one_that_another_process_reaps_is_dead(void **state)
{
    (void)state;
    begin(true);
    fake.traced = true;
    fake.end_at_ns = START_NS + NS_PER_SEC;
    assert_int_equal(watch(), EXIT_FAILED);
    assert_int_equal(fake.said_count, 1);
    assert_non_null(strstr(fake.said[0], "the inner guardian was killed; killed the job"));
    assert_int_equal(fake.releases, 1);
}

static void few_signals_are_read_between_two_judgements(void **state)
{
    (void)state;
    begin(true);
    fake.endless = 40;
    fake.end_at_ns = START_NS + NS_PER_SEC;
    assert_int_equal(watch(), EXIT_FAILED);
    assert_in_range(fake.most_in_one_look, 1, SIGNALS_AT_ONCE);
    assert_in_range(fake.witness_looks, 1, fake.looks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_never_starts_the_job_is_killed_and_keeps_no_lock),
        cmocka_unit_test(one_that_is_stopped_is_told_of_and_a_signal_ends_the_job),
        cmocka_unit_test(one_that_is_late_for_a_moment_is_none),
        cmocka_unit_test(one_that_has_released_is_not_waited_for),
        cmocka_unit_test(what_one_leaves_to_this_one_is_released),
        cmocka_unit_test(one_that_cannot_release_is_told_of_and_not_waited_for),
        cmocka_unit_test(one_that_another_process_reaps_is_dead),
        cmocka_unit_test(few_signals_are_read_between_two_judgements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

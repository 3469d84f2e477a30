/* Contract. `holdfast run` against an agent in this process: what the guardians do to real jobs. The program
 * runs itself as the command: `test_guardian run ...` is `holdfast run ...`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libclient/holdfast_admin.h"
#include "tests/support/fake_agent.h"
#include "tools/commands.h"

#define MS          INT64_C(1000000)
#define TTL_MS      3000
#define PATIENCE_MS 20000
#define ROUNDING    (2 * MS) /* of V in the check word */

/* One run: its standard output reaches the end when the last process of the job is dead, as the
 * guardians let go of theirs. */
struct run {
    pid_t pid;
    int in, out, err;
};

static struct fake_agent *agent;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static struct run start(char *const argv[])
{
    int in[2], out[2], err[2];
    struct run run;

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    run = (struct run){.in = in[1], .out = out[0], .err = err[0]};
    run.pid = fork();
    assert_true(run.pid >= 0);
    if (run.pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execv("/proc/self/exe", argv);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    return run;
}

#define START(...) start((char *const[]){"test_guardian", "run", __VA_ARGS__, NULL})

/* Reads a line, or up to the end. */
static void read_line(int fd, char *line, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t used = 0;

    while (used < size - 1) {
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        if (read(fd, line + used, 1) != 1 || line[used] == '\n')
            break;
        used++;
    }
    line[used] = '\0';
}

static void await(int fd, const char *expected)
{
    char line[256];

    read_line(fd, line, sizeof(line));
    assert_string_equal(line, expected);
}

/* When the last process of the job let go of its output. */
static int64_t await_death(const struct run *run)
{
    struct pollfd p = {.fd = run->out, .events = POLLIN};
    char byte;

    do
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    while (read(run->out, &byte, 1) == 1);
    return now_ns();
}

/* The exit code; 1000 + n for a signal. */
static int finish(struct run *run, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got;
    int status;

    close(run->in);
    assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
    while (used < size - 1 && (got = read(run->err, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(run->out);
    close(run->err);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int exit_of(struct run run)
{
    char text[4096];

    return finish(&run, text, sizeof(text));
}

static bool has_parent(const char *pid, pid_t parent)
{
    char path[280], text[512], *end;
    int fd, found = 0;
    ssize_t got;

    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';
    end = strrchr(text, ')');
    return end && sscanf(end + 1, " %*c %d", &found) == 1 && found == parent;
}

/* The only child of a process: of the outer guardian, the inner one. */
static pid_t child_of(pid_t parent)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    pid_t child = 0;

    assert_non_null(proc);
    while (!child && (entry = readdir(proc)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && has_parent(entry->d_name, parent))
            child = atoi(entry->d_name);
    closedir(proc);
    assert_int_not_equal(child, 0);
    return child;
}

static int64_t validity(void)
{
    struct hf_info info = {.size = sizeof(info)};
    hf_view *view;

    assert_int_equal(hf_view_open(fake_agent_name(agent), &view), HF_OK);
    assert_int_equal(hf_view_find(view, "job", 3, &info), HF_OK);
    hf_view_close(view);
    assert_true(info.is_job);
    return info.valid_until_ns;
}

/* A job with a grandchild that left its session and its parents, all of them deaf to SIGTERM. */
#define TOUGH                                                                                      \
    "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' &) ; "       \
    "while :; do sleep 1; done"

static struct run start_tough(void)
{
    struct run run = START("-t", "3s", "job", "sh", "-c", TOUGH);

    await(run.out, "up");
    return run;
}

static int set_up(void **state)
{
    const struct fake_agent_options options = {.ttl_ms = TTL_MS};

    (void)state;
    agent = fake_agent_start(&options);
    setenv("HOLDFAST_RUNTIME_DIR", fake_agent_dir(agent), 1);
    setenv("HOLDFAST_AGENT", fake_agent_name(agent), 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_agent_free(agent);
    return 0;
}

/* --- without a loss --------------------------------------------------------------------------- */

static void gives_the_jobs_exit_code(void **state)
{
    (void)state;
    assert_int_equal(exit_of(START("job", "true")), 0);
    assert_int_equal(exit_of(START("job", "--", "sh", "-c", "exit 7")), 7);
    assert_int_equal(exit_of(START("job", "sh", "-c", "kill -9 $$")), 128 + SIGKILL);
    assert_int_equal(exit_of(START("job", "/nonexistent/command")), 127);
    assert_int_equal(exit_of(START("job", "/etc/passwd")), 126);
    assert_int_equal(fake_agent_leases(agent), 0);
    assert_true(fake_agent_saw_reaped(agent));
}

static void refuses_bad_usage(void **state)
{
    char name[257];

    (void)state;
    memset(name, 'x', sizeof(name));
    name[256] = '\0';
    assert_int_equal(exit_of(START("job")), 64);
    assert_int_equal(exit_of(START("", "true")), 64);
    assert_int_equal(exit_of(START(name, "true")), 64);
    assert_int_equal(exit_of(START("holdfast:x", "true")), 64);
    assert_int_equal(exit_of(START("-t", "0", "job", "true")), 64);
    assert_int_equal(exit_of(START("-t", "-1", "job", "true")), 64);
    assert_int_equal(exit_of(START("-t", "soon", "job", "true")), 64);
    assert_int_equal(exit_of(START("--wait", "x", "job", "true")), 64);
    assert_int_equal(exit_of(START("--no-such-option", "job", "true")), 64);
    assert_int_equal(exit_of(START("-s", "NOPE", "job", "true")), 64);
    assert_int_equal(exit_of(START("-E", "256", "job", "true")), 64);
}

/* Standard input is the job's, word splitting is not done, and it knows what it holds. */
static void passes_things_on(void **state)
{
    struct run run = START("a b", "sh", "-c", "cat; echo \"$HOLDFAST_NAME/$0\"", "* $x");

    (void)state;
    assert_int_equal(write(run.in, "hello\n", 6), 6);
    close(run.in);
    run.in = -1;
    await(run.out, "hello");
    await(run.out, "a b/* $x");
    assert_int_equal(exit_of(run), 0);
}

static void forwards_signals(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        char script[128];
        struct run run;

        snprintf(script, sizeof(script), "trap 'exit %d' %d; echo up; while :; do sleep 0.01; done",
                 10 + signals[i], signals[i]);
        run = START("job", "sh", "-c", script);
        await(run.out, "up");
        kill(run.pid, signals[i]);
        assert_int_equal(exit_of(run), 10 + signals[i]);
    }
}

static void a_signal_ends_the_wait(void **state)
{
    struct run run;
    char text[1024];

    (void)state;
    fake_agent_foreign(agent, "job", true);
    run = START("job", "true");
    read_line(run.err, text, sizeof(text));
    assert_non_null(strstr(text, "job is held by"));
    kill(run.pid, SIGTERM);
    assert_int_equal(exit_of(run), 128 + SIGTERM);
    for (int i = 0; i < 5000 && fake_agent_waiters(agent) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL); /* the agent has yet to see it go */
    assert_int_equal(fake_agent_waiters(agent), 0);
}

static void says_busy(void **state)
{
    struct run run;
    char text[1024];

    (void)state;
    fake_agent_foreign(agent, "j\nob", true);
    run = START("-n", "j\nob", "true");
    assert_int_equal(finish(&run, text, sizeof(text)), 75);
    assert_non_null(strstr(text, "holdfast: j\\nob is held by"));
    assert_int_equal(exit_of(START("-n", "-E", "9", "j\nob", "true")), 9);
    assert_int_equal(exit_of(START("-w", "50ms", "j\nob", "true")), 75);
}

static void says_that_there_is_no_agent(void **state)
{
    (void)state;
    assert_int_equal(exit_of(START("--agent", "nobody-here", "job", "true")), 69);
}

/* What the job leaves behind is dead before the lock is free. */
static void ends_what_is_left_behind(void **state)
{
    struct run run = START("job", "sh", "-c",
                           "(setsid sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' &); "
                           "read x; exit 3");
    int64_t began;

    (void)state;
    await(run.out, "up");
    began = now_ns();
    assert_int_equal(write(run.in, "\n", 1), 1);
    await_death(&run);
    assert_true(now_ns() - began >= 900 * MS);
    assert_int_equal(exit_of(run), 3);
    assert_int_equal(fake_agent_leases(agent), 0);
}

/* The job is over and dead: an agent that hangs may not keep its user waiting until V. */
static void leaves_a_hung_agent(void **state)
{
    struct run run = START("-t", "60s", "job", "sh", "-c", "echo up; read x; exit 3");
    int64_t began;
    char text[4096];

    (void)state;
    await(run.out, "up");
    fake_agent_freeze(agent, true);
    began = now_ns();
    assert_int_equal(write(run.in, "\n", 1), 1);
    assert_int_equal(finish(&run, text, sizeof(text)), 3);
    assert_in_range(now_ns() - began, 4000 * MS, 15000 * MS);
    assert_non_null(strstr(text, "does not answer"));
    fake_agent_freeze(agent, false);
}

/* --- the end of the validity ---------------------------------------------------------------------
 */

static void stops_by_the_timeline(void **state)
{
    struct run run = START("-t", "6s", "job", "sh", "-c", /* 1.2 s between TERM and KILL */
                           "trap 'echo term' TERM; echo up; while :; do sleep 0.02; done");
    int64_t term, dead, valid;
    char text[4096];

    (void)state;
    await(run.out, "up");
    fake_agent_renew(agent, false);
    valid = validity();
    await(run.out, "term");
    term = now_ns();
    dead = await_death(&run);
    assert_int_equal(finish(&run, text, sizeof(text)), 124);
    if (!strstr(text, "being lost"))
        fail_msg("TERM %lld ms and the end %lld ms before V; it said: %s",
                 (long long)((valid - term) / MS), (long long)((valid - dead) / MS), text);
    assert_in_range(term, valid - 1800 * MS - ROUNDING, valid - 600 * MS);
    assert_in_range(dead, valid - 600 * MS - ROUNDING, valid);
}

static void kills_in_time(void (*fault)(const struct run *run),
                          void (*after)(const struct run *run))
{
    struct run run = start_tough();
    int64_t dead, valid;

    fake_agent_renew(agent, false);
    fault(&run);
    valid = validity();
    dead = await_death(&run);
    if (after)
        after(&run);
    assert_in_range(dead, valid - 300 * MS - ROUNDING, valid);
    assert_int_equal(exit_of(run), 124);
}

static void agent_hangs(const struct run *run)
{
    (void)run;
    fake_agent_freeze(agent, true);
}

static void agent_dies(const struct run *run)
{
    (void)run;
    fake_agent_kill(agent);
}

static void inner_is_stopped(const struct run *run)
{
    kill(child_of(run->pid), SIGSTOP);
}

static void outer_is_stopped(const struct run *run)
{
    kill(run->pid, SIGSTOP);
}

static void outer_goes_on(const struct run *run)
{
    kill(run->pid, SIGCONT);
}

static void kills_with_a_hung_agent(void **state)
{
    (void)state;
    kills_in_time(agent_hangs, NULL);
    fake_agent_freeze(agent, false);
}

static void kills_without_an_agent(void **state)
{
    (void)state;
    kills_in_time(agent_dies, NULL);
}

static void kills_although_the_inner_guardian_is_stopped(void **state)
{
    (void)state;
    kills_in_time(inner_is_stopped, NULL);
}

static void kills_although_the_outer_guardian_is_stopped(void **state)
{
    (void)state;
    kills_in_time(outer_is_stopped, outer_goes_on);
}

static void kills_at_once_when_lost(void **state)
{
    struct run run = start_tough();
    int64_t began = now_ns();

    (void)state;
    fake_agent_change(agent, "job", HF_SLOT_LOST, HF_LOSS_MISSING);
    assert_in_range(await_death(&run) - began, 0, 500 * MS);
    assert_int_equal(exit_of(run), 124);
}

static void stops_when_asked(void **state)
{
    struct run run = START("-t", "60s", "job", "sh", "-c",
                           "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done");
    int64_t began;
    char text[4096];

    (void)state;
    await(run.out, "up");
    began = now_ns();
    fake_agent_change(agent, "job", HF_SLOT_LOSING, HF_LOSS_ASKED);
    assert_in_range(await_death(&run) - began, 0, 2000 * MS);
    assert_int_equal(finish(&run, text, sizeof(text)), 124);
    assert_non_null(strstr(text, "asked the holder to stop"));
}

static void runs_the_hook_instead(void **state)
{
    struct run run = START("-t", "3s", "--on-lost",
                           "echo hook $HOLDFAST_NAME; kill -USR1 $HOLDFAST_PID", "job", "sh", "-c",
                           "trap 'echo term' TERM; trap 'echo usr; exit 0' USR1; echo up; "
                           "while :; do sleep 0.02; done");
    char text[4096];

    (void)state;
    await(run.out, "up");
    fake_agent_renew(agent, false);
    await(run.out, "usr");
    assert_int_equal(finish(&run, text, sizeof(text)), 124);
    assert_non_null(strstr(text, "hook job"));
}

static void sends_the_signal_when_the_hook_fails(void **state)
{
    struct run run = START("-t", "3s", "--on-lost", "exit 1", "-s", "USR2", "job", "sh", "-c",
                           "trap 'echo usr; exit 0' USR2; echo up; while :; do sleep 0.02; done");

    (void)state;
    await(run.out, "up");
    fake_agent_renew(agent, false);
    await(run.out, "usr");
    assert_int_equal(exit_of(run), 124);
}

/* --- a guardian is killed ------------------------------------------------------------------------
 */

static void await_no_lease(void)
{
    for (int i = 0; i < PATIENCE_MS && fake_agent_leases(agent); i++)
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    assert_int_equal(fake_agent_leases(agent), 0);
}

static void inner_killed(void **state)
{
    struct run run = start_tough();
    int64_t began = now_ns();

    (void)state;
    kill(child_of(run.pid), SIGKILL);
    assert_in_range(await_death(&run) - began, 0, 500 * MS);
    assert_int_equal(exit_of(run), 125);
    await_no_lease();
    assert_true(fake_agent_saw_reaped(agent));
}

static void outer_killed(void **state)
{
    struct run run = start_tough();
    int64_t began = now_ns();

    (void)state;
    kill(run.pid, SIGKILL);
    assert_in_range(await_death(&run) - began, 0, 500 * MS);
    assert_int_equal(exit_of(run), 1000 + SIGKILL);
    await_no_lease();
    assert_true(fake_agent_saw_reaped(agent));
}

/* The agent comes back in time: nothing happens to the job. */
static void survives_an_agents_restart(void **state)
{
    struct run run = START("-t", "3s", "job", "sh", "-c", "echo up; read x; exit 5");

    (void)state;
    await(run.out, "up");
    fake_agent_kill(agent);
    nanosleep(&(struct timespec){.tv_nsec = 300 * MS}, NULL);
    fake_agent_revive(agent, false);
    nanosleep(&(struct timespec){.tv_sec = 4}, NULL);
    assert_int_equal(write(run.in, "\n", 1), 1);
    assert_int_equal(exit_of(run), 5);
    await_no_lease();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(gives_the_jobs_exit_code),
        TEST(refuses_bad_usage),
        TEST(passes_things_on),
        TEST(forwards_signals),
        TEST(a_signal_ends_the_wait),
        TEST(says_busy),
        TEST(says_that_there_is_no_agent),
        TEST(ends_what_is_left_behind),
        TEST(leaves_a_hung_agent),
        TEST(stops_by_the_timeline),
        TEST(kills_with_a_hung_agent),
        TEST(kills_without_an_agent),
        TEST(kills_although_the_inner_guardian_is_stopped),
        TEST(kills_although_the_outer_guardian_is_stopped),
        TEST(kills_at_once_when_lost),
        TEST(stops_when_asked),
        TEST(runs_the_hook_instead),
        TEST(sends_the_signal_when_the_hook_fails),
        TEST(inner_killed),
        TEST(outer_killed),
        TEST(survives_an_agents_restart),
    };

    if (argc > 1)
        return cmd_run(argc - 1, argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

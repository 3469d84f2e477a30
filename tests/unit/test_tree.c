/* Real processes: whatever a job does to get away, it is found, killed and reaped. Each test runs
 * in a child of its own, since a subreaper takes in every orphan. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/tree_fixture.h"
#include "tools/run/tree.h"

#define PATIENCE_MS 80000
#define CHAIN_S     10
#define BLIND_S     20
#define HUNTED_S    60  /* a busy machine takes its time to hunt them */
#define AT_ONCE     400 /* processes of chains, the dead that are not reaped among them */

static void ignore(pid_t pid, int status, void *arg)
{
    (void)pid, (void)status, (void)arg;
}

/* When a test fails, nothing is to be left of it. */
static void die_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static unsigned count_living(struct tree *tree)
{
    struct tree_outcome outcome;

    CHECK(tree_signal(tree, 0, &outcome) == 0);
    return outcome.living;
}

static void wait_for_living(struct tree *tree, unsigned wanted)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (count_living(tree) == wanted)
            return;
        nap();
    }
    CHECK(!"as many processes as wanted");
}

static void kill_all(struct tree *tree)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        CHECK(tree_signal(tree, SIGKILL, NULL) == 0);
        if (tree_reap(tree, ignore, NULL))
            return;
        nap();
    }
    CHECK(!"all dead");
}

/* Of chains, shared by all that is below the test. */
static struct {
    _Atomic int made, reaped;
} * chains;

static void count_chains(void)
{
    chains = mmap(NULL, sizeof(*chains), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(chains != MAP_FAILED);
}

static void reaped(pid_t pid, int status, void *arg)
{
    ignore(pid, status, arg);
    atomic_fetch_add(&chains->reaped, 1);
}

static _Noreturn void sleep_for_ever(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static void empty_tree(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    wait_for_living(&tree, 0);
    CHECK(tree_reap(&tree, ignore, NULL));
    tree_free(&tree);
}

/* A daemon's double fork with setsid(): its parent is gone, it is still ours. */
static void daemonised(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    if (fork() == 0) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0)
                sleep_for_ever();
            _exit(0);
        }
        _exit(0);
    }
    wait_for_living(&tree, 1);
    CHECK(!tree_reap(&tree, ignore, NULL));
    kill_all(&tree);
    wait_for_living(&tree, 0);
    tree_free(&tree);
}

/* A process that adopts orphans itself keeps them in the tree. */
static void nested_subreaper(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    if (fork() == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        if (fork() == 0) {
            if (fork() == 0)
                sleep_for_ever();
            _exit(0);
        }
        sleep_for_ever();
    }
    wait_for_living(&tree, 2);
    kill_all(&tree);
    tree_free(&tree);
}

static void stopped(void)
{
    struct tree tree;
    pid_t pid = fork();

    if (pid == 0)
        sleep_for_ever();
    CHECK(tree_init(&tree, 0) == 0);
    CHECK(kill(pid, SIGSTOP) == 0);
    wait_for_living(&tree, 1);
    kill_all(&tree);
    tree_free(&tree);
}

/* It cannot act on a signal before it goes on. */
static void stopped_is_told(void)
{
    struct tree tree;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        die_with_parent();
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    alarm(20); /* it acts at once, or never */
    CHECK(tree_init(&tree, 0) == 0);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(tree_signal(&tree, SIGTERM, NULL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    tree_free(&tree);
}

static void make_dead(int count)
{
    siginfo_t info;

    for (int i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(0);
        CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    }
}

#define DEAD 300

/* Who reaps has more to do than to reap. */
static void some_at_a_time(void)
{
    struct tree tree;
    int looks = 0, before = 0, now;

    CHECK(tree_init(&tree, 0) == 0);
    count_chains();
    make_dead(DEAD);
    while (!tree_reap(&tree, reaped, NULL)) {
        now = atomic_load(&chains->reaped);
        CHECK(now > before && now - before <= DEAD / 3);
        before = now;
        looks++;
    }
    CHECK(looks >= 3 && atomic_load(&chains->reaped) == DEAD);
    tree_free(&tree);
}

static void *thread_for_ever(void *arg)
{
    (void)arg;
    sleep_for_ever();
}

/* Its leader is a zombie in /proc, but its other thread runs. */
static void leader_ended(void)
{
    struct tree tree;

    if (fork() == 0) {
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, thread_for_ever, NULL) == 0);
        pthread_exit(NULL);
    }
    CHECK(tree_init(&tree, 0) == 0);
    for (int i = 0; i < 100; i++) {
        wait_for_living(&tree, 1);
        nap();
    }
    kill_all(&tree);
    tree_free(&tree);
}

/* A zombie that its own parent does not reap is dead for us. */
static void zombie_is_dead(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    if (fork() == 0) {
        if (fork() == 0)
            _exit(0);
        sleep_for_ever();
    }
    wait_for_living(&tree, 1);
    kill_all(&tree);
    tree_free(&tree);
}

static void strange_names(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    if (fork() == 0) {
        prctl(PR_SET_NAME, ") S 1 (x\n", 0, 0, 0);
        sleep_for_ever();
    }
    wait_for_living(&tree, 1);
    kill_all(&tree);
    tree_free(&tree);
}

/* The spare child lives, what hangs below it does not. */
static void spared(void)
{
    struct tree tree;
    struct tree_outcome outcome;
    pid_t pid = fork();

    if (pid == 0) {
        if (fork() == 0)
            sleep_for_ever();
        sleep_for_ever();
    }
    CHECK(tree_init(&tree, pid) == 0);
    wait_for_living(&tree, 1);
    for (int i = 0; i < PATIENCE_MS; i++) {
        CHECK(tree_signal(&tree, SIGKILL, &outcome) == 0);
        if (outcome.living == 0)
            break;
        nap();
    }
    CHECK(outcome.living == 0);
    CHECK(!tree_reap(&tree, ignore, NULL));
    CHECK(kill(pid, 0) == 0);
    tree.spare = 0;
    kill_all(&tree);
    tree_free(&tree);
}

/* Each process lives for a moment and leaves another, for `seconds`: also when nobody stops them. They
 * wait while whoever reaps them gets no processor, or the dead would fill the table of processes. */
static _Noreturn void chain(int seconds)
{
    time_t end = time(NULL) + seconds;

    while (time(NULL) < end) {
        nap();
        if (atomic_load(&chains->made) - atomic_load(&chains->reaped) >= AT_ONCE)
            continue;
        atomic_fetch_add(&chains->made, 1);
        if (fork())
            break;
    }
    _exit(0);
}

/* More processes than one scan can see at an instant: they fork while they are killed. A scan alone
 * gets them in the end where the machine has time for it; guardians hunt as well. */
static void forking(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    count_chains();
    for (int i = 0; i < 4; i++)
        if (fork() == 0)
            chain(CHAIN_S);
    for (int i = 0; i < 50; i++)
        nap();
    CHECK(atomic_load(&chains->made) > 4);
    while (!tree_hunt(&tree, reaped, NULL))
        CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
    CHECK(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
    tree_free(&tree);
}

/* The same by looking at children only, which is quick enough for them. Those of the spare one, and
 * itself, are left alone. */
static void hunted(void)
{
    struct tree tree;
    time_t began = time(NULL);
    pid_t spare = fork();

    if (spare == 0) {
        die_with_parent();
        if (fork() == 0) {
            die_with_parent();
            sleep_for_ever();
        }
        sleep_for_ever();
    }
    CHECK(tree_init(&tree, spare) == 0);
    count_chains();
    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            if (i % 2)
                setsid();
            chain(HUNTED_S);
        }
    for (int i = 0; i < 50; i++)
        nap();
    /* A scan may miss one that is just passing its life on: none in several. */
    for (int calm = 0; calm < 10; calm++) {
        unsigned living = count_living(&tree);

        CHECK(living >= 1); /* the spare one's child */
        if (living > 1) {
            CHECK(!tree_hunt(&tree, reaped, NULL));
            calm = -1;
        }
    }
    CHECK(time(NULL) < began + HUNTED_S); /* they did not just end by themselves */
    CHECK(kill(spare, 0) == 0);
    tree.spare = 0;
    kill_all(&tree);
    CHECK(tree_hunt(&tree, ignore, NULL)); /* empty */
    tree_free(&tree);
}

#define APART(name)                                                                                \
    static void name##_test(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run_apart(name, PATIENCE_MS / 1000);                                                       \
    }

/* The machine runs everything but who is to reap them: they wait for it, and go on. */
static void unreaped(void)
{
    struct tree tree;
    int before;

    CHECK(tree_init(&tree, 0) == 0);
    count_chains();
    for (int i = 0; i < 8; i++)
        if (fork() == 0)
            chain(HUNTED_S);
    for (int i = 0; i < PATIENCE_MS && atomic_load(&chains->made) < AT_ONCE; i++)
        nap();
    for (int i = 0; i < 100; i++)
        nap();
    before = atomic_load(&chains->made);
    CHECK(before >= AT_ONCE && before < AT_ONCE + 8);
    CHECK(!tree_reap(&tree, reaped, NULL));
    for (int i = 0; i < PATIENCE_MS && atomic_load(&chains->made) == before; i++)
        nap();
    CHECK(atomic_load(&chains->made) > before);
    while (!tree_hunt(&tree, reaped, NULL))
        CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
    tree_free(&tree);
}

/* Children from before are no part of it, nor is what they start. */
static void left_alone(void)
{
    struct tree tree;
    int ready[2];
    char byte;
    pid_t other;

    CHECK(pipe(ready) == 0);
    other = fork();
    if (other == 0) {
        die_with_parent();
        if (fork() == 0) {
            die_with_parent();
            CHECK(write(ready[1], "", 1) == 1);
            sleep_for_ever();
        }
        sleep_for_ever();
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(tree_init(&tree, 0) == 0);
    CHECK(tree_leave_alone(&tree) == 0);
    CHECK(tree_reap(&tree, ignore, NULL)); /* empty */
    if (fork() == 0)
        sleep_for_ever();
    wait_for_living(&tree, 1);
    CHECK(!tree_reap(&tree, ignore, NULL));
    for (int i = 0; i < PATIENCE_MS && !tree_hunt(&tree, ignore, NULL); i++)
        ;
    CHECK(tree_reap(&tree, ignore, NULL));
    CHECK(waitpid(other, NULL, WNOHANG) == 0);
    CHECK(kill(other, SIGKILL) == 0 && waitpid(other, NULL, 0) == other);
    tree_free(&tree);
}

/* More than a page of /proc has room for. */
static void many_left_alone(void)
{
    struct tree tree;

    CHECK(tree_init(&tree, 0) == 0);
    count_chains();
    make_dead(4 * DEAD);
    CHECK(tree_leave_alone(&tree) == 0);
    while (!tree_reap(&tree, reaped, NULL))
        ;
    CHECK(atomic_load(&chains->reaped) == 0);
    tree_free(&tree);
}

static _Noreturn void trace(int to, int from)
{
    pid_t pid;

    die_with_parent();
    CHECK(read(to, &pid, sizeof(pid)) == sizeof(pid));
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(write(from, "", 1) == 1);
    sleep_for_ever();
}

static pid_t fork_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        die_with_parent();
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        sleep_for_ever();
    }
    return pid;
}

/* Dead, and not ours to reap. */
static void traced(void)
{
    int to[2], from[2];
    struct tree_traced found;
    struct tree tree;
    pid_t tracer, pid, living;
    char ready;

    CHECK(pipe(to) == 0 && pipe(from) == 0);
    tracer = fork();
    if (tracer == 0)
        trace(to[0], from[1]);
    CHECK(tree_init(&tree, 0) == 0 && tree_leave_alone(&tree) == 0);
    CHECK(!tree_is_traced(&tree, &found)); /* nobody */
    living = fork_sleeper();
    pid = fork_sleeper();
    nap();
    CHECK(write(to[1], &pid, sizeof(pid)) == sizeof(pid) && read(from[0], &ready, 1) == 1);
    CHECK(kill(pid, SIGKILL) == 0);
    wait_for_living(&tree, 1);
    CHECK(!tree_reap(&tree, ignore, NULL) && !tree_is_traced(&tree, &found));
    CHECK(kill(living, SIGKILL) == 0);
    for (int i = 0; i < PATIENCE_MS && kill(living, 0) == 0; i++) {
        CHECK(!tree_reap(&tree, ignore, NULL));
        nap();
    }
    CHECK(tree_is_traced(&tree, &found) && found.pid == pid && found.tracer == tracer);
    CHECK(kill(tracer, SIGKILL) == 0);
    for (int i = 0; i < PATIENCE_MS && !tree_reap(&tree, ignore, NULL); i++)
        nap();
    CHECK(kill(pid, 0) < 0);
    tree_free(&tree);
}

/* No descriptor is left to read /proc with, be it the host's last: our children are signalled, and the group with them. */
static void blind(void)
{
    const struct rlimit none = {0};
    struct tree tree;
    int status, ready[2];
    siginfo_t info;
    char byte;
    pid_t job;

    CHECK(tree_init(&tree, 0) == 0);
    CHECK(pipe(ready) == 0);
    job = fork();
    if (job == 0) {
        setpgid(0, 0);
        alarm(BLIND_S);
        if (fork() == 0) {
            alarm(BLIND_S);
            signal(SIGTERM, SIG_IGN);
            CHECK(write(ready[1], "", 1) == 1);
            sleep_for_ever();
        }
        pause();
        _exit(1);
    }
    tree.group = job;
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[1]);
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(tree_signal(&tree, SIGTERM, NULL) < 0);
    CHECK(waitid(P_PID, (id_t)job, &info, WEXITED | WNOWAIT) == 0 && info.si_status == SIGTERM);
    for (int i = 0; i < 50 && !tree_hunt(&tree, ignore, NULL); i++)
        ;
    CHECK(waitpid(-1, &status, WNOHANG) < 0 && errno == ECHILD); /* its group's are dead, too */
    tree_free(&tree);
}

/* ...and what is known to nobody: the kernel says of each number whether it is a child of ours. */
static void blind_daemons(void)
{
    const struct rlimit none = {0};
    struct tree tree;
    int status, ready[2];
    char byte;

    CHECK(tree_init(&tree, 0) == 0);
    CHECK(pipe(ready) == 0);
    if (fork() == 0) {
        for (int i = 0; i < 3; i++) {
            if (fork() > 0)
                continue;
            setsid();
            alarm(BLIND_S);
            if (fork() == 0) {
                setsid();
                alarm(BLIND_S);
                CHECK(write(ready[1], "", 1) == 1);
            }
            sleep_for_ever();
        }
        _exit(0);
    }
    for (int i = 0; i < 3; i++)
        CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    tree.pid_max = 2; /* as if their numbers were far from ours: none is near */
    for (int i = 0; i < 50 && !tree_hunt(&tree, ignore, NULL); i++)
        ;
    CHECK(waitpid(-1, &status, WNOHANG) < 0 && errno == ECHILD);
    tree_free(&tree);
}

/* A group of our own session that the tree has made dies at once, whoever of it is seen. */
static void own_group(void)
{
    struct tree tree;
    pid_t leader;

    CHECK(tree_init(&tree, 0) == 0);
    count_chains();
    leader = fork();
    if (leader == 0) {
        setpgid(0, 0);
        for (int i = 0; i < 20; i++)
            if (fork() == 0)
                chain(HUNTED_S);
        sleep_for_ever();
    }
    for (int i = 0; i < PATIENCE_MS && atomic_load(&chains->made) < AT_ONCE; i++)
        nap();
    tree.group = leader;
    for (int i = 0; i < 50; i++)
        if (tree_hunt(&tree, reaped, NULL))
            break;
    CHECK(tree_reap(&tree, ignore, NULL));
    tree_free(&tree);
}

/* With its group, and without a new descriptor; a number that is no child's may be anybody's. */
static void killed_first(void)
{
    const struct rlimit none = {0};
    struct tree tree;
    pid_t leader, *below;

    below = mmap(NULL, sizeof(*below), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(below != MAP_FAILED && tree_init(&tree, 0) == 0);
    if ((leader = fork()) == 0) {
        setpgid(0, 0);
        if ((*below = fork()) == 0)
            sleep_for_ever();
        sleep_for_ever();
    }
    wait_for_living(&tree, 2);
    tree_kill_first(&tree, 0);
    tree_kill_first(&tree, *below);
    tree_kill_first(&tree, getpid());
    nap();
    CHECK(count_living(&tree) == 2);
    tree.group = leader;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    tree_kill_first(&tree, leader);
    CHECK(waitpid(leader, NULL, 0) == leader &&
          waitpid(-1, NULL, 0) > 0); /* its child is ours now */
    CHECK(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
    tree_free(&tree);
}

APART(empty_tree)
APART(killed_first)
APART(left_alone)
APART(traced)
APART(many_left_alone)
APART(blind)
APART(blind_daemons)
APART(own_group)
APART(daemonised)
APART(nested_subreaper)
APART(stopped)
APART(stopped_is_told)
APART(some_at_a_time)
APART(leader_ended)
APART(zombie_is_dead)
APART(strange_names)
APART(spared)
APART(forking)
APART(hunted)
APART(unreaped)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_tree_test),      cmocka_unit_test(killed_first_test),
        cmocka_unit_test(daemonised_test),      cmocka_unit_test(nested_subreaper_test),
        cmocka_unit_test(stopped_test),         cmocka_unit_test(leader_ended_test),
        cmocka_unit_test(zombie_is_dead_test),  cmocka_unit_test(strange_names_test),
        cmocka_unit_test(spared_test),          cmocka_unit_test(forking_test),
        cmocka_unit_test(hunted_test),          cmocka_unit_test(unreaped_test),
        cmocka_unit_test(left_alone_test),      cmocka_unit_test(blind_test),
        cmocka_unit_test(blind_daemons_test),   cmocka_unit_test(own_group_test),
        cmocka_unit_test(stopped_is_told_test), cmocka_unit_test(some_at_a_time_test),
        cmocka_unit_test(many_left_alone_test), cmocka_unit_test(traced_test),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

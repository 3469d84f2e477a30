/* What a guardian reads of /proc, and when: who watches a directory (fcntl(2), F_NOTIFY) has each reader of it send as many signals as that
 * one likes. Here openat() and readdir() tell of each use. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/tree_fixture.h"
#include "tools/run/timeline.h"
#include "tools/run/tree.h"

#define PATIENCE_S  20
#define PATIENCE_MS (PATIENCE_S * 1000)
#define OTHER_USER  65533

/* --- what is looked at ------------------------------------------------------------------------ */

static struct {
    pid_t stranger, own;
    pid_t child,
        below; /* `child` is to be dead before anything is read; not 0: before children of `below` are */
    int stranger_reads, own_reads, files, lists;
} seen;

static bool is_about_children_of(const char *path, pid_t pid)
{
    return strtol(path, NULL, 10) == pid && strstr(path, "/children");
}

int openat(int dir, const char *path, int flags, ...)
{
    if (seen.child && (!seen.below || is_about_children_of(path, seen.below))) {
        siginfo_t info;

        CHECK(waitid(P_PID, (id_t)seen.child, &info, WEXITED | WNOWAIT) == 0);
        CHECK(info.si_status == SIGKILL);
        seen.child = 0;
    }
    seen.files++;
    seen.stranger_reads += seen.stranger && strtol(path, NULL, 10) == seen.stranger;
    seen.own_reads += seen.own && strtol(path, NULL, 10) == seen.own;
    return (int)syscall(SYS_openat, dir, path, flags, 0);
}

struct dirent *readdir(DIR *dir)
{
    seen.lists++;
    return (struct dirent *)readdir64(dir);
}

static void see_nothing_yet(void)
{
    memset(&seen, 0, sizeof(seen));
}

/* --- processes -------------------------------------------------------------------------------- */

static void reaped(pid_t pid, int status, void *arg)
{
    (void)arg;
    if (pid != seen.child)
        return;
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    seen.child = 0;
}

static _Noreturn void sleep_for_ever(void)
{
    alarm(PATIENCE_S); /* nothing is left of a test that failed */
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static int ready[2];

static void tell_ready(void)
{
    CHECK(write(ready[1], "", 1) == 1);
}

static void await_ready(int count)
{
    char byte;

    for (int i = 0; i < count; i++)
        CHECK(read(ready[0], &byte, 1) == 1);
}

/* A job and its child, which has a session of its own. */
static pid_t start_job_and_tell(pid_t *ret_child)
{
    pid_t job, child;
    int pids[2];

    CHECK(pipe(pids) == 0);
    job = fork();

    if (job == 0) {
        if (fork() == 0) {
            setsid();
            child = getpid();
            CHECK(write(pids[1], &child, sizeof(child)) == sizeof(child));
            sleep_for_ever();
        }
        sleep_for_ever();
    }
    CHECK(read(pids[0], ret_child, sizeof(*ret_child)) == sizeof(*ret_child));
    close(pids[0]);
    close(pids[1]);
    return job;
}

static pid_t start_job(void)
{
    pid_t child;

    return start_job_and_tell(&child);
}

/* A process that is none of the tree's, and its child, `*ret_stranger`. */
static pid_t start_strangers(struct tree *tree, pid_t *ret_stranger)
{
    pid_t parent, child;

    CHECK(pipe(ready) == 0);
    parent = fork();
    if (parent == 0) {
        if (geteuid() == 0)
            CHECK(setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0);
        if (fork() > 0)
            sleep_for_ever();
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        child = getpid();
        CHECK(write(ready[1], &child, sizeof(child)) == sizeof(child));
        sleep_for_ever();
    }
    CHECK(read(ready[0], ret_stranger, sizeof(*ret_stranger)) == sizeof(*ret_stranger));
    CHECK(tree_init(tree, 0) == 0 && tree_leave_alone(tree) == 0);
    return parent;
}

static pid_t start_stranger(struct tree *tree)
{
    pid_t child;

    return start_strangers(tree, &child);
}

static unsigned count_living(struct tree *tree)
{
    struct tree_outcome outcome;

    CHECK(tree_signal(tree, 0, &outcome) == 0);
    return outcome.living;
}

static void end(struct tree *tree, pid_t stranger)
{
    for (int i = 0; i < PATIENCE_MS && !tree_hunt(tree, reaped, NULL); i++)
        CHECK(tree_signal(tree, SIGKILL, NULL) == 0);
    CHECK(kill(stranger, SIGKILL) == 0 && waitpid(stranger, NULL, 0) == stranger);
    tree_free(tree);
}

/* --- the tests -------------------------------------------------------------------------------- */

static void no_others_are_looked_at(void)
{
    struct tree tree;
    pid_t stranger, parent = start_strangers(&tree, &stranger);

    see_nothing_yet();
    seen.stranger = stranger;
    seen.own = start_job();
    CHECK(count_living(&tree) == 2);
    CHECK(tree_signal(&tree, SIGTERM, NULL) == 0);
    CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
    CHECK(seen.own_reads > 0);
    while (!tree_hunt(&tree, reaped, NULL))
        CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
    CHECK(seen.stranger_reads == 0 && seen.lists == 0);
    end(&tree, parent);
}

/* The kernel names no children: /proc is listed, and of others nothing is read. */
static void nor_where_proc_is_listed(void)
{
    struct tree tree;
    pid_t stranger, parent = start_strangers(&tree, &stranger);

    if (geteuid() != 0) { /* the stranger is of the same user */
        end(&tree, parent);
        return;
    }
    (void)start_job();
    see_nothing_yet();
    seen.stranger = stranger;
    tree.names_children = false;
    CHECK(count_living(&tree) == 2);
    CHECK(seen.lists > 0 && seen.stranger_reads == 0);
    for (int i = 0; i < PATIENCE_MS && count_living(&tree) > 0; i++) {
        CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
        (void)tree_reap(&tree, reaped, NULL);
        nap();
    }
    CHECK(seen.stranger_reads == 0);
    CHECK(tree_reap(&tree, reaped, NULL) || tree_hunt(&tree, reaped, NULL));
    end(&tree, parent);
}

/* ...but a child is, whoever's it is. */
static void a_child_of_another_user(void)
{
    struct tree tree;
    pid_t stranger = start_stranger(&tree), child;

    if (geteuid() == 0) {
        tree.names_children = false;
        child = fork();
        if (child == 0) {
            CHECK(setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0);
            tell_ready();
            sleep_for_ever();
        }
        await_ready(1);
        CHECK(count_living(&tree) == 1);
        CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
    }
    end(&tree, stranger);
}

/* SIGKILL comes before the first file is opened: to the job, its group, and what the job has left. */
static void killed_before_anything_is_read(bool group, bool orphan)
{
    struct tree tree;
    pid_t stranger = start_stranger(&tree), job, left;
    int pids[2];

    CHECK(pipe(pids) == 0);
    job = fork();
    if (job == 0) {
        if (group)
            setpgid(0, 0);
        left = fork();
        if (left == 0) {
            if (orphan)
                setsid();
            left = getpid();
            CHECK(write(pids[1], &left, sizeof(left)) == sizeof(left));
            sleep_for_ever();
        }
        if (orphan)
            _exit(0);
        sleep_for_ever();
    }
    CHECK(read(pids[0], &left, sizeof(left)) == sizeof(left));
    if (orphan)
        CHECK(waitpid(job, NULL, 0) == job);
    else if (group)
        tree.group = job;
    see_nothing_yet();
    seen.child = orphan ? left : job;
    (void)tree_hunt(&tree, reaped, NULL);
    CHECK(!seen.child);
    end(&tree, stranger);
}

static void the_job_first(void)
{
    killed_before_anything_is_read(false, false);
}

static void its_group_first(void)
{
    killed_before_anything_is_read(true, false);
}

static void its_orphans_first(void)
{
    killed_before_anything_is_read(false, true);
}

/* ...and to others as soon as they are found. */
static void each_as_it_is_found(void)
{
    struct tree tree;
    pid_t stranger = start_stranger(&tree), job, child;

    job = start_job_and_tell(&child);
    see_nothing_yet();
    seen.child = job;
    seen.below = child;
    CHECK(tree_signal(&tree, SIGKILL, NULL) == 0);
    CHECK(!seen.child);
    end(&tree, stranger);
}

/* Who must kill soon reads no more, and tells those that it knows. */
static void a_search_has_an_end(void)
{
    struct tree tree;
    pid_t stranger = start_stranger(&tree), job = start_job();
    struct tree_outcome outcome;

    tree.until_ns = timeline_now_ns() - 1;
    CHECK(count_living(&tree) == 1);
    CHECK(tree_signal(&tree, SIGTERM, &outcome) == 0 && outcome.living == 1);
    CHECK(outcome.some[0].pid == job);
    CHECK(tree_signal(&tree, SIGKILL, &outcome) == 0 && outcome.living == 2);
    tree.until_ns = timeline_now_ns() + PATIENCE_S * INT64_C(1000000000);
    end(&tree, stranger);
}

static void *start_child(void *arg)
{
    if (fork() == 0) {
        tell_ready();
        sleep_for_ever();
    }
    (void)arg;
    for (;;)
        pause();
}

/* The kernel names them by the thread that has started them. */
static void children_of_threads(void)
{
    struct tree tree;
    pid_t stranger = start_stranger(&tree);

    if (fork() == 0) {
        pthread_t thread;

        alarm(PATIENCE_S);
        CHECK(pthread_create(&thread, NULL, start_child, NULL) == 0);
        pause();
    }
    await_ready(1);
    CHECK(count_living(&tree) == 2);
    end(&tree, stranger);
}

/* More than one reading of the kernel's list has room for. */
static void many_children(void)
{
    struct tree tree;
    pid_t stranger = start_stranger(&tree);

    if (fork() == 0) {
        for (int i = 0; i < 1200; i++)
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
                sleep_for_ever();
            }
        tell_ready();
        sleep_for_ever();
    }
    await_ready(1);
    CHECK(count_living(&tree) == 1201);
    end(&tree, stranger);
}

#define APART(name)                                                                                \
    static void name##_test(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run_apart(name, PATIENCE_S);                                                               \
    }

APART(no_others_are_looked_at)
APART(nor_where_proc_is_listed)
APART(a_child_of_another_user)
APART(the_job_first)
APART(its_group_first)
APART(its_orphans_first)
APART(each_as_it_is_found)
APART(a_search_has_an_end)
APART(children_of_threads)
APART(many_children)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_others_are_looked_at_test),
        cmocka_unit_test(nor_where_proc_is_listed_test),
        cmocka_unit_test(a_child_of_another_user_test),
        cmocka_unit_test(the_job_first_test),
        cmocka_unit_test(its_group_first_test),
        cmocka_unit_test(its_orphans_first_test),
        cmocka_unit_test(each_as_it_is_found_test),
        cmocka_unit_test(a_search_has_an_end_test),
        cmocka_unit_test(children_of_threads_test),
        cmocka_unit_test(many_children_test),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What passes for a job's control group, on the machine's own hierarchy. Where none can be made every
 * test is skipped. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/broker/jobs/groups.h"
#include "shm/status.h"

static dev_t hierarchy;
static char place[128], below[160];
static struct job_group group;
static int dir = -1;
static bool taken;

/* Where this test may make groups. */
static int make_place(void **state)
{
    static const char *const usual[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

    (void)state;
    if (!job_group_hierarchy(&hierarchy))
        return 0;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]) && dir < 0; i++) {
        struct stat st;

        if (stat(usual[i], &st) < 0 || st.st_dev != hierarchy)
            continue;
        (void)snprintf(place, sizeof(place), "%s/holdfast-test-%d", usual[i], (int)getpid());
        if (mkdir(place, 0755) == 0)
            dir = open(place, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    }
    (void)snprintf(below, sizeof(below), "%s/below", place);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    if (dir < 0)
        return 0;
    if (taken)
        job_group_close(&group);
    taken = false;
    close(dir);
    dir = -1;
    (void)rmdir(below);
    (void)rmdir(place);
    return 0;
}

#define NEEDS_GROUPS()                                                                             \
    do {                                                                                           \
        if (dir < 0) {                                                                             \
            print_message("no control group (v2) can be made here\n");                             \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static int open_kill(int flags)
{
    int fd = openat(dir, "cgroup.kill", flags | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void take(void)
{
    const char *why = "";

    assert_int_equal(job_group_open(hierarchy, dir, open_kill(O_WRONLY),
                                    openat(dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC), &group,
                                    &why),
                     HF_OK);
    taken = true;
}

static void refused(int directory, int fd, const char *text)
{
    struct job_group none = {.kill_fd = -7};
    const char *why = "";
    int freeze =
        openat(directory, "cgroup.freeze", O_WRONLY | O_CLOEXEC); /* nothing is wrong with it */

    assert_true(fd >= 0);
    assert_int_equal(job_group_open(hierarchy, directory, fd, freeze, &none, &why), HF_EINVAL);
    if (freeze >= 0)
        close(freeze);
    if (!strstr(why, text))
        fail_msg("'%s' is not of %s", why, text);
    assert_int_equal(none.kill_fd, -7);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC); /* still the caller's */
    close(fd);
}

/* In the group until it is killed. */
static pid_t live_in_it(void)
{
    int told[2];
    pid_t pid;
    char word;

    assert_int_equal(pipe(told), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int procs = openat(dir, "cgroup.procs", O_WRONLY);

        word = write(procs, "0", 1) == 1;
        (void)!write(told[1], &word, 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(told[0], &word, 1), 1);
    assert_true(word);
    close(told[0]);
    close(told[1]);
    return pid;
}

static void await_event(int epoll)
{
    struct epoll_event event;

    assert_int_equal(epoll_wait(epoll, &event, 1, 5000), 1);
}

static void killed_and_told(void **state)
{
    struct epoll_event event = {.events = EPOLLPRI};
    int epoll = epoll_create1(EPOLL_CLOEXEC), status;
    pid_t pid;

    (void)state;
    NEEDS_GROUPS();
    take();
    assert_true(job_group_is_empty(&group));
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, group.events_fd, &event), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    pid = live_in_it();
    await_event(epoll);
    assert_false(job_group_is_empty(&group));
    job_group_kill(&group);
    await_event(epoll);
    assert_true(job_group_is_empty(&group));
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0); /* quiet */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(epoll);
}

static bool is_frozen(void)
{
    char text[256];
    ssize_t got = pread(group.events_fd, text, sizeof(text) - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    return strstr(text, "frozen 1\n") != NULL;
}

static void *count(void *arg)
{
    atomic_uint *counted = arg;

    for (;;) {
        usleep(1000);
        atomic_fetch_add(counted, 1);
    }
    return NULL;
}

/* The kernel's kill wakes no thread of it: it sends the signal to the dead main thread. */
static void whose_main_thread_has_ended_is_stopped(void **state)
{
    atomic_uint *counted =
        mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char path[JOB_GROUP_PATH_MAX];
    unsigned before;
    pid_t pid;

    (void)state;
    NEEDS_GROUPS();
    assert_true(counted != MAP_FAILED);
    take();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t thread;
        int procs = openat(dir, "cgroup.procs", O_WRONLY);

        if (write(procs, "0", 1) != 1 || pthread_create(&thread, NULL, count, counted) != 0)
            _exit(1);
        (void)syscall(SYS_exit, 0); /* of this thread alone */
    }
    while (atomic_load(counted) < 10)
        usleep(1000);
    job_group_kill(&group);
    for (int i = 0; i < 5000 && !is_frozen() && !job_group_is_empty(&group); i++)
        usleep(1000);
    before = atomic_load(counted);
    usleep(50000);
    assert_int_equal(atomic_load(counted), before);
    if (is_frozen())
        assert_false(job_group_is_empty(&group)); /* it is not taken for dead */
    job_group_path(&group, path);
    assert_string_equal(path, place);
    kill(pid, SIGKILL); /* by its number it dies */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(job_group_is_empty(&group));
    munmap(counted, sizeof(*counted));
}

/* Who reads a description that he shares with the agent, and never ends, would hold it up. */
static void reads_what_nobody_shares(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    take();
    assert_int_equal(lseek(group.events_fd, 0, SEEK_CUR), 0);
    assert_true(job_group_is_empty(&group));
    assert_int_equal(fcntl(group.events_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
}

static void a_removed_group_is_empty_and_quiet(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    take();
    assert_int_equal(rmdir(place), 0);
    assert_true(job_group_is_empty(&group));
    assert_true(group.removed);
    job_group_kill(&group); /* of nobody */
    assert_true(job_group_is_empty(&group));
}

static void only_what_was_opened_for_writing(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    refused(dir, open_kill(O_PATH), "cgroup.kill for writing");
    refused(dir, openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC), "cgroup.kill for writing");
}

/* (!) "1" written to cgroup.procs moves a process, to cgroup.freeze stops all of them. */
static void only_what_kills(void **state)
{
    (void)state;
    NEEDS_GROUPS();
    refused(dir, openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC), "cgroup.kill for writing");
    refused(dir, openat(dir, "cgroup.freeze", O_RDWR | O_CLOEXEC), "cgroup.kill for writing");
    refused(dir, open("/dev/null", O_RDWR | O_CLOEXEC), "cgroup.kill for writing");
}

static void only_what_freezes(void **state)
{
    static const char *const others[] = {"cgroup.kill", "cgroup.procs"};
    int fd = -1, freeze;

    (void)state;
    NEEDS_GROUPS();
    fd = open_kill(O_WRONLY);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct job_group none;
        const char *why = "";

        freeze = openat(dir, others[i], O_WRONLY | O_CLOEXEC);
        assert_int_equal(job_group_open(hierarchy, dir, fd, freeze, &none, &why), HF_EINVAL);
        assert_non_null(strstr(why, "cgroup.freeze"));
        close(freeze);
    }
    close(fd);
}

static void only_of_that_very_group(void **state)
{
    int other;

    (void)state;
    NEEDS_GROUPS();
    assert_int_equal(mkdir(below, 0755), 0);
    other = open(below, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_true(other >= 0);
    refused(other, open_kill(O_WRONLY), "cgroup.kill for writing");
    close(other);
}

static void only_of_the_hierarchy(void **state)
{
    int tmp = open("/tmp", O_DIRECTORY | O_RDONLY | O_CLOEXEC), ends[2];

    (void)state;
    NEEDS_GROUPS();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    refused(tmp, open_kill(O_WRONLY), "no control group of this host");
    refused(ends[0], open_kill(O_WRONLY), "no control group of this host");
    refused(dir, ends[1], "cgroup.kill for writing");
    close(ends[0]);
    close(tmp);
}

/* Whoever has a mount namespace of his own can give any file that path. */
static void a_path_proves_nothing(void **state)
{
    char from[160], over[160];
    int status;
    pid_t pid;

    (void)state;
    NEEDS_GROUPS();
    (void)snprintf(from, sizeof(from), "%s/cgroup.freeze", place);
    (void)snprintf(over, sizeof(over), "%s/cgroup.kill", place);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct job_group none;
        const char *why = "";
        int fd, freeze;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(from, over, NULL, MS_BIND, NULL) < 0)
            _exit(77);
        close(dir);
        dir = open(place, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        fd = openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC); /* cgroup.freeze */
        freeze = openat(dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || freeze < 0 ||
            job_group_open(hierarchy, dir, fd, freeze, &none, &why) != HF_EINVAL)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* As the packaged agent is: neither root nor the job's user. */
static void an_agent_of_another_user_kills(void **state)
{
    int fd, freeze, status;
    pid_t pid, agent;

    (void)state;
    NEEDS_GROUPS();
    fd = open_kill(O_WRONLY);
    freeze = openat(dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
    pid = live_in_it();
    agent = fork();
    assert_true(agent >= 0);
    if (agent == 0) {
        const char *why;

        if (setuid(65534) < 0)
            _exit(77);
        if (job_group_open(hierarchy, dir, fd, freeze, &group, &why) < 0 ||
            job_group_is_empty(&group))
            _exit(1);
        job_group_kill(&group);
        _exit(0);
    }
    close(fd);
    close(freeze);
    assert_int_equal(waitpid(agent, &status, 0), agent);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        ROW(killed_and_told),
        ROW(whose_main_thread_has_ended_is_stopped),
        ROW(reads_what_nobody_shares),
        ROW(a_removed_group_is_empty_and_quiet),
        ROW(only_what_was_opened_for_writing),
        ROW(only_what_kills),
        ROW(only_what_freezes),
        ROW(only_of_that_very_group),
        ROW(only_of_the_hierarchy),
        ROW(a_path_proves_nothing),
        ROW(an_agent_of_another_user_kills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

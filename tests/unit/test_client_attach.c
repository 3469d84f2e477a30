/* Contract. Finding an agent, and being welcomed or refused. */
#include "client_fixture.h"

#include <poll.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "libclient/internal.h"
#include "shm/wire.h"
#include "tests/support/scratch.h"

static void connects_by_path(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_agent_info info = {.size = sizeof(info)};

    (void)state;
    OK(hf_agent_info(f.client, &info));
    assert_string_equal(info.agent_name, fake_agent_name(f.agent));
    assert_string_equal(info.version, "fake");
    assert_int_equal(info.ttl_ms, 30000);
    assert_int_equal(info.nodes, 3);
    assert_int_equal(info.quorum, 2);
    assert_int_equal(info.agent_pid, getpid());
    info.size = 4;
    assert_int_equal(hf_agent_info(f.client, &info), HF_EINVAL);
    fixture_end(&f);
}

static void connects_by_name(void **state)
{
    struct fake_agent *agent = fake_agent_start(NULL);
    hf_client *client;

    (void)state;
    setenv("HOLDFAST_RUNTIME_DIR", fake_agent_dir(agent), 1);
    OK(hf_connect(fake_agent_name(agent), &client));
    hf_disconnect(client);
    setenv("HOLDFAST_AGENT", fake_agent_name(agent), 1);
    OK(hf_connect(NULL, &client));
    hf_disconnect(client);
    unsetenv("HOLDFAST_RUNTIME_DIR");
    setenv("HOLDFAST_AGENT", fake_agent_path(agent), 1);
    OK(hf_connect(NULL, &client));
    hf_disconnect(client);
    unsetenv("HOLDFAST_AGENT");
    fake_agent_free(agent);
}

/* The user's own agent is $XDG_RUNTIME_DIR/holdfast/NAME. */
static void finds_the_users_agent(void **state)
{
    struct fake_agent *agent = fake_agent_start(NULL);
    char xdg[64], link[80];
    hf_client *client;

    (void)state;
    scratch_path(xdg, sizeof(xdg));
    assert_non_null(mkdtemp(xdg));
    (void)snprintf(link, sizeof(link), "%s/holdfast", xdg);
    assert_int_equal(symlink(fake_agent_dir(agent), link), 0);
    setenv("XDG_RUNTIME_DIR", xdg, 1);
    OK(hf_connect(fake_agent_name(agent), &client));
    hf_disconnect(client);
    unsetenv("XDG_RUNTIME_DIR");
    unlink(link);
    rmdir(xdg);
    fake_agent_free(agent);
}

static void says_where_it_looked(void **state)
{
    hf_client *client;

    (void)state;
    assert_int_equal(hf_connect("/tmp/holdfast-nowhere/x/sock", &client), HF_ENOAGENT);
    assert_message_has("/tmp/holdfast-nowhere/x/sock");
    setenv("XDG_RUNTIME_DIR", "/tmp/holdfast-nowhere", 1);
    assert_int_equal(hf_connect("nobody-has-this-name", &client), HF_ENOAGENT);
    assert_message_has("/tmp/holdfast-nowhere/holdfast/nobody-has-this-name/sock");
    assert_message_has("/run/holdfast/nobody-has-this-name/sock");
    unsetenv("XDG_RUNTIME_DIR");
}

static void refuses_names_that_are_none(void **state)
{
    char path[200];
    hf_client *client;

    (void)state;
    assert_int_equal(hf_connect("..", &client), HF_EINVAL);
    assert_int_equal(hf_connect("a b", &client), HF_EINVAL);
    assert_int_equal(hf_connect(NULL, NULL), HF_EINVAL);
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(hf_connect(path, &client), HF_EINVAL);
    assert_int_equal(hf_connect(path + 1, &client), HF_EINVAL);
}

/* An agent that was there and is away must not make its clients another agent's. */
static void a_dead_socket_ends_the_search(void **state)
{
    struct fake_agent *agent = fake_agent_start(NULL);
    hf_client *client;

    (void)state;
    fake_agent_kill(agent);
    setenv("HOLDFAST_RUNTIME_DIR", fake_agent_dir(agent), 1);
    assert_int_equal(hf_connect(fake_agent_name(agent), &client), HF_ENOAGENT);
    assert_message_has("refused");
    unsetenv("HOLDFAST_RUNTIME_DIR");
    fake_agent_free(agent);
}

static void assert_refused(int status, const char *text)
{
    struct fake_agent *agent =
        fake_agent_start(&(struct fake_agent_options){.refuse = status, .refuse_text = text});
    hf_client *client = NULL;

    assert_int_equal(hf_connect(fake_agent_path(agent), &client), status);
    assert_null(client);
    assert_string_equal(hf_last_message(), text ? text : hf_strerror(status));
    fake_agent_free(agent);
}

/* As with a clock that a preloaded library sets back: less than the agent can tell from a slow hello. */
static void a_clock_that_is_behind_is_refused(void **state)
{
    struct fake_agent *agent =
        fake_agent_start(&(struct fake_agent_options){.ahead_ns = 2 * INT64_C(1000000000)});
    hf_client *client = NULL;

    (void)state;
    assert_int_equal(hf_connect(fake_agent_path(agent), &client), HF_ETIMENS);
    assert_null(client);
    assert_non_null(strstr(hf_last_message(), "its clock is behind this agent's"));
    fake_agent_free(agent);
}

static void tells_why_it_was_refused(void **state)
{
    (void)state;
    assert_refused(HF_EVERSION, "the agent is 9.9");
    assert_refused(HF_ETIMENS, "another time namespace");
    assert_refused(HF_ELIMIT, "too many clients of uid 0");
    assert_refused(HF_ESHUTDOWN, NULL);
}

static void gives_up_on_a_silent_agent(void **state)
{
    struct fake_agent *agent = fake_agent_start(&(struct fake_agent_options){.silent = true});
    hf_client *client;

    int64_t began = boottime_ns();

    (void)state;
    assert_int_equal(hf_connect(fake_agent_path(agent), &client), HF_ENOAGENT);
    assert_message_has("does not answer");
    assert_true(boottime_ns() - began < 4 * HF_NS_PER_SEC);
    fake_agent_free(agent);
}

/* How it ended, and that no call took long. */
static int connect_in_a_loop(const char *path, hf_client **ret_client)
{
    int64_t began = boottime_ns();
    int status;

    OK(hf_connect_start(path, ret_client));
    while ((status = hf_connect_result(*ret_client)) == HF_EPENDING) {
        struct pollfd p = {.fd = hf_fd(*ret_client), .events = POLLIN};

        assert_true(poll(&p, 1, PATIENCE_MS) == 1);
        OK(hf_dispatch(*ret_client));
    }
    assert_true(boottime_ns() - began < 4 * HF_NS_PER_SEC);
    assert_int_equal(hf_connect_result(*ret_client), status);
    return status;
}

static void connects_without_blocking(void **state)
{
    struct fake_agent *agent = fake_agent_start(NULL);
    hf_client *client;
    hf_lease *lease;
    hf_op *op;

    (void)state;
    OK(connect_in_a_loop(fake_agent_path(agent), &client));
    OK(hf_acquire(client, "a", 0, 0, &lease));
    OK(hf_release_start(lease, &op));
    EVENTUALLY(hf_op_result(op, NULL) == HF_OK);
    assert_false(fake_agent_holds(agent, "a"));
    assert_int_equal(hf_release_start(NULL, &op), HF_ENOTHELD);
    hf_disconnect(client);
    fake_agent_free(agent);
    assert_int_equal(hf_connect_start("a b", &client), HF_EINVAL);
}

static void connecting_without_blocking_ends_without_an_agent(void **state)
{
    struct fake_agent *silent = fake_agent_start(&(struct fake_agent_options){.silent = true});
    struct fake_agent *refuses =
        fake_agent_start(&(struct fake_agent_options){.refuse = HF_ELIMIT});
    hf_client *client;

    (void)state;
    assert_int_equal(connect_in_a_loop(fake_agent_path(silent), &client), HF_ENOAGENT);
    assert_message_has("does not answer");
    hf_disconnect(client);
    assert_int_equal(connect_in_a_loop(fake_agent_path(refuses), &client), HF_ELIMIT);
    hf_disconnect(client);
    setenv("HOLDFAST_RUNTIME_DIR", fake_agent_dir(refuses), 1);
    assert_int_equal(connect_in_a_loop("nobody", &client), HF_ENOAGENT);
    hf_disconnect(client);
    unsetenv("HOLDFAST_RUNTIME_DIR");
    fake_agent_free(silent);
    fake_agent_free(refuses);
}

/* As an agent does when more want in than it has places, or a process was too late with its hello. */
static void comes_again_when_turned_away_without_a_word(void **state)
{
    struct fake_agent *agent = fake_agent_start(&(struct fake_agent_options){.hang_ups = 3});
    hf_client *client;

    (void)state;
    OK(hf_connect(fake_agent_path(agent), &client));
    hf_disconnect(client);
    fake_agent_free(agent);
}

static int fill_queue(const struct sockaddr_un *address)
{
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(sock >= 0);
    assert_int_equal(connect(sock, (const struct sockaddr *)address, sizeof(*address)), 0);
    return sock;
}

/* The queue of the attach socket has room for one. */
static void waits_for_its_turn(void **state)
{
    char dir[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), first, accepted, status;
    const struct timeval patience = {.tv_sec = 10};
    struct hf_hello hello;
    hf_client *client;
    pid_t pid;

    (void)state;
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", dir);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    first = fill_queue(&address);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(listener);
        _exit(hf_connect(address.sun_path, &client) == HF_ENOAGENT ? 0 : 1);
    }
    usleep(100000);
    accepted = accept(listener, NULL, NULL);
    assert_int_equal(recv(accepted, &hello, sizeof(hello), MSG_DONTWAIT), -1); /* ours */
    close(accepted);
    accepted = accept(listener, NULL, NULL);
    assert_int_equal(recv(accepted, &hello, sizeof(hello), 0), sizeof(hello));
    assert_int_equal(hello.magic, HF_WIRE_MAGIC);
    close(listener); /* nobody is asked again */
    close(accepted);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(first);
    unlink(address.sun_path);
    rmdir(dir);
}

/* A full queue is asked at short intervals, however long it is full: the agent does not notice that. */
static void asks_a_full_queue_again_soon(void **state)
{
    char dir[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), first;
    hf_client *client;

    (void)state;
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", dir);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 0), 0);
    first = fill_queue(&address);
    OK(hf_connect_start(address.sun_path, &client));
    for (int64_t end = boottime_ns() + HF_NS_PER_SEC / 2; boottime_ns() < end;) {
        struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};

        assert_int_equal(hf_connect_result(client), HF_EPENDING);
        hfc_lock(client);
        assert_true(client->next_try_ns - boottime_ns() < 50 * HF_NS_PER_MS);
        hfc_unlock(client);
        (void)poll(&p, 1, 10);
        OK(hf_dispatch(client));
    }
    hf_disconnect(client);
    close(first);
    close(listener);
    unlink(address.sun_path);
    rmdir(dir);
}

static void disconnect_releases(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_client *other = another_client(&f);

    (void)state;
    must_acquire(other, "a");
    must_acquire(f.client, "b");
    hf_disconnect(other);
    hf_disconnect(NULL);
    EVENTUALLY(!fake_agent_holds(f.agent, "a"));
    assert_true(fake_agent_holds(f.agent, "b"));
    fixture_end(&f);
}

static int count_fds(bool without_cloexec)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);

        n += flags != -1 && !(without_cloexec && flags & FD_CLOEXEC);
    }
    return n;
}

static void leaks_no_descriptor(void **state)
{
    struct fake_agent *agent = fake_agent_start(NULL);
    int before = count_fds(false), inheritable = count_fds(true);
    hf_client *client;

    (void)state;
    for (int i = 0; i < 5; i++) {
        OK(hf_connect(fake_agent_path(agent), &client));
        assert_true(hf_fd(client) >= 0);
        assert_int_equal(hf_fd(client), hf_fd(client));
        assert_int_equal(count_fds(true), inheritable);
        hf_disconnect(client);
        EVENTUALLY(fake_agent_clients(agent) == 0);
    }
    assert_int_equal(count_fds(false), before);
    fake_agent_free(agent);
}

struct stranger {
    char path[108];
    int ready[2];
};

static int listen_as_nobody(struct stranger *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char byte = 0;

    strcpy(address.sun_path, s->path);
    if (setresuid(65534, 65534, 65534) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0 ||
        write(s->ready[1], &byte, 1) != 1)
        return 1;
    pause();
    return 0;
}

static int connect_as_another(void *arg)
{
    struct stranger *s = arg;
    hf_client *client;

    if (chmod(s->path, 0777) < 0 || setresuid(65533, 65533, 65533) < 0)
        return 10;
    if (hf_connect(s->path, &client) != HF_EPERM)
        return 11;
    return strstr(hf_last_message(), "uid 65534") ? 0 : 12;
}

static void does_not_trust_another_users_socket(void **state)
{
    struct stranger s;
    char dir[64], byte;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip();
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0777), 0);
    (void)snprintf(s.path, sizeof(s.path), "%s/sock", dir);
    assert_int_equal(pipe(s.ready), 0);
    pid = fork();
    if (pid == 0)
        _exit(listen_as_nobody(&s));
    assert_int_equal(read(s.ready[0], &byte, 1), 1);
    assert_int_equal(in_child(connect_as_another, &s), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(s.ready[0]);
    close(s.ready[1]);
    unlink(s.path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_by_path),
        cmocka_unit_test(connects_by_name),
        cmocka_unit_test(finds_the_users_agent),
        cmocka_unit_test(says_where_it_looked),
        cmocka_unit_test(refuses_names_that_are_none),
        cmocka_unit_test(a_dead_socket_ends_the_search),
        cmocka_unit_test(a_clock_that_is_behind_is_refused),
        cmocka_unit_test(tells_why_it_was_refused),
        cmocka_unit_test(gives_up_on_a_silent_agent),
        cmocka_unit_test(connects_without_blocking),
        cmocka_unit_test(connecting_without_blocking_ends_without_an_agent),
        cmocka_unit_test(comes_again_when_turned_away_without_a_word),
        cmocka_unit_test(waits_for_its_turn),
        cmocka_unit_test(asks_a_full_queue_again_soon),
        cmocka_unit_test(disconnect_releases),
        cmocka_unit_test(leaks_no_descriptor),
        cmocka_unit_test(does_not_trust_another_users_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A program that closes descriptors of the library, as daemons do with all: what then has their numbers is the program's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "tests/unit/client_fixture.h"

#define FIRST 3
#define LAST  60

enum kind {
    FILES,
    EVENTS,
    SOCKETS, /* which something was sent to */
};

struct program {
    struct fixture f;
    enum kind kind;
};

static int open_one(enum kind kind)
{
    int pair[2];

    if (kind == FILES)
        return open("/dev/null", O_RDWR);
    if (kind == EVENTS)
        return eventfd(0, EFD_NONBLOCK);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 || send(pair[0], "x", 1, 0) != 1)
        return -1;
    return fcntl(pair[1], F_DUPFD, 1000) < 0 ? -1 : pair[1];
}

/* Closes all, and opens the program's own files until they have every number. */
static int close_all(enum kind kind)
{
    int fd;

    for (fd = FIRST; fd < 256; fd++)
        (void)close(fd);
    do
        fd = open_one(kind);
    while (fd >= 0 && fd < LAST);
    return fd < 0 ? 20 : 0;
}

/* How many of them are closed, or not as they were. */
static int count_spoiled(enum kind kind)
{
    int spoiled = 0;

    for (int fd = FIRST; fd < LAST; fd++) {
        uint64_t count;
        char byte;
        ssize_t n = 0;

        if (fcntl(fd, F_GETFD) < 0)
            spoiled++;
        else if (kind == EVENTS)
            spoiled += read(fd, &count, sizeof(count)) >= 0 || errno != EAGAIN;
        else if (kind == SOCKETS) { /* every other one has what was sent, and none is at its end */
            n = recv(fd, &byte, 1, MSG_DONTWAIT);
            spoiled += n == 0 || send(fd, "y", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1;
            spoiled += (fd - FIRST) % 2 == 1 && n != 1;
        }
    }
    return spoiled;
}

static int disconnects_in_the_child(void *arg)
{
    struct program *p = arg;
    int rc = close_all(p->kind);

    hf_disconnect(p->f.client);
    return rc ? rc : count_spoiled(p->kind);
}

static int goes_on_after_closing(void *arg)
{
    struct program *p = arg;
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    int rc;

    if (hf_connect(fake_agent_path(p->f.agent), &client) < 0 || hf_fd(client) < 0 ||
        hf_try(client, "a", &lease) < 0)
        return 30;
    rc = close_all(p->kind);
    if (rc == 0 && (hf_dispatch(client) < 0 || hf_dispatch(client) < 0))
        rc = 31;
    (void)hf_release(lease); /* connects anew */
    hf_disconnect(client);
    return rc ? rc : count_spoiled(p->kind);
}

static int disconnects_after_closing(void *arg)
{
    struct program *p = arg;
    hf_client *client = NULL;
    int rc;

    if (hf_connect(fake_agent_path(p->f.agent), &client) < 0 || hf_fd(client) < 0)
        return 30;
    rc = close_all(p->kind);
    hf_disconnect(client);
    return rc ? rc : count_spoiled(p->kind);
}

static void each_kind(int (*fn)(void *arg))
{
    struct program p = {.f = fixture_start(NULL)};

    assert_true(hf_fd(p.f.client) >= 0);
    must_acquire(p.f.client, "held");
    for (p.kind = FILES; p.kind <= SOCKETS; p.kind++)
        assert_int_equal(in_child(fn, &p), 0);
    assert_true(fake_agent_holds(p.f.agent, "held"));
    fixture_end(&p.f);
}

static void a_forked_child_closes_no_file_of_the_program(void **state)
{
    (void)state;
    each_kind(disconnects_in_the_child);
}

static void a_program_that_closed_all_keeps_its_new_files(void **state)
{
    (void)state;
    each_kind(disconnects_after_closing);
    each_kind(goes_on_after_closing);
}

static int count_open(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int closes_what_it_inherited(void *arg)
{
    struct program *p = arg;
    int before = count_open();

    hf_disconnect(p->f.client);
    return before - count_open() == 3 ? 0 : 40; /* socket, epoll, timer */
}

static void a_forked_child_closes_what_it_inherited(void **state)
{
    struct program p = {.f = fixture_start(NULL)};

    (void)state;
    assert_true(hf_fd(p.f.client) >= 0);
    assert_int_equal(in_child(closes_what_it_inherited, &p), 0);
    fixture_end(&p.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_closes_no_file_of_the_program),
        cmocka_unit_test(a_program_that_closed_all_keeps_its_new_files),
        cmocka_unit_test(a_forked_child_closes_what_it_inherited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

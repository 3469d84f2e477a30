/* A link on a loop of the test's own thread, and what it told. Include once, after cmocka.h. */
#ifndef HOLDFAST_TESTS_LINK_FIXTURE_H
#define HOLDFAST_TESTS_LINK_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/redis/link.h"
#include "agent/redis/resolver.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/redis_server.h"
#include "tests/support/scratch.h"
#include "tests/support/tokens.h"

#define NONCE  "0123456789abcdef0123456789abcdef"
#define FAR_MS 20000 /* longer than any test waits for what it wants to see */

/* What was told of one command. */
struct told {
    int calls, finals;
    bool inside; /* told from inside the sending call */
    struct link_reply first, last;
    char marks[LINK_KEYS_MAX + 1];
    char text[160];
};

struct fixture {
    struct redis_server server;
    struct loop *loop;
    struct resolver *resolver;
    struct link *link;
    struct node_address address;
    hf_dur silence, probe, connect_timeout;
    bool probes_writes;
    int ups, probes, downs;
    enum hf_node_error down_error;
    char down_text[160];
    struct node_facts facts;
    struct link_reply sentinel;
    struct told told; /* by note() */
    /* with `tracks` */
    bool tracks;
    enum hf_node_tracking tracking;
    char tracking_text[160];
    int notices, flushes;
    char noticed[64]; /* the last key */
    bool sending;
    /* of run_until() */
    struct loop_timer tick;
    bool (*wanted)(struct fixture *);
    hf_time give_up;
    bool came;
    int descriptors; /* open before the test */
};

static struct fixture *current; /* the link's events carry no place for more than one */

static void keep_reply(struct link_reply *to, const struct link_reply *from)
{
    *to = *from;
    to->error_text = NULL; /* valid in the callback only */
    to->marks = NULL;
    to->write_text = NULL;
}

static void on_up(struct link *link, const struct node_facts *facts,
                  const struct link_reply *sentinel, void *arg)
{
    struct fixture *f = arg;

    (void)link;
    f->ups++;
    f->facts = *facts;
    keep_reply(&f->sentinel, sentinel);
}

static void on_probed(struct link *link, const struct node_facts *facts,
                      const struct link_reply *sentinel, void *arg)
{
    struct fixture *f = arg;

    (void)link;
    f->probes++;
    f->facts = *facts;
    keep_reply(&f->sentinel, sentinel);
}

static void on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    struct fixture *f = arg;

    assert_false(link_is_up(link));
    assert_int_equal(link_in_flight(link), 0); /* all were told before */
    f->downs++;
    f->down_error = error;
    snprintf(f->down_text, sizeof(f->down_text), "%s", text);
}

static void on_noticed(struct link *link, const void *key, size_t key_len, void *arg)
{
    struct fixture *f = arg;

    (void)link;
    if (key) {
        f->notices++;
        snprintf(f->noticed, sizeof(f->noticed), "%.*s", (int)key_len, (const char *)key);
    } else {
        f->flushes++;
    }
}

static void on_tracking(struct link *link, enum hf_node_tracking state, const char *text, void *arg)
{
    struct fixture *f = arg;

    assert_int_equal(link_tracking(link), state);
    f->tracking = state;
    snprintf(f->tracking_text, sizeof(f->tracking_text), "%s", text);
}

static HF_UNUSED void note(struct link *link, const struct link_reply *reply, void *arg)
{
    struct told *told = arg;

    (void)link;
    if (current->sending)
        told->inside = true;
    if (told->calls++ == 0)
        keep_reply(&told->first, reply);
    keep_reply(&told->last, reply);
    told->finals += reply->final;
    snprintf(told->text, sizeof(told->text), "%s", reply->error_text);
    if (reply->outcome == LINK_ANSWERED && reply->marks)
        snprintf(told->marks, sizeof(told->marks), "%s", reply->marks);
}

static void on_tick(struct loop_timer *timer, hf_time now)
{
    struct fixture *f = HF_CONTAINER(timer, struct fixture, tick);

    f->came = f->wanted(f);
    if (f->came || hf_time_reached(now, f->give_up))
        loop_stop(f->loop);
    else
        loop_timer_set(f->loop, timer, hf_time_add(now, hf_ms(2)));
}

/* Runs the loop until `wanted`, `ms` at most; says whether it came. */
static bool runs_until(struct fixture *f, bool (*wanted)(struct fixture *), int ms)
{
    f->wanted = wanted;
    f->tick.fn = on_tick;
    f->give_up = hf_time_add(clock_now(), hf_ms(ms));
    loop_timer_set(f->loop, &f->tick, clock_now());
    loop_run(f->loop);
    loop_timer_cancel(f->loop, &f->tick);
    return f->came;
}

static HF_UNUSED bool never(struct fixture *f)
{
    (void)f;
    return false;
}

static HF_UNUSED bool is_up(struct fixture *f)
{
    return link_is_up(f->link);
}

static HF_UNUSED bool is_down(struct fixture *f)
{
    return f->downs > 0;
}

static HF_UNUSED bool has_tried(struct fixture *f)
{
    return f->downs >= 3;
}

static HF_UNUSED bool is_told(struct fixture *f)
{
    return f->told.calls > 0;
}

static HF_UNUSED bool is_final(struct fixture *f)
{
    return f->told.finals > 0;
}

static void on_wake(void *arg)
{
    struct fixture *f = arg;

    resolver_deliver(f->resolver);
}

static const struct link_events fixture_events = {
    .up = on_up, .probed = on_probed, .down = on_down};
static const struct link_events tracking_events = {.up = on_up,
                                                   .probed = on_probed,
                                                   .down = on_down,
                                                   .noticed = on_noticed,
                                                   .tracking = on_tracking};

/* `text` NULL: the fixture's server on its unix socket. */
static void make_link(struct fixture *f, const char *text)
{
    char why[256];
    struct link_options options;

    if (node_address_parse(text ? text : f->server.socket, &f->address, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
    options = (struct link_options){
        .loop = f->loop,
        .resolver = f->resolver,
        .address = &f->address,
        .node = 2,
        .connect_timeout = f->connect_timeout,
        .silence = f->silence,
        .probe = f->probe,
        .probe_writes = f->probes_writes,
        .events = f->tracks ? &tracking_events : &fixture_events,
        .arg = f,
    };
    assert_int_equal(link_create(&options, &f->link), HF_OK);
    assert_int_equal(link_node(f->link), 2);
    link_start(f->link);
}

static HF_UNUSED void link_comes_up(struct fixture *f, const char *text)
{
    make_link(f, text);
    if (!runs_until(f, is_up, FAR_MS))
        fail_msg("not up: %d %s", f->down_error, f->down_text);
    assert_int_equal(f->ups, 1);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->descriptors = open_descriptors();
    signal(SIGPIPE, SIG_IGN);
    f->silence = hf_ms(10000);
    f->connect_timeout = hf_ms(5000);
    assert_int_equal(loop_create(&f->loop), HF_OK);
    assert_int_equal(resolver_create(f->loop, &f->resolver), HF_OK);
    loop_on_wake(f->loop, on_wake, f);
    current = f;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    link_destroy(f->link);
    resolver_destroy(f->resolver);
    loop_destroy(f->loop);
    redis_server_remove(&f->server);
    assert_int_equal(open_descriptors(), f->descriptors);
    free(f);
    return 0;
}

/* Listens on the fixture's socket. */
static HF_UNUSED int listen_in_scratch(struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    scratch_path(f->server.dir, sizeof(f->server.dir));
    assert_non_null(mkdtemp(f->server.dir));
    snprintf(f->server.socket, sizeof(f->server.socket), "%s/sock", f->server.dir);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->server.socket);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

/* No Redis, but a process that accepts on the fixture's socket and speaks: `says` at once, and with `again` for each
 * thing that it reads; with `says` NULL what it reads. What it hears goes to the file "heard". */
static HF_UNUSED void start_peer(struct fixture *f, const char *says, bool again)
{
    int fd = listen_in_scratch(f);
    char heard_path[96];
    pid_t pid;

    snprintf(heard_path, sizeof(heard_path), "%s/heard", f->server.dir);
    pid = fork();
    if (pid == 0) {
        int log = open(heard_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            int c = accept(fd, NULL, NULL);
            char heard[4096];
            ssize_t n;

            if (says)
                (void)!write(c, says, strlen(says));
            while ((n = read(c, heard, sizeof(heard))) > 0) {
                (void)!write(log, heard, (size_t)n);
                if (!says)
                    (void)!write(c, heard, (size_t)n);
                else if (again)
                    (void)!write(c, says, strlen(says));
            }
            close(c);
        }
    }
    close(fd);
    f->server.pid = pid;
}

#endif

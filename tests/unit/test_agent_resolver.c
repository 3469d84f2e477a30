/* Lookups that never end hold nobody up. This program has a getaddrinfo() of its own: names under
 * .never are looked up for ever, names under .late until the test says so, others as the table
 * says. */
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cmocka.h>

#include "agent/redis/link_internal.h"
#include "tests/unit/link_fixture.h"

/* --- a name service --------------------------------------------------------------------------- */

static pthread_mutex_t service = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool is_released;
static int once_lookups;  /* of names that begin with "once" */
static int ended_lookups; /* of all names */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static struct addrinfo *entry(const char *address, int port, struct addrinfo *next)
{
    struct {
        struct addrinfo info;
        struct sockaddr_in in;
    } *e = calloc(1, sizeof(*e));

    e->info.ai_family = AF_INET;
    e->info.ai_socktype = SOCK_STREAM;
    e->info.ai_addrlen = sizeof(e->in);
    e->info.ai_addr = (struct sockaddr *)&e->in;
    e->info.ai_next = next;
    e->in.sin_family = AF_INET;
    e->in.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, address, &e->in.sin_addr);
    return &e->info;
}

/* Both are called by hiredis, too, with numeric hosts. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
    struct in_addr numeric;

    (void)hints;
    if (inet_pton(AF_INET, host, &numeric) == 1) {
        *found = entry(host, port ? atoi(port) : 0, NULL);
        return 0;
    }
    pthread_mutex_lock(&service);
    once_lookups += strncmp(host, "once", 4) == 0;
    while (ends_with(host, ".never") || (ends_with(host, ".late") && !is_released))
        pthread_cond_wait(&released, &service);
    ended_lookups++;
    pthread_mutex_unlock(&service);
    if (ends_with(host, ".unknown"))
        return EAI_NONAME;
    *found = entry("127.0.0.2", 0, entry("127.0.0.1", 0, NULL));
    if (ends_with(host, ".many"))
        for (int i = 0; i < 6; i++)
            *found = entry("127.0.0.3", 0, *found);
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    while (found) {
        struct addrinfo *next = found->ai_next;

        free(found);
        found = next;
    }
}

static int count(const int *counter)
{
    int n;

    pthread_mutex_lock(&service);
    n = *counter;
    pthread_mutex_unlock(&service);
    return n;
}

static void release(bool yes)
{
    pthread_mutex_lock(&service);
    is_released = yes;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&service);
}

/* --- the resolver alone ----------------------------------------------------------------------- */

struct answer {
    int calls, count;
    char addresses[RESOLVER_ADDRESSES][64];
    char error[128];
};
static struct answer answer, other;

static void on_answer(void *arg, const char (*addresses)[64], int n, const char *error)
{
    struct answer *to = arg;

    to->calls++;
    to->count = n;
    memcpy(to->addresses, addresses, (size_t)n * sizeof(*addresses));
    snprintf(to->error, sizeof(to->error), "%s", error);
}

static bool is_answered(struct fixture *f)
{
    (void)f;
    return answer.calls > 0;
}

static int set_up_names(void **state)
{
    memset(&answer, 0, sizeof(answer));
    memset(&other, 0, sizeof(other));
    release(false);
    return set_up(state);
}

static int tear_down_names(void **state)
{
    int rc = tear_down(state);

    release(true);
    return rc;
}

static void test_addresses_in_order(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(resolver_ask(f->resolver, "db", on_answer, &answer), HF_OK);
    assert_int_equal(answer.calls, 0);
    assert_true(runs_until(f, is_answered, FAR_MS));
    assert_int_equal(answer.count, 2);
    assert_string_equal(answer.addresses[0], "127.0.0.2");
    assert_string_equal(answer.addresses[1], "127.0.0.1");
}

static void test_no_more_than_fit(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(resolver_ask(f->resolver, "db.many", on_answer, &answer), HF_OK);
    assert_true(runs_until(f, is_answered, FAR_MS));
    assert_int_equal(answer.count, RESOLVER_ADDRESSES);
}

static void test_unknown_name(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(resolver_ask(f->resolver, "db.unknown", on_answer, &answer), HF_OK);
    assert_true(runs_until(f, is_answered, FAR_MS));
    assert_int_equal(answer.count, 0);
    assert_non_null(strstr(answer.error, "db.unknown"));
}

static void test_stuck_lookup_holds_nobody_up(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(resolver_ask(f->resolver, "db.never", on_answer, &other), HF_OK);
    assert_int_equal(resolver_ask(f->resolver, "db", on_answer, &answer), HF_OK);
    assert_true(runs_until(f, is_answered, FAR_MS));
    assert_int_equal(other.calls, 0);
    /* and neither does it in tear_down(): the resolver is destroyed with the lookup still running
     */
}

static void test_one_lookup_per_asker(void **state)
{
    struct fixture *f = *state;
    int before = count(&once_lookups);

    for (int i = 0; i < 5; i++)
        assert_int_equal(resolver_ask(f->resolver, "once.late", on_answer, &answer), HF_OK);
    release(true);
    assert_true(runs_until(f, is_answered, FAR_MS));
    assert_false(runs_until(f, never, 30));
    assert_int_equal(answer.calls, 1);
    assert_int_equal(count(&once_lookups) - before, 1);
}

static void test_cancelled(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(resolver_ask(f->resolver, "db.late", on_answer, &answer), HF_OK);
    resolver_cancel(f->resolver, &answer);
    resolver_cancel(f->resolver, &answer);
    release(true);
    assert_false(runs_until(f, is_answered, 100));
}

static int ended_before;

static bool has_ended(struct fixture *f)
{
    (void)f;
    return count(&ended_lookups) > ended_before;
}

/* The thread comes back to a resolver and a loop that are gone. */
static void test_late_lookup_touches_nothing(void **state)
{
    struct fixture *f = *state;
    struct resolver *resolver;
    struct loop *loop;

    assert_int_equal(loop_create(&loop), HF_OK);
    assert_int_equal(resolver_create(loop, &resolver), HF_OK);
    assert_int_equal(resolver_ask(resolver, "db.late", on_answer, &answer), HF_OK);
    resolver_destroy(resolver);
    loop_destroy(loop);
    ended_before = count(&ended_lookups);
    release(true);
    assert_true(runs_until(f, has_ended, FAR_MS));
    runs_until(f, never, 50);
    assert_int_equal(answer.calls, 0);
}

/* --- links with names ------------------------------------------------------------------------- */

static void start_tcp(struct fixture *f, const char *host)
{
    char text[64];

    f->server.has_tcp = true;
    assert_true(redis_server_start(&f->server, NULL));
    snprintf(text, sizeof(text), "%s:%d", host, f->server.port);
    make_link(f, text);
}

/* A lookup that took long ends between two addresses of the attempt that went on without it. */
static void test_new_addresses_are_for_the_next_attempt(void **state)
{
    struct fixture *f = *state;

    make_link(f, "db.never:1");
    f->link->address_count = f->link->address_next = RESOLVER_ADDRESSES;
    link_enter(f->link, LINK_CONNECTING, HF_TIME_NEVER);
    f->link->step.fn(&f->link->step, clock_now());
    assert_int_equal(f->link->state, LINK_ENDED);
    assert_int_equal(f->link->end_error, HF_NODE_ERR_CONNECT);
}

/* 127.0.0.2 comes first and refuses; 127.0.0.1 is tried in the same attempt. */
static void test_link_tries_every_address(void **state)
{
    struct fixture *f = *state;

    start_tcp(f, "db");
    assert_true(runs_until(f, is_up, FAR_MS));
    assert_int_equal(f->downs, 0);
}

static void test_link_with_an_unknown_name(void **state)
{
    struct fixture *f = *state;

    make_link(f, "db.unknown");
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_RESOLVE);
    assert_non_null(strstr(f->down_text, "db.unknown"));
}

/* Attempts fail and say why, all on one lookup; what it finds at last is used. */
static void test_link_waits_for_a_slow_lookup(void **state)
{
    struct fixture *f = *state;
    int before = count(&once_lookups);

    f->connect_timeout = hf_ms(30);
    start_tcp(f, "once-more.late");
    assert_true(runs_until(f, has_tried, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_RESOLVE);
    assert_true(count(&once_lookups) - before <= 1); /* the thread may not run yet */
    release(true);
    assert_true(runs_until(f, is_up, FAR_MS));
}

/* A name service that dies takes no node away: the last addresses serve. */
static void test_link_reconnects_without_names(void **state)
{
    struct fixture *f = *state;

    f->connect_timeout = hf_ms(200);
    release(true);
    start_tcp(f, "db.late");
    assert_true(runs_until(f, is_up, FAR_MS));
    release(false);
    redis_server_kill(&f->server);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_true(redis_server_start(&f->server, NULL));
    assert_true(runs_until(f, is_up, FAR_MS));
}

#define NAME_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_names, tear_down_names)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NAME_TEST(test_addresses_in_order),
        NAME_TEST(test_no_more_than_fit),
        NAME_TEST(test_unknown_name),
        NAME_TEST(test_stuck_lookup_holds_nobody_up),
        NAME_TEST(test_one_lookup_per_asker),
        NAME_TEST(test_cancelled),
        NAME_TEST(test_late_lookup_touches_nothing),
        NAME_TEST(test_new_addresses_are_for_the_next_attempt),
        NAME_TEST(test_link_tries_every_address),
        NAME_TEST(test_link_with_an_unknown_name),
        NAME_TEST(test_link_waits_for_a_slow_lookup),
        NAME_TEST(test_link_reconnects_without_names),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    /* Not exit(): the thread that looks up for ever may still be inside the C library. */
    fflush(NULL);
    _exit(rc);
}

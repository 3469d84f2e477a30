/* A link that is told of changes, on a real server; and the connection for it against peers that are
 * no Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/redis/notices.h"
#include "tests/unit/link_fixture.h"

static bool is_tracking(struct fixture *f)
{
    return f->tracking == HF_TRACKING_ON;
}

static bool is_refused(struct fixture *f)
{
    return f->tracking == HF_TRACKING_REFUSED;
}

static bool is_broken(struct fixture *f)
{
    return f->tracking == HF_TRACKING_BROKEN;
}

static bool is_noticed(struct fixture *f)
{
    return f->notices > 0;
}

static bool is_flushed(struct fixture *f)
{
    return f->flushes > 0;
}

/* As another client. */
static void side(struct fixture *f, const char *command)
{
    redisContext *other = redisConnectUnix(f->server.socket);
    redisReply *reply;

    assert_non_null(other);
    reply = redisCommand(other, command);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    redisFree(other);
}

static void start(struct fixture *f)
{
    assert_true(redis_server_start(&f->server, NULL));
    f->tracks = true;
    link_comes_up(f, NULL);
    assert_true(runs_until(f, is_tracking, FAR_MS));
}

static void query(struct fixture *f, const char *key)
{
    f->told = (struct told){0};
    assert_int_equal(link_query(f->link, key, strlen(key), false,
                                hf_time_add(clock_now(), hf_ms(FAR_MS)), note, &f->told),
                     HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.last.outcome, LINK_ANSWERED);
}

static void tracked_query(struct fixture *f, const char *key)
{
    link_track(f->link);
    query(f, key);
}

static void test_told_of_a_change(void **state)
{
    struct fixture *f = *state;

    start(f);
    side(f, "SET k v");
    tracked_query(f, "k");
    assert_true(f->told.last.tracked);
    side(f, "DEL k");
    assert_true(runs_until(f, is_noticed, FAR_MS));
    assert_string_equal(f->noticed, "k");
}

static void test_told_that_a_missing_key_appeared(void **state)
{
    struct fixture *f = *state;

    start(f);
    tracked_query(f, "k");
    side(f, "SET k v");
    assert_true(runs_until(f, is_noticed, FAR_MS));
}

static void test_only_what_was_asked_for_is_told(void **state)
{
    struct fixture *f = *state;

    start(f);
    tracked_query(f, "k");
    query(f, "other");
    assert_false(f->told.last.tracked);
    side(f, "SET other v");
    side(f, "HSET holdfast:fence:k fence 7");
    assert_false(runs_until(f, is_noticed, 100));
    side(f, "SET k v");
    assert_true(runs_until(f, is_noticed, FAR_MS));
    assert_string_equal(f->noticed, "k");
    side(f, "SET k w");
    f->notices = 0;
    assert_false(runs_until(f, is_noticed, 100));
}

static void test_a_flush_is_told(void **state)
{
    struct fixture *f = *state;

    start(f);
    tracked_query(f, "k");
    side(f, "FLUSHALL");
    assert_true(runs_until(f, is_flushed, FAR_MS));
}

/* (!) CLIENT CACHING was for the attempt that found no script. */
static void test_a_script_that_was_loaded_again_is_not_tracked(void **state)
{
    struct fixture *f = *state;

    start(f);
    side(f, "SCRIPT FLUSH");
    tracked_query(f, "k");
    assert_false(f->told.last.tracked);
    tracked_query(f, "k");
    assert_true(f->told.last.tracked);
}

/* (!) What was read before the connection ended is not tracked on the next. */
static void test_an_answer_of_before_the_end_is_not_tracked(void **state)
{
    struct fixture *f = *state;

    start(f);
    redis_server_pause(&f->server);
    link_track(f->link);
    f->told = (struct told){0};
    assert_int_equal(
        link_query(f->link, "k", 1, false, hf_time_add(clock_now(), hf_ms(FAR_MS)), note, &f->told),
        HF_OK);
    link_flush(f->link);
    redis_server_resume(&f->server);
    side(f, "CLIENT KILL TYPE pubsub");
    assert_true(runs_until(f, is_broken, FAR_MS));
    if (f->told.finals == 0) {
        assert_true(runs_until(f, is_final, FAR_MS));
        assert_false(f->told.last.tracked);
    }
    assert_true(runs_until(f, is_tracking, FAR_MS));
    tracked_query(f, "k");
    assert_true(f->told.last.tracked);
    side(f, "SET k v");
    assert_true(runs_until(f, is_noticed, FAR_MS));
}

static void refuses(struct fixture *f, const char *rule)
{
    char command[128];

    assert_true(redis_server_start(&f->server, NULL));
    snprintf(command, sizeof(command), "ACL SETUSER default %s", rule);
    side(f, command);
    f->tracks = true;
    link_comes_up(f, NULL);
}

static void test_a_node_that_refuses_subscriptions(void **state)
{
    struct fixture *f = *state;

    refuses(f, "resetchannels");
    assert_true(runs_until(f, is_refused, FAR_MS));
    tracked_query(f, "k");
    assert_false(f->told.last.tracked);
    assert_int_equal(f->downs, 0);
    side(f, "ACL SETUSER default allchannels");
    assert_true(runs_until(f, is_tracking, FAR_MS));
}

static void test_a_node_that_refuses_caching(void **state)
{
    struct fixture *f = *state;

    refuses(f, "-client|caching");
    assert_true(runs_until(f, is_tracking, FAR_MS));
    tracked_query(f, "k");
    assert_false(f->told.last.tracked);
    assert_true(is_refused(f));
    assert_int_equal(f->downs, 0);
}

/* --- peers that are no Redis ------------------------------------------------------------------ */

struct ending {
    struct fixture *fixture;
    int keys, flushes, endings;
    int keys_before, keys_most; /* told in one turn of the loop */
    int flushes_before;         /* the end */
    hf_dur key_work, flush_work;
    bool refused;
    char text[200];
};

static struct ending ending;

static void work(hf_dur span)
{
    hf_dur began = clock_of_thread();

    while (clock_of_thread().ns - began.ns < span.ns)
        ;
}

static void peer_ready(int64_t client_id, void *arg)
{
    (void)client_id;
    (void)arg;
}

static void peer_changed(const void *key, size_t key_len, void *arg)
{
    (void)key_len;
    (void)arg;
    if (key)
        ending.keys++;
    else
        ending.flushes++;
    work(key ? ending.key_work : ending.flush_work);
}

static void peer_ended(bool refused, const char *text, void *arg)
{
    (void)arg;
    ending.endings++;
    ending.flushes_before = ending.flushes;
    ending.refused = refused;
    snprintf(ending.text, sizeof(ending.text), "%s", text);
}

static bool has_ended(struct fixture *f)
{
    (void)f;
    return ending.endings > 0;
}

/* `says` goes to whoever connects; NULL: nobody listens. */
static void ends_with(void **state, const char *says)
{
    static const struct notices_events events = {peer_ready, peer_changed, peer_ended};
    struct fixture *f = *state;
    struct notices *notices;
    char text[256], why[256];

    start_peer(f, says, false);
    if (!says)
        redis_server_kill(&f->server);
    snprintf(text, sizeof(text), "redis+unix://:hunter2@%s", f->server.socket);
    assert_int_equal(node_address_parse(text, &f->address, why, sizeof(why)), HF_OK);
    assert_int_equal(notices_create(f->loop, &f->address, hf_ms(300), &events, f, &notices), HF_OK);
    ending = (struct ending){.fixture = f};
    notices_open(notices, f->address.host);
    assert_int_equal(ending.endings, 0); /* not from inside */
    assert_true(runs_until(f, has_ended, FAR_MS));
    assert_int_equal(ending.endings, 1);
    assert_null(strstr(ending.text, "hunter2"));
    notices_destroy(notices);
}

static void test_peer_that_is_not_there(void **state)
{
    ends_with(state, NULL);
    assert_false(ending.refused);
}

static void test_peer_mute(void **state)
{
    ends_with(state, "");
    assert_false(ending.refused);
}

static void test_peer_web_server(void **state)
{
    ends_with(state, "HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_false(ending.refused);
}

static void test_peer_with_a_huge_array(void **state)
{
    ends_with(state, "*1000000000\r\n");
    assert_true(ending.refused); /* so that it is told */
    assert_non_null(strstr(ending.text, "longer than 64 KiB"));
}

static void test_peer_that_repeats_the_password(void **state)
{
    ends_with(state, "-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n");
    assert_true(ending.refused);
}

/* Whatever it says once it is subscribed, it says nothing of keys, and ends by being silent. */
static void test_peer_that_tells_nonsense(void **state)
{
    ends_with(state, "+OK\r\n:7\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"
                     "*3\r\n$7\r\nmessage\r\n:1\r\n*0\r\n*0\r\n+what\r\n:5\r\n$-1\r\n"
                     "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n:3\r\n");
    assert_false(ending.refused);
}

/* --- a node that floods ------------------------------------------------------------------------ */

#define GREETING       "+OK\r\n:7\r\n*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n"
#define MANY_KEYS      30000
#define FLOOD_A_SECOND 25000 /* more than are read */
#define PIECE          512
#define NOTICE         "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
#define FLUSH          NOTICE "*-1\r\n"

/* 0: without end. */
static void speak_keys(int c, int notices)
{
    static const char notice[] = NOTICE "*1\r\n$1\r\nk\r\n";
    static char piece[PIECE * sizeof(notice)];
    size_t one = sizeof(notice) - 1;

    for (int i = 0; i < PIECE; i++)
        memcpy(piece + (size_t)i * one, notice, one);
    for (int left = notices; notices == 0 || left > 0; left -= PIECE) {
        size_t wanted = one * (size_t)(notices == 0 || left > PIECE ? PIECE : left);

        if (write(c, piece, wanted) != (ssize_t)wanted)
            break;
    }
}

/* In one piece, and a key behind them. */
static void speak_flushes(int c, int count)
{
    static const char key[] = NOTICE "*1\r\n$1\r\nk\r\n";
    static char piece[PIECE * sizeof(FLUSH) + sizeof(key)];
    size_t one = sizeof(FLUSH) - 1, size = 0;

    for (int i = 0; i < count && i < PIECE; i++, size += one)
        memcpy(piece + size, FLUSH, one);
    memcpy(piece + size, key, sizeof(key) - 1);
    (void)!write(c, piece, size + sizeof(key) - 1);
}

static void speak_flushes_and_end(int c, int count)
{
    speak_flushes(c, count);
    shutdown(c, SHUT_WR);
}

/* One after the other, without end. */
static void speak_flush_after_flush(int c, int pause_ms)
{
    const struct timespec pause = {.tv_nsec = pause_ms * HF_NS_PER_MS};

    while (write(c, FLUSH, strlen(FLUSH)) > 0)
        nanosleep(&pause, NULL);
}

static void speak_keys_at_once(int c, int count)
{
    char message[8 * 1024];
    size_t size = (size_t)snprintf(message, sizeof(message), "%s*%d\r\n", NOTICE, count);

    for (int i = 0; i < count; i++)
        size += (size_t)snprintf(message + size, sizeof(message) - size, "$1\r\nk\r\n");
    (void)!write(c, message, size);
}

static void speak_to(int c, void (*speak)(int c, int count), int count)
{
    char heard[256];

    (void)!write(c, GREETING, strlen(GREETING));
    speak(c, count);
    while (read(c, heard, sizeof(heard)) > 0)
        ;
}

static struct notices *flooded(struct fixture *f, void (*speak)(int c, int count), int count)
{
    static const struct notices_events events = {peer_ready, peer_changed, peer_ended};
    int listener = listen_in_scratch(f);
    struct notices *notices;
    char text[256], why[256];

    f->server.pid = fork();
    if (f->server.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        speak_to(accept(listener, NULL, NULL), speak, count);
        pause();
    }
    close(listener);
    snprintf(text, sizeof(text), "redis+unix://:hunter2@%s", f->server.socket);
    assert_int_equal(node_address_parse(text, &f->address, why, sizeof(why)), HF_OK);
    assert_int_equal(notices_create(f->loop, &f->address, hf_ms(FAR_MS), &events, f, &notices),
                     HF_OK);
    ending = (struct ending){.fixture = f};
    notices_open(notices, f->address.host);
    return notices;
}

static bool are_all_told(struct fixture *f)
{
    (void)f;
    return ending.keys == MANY_KEYS;
}

static void test_a_burst_is_told_to_its_last_key(void **state)
{
    struct fixture *f = *state;
    struct notices *notices = flooded(f, speak_keys, MANY_KEYS);

    assert_true(runs_until(f, are_all_told, FAR_MS));
    assert_int_equal(ending.endings, 0);
    notices_destroy(notices);
}

static int64_t ms_since(hf_time then)
{
    return hf_time_since(clock_now(), then).ns / HF_NS_PER_MS;
}

static void test_a_flood_is_read_slowly_and_ended(void **state)
{
    struct fixture *f = *state;
    hf_time began = clock_now();
    struct notices *notices = flooded(f, speak_keys, 0);

    runs_until(f, never, 1000);
    assert_true(ending.keys <= FLOOD_A_SECOND * (ms_since(began) / 1000 + 1));
    assert_true(runs_until(f, has_ended, 3 * FAR_MS)); /* a busy machine may pause it */
    assert_true(ms_since(began) >= 5000);              /* a burst may be honest */
    assert_true(ending.refused);                       /* so that it is told */
    assert_non_null(strstr(ending.text, "more notices than"));
    notices_destroy(notices);
}

static bool is_key_told(struct fixture *f)
{
    (void)f;
    return ending.keys > 0;
}

static bool are_two_flushes_told(struct fixture *f)
{
    (void)f;
    return ending.flushes >= 2;
}

static void test_flushes_are_merged_and_the_last_is_told(void **state)
{
    struct fixture *f = *state;
    hf_time began = clock_now();
    struct notices *notices = flooded(f, speak_flushes, PIECE);

    assert_true(runs_until(f, is_key_told, FAR_MS));
    assert_true(runs_until(f, are_two_flushes_told, FAR_MS));
    runs_until(f, never, 250);
    assert_true(ending.flushes <= 2 + ms_since(began) / 100);
    assert_int_equal(ending.endings, 0);
    notices_destroy(notices);
}

static void test_a_flush_is_told_before_the_end(void **state)
{
    struct fixture *f = *state;
    struct notices *notices = flooded(f, speak_flushes_and_end, 3);

    assert_true(runs_until(f, has_ended, FAR_MS));
    assert_true(ending.flushes_before >= 2);
    runs_until(f, never, 150);
    assert_int_equal(ending.flushes, ending.flushes_before);
    notices_destroy(notices);
}

/* What one costs is what it is charged, and more than a few in a second are a flood, however few bytes they are. */
static void test_costly_flushes_are_told_rarely_and_end(void **state)
{
    struct fixture *f = *state;
    hf_time began = clock_now();
    struct notices *notices = flooded(f, speak_flush_after_flush, 50);

    ending.flush_work = hf_ms(5);
    assert_true(runs_until(f, has_ended, 3 * FAR_MS));
    assert_true(ms_since(began) >= 5000);
    assert_true(ending.flushes <= 3 + ms_since(began) / 500);
    assert_true(ending.refused);
    assert_non_null(strstr(ending.text, "more notices than"));
    notices_destroy(notices);
}

/* Each turn of the loop tells no more than what takes a quarter of 100 ms. */
static bool are_120_keys_told(struct fixture *f)
{
    int told = ending.keys - ending.keys_before;

    (void)f;
    ending.keys_most = told > ending.keys_most ? told : ending.keys_most;
    ending.keys_before = ending.keys;
    return ending.keys >= 120;
}

static void test_costly_notices_wait(void **state)
{
    struct fixture *f = *state;
    struct notices *notices = flooded(f, speak_keys, 120);

    ending.key_work = hf_ms(1);
    assert_true(runs_until(f, are_120_keys_told, FAR_MS));
    assert_true(ending.keys_most <= 60);
    assert_int_equal(ending.endings, 0);
    notices_destroy(notices);
}

static bool is_flush_told(struct fixture *f)
{
    (void)f;
    return ending.flushes > 0;
}

static void test_a_costly_message_ends_as_a_flush(void **state)
{
    struct fixture *f = *state;
    struct notices *notices = flooded(f, speak_keys_at_once, 120);

    ending.key_work = hf_ms(1);
    assert_true(runs_until(f, is_flush_told, FAR_MS));
    assert_in_range(ending.keys, 10, 60);
    notices_destroy(notices);
}

/* --- a node that has the agent do the same again and again ------------------------------------- */

static void test_notices_that_end_again_and_again_begin_ever_later(void **state)
{
    struct fixture *f = *state;
    hf_time began;

    start(f);
    began = clock_now();
    for (int i = 0; i < 5; i++) {
        tracked_query(f, "k");
        assert_true(f->told.last.tracked);
        side(f, "CLIENT KILL TYPE pubsub");
        assert_true(runs_until(f, is_broken, FAR_MS));
        assert_true(runs_until(f, is_tracking, FAR_MS));
    }
    assert_true(ms_since(began) >= 25 + 50 + 100 + 200 + 400);
}

static void test_a_sentinel_that_always_changes_is_read_ten_times_a_second(void **state)
{
    struct fixture *f = *state;
    hf_time began;

    f->probe = hf_ms(FAR_MS);
    start(f);
    began = clock_now();
    f->probes = 0;
    while (ms_since(began) < 500) {
        f->notices = 0;
        tracked_query(f, "holdfast:node");
        side(f, "EVAL redis.call('SET',KEYS[1],'v')redis.call('DEL',KEYS[1]) 1 holdfast:node");
        assert_true(runs_until(f, is_noticed, FAR_MS));
    }
    assert_in_range(f->probes, 1, 2 + ms_since(began) / 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_told_of_a_change),
        T(test_told_that_a_missing_key_appeared),
        T(test_only_what_was_asked_for_is_told),
        T(test_a_flush_is_told),
        T(test_a_script_that_was_loaded_again_is_not_tracked),
        T(test_an_answer_of_before_the_end_is_not_tracked),
        T(test_a_node_that_refuses_subscriptions),
        T(test_a_node_that_refuses_caching),
        T(test_peer_that_is_not_there),
        T(test_peer_mute),
        T(test_peer_web_server),
        T(test_peer_with_a_huge_array),
        T(test_peer_that_repeats_the_password),
        T(test_peer_that_tells_nonsense),
        T(test_a_burst_is_told_to_its_last_key),
        T(test_a_flood_is_read_slowly_and_ended),
        T(test_flushes_are_merged_and_the_last_is_told),
        T(test_a_flush_is_told_before_the_end),
        T(test_costly_flushes_are_told_rarely_and_end),
        T(test_costly_notices_wait),
        T(test_a_costly_message_ends_as_a_flush),
        T(test_notices_that_end_again_and_again_begin_ever_later),
        T(test_a_sentinel_that_always_changes_is_read_ten_times_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

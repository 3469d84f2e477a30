/* A link against real redis-servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/token.h"
#include "agent/core/fence.h"
#include "agent/core/sha1.h"
#include "tests/unit/link_fixture.h"

#define KEY "a resource"

static hf_time in_ms(int ms)
{
    return hf_time_add(clock_now(), hf_ms(ms));
}

/* --- commands as the agent would send them ---------------------------------------------------- */

static struct link_lock lock_of(const struct token *token)
{
    return (struct link_lock){
        .key = KEY,
        .key_len = strlen(KEY),
        .token = token,
        .ttl_ms = 60000,
        .deadline = {INT64_C(4000000000) * 1000000},
        .nonce = NONCE,
        .fence = UINT64_C(1700000000123),
        .holder = {.host = "host-a",
                   .command = "backup",
                   .note = "nightly",
                   .pid = 4711,
                   .uid = 1000,
                   .since = {1700000000000}},
    };
}

static void make_sentinel(struct fixture *f)
{
    const struct link_sentinel sentinel = {.make = true,
                                           .nonce = NONCE,
                                           .wall = {1700000000000},
                                           .ttl_max_ms = 60000,
                                           .nodes = 3,
                                           .list_hash = "cafe"};

    memset(&f->told, 0, sizeof(f->told));
    assert_int_equal(link_sentinel(f->link, &sentinel, in_ms(FAR_MS), note, &f->told), HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.last.outcome, LINK_ANSWERED);
}

static int acquire(struct fixture *f, const struct token *token, int deadline_ms)
{
    struct link_lock lock = lock_of(token);
    int rc;

    memset(&f->told, 0, sizeof(f->told));
    f->sending = true;
    rc = link_acquire(f->link, &lock, in_ms(deadline_ms), note, &f->told);
    link_flush(f->link);
    f->sending = false;
    return rc;
}

static void acquired(struct fixture *f, const struct token *token, enum link_verdict verdict)
{
    assert_int_equal(acquire(f, token, FAR_MS), HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.last.outcome, LINK_ANSWERED);
    assert_int_equal(f->told.last.verdict, verdict);
    assert_false(f->told.inside);
}

/* One command on a connection of the test's own; the answer is freed by the caller. */
static redisReply *side(struct fixture *f, const char *format, ...)
{
    redisContext *c = redisConnectUnix(f->server.socket);
    redisReply *reply;
    va_list args;

    assert_non_null(c);
    va_start(args, format);
    reply = redisvCommand(c, format, args);
    va_end(args);
    redisFree(c);
    return reply;
}

static void side_done(struct fixture *f, const char *command)
{
    redisReply *reply = side(f, command);

    assert_non_null(reply);
    freeReplyObject(reply);
}

static struct fixture *start(void **state, const char *const *options)
{
    struct fixture *f = *state;

    assert_true(redis_server_start(&f->server, options));
    return f;
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* --- the handshake ---------------------------------------------------------------------------- */

static void test_up_tells_the_facts(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    assert_int_equal(strlen(f->facts.run_id), TRUST_RUN_ID_LEN);
    assert_true(f->facts.version[0] >= '5' || f->facts.version[0] == '1');
    assert_true(f->facts.uptime.ns >= 0 && f->facts.uptime.ns < 600 * HF_NS_PER_SEC);
    assert_false(f->facts.replica || f->facts.cluster || f->facts.evicts);
    assert_int_equal(f->sentinel.outcome, LINK_ANSWERED);
    assert_false(f->sentinel.sentinel.present);
    assert_string_equal(f->sentinel.nonce, "");
    assert_true(f->sentinel.node_time.us > INT64_C(1600000000) * 1000000);
    assert_true(f->sentinel.sent.ns <= f->sentinel.received.ns);
    assert_true(links_round_time(&f->link, 1, 1).ns > 0);
    assert_int_equal(f->downs, 0);
}

static void test_evicting_is_told(void **state)
{
    struct fixture *f =
        start(state, OPTIONS("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"));

    link_comes_up(f, NULL);
    assert_true(f->facts.evicts);
}

static void test_replica_is_told(void **state)
{
    struct fixture *f = start(state, OPTIONS("--replicaof", "127.0.0.1 1"));

    link_comes_up(f, NULL);
    assert_true(f->facts.replica);
    acquired(f, &token_bytes, VERDICT_SENTINEL); /* nothing is written, so not even READONLY */
}

static void test_cluster_is_told(void **state)
{
    struct fixture *f = start(state, OPTIONS("--cluster-enabled", "yes", "--port", "0"));

    link_comes_up(f, NULL);
    assert_true(f->facts.cluster);
    assert_int_equal(f->sentinel.outcome, LINK_ERROR);
}

static void test_password(void **state)
{
    struct fixture *f = start(state, OPTIONS("--requirepass", "se=cret@1"));
    char text[256];

    snprintf(text, sizeof(text), "n1=redis+unix://:se=cret%%401@%s", f->server.socket);
    link_comes_up(f, text);
}

static void test_user_and_database(void **state)
{
    struct fixture *f =
        start(state, OPTIONS("--user", "agent", "on", ">geheim", "~*", "&*", "+@all"));
    char text[256];
    redisReply *reply;

    snprintf(text, sizeof(text), "redis+unix://agent:geheim@%s?db=3", f->server.socket);
    link_comes_up(f, text);
    make_sentinel(f);
    acquired(f, &token_bytes, VERDICT_OK);
    reply = side(f, "INFO keyspace");
    assert_non_null(strstr(reply->str, "db3:keys=3"));
    assert_null(strstr(reply->str, "db0"));
    freeReplyObject(reply);
}

/* (!) What others see of a hold is the digest of its token, never the token. */
static void test_the_record_has_the_digest_of_the_token(void **state)
{
    struct fixture *f = start(state, NULL);
    char token[TOKEN_LEN], tag[SHA1_HEX_LEN + 1];
    struct sha1 sha1;
    redisReply *reply;

    token_text(&token_bytes, token);
    sha1_begin(&sha1);
    sha1_add(&sha1, token, sizeof(token));
    sha1_end(&sha1, tag);
    link_comes_up(f, NULL);
    make_sentinel(f);
    acquired(f, &token_bytes, VERDICT_OK);
    reply = side(f, "HGETALL holdfast:fence:%s", KEY);
    assert_int_equal(reply->elements, 10);
    assert_string_equal(reply->element[2]->str, "tag");
    assert_string_equal(reply->element[3]->str, tag);
    for (size_t i = 0; i < reply->elements; i++)
        assert_null(memmem(reply->element[i]->str, reply->element[i]->len, token, sizeof(token)));
    freeReplyObject(reply);
}

/* (!) The text begins with the fence that is offered, or other hosts take it for an earlier holder's. */
static void test_words_follow_the_fence(void **state)
{
    struct fixture *f = start(state, NULL);
    struct link_words words = {.holder_len = 0};
    struct link_lock lock = lock_of(&token_bytes);
    redisReply *reply;

    lock.words = &words;
    link_comes_up(f, NULL);
    make_sentinel(f);
    for (int i = 0; i < 3; i++) {
        char begin[32];

        memset(&f->told, 0, sizeof(f->told));
        assert_int_equal(
            (i == 0 ? link_acquire : link_raise)(f->link, &lock, in_ms(FAR_MS), note, &f->told),
            HF_OK);
        link_flush(f->link);
        assert_true(runs_until(f, is_final, FAR_MS));
        assert_int_equal(f->told.last.verdict, VERDICT_OK);
        reply = side(f, "HGET holdfast:fence:%s holder", KEY);
        snprintf(begin, sizeof(begin), "%llu\n4711\n1000\n", (unsigned long long)lock.fence);
        assert_int_equal(strncmp(reply->str, begin, strlen(begin)), 0);
        freeReplyObject(reply);
        if (i == 1) /* the second time with the same fence */
            lock.fence += 10;
    }
}

static void test_wrong_password(void **state)
{
    struct fixture *f = start(state, OPTIONS("--requirepass", "right"));
    char text[256];

    snprintf(text, sizeof(text), "redis+unix://:wrongword@%s", f->server.socket);
    make_link(f, text);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_AUTH);
    assert_null(strstr(f->down_text, "wrongword"));
    assert_int_equal(f->ups, 0);
}

static void test_missing_password(void **state)
{
    struct fixture *f = start(state, OPTIONS("--requirepass", "right"));

    make_link(f, NULL);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_AUTH);
}

/* The user may run scripts but not load them. */
static void test_no_permission(void **state)
{
    struct fixture *f = start(
        state, OPTIONS("--user", "agent", "on", ">geheim", "~*", "&*", "+@all", "-script|load"));
    char text[256];

    snprintf(text, sizeof(text), "redis+unix://agent:geheim@%s", f->server.socket);
    make_link(f, text);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_PERM);
}

static bool has_probed(struct fixture *f)
{
    return f->probes >= 3;
}

static void test_probes(void **state)
{
    struct fixture *f = start(state, NULL);

    f->probe = hf_ms(20);
    link_comes_up(f, NULL);
    make_sentinel(f);
    f->probes = 0;
    assert_true(runs_until(f, has_probed, FAR_MS));
    assert_true(f->sentinel.sentinel.present);
    assert_string_equal(f->sentinel.sentinel.nonce, NONCE);
    assert_string_equal(f->sentinel.nonce, NONCE);
    assert_string_equal(f->sentinel.sentinel.list_hash, "cafe");
    assert_int_equal(f->sentinel.sentinel.nodes, 3);
    assert_int_equal(f->sentinel.sentinel.ttl_max_ms, 60000);
    assert_true(f->sentinel.sentinel.created_wall.ms == 1700000000000);
    assert_true(f->sentinel.sentinel.created.us <= f->sentinel.node_time.us);
}

/* (!) A node may tell without a pause that its sentinel has changed. */
static void test_probes_that_are_wanted_soon_have_a_rate(void **state)
{
    struct fixture *f = start(state, NULL);
    hf_time began;

    f->probe = hf_ms(60000);
    link_comes_up(f, NULL);
    began = clock_now();
    f->probes = 0;
    while (hf_time_since(clock_now(), began).ns < 500 * HF_NS_PER_MS) {
        link_probe_soon(f->link);
        runs_until(f, never, 3);
    }
    assert_in_range(f->probes, 2, 1 + hf_dur_ms(hf_time_since(clock_now(), began)) / 100);
}

static enum hf_node_error write_error(void **state, const char *const *options)
{
    struct fixture *f = start(state, options);

    f->probes_writes = true;
    link_comes_up(f, NULL);
    assert_true(f->sentinel.write_tried);
    return f->sentinel.write_error;
}

static void test_writes_are_taken(void **state)
{
    assert_int_equal(write_error(state, NULL), HF_NODE_ERR_NONE);
}

/* A handshake finds it, though all that it reads is answered. */
static void test_writes_are_refused(void **state)
{
    assert_int_equal(write_error(state, OPTIONS("--min-replicas-to-write", "1")),
                     HF_NODE_ERR_NOREPLICAS);
}

static void test_tcp(void **state)
{
    struct fixture *f = *state;
    char text[64];

    f->server.has_tcp = true;
    start(state, NULL);
    snprintf(text, sizeof(text), "127.0.0.1:%d", f->server.port);
    link_comes_up(f, text);
}

static void test_name_is_looked_up(void **state)
{
    struct fixture *f = *state;
    char text[64];

    f->server.has_tcp = true;
    start(state, NULL);
    snprintf(text, sizeof(text), "localhost:%d", f->server.port);
    link_comes_up(f, text);
}

/* --- commands --------------------------------------------------------------------------------- */

static void test_lock_renew_release(void **state)
{
    struct fixture *f = start(state, NULL);
    struct link_key keys[3] = {{KEY, strlen(KEY), &token_bytes, 90000},
                               {"other", 5, &token_bytes, 90000},
                               {"missing", 7, &token_bytes, 90000}};
    redisReply *reply;

    link_comes_up(f, NULL);
    make_sentinel(f);
    side_done(f, "SET other x");
    acquired(f, &token_bytes, VERDICT_OK);
    assert_true(f->told.last.fence == UINT64_C(1700000000123));
    assert_string_equal(f->told.last.nonce, NONCE);

    acquired(f, &other_bytes, VERDICT_TAKEN);
    assert_string_equal(f->told.last.holder.host, "host-a");
    assert_string_equal(f->told.last.holder.comm, "backup");
    assert_string_equal(f->told.last.holder.note, "nightly");
    assert_int_equal(f->told.last.holder.pid, 4711);
    assert_int_equal(f->told.last.holder.uid, 1000);
    assert_true(f->told.last.holder.since_wall_ms == 1700000000000);
    assert_true(f->told.last.holder.fence == fence_make(UINT64_C(1700000000123), 0));
    assert_in_range(f->told.last.holder.pttl_ms, 1, 60000);

    memset(&f->told, 0, sizeof(f->told));
    assert_int_equal(link_renew(f->link, keys, 3, in_ms(FAR_MS), note, &f->told), HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_string_equal(f->told.marks, "1f0");
    assert_int_equal(f->told.last.mark_count, 3);
    reply = side(f, "PTTL %s", KEY);
    assert_in_range(reply->integer, 60001, 90000);
    freeReplyObject(reply);

    memset(&f->told, 0, sizeof(f->told));
    assert_int_equal(link_release(f->link, keys, 3, in_ms(FAR_MS), note, &f->told), HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_string_equal(f->told.marks, "1f0");
    acquired(f, &other_bytes, VERDICT_LOW); /* the same fence with another tag */
}

static void test_many_keys(void **state)
{
    struct fixture *f = start(state, NULL);
    static char names[LINK_KEYS_MAX][16];
    static struct link_key keys[LINK_KEYS_MAX + 1];

    for (int i = 0; i < LINK_KEYS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "key %d", i);
        keys[i] = (struct link_key){names[i], strlen(names[i]), &token_bytes, UINT32_MAX};
    }
    link_comes_up(f, NULL);
    assert_int_equal(link_renew(f->link, keys, LINK_KEYS_MAX + 1, in_ms(FAR_MS), note, &f->told),
                     HF_EINVAL);
    assert_int_equal(link_renew(f->link, keys, LINK_KEYS_MAX, in_ms(FAR_MS), note, &f->told),
                     HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(strspn(f->told.marks, "0"), LINK_KEYS_MAX);
}

static void test_scripts_are_loaded_again(void **state)
{
    struct fixture *f = start(state, NULL);

    struct link_key key = {KEY, strlen(KEY), &token_bytes, 0};

    link_comes_up(f, NULL);
    make_sentinel(f);
    for (int i = 0; i < 3; i++) {
        side_done(f, "SCRIPT FLUSH");
        /* Whether its token may still be set, only its owner knows. */
        assert_int_equal(acquire(f, &token_bytes, FAR_MS), HF_OK);
        assert_true(runs_until(f, is_final, FAR_MS));
        assert_int_equal(f->told.last.error, HF_NODE_ERR_NOSCRIPT);
        acquired(f, &token_bytes, VERDICT_OK);
        assert_int_equal(f->told.calls, 1);
        memset(&f->told, 0, sizeof(f->told));
        assert_int_equal(link_release(f->link, &key, 1, in_ms(FAR_MS), note, &f->told), HF_OK);
        assert_true(runs_until(f, is_final, FAR_MS));
        assert_string_equal(f->told.marks, "1");
        assert_int_equal(f->told.calls, 1);
    }
}

/* Loaded again at most once per command: where that does not help, it is an error and no loop. */
static void test_scripts_that_cannot_be_loaded(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    side_done(f, "SCRIPT FLUSH");
    side_done(f, "ACL SETUSER default -script|load");
    assert_int_equal(acquire(f, &token_bytes, FAR_MS), HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.calls, 1);
    assert_int_equal(f->told.last.outcome, LINK_ERROR);
    assert_int_equal(f->told.last.error, HF_NODE_ERR_NOSCRIPT);
    assert_int_equal(link_in_flight(f->link), 0);
}

/* A release is wanted however late; an acquire is not. */
static void test_late_and_forgotten(void **state)
{
    struct fixture *f = start(state, NULL);
    struct link_key key = {KEY, strlen(KEY), &token_bytes, 0};
    struct told released;

    link_comes_up(f, NULL);
    make_sentinel(f);
    freeReplyObject(side(f, "SET %s %s", KEY, TOKEN));
    side_done(f, "SCRIPT FLUSH");
    redis_server_pause(&f->server);
    assert_int_equal(acquire(f, &token_bytes, 20), HF_OK);
    assert_true(runs_until(f, is_told, FAR_MS));
    memset(&released, 0, sizeof(released));
    assert_int_equal(link_release(f->link, &key, 1, in_ms(20), note, &released), HF_OK);
    link_flush(f->link);
    runs_until(f, never, 60);
    assert_int_equal(released.calls, 1); /* timed out */
    redis_server_resume(&f->server);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.last.outcome, LINK_ERROR);
    assert_int_equal(f->told.last.error, HF_NODE_ERR_NOSCRIPT);
    while (released.finals == 0)
        runs_until(f, never, 5);
    assert_int_equal(released.last.outcome, LINK_ANSWERED);
    assert_string_equal(released.marks, "1");
}

static void test_timeout_then_late_answer(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    make_sentinel(f);
    redis_server_pause(&f->server);
    assert_int_equal(acquire(f, &token_bytes, 50), HF_OK);
    assert_true(runs_until(f, is_told, FAR_MS));
    assert_int_equal(f->told.first.outcome, LINK_TIMEOUT);
    assert_int_equal(f->told.first.error, HF_NODE_ERR_TIMEOUT);
    assert_false(f->told.first.final);
    assert_int_equal(link_in_flight(f->link), 1);
    redis_server_resume(&f->server);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.calls, 2);
    assert_int_equal(f->told.last.outcome, LINK_ANSWERED);
    assert_true(f->told.last.late);
    assert_int_equal(f->told.last.verdict, VERDICT_OK);
    assert_int_equal(f->downs, 0);
}

static void test_silence_closes(void **state)
{
    struct fixture *f = start(state, NULL);

    f->silence = hf_ms(300);
    link_comes_up(f, NULL);
    redis_server_pause(&f->server);
    assert_int_equal(acquire(f, &token_bytes, 50), HF_OK);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_SILENT);
    assert_int_equal(f->told.calls, 2);
    assert_int_equal(f->told.last.outcome, LINK_BROKEN);
    assert_true(f->told.last.final && f->told.last.late);
    assert_int_equal(acquire(f, &token_bytes, 50), HF_ENOQUORUM);
    redis_server_resume(&f->server);
    f->downs = 0;
    assert_true(runs_until(f, is_up, FAR_MS));
}

/* A stopped server still accepts: that proves nothing, and the handshake ends. */
static void test_silence_in_the_handshake(void **state)
{
    struct fixture *f = start(state, NULL);

    f->silence = hf_ms(200);
    redis_server_pause(&f->server);
    make_link(f, NULL);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_SILENT);
    assert_int_equal(f->ups, 0);
}

/* An idle link is not silent. */
static void test_idle_is_no_silence(void **state)
{
    struct fixture *f = start(state, NULL);

    f->silence = hf_ms(60);
    link_comes_up(f, NULL);
    assert_false(runs_until(f, is_down, 300));
    assert_int_equal(f->downs, 0);
}

static void test_broken_and_back(void **state)
{
    struct fixture *f = start(state, NULL);
    char run_id[TRUST_RUN_ID_LEN + 1];

    link_comes_up(f, NULL);
    memcpy(run_id, f->facts.run_id, sizeof(run_id));
    redis_server_pause(&f->server);
    assert_int_equal(acquire(f, &token_bytes, FAR_MS), HF_OK);
    redis_server_kill(&f->server);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->told.calls, 1);
    assert_int_equal(f->told.last.outcome, LINK_BROKEN);
    assert_true(f->told.last.final);
    assert_false(f->told.last.late);
    assert_int_equal(f->down_error, HF_NODE_ERR_BROKEN);
    start(state, NULL);
    assert_true(runs_until(f, is_up, FAR_MS));
    assert_string_not_equal(f->facts.run_id, run_id);
}

static void test_flush_into_a_dead_connection(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    redis_server_kill(&f->server);
    assert_int_equal(acquire(f, &token_bytes, FAR_MS),
                     HF_OK); /* the loop has not seen the end yet */
    assert_int_equal(f->told.calls, 0);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->told.last.outcome, LINK_BROKEN);
    assert_false(f->told.inside);
}

static void test_nobody_there_yet(void **state)
{
    struct fixture *f = start(state, NULL);

    redis_server_kill(&f->server);
    make_link(f, NULL);
    assert_true(runs_until(f, has_tried, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_CONNECT);
    start(state, NULL);
    assert_true(runs_until(f, is_up, FAR_MS));
}

static bool all_told(struct fixture *f)
{
    return f->told.calls >= 4096;
}

static void test_too_many_in_flight(void **state)
{
    struct fixture *f = start(state, NULL);
    int sent = 0;

    link_comes_up(f, NULL);
    redis_server_pause(&f->server);
    while (sent < 10000 &&
           link_query(f->link, "k", 1, false, in_ms(FAR_MS), note, &f->told) == HF_OK)
        sent++;
    assert_int_equal(sent, 4096);
    assert_int_equal(link_in_flight(f->link), 4096);
    link_flush(f->link);
    redis_server_resume(&f->server);
    assert_true(runs_until(f, all_told, FAR_MS));
    assert_int_equal(f->told.finals, 4096);
    assert_int_equal(link_in_flight(f->link), 0);
    assert_int_equal(f->told.last.verdict, VERDICT_FREE);
}

static bool none_in_flight(struct fixture *f)
{
    return link_in_flight(f->link) == 0;
}

/* What a node does not take stays in the agent's memory: 1 MiB of it, and what its socket has room for. */
static void test_too_many_bytes(void **state)
{
    struct fixture *f = start(state, NULL);
    struct link_key keys[LINK_KEYS_MAX];
    char key[1000];
    int sent = 0;

    memset(key, 'k', sizeof(key));
    for (int i = 0; i < LINK_KEYS_MAX; i++)
        keys[i] = (struct link_key){
            .key = key, .key_len = sizeof(key), .token = &token_bytes, .ttl_ms = 1000};
    link_comes_up(f, NULL);
    redis_server_pause(&f->server);
    while (sent < 4096 &&
           link_renew(f->link, keys, LINK_KEYS_MAX, in_ms(FAR_MS), note, &f->told) == HF_OK)
        sent++;
    assert_in_range(sent, 1, 20); /* each is half a MiB */
    redis_server_resume(&f->server);
    link_flush(f->link);
    assert_true(runs_until(f, none_in_flight, FAR_MS));
    assert_int_equal(f->told.finals, sent);
    assert_int_equal(f->downs, 0);
    assert_int_equal(acquire(f, &token_bytes, FAR_MS), HF_OK); /* there is room again */
}

static void test_destroyed_in_flight(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    redis_server_pause(&f->server);
    assert_int_equal(acquire(f, &token_bytes, FAR_MS), HF_OK);
    link_destroy(f->link);
    f->link = NULL;
    assert_int_equal(f->told.finals, 1);
    assert_int_equal(f->told.last.outcome, LINK_BROKEN);
    assert_int_equal(f->downs, 0);
    assert_false(runs_until(f, is_down, 50));
}

static void resend(struct link *link, const struct link_reply *reply, void *arg)
{
    struct fixture *f = current;
    struct link_lock lock = lock_of(&token_bytes);

    note(link, reply, arg);
    if (f->told.finals < 50) {
        assert_int_equal(link_acquire(link, &lock, in_ms(FAR_MS), resend, arg), HF_OK);
        link_flush(link);
    }
}

static bool resent(struct fixture *f)
{
    return f->told.finals >= 50;
}

static void test_sending_from_an_answer(void **state)
{
    struct fixture *f = start(state, NULL);
    struct link_lock lock = lock_of(&token_bytes);

    link_comes_up(f, NULL);
    assert_int_equal(link_acquire(f->link, &lock, in_ms(FAR_MS), resend, &f->told), HF_OK);
    assert_true(runs_until(f, resent, FAR_MS));
}

/* --- error classes ---------------------------------------------------------------------------- */

static void refused(struct fixture *f, enum hf_node_error error)
{
    assert_int_equal(acquire(f, &token_bytes, FAR_MS), HF_OK);
    assert_true(runs_until(f, is_final, FAR_MS));
    assert_int_equal(f->told.last.outcome, LINK_ERROR);
    if (f->told.last.error != error)
        fail_msg("%s: %s", link_error_name(f->told.last.error), f->told.text);
}

static void test_out_of_memory(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    make_sentinel(f);
    side_done(f, "CONFIG SET maxmemory 1");
    refused(f, HF_NODE_ERR_OOM);
}

static void test_readonly(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    make_sentinel(f);
    side_done(f, "REPLICAOF 127.0.0.1 1");
    refused(f, HF_NODE_ERR_READONLY);
}

static void test_no_replicas(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    make_sentinel(f);
    side_done(f, "CONFIG SET min-replicas-to-write 1");
    refused(f, HF_NODE_ERR_NOREPLICAS);
    assert_non_null(strstr(f->told.text, "NOREPLICAS"));
}

static void test_busy(void **state)
{
    struct fixture *f =
        start(state, OPTIONS("--lua-time-limit", "50", "--enable-debug-command", "yes"));
    redisContext *c;
    redisReply *reply;

    link_comes_up(f, NULL);
    c = redisConnectUnix(f->server.socket);
    redisAppendCommand(c, "EVAL %s 0", "while true do end");
    for (int done = 0; !done;)
        assert_int_equal(redisBufferWrite(c, &done), REDIS_OK);
    runs_until(f, never, 300);
    refused(f, HF_NODE_ERR_BUSY);
    side_done(f, "SCRIPT KILL");
    assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
    redisFree(c);
}

static void test_strange_fence_record(void **state)
{
    struct fixture *f = start(state, NULL);
    redisReply *reply;

    link_comes_up(f, NULL);
    make_sentinel(f);
    reply = side(f, "SET holdfast:fence:%s x", KEY);
    freeReplyObject(reply);
    refused(f, HF_NODE_ERR_OTHER);
    reply = side(f, "EXISTS %s", KEY);
    assert_int_equal(reply->integer, 0); /* nothing was written before the error */
    freeReplyObject(reply);
}

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINK_TEST(test_up_tells_the_facts),
        LINK_TEST(test_evicting_is_told),
        LINK_TEST(test_replica_is_told),
        LINK_TEST(test_cluster_is_told),
        LINK_TEST(test_password),
        LINK_TEST(test_user_and_database),
        LINK_TEST(test_the_record_has_the_digest_of_the_token),
        LINK_TEST(test_words_follow_the_fence),
        LINK_TEST(test_wrong_password),
        LINK_TEST(test_missing_password),
        LINK_TEST(test_no_permission),
        LINK_TEST(test_probes),
        LINK_TEST(test_probes_that_are_wanted_soon_have_a_rate),
        LINK_TEST(test_writes_are_taken),
        LINK_TEST(test_writes_are_refused),
        LINK_TEST(test_tcp),
        LINK_TEST(test_name_is_looked_up),
        LINK_TEST(test_lock_renew_release),
        LINK_TEST(test_many_keys),
        LINK_TEST(test_scripts_are_loaded_again),
        LINK_TEST(test_scripts_that_cannot_be_loaded),
        LINK_TEST(test_late_and_forgotten),
        LINK_TEST(test_timeout_then_late_answer),
        LINK_TEST(test_silence_closes),
        LINK_TEST(test_silence_in_the_handshake),
        LINK_TEST(test_idle_is_no_silence),
        LINK_TEST(test_broken_and_back),
        LINK_TEST(test_flush_into_a_dead_connection),
        LINK_TEST(test_nobody_there_yet),
        LINK_TEST(test_too_many_in_flight),
        LINK_TEST(test_too_many_bytes),
        LINK_TEST(test_destroyed_in_flight),
        LINK_TEST(test_sending_from_an_answer),
        LINK_TEST(test_out_of_memory),
        LINK_TEST(test_readonly),
        LINK_TEST(test_no_replicas),
        LINK_TEST(test_busy),
        LINK_TEST(test_strange_fence_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

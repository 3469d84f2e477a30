/* Contract. What each script does to a real server, and what it says. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "agent/core/fleet_record.h"
#include "agent/core/sha1.h"
#include "agent/redis/script.h"
#include "shm/compiler.h"
#include "tests/support/redis_server.h"

#define NONCE   "0123456789abcdef0123456789abcdef"
#define NONCE_2 "fedcba9876543210fedcba9876543210"
#define A       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B       "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define FAR     INT64_C(4000000000000000) /* microseconds: the year 2096 */
#define DAY_MS  INT64_C(86400000)
#define KEPT_MS (8 * DAY_MS)            /* a fence record, from the first acceptance of a day */
#define RECORD  "a record of the fleet" /* to scripts it is a text */
#define DIGEST  "a5ecf3d7"              /* of its SHA-1 */
#define STAMP   NONCE ":" DIGEST

static struct redis_server server;
static redisContext *redis;

static int start_server(void **state)
{
    (void)state;
    if (!redis_server_start(&server, NULL))
        return -1;
    redis = redisConnectUnix(server.socket);
    return redis && !redis->err ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    redisFree(redis);
    redis_server_remove(&server);
    return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

static redisReply *ask(const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(redis, format, args);
    va_end(args);
    if (!reply)
        fail_msg("%s", redis->errstr);
    return reply;
}

static int64_t ask_number(const char *format, ...)
{
    redisReply *reply;
    va_list args;
    int64_t number;

    va_start(args, format);
    reply = redisvCommand(redis, format, args);
    va_end(args);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static void has_string(const char *wanted, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(redis, format, args);
    va_end(args);
    assert_non_null(reply);
    if (wanted) {
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_string_equal(reply->str, wanted);
    } else {
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    }
    freeReplyObject(reply);
}

static void does(const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(redis, format, args);
    va_end(args);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    freeReplyObject(reply);
}

/* An answer of words as the array that it would be: the fourth word is a verdict; with TAKEN a fence, a number and a text
 * come behind it. */
static redisReply *elements_of(redisReply *line)
{
    redisReader *reader = redisReaderCreate();
    char resp[2048] = "", count[16];
    const char *at = line->str;
    void *reply = NULL;
    bool taken = false;
    int n = 0;

    for (bool more = true; more; n++) {
        size_t length = taken && n == 6 ? strlen(at) : strcspn(at, " ");
        size_t used = strlen(resp);

        if (n == 3)
            taken = strncmp(at, "TAKEN", length) == 0;
        if (taken && n == 5)
            snprintf(resp + used, sizeof(resp) - used, ":%.*s\r\n", (int)length, at);
        else
            snprintf(resp + used, sizeof(resp) - used, "$%zu\r\n%.*s\r\n", length, (int)length, at);
        more = at[length] == ' ';
        at += length + more;
    }
    snprintf(count, sizeof(count), "*%d\r\n", n);
    assert_int_equal(redisReaderFeed(reader, count, strlen(count)), REDIS_OK);
    assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    freeReplyObject(line);
    return reply;
}

/* EVAL with `keys` keys; what follows are keys and arguments, NULL behind the last. */
static redisReply *run(enum script script, int keys, ...)
{
    const char *argv[32] = {"EVAL"};
    size_t lengths[32] = {4};
    char key_count[8];
    va_list args;
    redisReply *reply;
    int n = 3;

    argv[1] = script_text(script, &lengths[1]);
    argv[2] = key_count;
    lengths[2] = (size_t)snprintf(key_count, sizeof(key_count), "%d", keys);
    va_start(args, keys);
    while ((argv[n] = va_arg(args, const char *))) {
        lengths[n] = strlen(argv[n]);
        n++;
    }
    va_end(args);
    reply = redisCommandArgv(redis, n, argv, lengths);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_STRING)
        reply = elements_of(reply);
    if (reply->type == REDIS_REPLY_ARRAY) { /* TIME and nonce come first */
        assert_true(reply->elements >= 3);
        assert_true(strtoll(reply->element[0]->str, NULL, 10) > 1600000000);
        assert_int_equal(reply->element[2]->type, REDIS_REPLY_STRING);
    }
    return reply;
}

static const char *tag_of(const char *token)
{
    static char text[SHA1_HEX_LEN + 1];
    struct sha1 sha1;

    sha1_begin(&sha1);
    sha1_add(&sha1, token, strlen(token));
    sha1_end(&sha1, text);
    return text;
}

#define HOLDER "4711 of host-a" /* to scripts it is a text */

/* One acquire or heal of "key"; with the fence. */
static redisReply *lock_until(enum script script, const char *token, const char *fence,
                              const char *nonce, int64_t deadline_us)
{
    char deadline[24];

    snprintf(deadline, sizeof(deadline), "%" PRId64, deadline_us);
    return run(script, 3, "holdfast:node", "key", "holdfast:fence:key", token, "60000", deadline,
               nonce, fence, tag_of(token), HOLDER, NULL);
}

static redisReply *lock(enum script script, const char *token, const char *fence)
{
    return lock_until(script, token, fence, NONCE, FAR);
}

/* Whoever has it gives it back. */
static void released(void)
{
    freeReplyObject(run(SCRIPT_RELEASE, 2, "holdfast:node", "key", A, NULL));
    freeReplyObject(run(SCRIPT_RELEASE, 2, "holdfast:node", "key", B, NULL));
}

static redisReply *raise_fence(const char *token, const char *fence)
{
    return run(SCRIPT_RAISE, 3, "holdfast:node", "key", "holdfast:fence:key", token, fence,
               tag_of(token), "1 of host-b", NULL);
}

/* The answer behind TIME and nonce: verdict and fence (NULL: it must have none). */
static void says(redisReply *reply, const char *verdict, const char *fence)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_string_equal(reply->element[3]->str, verdict);
    if (fence)
        assert_string_equal(reply->element[4]->str, fence);
    else
        assert_int_equal(reply->elements, 4);
    freeReplyObject(reply);
}

static redisReply *sentinel(const char *make, const char *replace, const char *nonce,
                            const char *ttl_max_ms)
{
    return run(SCRIPT_SENTINEL, 1, "holdfast:node", make, replace, nonce, "1700000000000",
               ttl_max_ms, "3", "cafe", NULL);
}

static int empty_server(void **state)
{
    (void)state;
    does("FLUSHALL");
    freeReplyObject(sentinel("1", "0", NONCE, "60000"));
    return 0;
}

#define TEST(name) static void name(HF_UNUSED void **state)

/* --- acquire ---------------------------------------------------------------------------------- */

TEST(test_acquire_takes_key_and_fence)
{
    says(lock(SCRIPT_ACQUIRE, A, "1700000000123"), "OK", "1700000000123");
    has_string(A, "GET key");
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
    has_string("1700000000123", "HGET holdfast:fence:key fence");
    has_string(tag_of(A), "HGET holdfast:fence:key tag");
    has_string(HOLDER, "HGET holdfast:fence:key holder");
    assert_in_range(ask_number("PTTL holdfast:fence:key"), KEPT_MS - 10000, KEPT_MS);
}

TEST(test_fence_record_has_no_token)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "5"), "OK", "5");
    reply = ask("HGETALL holdfast:fence:key");
    assert_int_equal(reply->elements, 10);
    for (size_t i = 0; i < reply->elements; i++)
        assert_string_not_equal(reply->element[i]->str, A);
    freeReplyObject(reply);
}

TEST(test_acquire_again_arms_again)
{
    says(lock(SCRIPT_ACQUIRE, A, "5"), "OK", "5");
    does("PEXPIRE key 1000");
    says(lock(SCRIPT_ACQUIRE, A, "5"), "OK", "5"); /* the same fence with the same tag */
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
}

TEST(test_acquire_of_a_held_key)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "5"), "OK", "5");
    reply = lock(SCRIPT_ACQUIRE, B, "9");
    assert_int_equal(reply->elements, 7);
    assert_string_equal(reply->element[3]->str, "TAKEN");
    assert_string_equal(reply->element[4]->str, "5");
    assert_in_range(reply->element[5]->integer, 50000, 60000);
    assert_string_equal(reply->element[6]->str, HOLDER);
    freeReplyObject(reply);
    has_string(A, "GET key");
    has_string("5", "HGET holdfast:fence:key fence"); /* a loser raises no fence */
}

TEST(test_acquire_of_a_foreign_key)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "5"), "OK", "5");
    does("SET key by-another-program PX 30000");
    reply = lock(SCRIPT_ACQUIRE, B, "9");
    assert_int_equal(reply->elements, 6); /* the record is not of this token: no holder */
    assert_string_equal(reply->element[3]->str, "TAKEN");
    assert_in_range(reply->element[5]->integer, 20000, 30000);
    freeReplyObject(reply);
    has_string("by-another-program", "GET key");
    assert_in_range(ask_number("PTTL key"), 20000, 30000);
}

TEST(test_foreign_key_without_expiry)
{
    redisReply *reply;

    does("SET key forever");
    reply = lock(SCRIPT_ACQUIRE, A, "9");
    assert_string_equal(reply->element[3]->str, "TAKEN");
    assert_int_equal(reply->element[5]->integer, -1);
    freeReplyObject(reply);
}

TEST(test_another_type_is_taken)
{
    redisReply *reply;

    does("HSET key a:1 1");
    for (int i = 0; i < 2; i++) {
        reply = lock(i ? SCRIPT_HEAL : SCRIPT_ACQUIRE, A, "9");
        assert_string_equal(reply->element[3]->str, "TAKEN");
        assert_int_equal(reply->elements, 6);
        freeReplyObject(reply);
    }
    has_string("1", "HGET key a:1");
    says(raise_fence(A, "10"), "GONE", NULL);
}

TEST(test_stale_writes_nothing)
{
    redisReply *time = ask("TIME");
    int64_t now_us = strtoll(time->element[0]->str, NULL, 10) * 1000000 +
                     strtoll(time->element[1]->str, NULL, 10);

    freeReplyObject(time);
    says(lock_until(SCRIPT_ACQUIRE, A, "5", NONCE, now_us - 1), "STALE", NULL);
    says(lock_until(SCRIPT_HEAL, A, "5", NONCE, now_us - 1), "STALE", NULL);
    assert_int_equal(ask_number("EXISTS key holdfast:fence:key"), 0);
    says(lock_until(SCRIPT_ACQUIRE, A, "5", NONCE, now_us + 60000000), "OK", "5");
}

TEST(test_other_sentinel_writes_nothing)
{
    for (int i = 0; i < 2; i++) {
        enum script script = i ? SCRIPT_HEAL : SCRIPT_ACQUIRE;

        says(lock_until(script, A, "5", NONCE_2, FAR), "SENTINEL", NULL);
        says(lock_until(script, A, "5", "", FAR), "SENTINEL", NULL);
    }
    does("DEL holdfast:node");
    says(lock_until(SCRIPT_ACQUIRE, A, "5", NONCE, FAR), "SENTINEL", NULL);
    says(lock_until(SCRIPT_ACQUIRE, A, "5", "", FAR), "SENTINEL",
         NULL); /* nothing is not equal to nothing */
    assert_int_equal(ask_number("EXISTS key holdfast:fence:key"), 0);
}

/* --- the fence -------------------------------------------------------------------------------- */

TEST(test_fence_rules)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    released();
    says(lock(SCRIPT_ACQUIRE, B, "99"), "LOW", "100"); /* lower */
    has_string(B, "GET key");                          /* the vote stands all the same */
    has_string("100", "HGET holdfast:fence:key fence");
    says(lock(SCRIPT_ACQUIRE, B, "100"), "LOW", "100"); /* equal, of another tag */
    says(raise_fence(B, "100"), "LOW", "100");
    says(raise_fence(B, "101"), "OK", "101");
    says(raise_fence(B, "101"), "OK", "101"); /* equal, of our tag */
    has_string("1 of host-b", "HGET holdfast:fence:key holder");
    says(lock(SCRIPT_ACQUIRE, B, "102"), "OK", "102"); /* higher */
}

TEST(test_fences_are_exact_up_to_53_bits)
{
    says(lock(SCRIPT_ACQUIRE, A, "9007199254740990"), "OK", "9007199254740990");
    released();
    says(lock(SCRIPT_ACQUIRE, B, "9007199254740989"), "LOW", "9007199254740990");
    says(raise_fence(B, "9007199254740991"), "OK", "9007199254740991");
    has_string("9007199254740991", "HGET holdfast:fence:key fence");
    /* Compared as numbers, not as text. */
    does("DEL key holdfast:fence:key");
    says(lock(SCRIPT_ACQUIRE, A, "9"), "OK", "9");
    says(raise_fence(A, "10"), "OK", "10");
}

/* Once in a day, and the record is kept for a day longer. */
TEST(test_acceptance_renews_the_retention)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    does("PEXPIRE holdfast:fence:key 5000");
    says(raise_fence(A, "101"), "OK", "101");
    assert_in_range(ask_number("PTTL holdfast:fence:key"), 1, 5000);
    does("HINCRBY holdfast:fence:key day -1");
    says(raise_fence(A, "100"), "LOW", "101");
    assert_in_range(ask_number("PTTL holdfast:fence:key"), 1, 5000);
    says(raise_fence(A, "101"), "OK", "101");
    assert_in_range(ask_number("PTTL holdfast:fence:key"), KEPT_MS - 10000, KEPT_MS);
    /* A clock that was set back. */
    does("PEXPIRE holdfast:fence:key 5000");
    does("HINCRBY holdfast:fence:key day 30");
    says(raise_fence(A, "102"), "OK", "102");
    assert_in_range(ask_number("PTTL holdfast:fence:key"), KEPT_MS - 10000, KEPT_MS);
}

/* (!) Its fence counts as ever; what it says of a holder would be an earlier one's. */
TEST(test_record_of_an_earlier_form)
{
    redisReply *reply;

    does("HSET holdfast:fence:key fence 100 tag other host old pid 1");
    says(lock(SCRIPT_ACQUIRE, A, "99"), "LOW", "100");
    has_string("old", "HGET holdfast:fence:key host");
    says(raise_fence(A, "101"), "OK", "101");
    has_string(NULL, "HGET holdfast:fence:key host");
    assert_in_range(ask_number("PTTL holdfast:fence:key"), KEPT_MS - 10000, KEPT_MS);
    does("DEL key holdfast:fence:key");
    /* A holder by an agent of that form. */
    says(lock(SCRIPT_ACQUIRE, A, "5"), "OK", "5");
    does("HDEL holdfast:fence:key holder");
    reply = lock(SCRIPT_ACQUIRE, B, "9");
    assert_string_equal(reply->element[3]->str, "TAKEN");
    assert_string_equal(reply->element[6]->str, "");
    freeReplyObject(reply);
}

TEST(test_raise_needs_our_key)
{
    says(raise_fence(A, "5"), "GONE", NULL);
    does("SET key " B);
    says(raise_fence(A, "5"), "GONE", NULL);
    assert_int_equal(ask_number("EXISTS holdfast:fence:key"), 0);
}

/* --- heal ------------------------------------------------------------------------------------- */

TEST(test_heal_writes_key_and_raises_the_fence)
{
    does("HSET holdfast:fence:key fence 50 tag other");
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "100");
    has_string(A, "GET key");
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
    has_string("100", "HGET holdfast:fence:key fence");
    has_string(HOLDER, "HGET holdfast:fence:key holder");
    does("PEXPIRE key 1000");
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "100"); /* a resend */
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
}

TEST(test_heal_never_lowers_a_fence)
{
    does("HSET holdfast:fence:key fence 500 tag other");
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "500");
    has_string(A, "GET key");
    has_string("500", "HGET holdfast:fence:key fence");
}

/* {.., fence, tag}; "": it is ours. */
static void fence_is_of(redisReply *reply, const char *fence, const char *id)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_int_equal(reply->elements, 6);
    assert_string_equal(reply->element[4]->str, fence);
    assert_string_equal(reply->element[5]->str, id);
    freeReplyObject(reply);
}

/* (!) So that the agent of a lease learns of a later grant. */
TEST(test_who_has_a_higher_fence_is_told)
{
    fence_is_of(lock(SCRIPT_HEAL, A, "100"), "100", "");
    fence_is_of(raise_fence(A, "100"), "100", ""); /* again */
    does("HSET holdfast:fence:key fence 500 tag other");
    fence_is_of(lock(SCRIPT_HEAL, A, "100"), "500", "other");
    fence_is_of(raise_fence(A, "100"), "500", "other");
    has_string("500", "HGET holdfast:fence:key fence");
    fence_is_of(raise_fence(A, "501"), "501", "");
    fence_is_of(raise_fence(A, "500"), "501", ""); /* higher, and our own */
    /* Where the record is gone it is written. */
    does("DEL holdfast:fence:key");
    fence_is_of(raise_fence(A, "501"), "501", "");
    has_string("1 of host-b", "HGET holdfast:fence:key holder"); /* who raises here */
}

TEST(test_heal_leaves_anothers_key)
{
    redisReply *reply;

    does("SET key " B);
    reply = lock(SCRIPT_HEAL, A, "100");
    assert_string_equal(reply->element[3]->str, "TAKEN");
    freeReplyObject(reply);
    has_string(B, "GET key");
    assert_int_equal(ask_number("EXISTS holdfast:fence:key"), 0);
}

/* --- query ------------------------------------------------------------------------------------ */

static redisReply *query(const char *record)
{
    return run(SCRIPT_QUERY, 3, "holdfast:node", "key", "holdfast:fence:key", record, NULL);
}

TEST(test_query_of_a_free_key)
{
    says(query("1"), "FREE", "0");
    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    released();
    says(query("0"), "FREE", "7"); /* a record stays without its key */
    assert_int_equal(ask_number("EXISTS key"), 0);
}

TEST(test_query_of_a_held_key)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    reply = query("1");
    assert_int_equal(reply->elements, 8);
    assert_string_equal(reply->element[3]->str, "HELD");
    assert_string_equal(reply->element[4]->str, "7");
    assert_in_range(reply->element[5]->integer, 50000, 60000);
    has_string(reply->element[6]->str, "HGET holdfast:fence:key tag"); /* the id is no token */
    assert_string_equal(reply->element[7]->str, HOLDER);
    freeReplyObject(reply);
    reply = query("0");
    assert_int_equal(reply->elements, 7);
    freeReplyObject(reply);
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
}

/* The record is of the one before: it is not told as the holder's. */
TEST(test_query_of_a_foreign_key)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    does("SET key by-another-program");
    reply = query("1");
    assert_int_equal(reply->elements, 7);
    assert_string_equal(reply->element[3]->str, "HELD");
    assert_int_equal(reply->element[5]->integer, -1);
    assert_string_equal(reply->element[6]->str, "4fc41e4ff6d062c709e565ae933511e7421240bb");
    freeReplyObject(reply);
}

TEST(test_query_of_another_type)
{
    redisReply *reply;

    does("HSET key a 1");
    reply = query("1");
    assert_int_equal(reply->elements, 7);
    assert_string_equal(reply->element[3]->str, "HELD");
    assert_string_equal(reply->element[6]->str, "");
    freeReplyObject(reply);
}

static void verdict_is(redisReply *reply, const char *verdict)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_string_equal(reply->element[3]->str, verdict);
    freeReplyObject(reply);
}

/* --- once ------------------------------------------------------------------------------------- */

static redisReply *once_step(const char *step, const char *fence, const char *turn, const char *at,
                             const char *ended, const char *by)
{
    return run(SCRIPT_ONCE, 2, "holdfast:node", "holdfast:once:key", "4000000000000000", NONCE,
               fence, turn, step, at, "3", "90000", ended, by, NULL);
}

static redisReply *once(const char *fence, const char *turn, const char *at)
{
    return once_step(*at ? "write" : "look", fence, turn, at, "0", *at ? "by" : "");
}

static void once_says(redisReply *reply, const char *words)
{
    char text[128] = "";
    int used = 0;

    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    for (size_t i = 3; i < reply->elements; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%s", i > 3 ? " " : "",
                         reply->element[i]->str);
    assert_string_equal(text, words);
    freeReplyObject(reply);
}

TEST(test_once_tells_what_stood_there)
{
    once_says(once("7", "0", ""), "OK 0 0 0 0 0 0 0 ");
    once_says(once("7", "1", "1700000000000000"), "OK 7 0 0 0 0 0 0 ");
    once_says(once("8", "0", ""), "OK 7 1 7 1 1700000000000000 3 0 by");
    assert_in_range(ask_number("PTTL holdfast:once:key"), 80000, 90000);
    assert_int_equal(ask_number("EXISTS key"), 0);
}

TEST(test_once_keeps_what_a_longer_period_wrote)
{
    once_says(once("7", "1", "1700000000000000"), "OK 0 0 0 0 0 0 0 ");
    (void)ask_number("PEXPIRE holdfast:once:key 500000");
    once_says(once("8", "0", ""), "OK 7 1 7 1 1700000000000000 3 0 by");
    once_says(once("8", "1", "1700000000000001"), "OK 8 0 7 1 1700000000000000 3 0 by");
    assert_in_range(ask_number("PTTL holdfast:once:key"), 480000, 500000);
}

/* (!) Who asked later has decided by what stood here. */
TEST(test_once_takes_nothing_of_an_earlier_one)
{
    once_says(once("9007199254740990", "4", ""), "OK 0 0 0 0 0 0 0 ");
    once_says(once("9007199254740989", "9", "5"), "LOW 9007199254740990");
    once_says(once("9007199254740990", "3", "5"), "LOW 9007199254740990");
    once_says(once("9007199254740990", "4", ""), "OK 9007199254740990 4 0 0 0 0 0 ");
    once_says(once("9007199254740990", "5", "6"), "OK 9007199254740990 4 0 0 0 0 0 ");
    once_says(once("9007199254740991", "0", ""),
              "OK 9007199254740990 5 9007199254740990 5 6 3 0 by");
}

/* (!) What a node remembers that goes by another record is told, and nothing is noted there. */
TEST(test_once_is_peeked_at_under_another_stamp)
{
    freeReplyObject(once_step("write", "7", "1", "100", "0", "first"));
    (void)ask_number("HSET holdfast:node digest 12345678");
    once_says(once_step("look", "8", "1", "0", "0", ""), "SENTINEL");
    once_says(once_step("peek", "8", "1", "0", "0", ""), "OK 7 1 7 1 100 3 0 first");
    (void)ask_number("DEL holdfast:node");
    once_says(once_step("peek", "8", "1", "0", "0", ""), "SENTINEL");
}

TEST(test_once_has_who_ran_it_and_how_it_ended)
{
    freeReplyObject(once_step("write", "7", "1", "100", "0", "first"));
    freeReplyObject(once_step("end", "7", "7", "0", "513", ""));
    once_says(once_step("peek", "", "0", "0", "0", ""), "OK 7 7 7 1 100 3 513 first");
    /* Another one's end says nothing of it, and an inquiry leaves no trace. */
    freeReplyObject(once_step("end", "8", "3", "0", "1", ""));
    once_says(once_step("peek", "", "0", "0", "0", ""), "OK 8 3 7 1 100 3 513 first");
    /* What is given back is the run before, with all of it. */
    freeReplyObject(once_step("write", "9", "1", "200", "0", "second"));
    once_says(once_step("back", "9", "2", "100", "0", ""), "OK 9 1 9 1 200 3 0 second");
    once_says(once_step("peek", "", "0", "0", "0", ""), "OK 9 2 9 2 100 3 513 first");
    /* (!) Who asks again has overwritten it already, and may not know what it was. */
    freeReplyObject(once_step("write", "10", "1", "300", "0", "third"));
    freeReplyObject(once_step("write", "10", "5", "400", "0", "third"));
    once_says(once_step("back", "10", "6", "-1", "0", ""), "OK 10 5 10 5 400 3 0 third");
    once_says(once_step("peek", "", "0", "0", "0", ""), "OK 10 6 10 6 100 3 513 first");
    /* A node that was away then keeps what it has. */
    once_says(once_step("back", "11", "1", "-1", "0", ""), "OK 10 6 10 6 100 3 513 first");
    once_says(once_step("peek", "", "0", "0", "0", ""), "OK 11 1 11 1 100 3 513 first");
}

/* --- force ------------------------------------------------------------------------------------ */

#define FORCED "holdfast:forced:"

static redisReply *force(const char *fence, const char *id)
{
    return run(SCRIPT_FORCE, 3, "holdfast:node", "key", "holdfast:fence:key", fence, id, "1000",
               "60000", NULL);
}

/* The tag of the fence record. */
static const char *tag(void)
{
    static char text[41];
    redisReply *reply = ask("HGET holdfast:fence:key tag");

    snprintf(text, sizeof(text), "%s", reply->str);
    freeReplyObject(reply);
    return text;
}

TEST(test_force_puts_a_mark_in_the_tokens_place)
{
    char mark[80];

    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    does("PEXPIRE key 20000");
    verdict_is(force("7", ""), "FORCED");
    snprintf(mark, sizeof(mark), FORCED "%s", tag());
    has_string(mark, "GET key");
    /* (!) Never a free key: for the time that the token had left nobody else gets it. */
    assert_in_range(ask_number("PTTL key"), 15000, 20000);
    verdict_is(lock(SCRIPT_ACQUIRE, B, "9"), "TAKEN");
    verdict_is(lock(SCRIPT_HEAL, A, "7"), "TAKEN");
    verdict_is(lock(SCRIPT_ACQUIRE, A, "7"), "TAKEN"); /* a late resend */
    verdict_is(force("7", ""), "FORCED");              /* again: nothing more */
    assert_in_range(ask_number("PTTL key"), 15000, 20000);
    has_string("7", "HGET holdfast:fence:key fence");
}

TEST(test_force_leaves_another_hold)
{
    const char *none = "0123456789012345678901234567890123456789";
    char id[41];

    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    snprintf(id, sizeof(id), "%s", tag());
    verdict_is(force("6", ""), "HELD");
    verdict_is(force("8", ""), "HELD");
    verdict_is(force("", ""), "HELD");
    verdict_is(force("", none), "HELD");
    verdict_is(force("7", none), "HELD");
    has_string(A, "GET key");
    /* The one that was meant is gone, a newer one has it. */
    released();
    says(lock(SCRIPT_ACQUIRE, B, "8"), "OK", "8");
    verdict_is(force("7", ""), "HELD");
    verdict_is(force("", id), "HELD");
    has_string(B, "GET key");
    /* The record's fence is of no holder: the key is another program's. */
    does("SET key by-another-program PX 30000");
    verdict_is(force("8", ""), "HELD");
    has_string("by-another-program", "GET key");
}

TEST(test_force_of_nothing_and_of_another_type)
{
    says(force("7", ""), "FREE", "0");
    assert_int_equal(ask_number("EXISTS key"), 0);
    does("HSET key a 1");
    verdict_is(force("7", ""), "HELD");
    verdict_is(force("", ""), "HELD");
    has_string("1", "HGET key a");
}

/* Of a value that no agent wrote nobody knows how long it is believed in. */
TEST(test_force_of_a_foreign_key)
{
    redisReply *reply;
    char id[41];

    does("SET key by-another-program");
    reply = query("1");
    snprintf(id, sizeof(id), "%s", reply->element[6]->str);
    freeReplyObject(reply);
    verdict_is(force("", id), "FORCED");
    assert_in_range(ask_number("PTTL key"), 500, 1000);
    reply = query("1");
    assert_string_equal(reply->element[3]->str, "FORCED");
    assert_string_equal(reply->element[6]->str, id); /* still told as the one that it was */
    freeReplyObject(reply);
}

/* The id of what stands in the key, as an operator would see it. */
static const char *id_in_key(void)
{
    static char id[41];
    redisReply *reply = query("1");

    snprintf(id, sizeof(id), "%s", reply->element[6]->str);
    freeReplyObject(reply);
    return id;
}

/* (!) The record says nothing of the key: another's attempt wrote it over, or its retention is over. */
TEST(test_force_by_id_whatever_the_record_says)
{
    static const char *const records[] = {"HSET holdfast:fence:key fence 9 tag other",
                                          "DEL holdfast:fence:key"};

    for (size_t i = 0; i < HF_LENGTH(records); i++) {
        does("DEL key holdfast:fence:key");
        says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
        does("PEXPIRE key 20000");
        does(records[i]);
        verdict_is(force("7", ""), "HELD");
        verdict_is(force("", id_in_key()), "FORCED");
        assert_in_range(ask_number("PTTL key"), 15000, 20000);
    }
}

/* What has the form of an agent's token may be one; nothing else is. */
TEST(test_force_of_what_may_be_an_agents)
{
    static const struct {
        const char *value;
        int64_t least, most;
    } values[] = {
        {"0123456789abcdef0123456789abcdef01234567", 50000, 60000},
        {"0123456789ABCDEF0123456789abcdef01234567", 500, 1000},
        {"0123456789abcdef0123456789abcdef0123456", 500, 1000},
        {"0123456789abcdef0123456789abcdef012345678", 500, 1000},
        {"0123456789abcdef0123456789abcdef0123456g", 500, 1000},
    };

    for (size_t i = 0; i < HF_LENGTH(values); i++) {
        char set[80];

        for (int expires = 0; expires < 2; expires++) {
            snprintf(set, sizeof(set), "SET key %s%s", values[i].value,
                     expires ? " PX 3600000" : "");
            does(set);
            verdict_is(force("", id_in_key()), "FORCED");
            assert_in_range(ask_number("PTTL key"), values[i].least, values[i].most);
        }
    }
}

TEST(test_force_of_a_key_that_never_expires)
{
    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    does("PERSIST key");
    verdict_is(force("7", ""), "FORCED");
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
}

TEST(test_a_forced_out_token_is_known_to_its_agent)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "7"), "OK", "7");
    verdict_is(force("7", ""), "FORCED");
    reply = run(SCRIPT_RENEW, 2, "holdfast:node", "key", A, "0", "60000", NULL);
    assert_string_equal(reply->element[3]->str, "x");
    freeReplyObject(reply);
    reply = run(SCRIPT_RENEW, 2, "holdfast:node", "key", B, "0", "60000", NULL);
    assert_string_equal(reply->element[3]->str, "f");
    freeReplyObject(reply);
    /* Its own release takes the mark away, another's does not. */
    reply = run(SCRIPT_RELEASE, 2, "holdfast:node", "key", B, NULL);
    assert_string_equal(reply->element[3]->str, "f");
    freeReplyObject(reply);
    reply = run(SCRIPT_RELEASE, 2, "holdfast:node", "key", A, NULL);
    assert_string_equal(reply->element[3]->str, "1");
    freeReplyObject(reply);
    assert_int_equal(ask_number("EXISTS key"), 0);
}

/* --- listing ---------------------------------------------------------------------------------- */

static void take(const char *key, const char *token)
{
    char record[80];

    snprintf(record, sizeof(record), "holdfast:fence:%s", key);
    says(run(SCRIPT_ACQUIRE, 3, "holdfast:node", key, record, token, "60000", "4000000000000000",
             NONCE, "7", tag_of(token), HOLDER, NULL),
         "OK", "7");
}

/* All pages; how many keys were found. `ret_pages` may be NULL. */
static size_t list_all(const char *pattern, size_t *ret_pages)
{
    char cursor[24] = "0";
    size_t found = 0, pages = 0;

    do {
        redisReply *reply = run(SCRIPT_LISTING, 1, "holdfast:node", cursor, pattern, NULL);

        if (reply->type == REDIS_REPLY_ERROR)
            fail_msg("%s", reply->str);
        snprintf(cursor, sizeof(cursor), "%s", reply->element[3]->str);
        found += reply->elements - 4;
        assert_true(reply->elements < 1000);
        for (size_t i = 4; i < reply->elements; i++)
            assert_int_equal(reply->element[i]->elements, 5);
        freeReplyObject(reply);
        pages++;
    } while (strcmp(cursor, "0") != 0);
    if (ret_pages)
        *ret_pages = pages;
    return found;
}

TEST(test_listing_finds_what_is_held)
{
    redisReply *reply;

    take("a/1", A);
    take("a/2", B);
    take("b", A);
    take("a/released", A);
    does("DEL a/released");
    take("a/taken", A);
    does("SET a/taken by-another-program");
    does("SET holdfast:fence:a/x text");
    does("SET a/foreign x");
    assert_int_equal(list_all("holdfast:fence:a/*", NULL), 2);
    assert_int_equal(list_all("holdfast:fence:*", NULL), 3);
    assert_int_equal(list_all("holdfast:fence:c*", NULL), 0);
    reply = run(SCRIPT_LISTING, 1, "holdfast:node", "0", "holdfast:fence:b*", NULL);
    assert_int_equal(reply->elements, 5);
    assert_string_equal(reply->element[4]->element[0]->str, "b");
    assert_string_equal(reply->element[4]->element[2]->str, "7");
    assert_in_range(reply->element[4]->element[3]->integer, 50000, 60000);
    assert_string_equal(reply->element[4]->element[4]->str, HOLDER);
    freeReplyObject(reply);
}

/* Many keys take many pages, whether they match or not. */
TEST(test_listing_is_cut_into_pages)
{
    size_t pages;

    for (int i = 0; i < 300; i++) {
        char key[16];

        snprintf(key, sizeof(key), "m/%d", i);
        take(key, A);
    }
    assert_true(list_all("holdfast:fence:m/*", &pages) >= 300);
    assert_in_range(pages, 3, 300);
    does("EVAL %s 0", "for i = 1, 5000 do redis.call('SET', 'other' .. i, 1) end");
    assert_int_equal(list_all("holdfast:fence:none*", &pages), 0);
    assert_in_range(pages, 8, 30);
}

/* --- renew and release ------------------------------------------------------------------------ */

TEST(test_renew_marks)
{
    redisReply *reply;

    does("SET mine " A " PX 1000");
    does("SET short " A " PX 1000");
    does("SET theirs " B " PX 1000");
    does("RPUSH list x");
    reply = run(SCRIPT_RENEW, 6, "holdfast:node", "mine", "missing", "theirs", "list", "short", A,
                A, A, A, A, "0", "60000", "60000", "60000", "60000", "20000", NULL);
    assert_int_equal(reply->elements, 4);
    assert_string_equal(reply->element[2]->str, NONCE);
    assert_string_equal(reply->element[3]->str, "10ff1");
    freeReplyObject(reply);
    assert_in_range(ask_number("PTTL mine"), 50000, 60000);
    assert_in_range(ask_number("PTTL short"), 10000, 20000);
    assert_in_range(ask_number("PTTL theirs"), 1, 1000);
    assert_int_equal(ask_number("EXISTS missing"), 0); /* never creates */
}

TEST(test_renew_with_one_ttl_for_all)
{
    redisReply *reply;

    does("SET a " A " PX 1000");
    does("SET b " A " PX 1000");
    reply = run(SCRIPT_RENEW, 3, "holdfast:node", "a", "b", A, A, "0", "60000", NULL);
    assert_string_equal(reply->element[3]->str, "11");
    freeReplyObject(reply);
    assert_in_range(ask_number("PTTL a"), 50000, 60000);
    assert_in_range(ask_number("PTTL b"), 50000, 60000);
}

/* Keys that are tracked, or were to be by a user who may not read them together. */
static void renews_tracked(bool may_mget)
{
    redisReply *reply;

    does("SET mine " A " PX 1000");
    does("SET theirs " B " PX 1000");
    does("SET forced " FORCED "%s PX 1000", tag_of(A));
    does("RPUSH list x");
    does("ACL SETUSER default %s", may_mget ? "+mget" : "-mget");
    reply = run(SCRIPT_RENEW, 6, "holdfast:node", "mine", "missing", "theirs", "list", "forced", A,
                A, A, A, A, "1", "60000", NULL);
    assert_string_equal(reply->element[3]->str, "10ffx");
    freeReplyObject(reply);
    does("ACL SETUSER default +mget");
    assert_in_range(ask_number("PTTL mine"), 50000, 60000);
    assert_in_range(ask_number("PTTL theirs"), 1, 1000);
    assert_int_equal(ask_number("EXISTS missing"), 0);
}

TEST(test_renew_tracked_marks)
{
    renews_tracked(true);
}

TEST(test_renew_tracked_without_the_right_to_read_them_together)
{
    renews_tracked(false);
}

/* (!) Our own write makes a node forget who tracks the key. */
TEST(test_renewed_keys_are_tracked)
{
    redisContext *notices = redisConnectUnix(server.socket),
                 *rival = redisConnectUnix(server.socket);
    redisReply *reply = redisCommand(notices, "CLIENT ID");
    void *told = NULL;

    does("CLIENT TRACKING ON REDIRECT %lld OPTIN NOLOOP", reply->integer);
    freeReplyObject(reply);
    freeReplyObject(redisCommand(notices, "SUBSCRIBE __redis__:invalidate"));
    does("SET a " A " PX 60000");
    does("SET b " A " PX 60000");
    for (int i = 0; i < 2; i++) {
        does("CLIENT CACHING YES");
        freeReplyObject(run(SCRIPT_RENEW, 3, "holdfast:node", "a", "b", A, A, "1", "60000", NULL));
    }
    freeReplyObject(redisCommand(rival, "DEL b"));
    redisSetTimeout(notices, (struct timeval){.tv_sec = 2});
    assert_int_equal(redisGetReply(notices, &told), REDIS_OK);
    reply = told;
    assert_string_equal(reply->element[2]->element[0]->str, "b");
    freeReplyObject(reply);
    does("CLIENT TRACKING OFF");
    redisFree(rival);
    redisFree(notices);
}

TEST(test_renew_without_a_sentinel)
{
    redisReply *reply;

    does("DEL holdfast:node");
    does("SET mine " A " PX 1000");
    reply = run(SCRIPT_RENEW, 2, "holdfast:node", "mine", A, "0", "60000", NULL);
    assert_string_equal(reply->element[2]->str, ""); /* says so, and renews all the same */
    assert_string_equal(reply->element[3]->str, "1");
    freeReplyObject(reply);
}

TEST(test_release_marks)
{
    redisReply *reply;

    does("SET mine " A);
    does("SET theirs " B);
    does("SADD set x");
    reply = run(SCRIPT_RELEASE, 5, "holdfast:node", "mine", "theirs", "set", "missing", A, A, A, A,
                NULL);
    assert_string_equal(reply->element[3]->str, "1ff0");
    freeReplyObject(reply);
    assert_int_equal(ask_number("EXISTS mine"), 0);
    assert_int_equal(ask_number("EXISTS theirs set"), 2);
}

TEST(test_release_keeps_the_fence)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    freeReplyObject(run(SCRIPT_RELEASE, 2, "holdfast:node", "key", A, NULL));
    has_string("100", "HGET holdfast:fence:key fence");
    says(lock(SCRIPT_ACQUIRE, B, "100"), "LOW", "100");
}

/* Zero bytes, line ends, quotes and bytes that are no UTF-8. */
TEST(test_binary_names)
{
    static const char key[] = "a\0b\r\n\"'\xff\xfe%s";
    static const char fence_key[] = "holdfast:fence:a\0b\r\n\"'\xff\xfe%s";
    size_t text_length, release_length;
    const char *text = script_text(SCRIPT_ACQUIRE, &text_length);
    const char *argv[] = {"EVAL",    text,      "3",     "holdfast:node",    key,
                          fence_key, A,         "60000", "4000000000000000", NONCE,
                          "7",       tag_of(A), "n\0\n"};
    size_t lengths[] = {4,  text_length, 1,  13, sizeof(key) - 1, sizeof(fence_key) - 1, 40, 5, 16,
                        32, 1,           40, 3};
    const char *release[] = {
        "EVAL", script_text(SCRIPT_RELEASE, &release_length), "2", "holdfast:node", key, A};
    size_t release_lengths[] = {4, release_length, 1, 13, sizeof(key) - 1, 40};
    redisReply *reply;

    says(elements_of(redisCommandArgv(redis, HF_LENGTH(argv), argv, lengths)), "OK", "7");
    reply = ask("GET %b", key, sizeof(key) - 1);
    assert_string_equal(reply->str, A);
    freeReplyObject(reply);
    assert_int_equal(ask_number("EXISTS %b", fence_key, sizeof(fence_key) - 1), 1);
    assert_int_equal(ask_number("EXISTS a"), 0);
    reply = elements_of(redisCommandArgv(redis, HF_LENGTH(release), release, release_lengths));
    assert_string_equal(reply->element[3]->str, "1");
    freeReplyObject(reply);
    assert_int_equal(ask_number("EXISTS %b", key, sizeof(key) - 1), 0);
}

/* --- keys that end early ---------------------------------------------------------------------- */

/* As if the node's clock had been ahead for a moment, or somebody had deleted it. */
static void ends_early(void)
{
    does("DEL key");
}

/* Of A's key, that does not stand. */
static void is_reserved(enum script script, const char *token, int64_t least_ms, int64_t most_ms)
{
    redisReply *reply = lock(script, token, "900");

    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_string_equal(reply->element[3]->str, "TAKEN");
    assert_string_equal(reply->element[4]->str, "100");
    assert_in_range(reply->element[5]->integer, least_ms, most_ms);
    freeReplyObject(reply);
    has_string(NULL, "GET key");
    has_string("100", "HGET holdfast:fence:key fence");
}

static void renew_for(const char *token, const char *ttl_ms)
{
    freeReplyObject(run(SCRIPT_RENEW, 2, "holdfast:node", "key", token, "0", ttl_ms, NULL));
}

/* (!) Its holder still believes in it. */
TEST(test_a_key_that_ended_early_is_nobody_elses_before_its_time)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 50000, 60000);
    is_reserved(SCRIPT_HEAL, B, 50000, 60000);
    reply = lock(SCRIPT_ACQUIRE, B, "900");
    assert_string_equal(reply->element[6]->str, HOLDER);
    freeReplyObject(reply);
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "100");
    has_string(A, "GET key");
}

TEST(test_its_time_is_that_of_its_last_renewal)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    renew_for(A, "90000");
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 60001, 90000);
    released();
    says(lock(SCRIPT_ACQUIRE, B, "101"), "OK", "101");
    renew_for(A, "90000"); /* which renews nothing */
    ends_early();
    reply = lock(SCRIPT_ACQUIRE, A, "900");
    assert_in_range(reply->element[5]->integer, 50000, 60000);
    freeReplyObject(reply);
}

/* A resend, and a second round of the same token. */
TEST(test_each_command_that_sets_a_key_says_until_when)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    does("HSET holdfast:fence:key until 0");
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 50000, 60000);
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "100");
    does("DEL holdfast:fence:key");
    says(raise_fence(A, "100"), "OK", "100");
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 50000, 60000);
}

/* (!) The record is of another then. */
TEST(test_a_key_with_a_low_fence_is_reserved_for_its_token)
{
    does("HSET holdfast:fence:key fence 100 tag other day 1");
    says(lock(SCRIPT_ACQUIRE, A, "99"), "LOW", "100");
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 50000, 60000);
    fence_is_of(lock(SCRIPT_HEAL, A, "99"), "100", "other");
    released();
    says(lock(SCRIPT_ACQUIRE, B, "100"), "LOW", "100");
    says(raise_fence(B, "101"), "OK", "101");
    ends_early();
    says(lock(SCRIPT_HEAL, B, "101"), "OK", "101");
}

TEST(test_a_released_key_is_free)
{
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    released();
    says(lock(SCRIPT_ACQUIRE, B, "101"), "OK", "101");
    released();
    /* One that ended early is, too, and by its own token only. */
    says(lock(SCRIPT_ACQUIRE, A, "102"), "OK", "102");
    ends_early();
    reply = run(SCRIPT_RELEASE, 2, "holdfast:node", "key", B, NULL);
    assert_string_equal(reply->element[3]->str, "0");
    freeReplyObject(reply);
    reply = lock(SCRIPT_ACQUIRE, B, "900");
    assert_string_equal(reply->element[3]->str, "TAKEN");
    freeReplyObject(reply);
    reply = run(SCRIPT_RELEASE, 2, "holdfast:node", "key", A, NULL);
    assert_string_equal(reply->element[3]->str, "0");
    freeReplyObject(reply);
    has_string(NULL, "GET key");
    says(lock(SCRIPT_ACQUIRE, B, "900"), "OK", "900");
    /* So is one that another program wrote over, and deleted. */
    does("SET key by-another-program");
    reply = run(SCRIPT_RELEASE, 2, "holdfast:node", "key", B, NULL);
    assert_string_equal(reply->element[3]->str, "f");
    freeReplyObject(reply);
    has_string("by-another-program", "GET key");
    does("DEL key");
    says(lock(SCRIPT_ACQUIRE, A, "901"), "OK", "901");
    /* So is one whose hold was ended by force. */
    does("SET key " FORCED "%s", tag_of(A));
    released();
    says(lock(SCRIPT_ACQUIRE, B, "902"), "OK", "902");
}

/* To who asks, and to who ends it, it is held. */
TEST(test_a_reserved_key_is_shown_and_can_be_forced)
{
    char mark[80], id[41];
    redisReply *reply;

    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    snprintf(id, sizeof(id), "%s", tag());
    ends_early();
    reply = query("1");
    assert_int_equal(reply->elements, 8);
    assert_string_equal(reply->element[3]->str, "HELD");
    assert_string_equal(reply->element[4]->str, "100");
    assert_in_range(reply->element[5]->integer, 50000, 60000);
    assert_string_equal(reply->element[6]->str, id);
    assert_string_equal(reply->element[7]->str, HOLDER);
    freeReplyObject(reply);
    verdict_is(force("99", ""), "HELD");
    has_string(NULL, "GET key");
    verdict_is(force("100", ""), "FORCED");
    snprintf(mark, sizeof(mark), FORCED "%s", id);
    has_string(mark, "GET key");
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
    verdict_is(lock(SCRIPT_HEAL, A, "100"), "TAKEN");
    verdict_is(lock(SCRIPT_ACQUIRE, B, "101"), "TAKEN");
    released();
    says(query("0"), "FREE", "100");
}

/* Adds `ms` to the time in the fence record, as if that had been told by a clock so far ahead. */
static void told_ahead(int ms)
{
    does("EVAL %s 0 %d",
         "local f, u = 'holdfast:fence:key', redis.call('HGET', 'holdfast:fence:key', 'until') "
         "redis.call('HSET', f, 'until', (string.gsub(u, '^%d+', function(n) "
         "return string.format('%.0f', n + ARGV[1]) end)))",
         ms);
}

/* (!) A renewal that came while the clock was ahead, whose answer was lost, and then an end. */
TEST(test_more_than_its_ttl_may_be_promised)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    ends_early();
    told_ahead(20000);
    is_reserved(SCRIPT_ACQUIRE, B, 70000, 80000);
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "100");
    assert_in_range(ask_number("PTTL key"), 70000, 80000);
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 70000, 80000);
}

/* (!) A renewal, or a resend, that comes while the clock is behind. */
TEST(test_a_clock_that_is_behind_takes_nothing_of_what_was_promised)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    told_ahead(5000); /* by the clock that is behind by so much, as is the key's end */
    does("PEXPIRE key 65000");
    renew_for(A, "60000");
    assert_in_range(ask_number("PTTL key"), 60001, 65000);
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    assert_in_range(ask_number("PTTL key"), 60001, 65000);
    ends_early();
    is_reserved(SCRIPT_ACQUIRE, B, 60001, 65000);
    says(lock(SCRIPT_HEAL, A, "100"), "OK", "100");
    renew_for(A, "70000");
    assert_in_range(ask_number("PTTL key"), 65001, 70000);
}

/* The node has no vote until all such promises are over. */
TEST(test_what_was_promised_before_a_step_was_seen_is_over)
{
    says(lock(SCRIPT_ACQUIRE, A, "100"), "OK", "100");
    told_ahead(3600000);
    does("PEXPIRE key 3660000");
    does("HSET holdfast:node nonce " NONCE_2);
    renew_for(A, "60000");
    assert_in_range(ask_number("PTTL key"), 50000, 60000);
    ends_early();
    says(lock_until(SCRIPT_ACQUIRE, B, "900", NONCE_2, FAR), "TAKEN", "100");
    does("HSET holdfast:node nonce " NONCE);
    says(lock(SCRIPT_ACQUIRE, B, "101"), "OK", "101");
}

/* What stands there may be anybody's. */
TEST(test_a_record_without_a_time_reserves_nothing)
{
    static const char *const texts[] = {
        "", "x", "5", "9000000000000", "9000000000000 ", "-1 5", "9000000000000 x", "1 60000"};

    for (size_t i = 0; i < HF_LENGTH(texts); i++) {
        does("DEL key holdfast:fence:key");
        does("HSET holdfast:fence:key fence 5 tag other day 1 until %s", texts[i]);
        says(lock(SCRIPT_ACQUIRE, B, "101"), "OK", "101");
    }
}

/* A renewal and a release change nothing else, and leave nothing behind. */
TEST(test_a_record_that_is_missing_or_of_another_type)
{
    redisReply *reply;

    for (int i = 0; i < 2; i++) {
        enum script script = i ? SCRIPT_RELEASE : SCRIPT_RENEW;

        does("DEL holdfast:fence:key");
        does("SET key " A " PX 1000");
        reply = run(script, 2, "holdfast:node", "key", A, "0", "60000", NULL);
        assert_string_equal(reply->element[3]->str, "1");
        freeReplyObject(reply);
        assert_in_range(ask_number("PTTL holdfast:fence:key"), KEPT_MS - 10000, KEPT_MS);
        does("SET holdfast:fence:key x");
        does("SET key " A " PX 1000");
        reply = run(script, 2, "holdfast:node", "key", A, "0", "60000", NULL);
        assert_string_equal(reply->element[3]->str, "1");
        freeReplyObject(reply);
        reply = run(script, 2, "holdfast:node", "none", A, "0", "60000", NULL);
        assert_string_equal(reply->element[3]->str, "0");
        freeReplyObject(reply);
        has_string("x", "GET holdfast:fence:key");
        assert_int_equal(ask_number("EXISTS holdfast:fence:none"), 0);
    }
}

/* --- the sentinel ----------------------------------------------------------------------------- */

static void is_sentinel(redisReply *reply, const char *nonce, const char *created,
                        const char *ttl_max_ms)
{
    int64_t now_us, created_us;

    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_string_equal(reply->element[2]->str, nonce);
    assert_string_equal(reply->element[3]->str, created);
    if (!ttl_max_ms) {
        assert_int_equal(reply->elements, 4);
        freeReplyObject(reply);
        return;
    }
    assert_int_equal(reply->elements, 12);
    now_us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
             strtoll(reply->element[1]->str, NULL, 10);
    created_us = strtoll(reply->element[4]->str, NULL, 10);
    assert_true(created_us <= now_us && created_us > now_us - 60000000);
    assert_string_equal(reply->element[5]->str, "1700000000000");
    assert_string_equal(reply->element[6]->str, ttl_max_ms);
    assert_string_equal(reply->element[7]->str, "3");
    assert_string_equal(reply->element[8]->str, "cafe");
    assert_string_equal(reply->element[9]->str, "");
    assert_string_equal(reply->element[10]->str, "");
    freeReplyObject(reply);
}

TEST(test_sentinel_is_read_only_unless_asked)
{
    does("DEL holdfast:node");
    is_sentinel(sentinel("0", "0", "", "0"), "", "0", NULL);
    is_sentinel(sentinel("0", "1", NONCE, "60000"), "", "0", NULL);
    assert_int_equal(ask_number("EXISTS holdfast:node"), 0);
}

TEST(test_sentinel_is_made_once)
{
    does("DEL holdfast:node");
    is_sentinel(sentinel("1", "0", NONCE, "60000"), NONCE, "1", "60000");
    is_sentinel(sentinel("1", "0", NONCE_2, "60000"), NONCE, "0", "60000");
    is_sentinel(sentinel("0", "0", "", "0"), NONCE, "0", "60000");
    assert_int_equal(ask_number("PTTL holdfast:node"), -1); /* no expiry */
}

TEST(test_sentinel_is_replaced_when_it_differs)
{
    is_sentinel(sentinel("1", "0", NONCE_2, "90000"), NONCE, "0",
                "60000"); /* not asked to replace */
    is_sentinel(sentinel("1", "1", NONCE_2, "60000"), NONCE, "0", "60000"); /* nothing differs */
    is_sentinel(sentinel("1", "1", NONCE_2, "90000"), NONCE_2, "1", "90000");
    is_sentinel(sentinel("1", "1", NONCE, "90000"), NONCE_2, "0", "90000");
}

/* As whoever saw the clock step under `seen` asks for it. */
static redisReply *step_trace(const char *nonce, const char *seen)
{
    return run(SCRIPT_SENTINEL, 1, "holdfast:node", "0", "0", nonce, "1700000000007", "9", "9",
               "other", seen, NULL);
}

TEST(test_sentinel_gets_a_new_age_under_the_nonce_of_a_step)
{
    redisReply *reply;

    does("HSET holdfast:node created_us 5");
    reply = step_trace(NONCE_2, "another");
    assert_string_equal(reply->element[2]->str, NONCE);
    assert_string_equal(reply->element[4]->str, "5");
    freeReplyObject(reply);
    reply = step_trace(NONCE_2, NONCE);
    assert_string_equal(reply->element[2]->str, NONCE_2);
    assert_string_equal(reply->element[3]->str, "0");
    assert_true(strtoll(reply->element[4]->str, NULL, 10) > 1700000000000000);
    assert_string_equal(reply->element[5]->str, "1700000000007");
    assert_string_equal(reply->element[6]->str, "60000");
    assert_string_equal(reply->element[7]->str, "3");
    assert_string_equal(reply->element[8]->str, "cafe");
    freeReplyObject(reply);
    does("DEL holdfast:node");
    is_sentinel(step_trace(NONCE, NONCE), "", "0", NULL);
    assert_int_equal(ask_number("EXISTS holdfast:node"), 0);
}

/* --- the fleet's record ----------------------------------------------------------------------- */

static redisReply *put_until(const char *stamp, const char *record, int64_t deadline_us)
{
    char deadline[24];

    snprintf(deadline, sizeof(deadline), "%" PRId64, deadline_us);
    return run(SCRIPT_FLEET, 1, "holdfast:node", deadline, stamp, record, "host-a 0 1700000000000",
               "cafe", NULL);
}

/* The answer behind TIME: the stamp, and the verdict. */
static void put_says(redisReply *reply, const char *stamp, const char *verdict)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    assert_string_equal(reply->element[2]->str, stamp);
    says(reply, verdict, NULL);
}

static void has_the_record(void)
{
    put_says(put_until(NONCE, RECORD, FAR), STAMP, "OK");
}

/* As the agent itself would count it. */
TEST(test_record_is_put_with_its_digest)
{
    char digest[FLEET_DIGEST_LEN + 1];

    fleet_record_digest(RECORD, strlen(RECORD), digest);
    assert_string_equal(digest, DIGEST);
    has_the_record();
    has_string(RECORD, "HGET holdfast:node record");
    has_string(DIGEST, "HGET holdfast:node digest");
    has_string("host-a 0 1700000000000", "HGET holdfast:node record_by");
    has_string("cafe", "HGET holdfast:node sure");
    has_string(NONCE, "HGET holdfast:node nonce");
    has_string("60000", "HGET holdfast:node ttl_max_ms");
    has_string("cafe", "HGET holdfast:node list_hash");
    assert_int_equal(ask_number("PTTL holdfast:node"), -1);
}

/* (!) Nobody overwrites what he did not expect. */
TEST(test_record_is_put_where_its_stamp_was_seen)
{
    put_says(put_until(NONCE_2, RECORD, FAR), NONCE, "SENTINEL");
    put_says(put_until(STAMP, RECORD, FAR), NONCE, "SENTINEL");
    put_says(put_until("", RECORD, FAR), NONCE, "SENTINEL");
    assert_int_equal(ask_number("HEXISTS holdfast:node record"), 0);
    has_the_record();
    put_says(put_until(NONCE, "another", FAR), STAMP, "SENTINEL");
    put_says(put_until(NONCE ":12345678", "another", FAR), STAMP, "SENTINEL");
    put_says(put_until(NONCE_2 ":" DIGEST, "another", FAR), STAMP, "SENTINEL");
    has_string(RECORD, "HGET holdfast:node record");
    put_says(put_until(STAMP, "another", FAR), NONCE ":b7c8ffb8", "OK");
    has_string("another", "HGET holdfast:node record");
    does("DEL holdfast:node");
    put_says(put_until("", RECORD, FAR), "", "SENTINEL"); /* nothing is not equal to nothing */
    assert_int_equal(ask_number("EXISTS holdfast:node"), 0);
}

TEST(test_record_is_not_put_late)
{
    redisReply *time = ask("TIME");
    int64_t now_us = strtoll(time->element[0]->str, NULL, 10) * 1000000 +
                     strtoll(time->element[1]->str, NULL, 10);

    freeReplyObject(time);
    put_says(put_until(NONCE, RECORD, now_us - 1), NONCE, "STALE");
    assert_int_equal(ask_number("HEXISTS holdfast:node record"), 0);
    put_says(put_until(NONCE, RECORD, now_us + 60000000), STAMP, "OK");
}

TEST(test_every_answer_tells_the_digest)
{
    redisReply *reply;

    has_the_record();
    reply = run(SCRIPT_RENEW, 2, "holdfast:node", "key", A, "0", "60000", NULL);
    assert_string_equal(reply->element[2]->str, STAMP);
    freeReplyObject(reply);
    reply = sentinel("0", "0", "", "0");
    assert_string_equal(reply->element[2]->str, STAMP);
    assert_int_equal(reply->elements, 12);
    assert_string_equal(reply->element[9]->str, RECORD);
    assert_string_equal(reply->element[10]->str, "host-a 0 1700000000000");
    freeReplyObject(reply);
}

/* (!) Who goes by no record, or by another one, writes nothing. */
TEST(test_another_record_writes_nothing)
{
    has_the_record();
    for (int i = 0; i < 2; i++) {
        enum script script = i ? SCRIPT_HEAL : SCRIPT_ACQUIRE;
        redisReply *reply;

        says(lock_until(script, A, "5", NONCE, FAR), "SENTINEL", NULL);
        says(lock_until(script, A, "5", NONCE ":12345678", FAR), "SENTINEL", NULL);
        assert_int_equal(ask_number("EXISTS key holdfast:fence:key"), 0);
        reply = lock_until(script, A, "5", STAMP, FAR);
        assert_string_equal(reply->element[3]->str, "OK");
        freeReplyObject(reply);
        does("DEL key holdfast:fence:key");
    }
    does("HDEL holdfast:node record digest record_by");
    says(lock_until(SCRIPT_ACQUIRE, A, "5", STAMP, FAR), "SENTINEL", NULL);
}

/* The record goes with a sentinel that is replaced: whoever judged it said which one. */
TEST(test_sentinel_is_replaced_by_its_stamp)
{
    has_the_record();
    freeReplyObject(sentinel("1", NONCE, NONCE_2, "60000"));
    freeReplyObject(sentinel("1", NONCE ":12345678", NONCE_2, "60000"));
    freeReplyObject(sentinel("1", NONCE_2 ":" DIGEST, NONCE_2, "60000"));
    freeReplyObject(sentinel("1", "0", NONCE_2, "90000"));
    freeReplyObject(sentinel("1", "1", NONCE_2, "60000"));
    has_string(RECORD, "HGET holdfast:node record");
    has_string(NONCE, "HGET holdfast:node nonce");
    is_sentinel(sentinel("1", STAMP, NONCE_2, "60000"), NONCE_2, "1", "60000");
    assert_int_equal(ask_number("HEXISTS holdfast:node record"), 0);
    assert_int_equal(ask_number("HEXISTS holdfast:node digest"), 0);
    is_sentinel(sentinel("1", STAMP, NONCE, "60000"), NONCE_2, "0", "60000"); /* once */
}

TEST(test_record_goes_with_a_sentinel_that_differs)
{
    has_the_record();
    is_sentinel(sentinel("1", "1", NONCE_2, "90000"), NONCE_2, "1", "90000");
    assert_int_equal(ask_number("HEXISTS holdfast:node digest"), 0);
}

TEST(test_trace_of_a_step_keeps_the_record)
{
    redisReply *reply;

    has_the_record();
    reply = step_trace(NONCE_2, NONCE);
    assert_string_equal(reply->element[2]->str, NONCE_2 ":" DIGEST);
    assert_string_equal(reply->element[9]->str, RECORD);
    freeReplyObject(reply);
    has_string(NONCE_2, "HGET holdfast:node nonce");
    has_string(DIGEST, "HGET holdfast:node digest");
    says(lock_until(SCRIPT_ACQUIRE, A, "5", NONCE_2 ":" DIGEST, FAR), "OK", "5");
}

TEST(test_sentinel_of_another_type)
{
    redisReply *reply;

    does("SET holdfast:node x");
    reply = sentinel("1", "1", NONCE, "60000");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    reply = lock(SCRIPT_ACQUIRE, A, "1");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    assert_int_equal(ask_number("EXISTS key"), 0);
}

#define SCRIPT_TEST(name) cmocka_unit_test_setup(name, empty_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(test_acquire_takes_key_and_fence),
        SCRIPT_TEST(test_fence_record_has_no_token),
        SCRIPT_TEST(test_acquire_again_arms_again),
        SCRIPT_TEST(test_acquire_of_a_held_key),
        SCRIPT_TEST(test_acquire_of_a_foreign_key),
        SCRIPT_TEST(test_foreign_key_without_expiry),
        SCRIPT_TEST(test_another_type_is_taken),
        SCRIPT_TEST(test_stale_writes_nothing),
        SCRIPT_TEST(test_other_sentinel_writes_nothing),
        SCRIPT_TEST(test_fence_rules),
        SCRIPT_TEST(test_fences_are_exact_up_to_53_bits),
        SCRIPT_TEST(test_acceptance_renews_the_retention),
        SCRIPT_TEST(test_record_of_an_earlier_form),
        SCRIPT_TEST(test_raise_needs_our_key),
        SCRIPT_TEST(test_heal_writes_key_and_raises_the_fence),
        SCRIPT_TEST(test_heal_never_lowers_a_fence),
        SCRIPT_TEST(test_who_has_a_higher_fence_is_told),
        SCRIPT_TEST(test_heal_leaves_anothers_key),
        SCRIPT_TEST(test_query_of_a_free_key),
        SCRIPT_TEST(test_query_of_a_held_key),
        SCRIPT_TEST(test_query_of_a_foreign_key),
        SCRIPT_TEST(test_query_of_another_type),
        SCRIPT_TEST(test_force_puts_a_mark_in_the_tokens_place),
        SCRIPT_TEST(test_once_tells_what_stood_there),
        SCRIPT_TEST(test_once_keeps_what_a_longer_period_wrote),
        SCRIPT_TEST(test_once_takes_nothing_of_an_earlier_one),
        SCRIPT_TEST(test_once_is_peeked_at_under_another_stamp),
        SCRIPT_TEST(test_once_has_who_ran_it_and_how_it_ended),
        SCRIPT_TEST(test_force_leaves_another_hold),
        SCRIPT_TEST(test_force_of_nothing_and_of_another_type),
        SCRIPT_TEST(test_force_of_a_foreign_key),
        SCRIPT_TEST(test_force_by_id_whatever_the_record_says),
        SCRIPT_TEST(test_force_of_what_may_be_an_agents),
        SCRIPT_TEST(test_force_of_a_key_that_never_expires),
        SCRIPT_TEST(test_a_forced_out_token_is_known_to_its_agent),
        SCRIPT_TEST(test_listing_finds_what_is_held),
        SCRIPT_TEST(test_listing_is_cut_into_pages),
        SCRIPT_TEST(test_renew_marks),
        SCRIPT_TEST(test_renew_with_one_ttl_for_all),
        SCRIPT_TEST(test_renew_tracked_marks),
        SCRIPT_TEST(test_renew_tracked_without_the_right_to_read_them_together),
        SCRIPT_TEST(test_renewed_keys_are_tracked),
        SCRIPT_TEST(test_renew_without_a_sentinel),
        SCRIPT_TEST(test_release_marks),
        SCRIPT_TEST(test_release_keeps_the_fence),
        SCRIPT_TEST(test_binary_names),
        SCRIPT_TEST(test_a_key_that_ended_early_is_nobody_elses_before_its_time),
        SCRIPT_TEST(test_its_time_is_that_of_its_last_renewal),
        SCRIPT_TEST(test_each_command_that_sets_a_key_says_until_when),
        SCRIPT_TEST(test_a_key_with_a_low_fence_is_reserved_for_its_token),
        SCRIPT_TEST(test_a_released_key_is_free),
        SCRIPT_TEST(test_a_reserved_key_is_shown_and_can_be_forced),
        SCRIPT_TEST(test_more_than_its_ttl_may_be_promised),
        SCRIPT_TEST(test_a_clock_that_is_behind_takes_nothing_of_what_was_promised),
        SCRIPT_TEST(test_what_was_promised_before_a_step_was_seen_is_over),
        SCRIPT_TEST(test_a_record_without_a_time_reserves_nothing),
        SCRIPT_TEST(test_a_record_that_is_missing_or_of_another_type),
        SCRIPT_TEST(test_sentinel_is_read_only_unless_asked),
        SCRIPT_TEST(test_sentinel_is_made_once),
        SCRIPT_TEST(test_sentinel_is_replaced_when_it_differs),
        SCRIPT_TEST(test_sentinel_gets_a_new_age_under_the_nonce_of_a_step),
        SCRIPT_TEST(test_record_is_put_with_its_digest),
        SCRIPT_TEST(test_record_is_put_where_its_stamp_was_seen),
        SCRIPT_TEST(test_record_is_not_put_late),
        SCRIPT_TEST(test_every_answer_tells_the_digest),
        SCRIPT_TEST(test_another_record_writes_nothing),
        SCRIPT_TEST(test_sentinel_is_replaced_by_its_stamp),
        SCRIPT_TEST(test_record_goes_with_a_sentinel_that_differs),
        SCRIPT_TEST(test_trace_of_a_step_keeps_the_record),
        SCRIPT_TEST(test_sentinel_of_another_type),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

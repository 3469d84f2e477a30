/* Decoding of answers: the right shapes, and every wrong one is an error and no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/fence.h"
#include "agent/redis/link_internal.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define NONCE      "0123456789abcdef0123456789abcdef"
#define DIGEST     "89abcdef"
#define STAMP      NONCE ":" DIGEST
#define ID         "0123456789abcdef0123456789abcdef76543210"
#define RUN_ID     "0123456789abcdef0123456789abcdef01234567"

/* --- answers from short texts ----------------------------------------------------------------- */

/* One element per word: "#5" is an integer, "-" nil, "[]" an empty array, "''" an empty string,
 * others strings. */
static void append_word(char *resp, size_t size, const char *word)
{
    size_t used = strlen(resp);

    if (word[0] == '#')
        snprintf(resp + used, size - used, ":%s\r\n", word + 1);
    else if (strcmp(word, "-") == 0)
        snprintf(resp + used, size - used, "$-1\r\n");
    else if (strcmp(word, "[]") == 0)
        snprintf(resp + used, size - used, "*0\r\n");
    else if (strcmp(word, "''") == 0)
        snprintf(resp + used, size - used, "$0\r\n\r\n");
    else
        snprintf(resp + used, size - used, "$%zu\r\n%s\r\n", strlen(word), word);
}

static redisReply *from_resp(const char *resp)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static redisReply *from_words(const char *const *words, size_t count)
{
    char resp[4096];

    snprintf(resp, sizeof(resp), "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        append_word(resp, sizeof(resp), words[i]);
    return from_resp(resp);
}

/* The scripts that answer with words in one string. */
static bool says_words(enum script script)
{
    return script == SCRIPT_ACQUIRE || script == SCRIPT_RAISE || script == SCRIPT_HEAL ||
           script == SCRIPT_RENEW || script == SCRIPT_RELEASE;
}

/* "''" is an empty word. */
static redisReply *from_line(const char *const *words, size_t count)
{
    char line[2048] = "", resp[4096];

    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(line);

        snprintf(line + used, sizeof(line) - used, "%s%s", i > 0 ? " " : "",
                 strcmp(words[i], "''") == 0 ? "" : words[i]);
    }
    snprintf(resp, sizeof(resp), "$%zu\r\n%s\r\n", strlen(line), line);
    return from_resp(resp);
}

static redisReply *decode_words(enum script script, size_t keys, const char *const *words,
                                size_t count, struct link_reply *out)
{
    redisReply *reply = says_words(script) ? from_line(words, count) : from_words(words, count);

    memset(out, 0, sizeof(*out));
    reply_decode(reply, script, keys, out);
    return reply;
}

/* --- what is right ---------------------------------------------------------------------------- */

#define MAX_WORDS 16
#define HOLDER    "7\n12\n0\n1700000000000\nhost\ncmd\na note"
static const struct {
    enum script script;
    size_t keys;
    const char *words[MAX_WORDS];
} right[] = {
    {SCRIPT_ACQUIRE, 1, {"1700000000", "5", NONCE, "OK", "7"}},
    {SCRIPT_ACQUIRE, 1, {"1700000000", "999999", NONCE, "LOW", "9007199254740991"}},
    {SCRIPT_ACQUIRE, 1, {"1700000000", "0", "''", "SENTINEL"}},
    {SCRIPT_ACQUIRE, 1, {"1700000000", "0", NONCE, "STALE"}},
    {SCRIPT_ACQUIRE, 1, {"1700000000", "0", NONCE, "TAKEN", "0", "-1"}},
    {SCRIPT_HEAL, 1, {"1", "0", NONCE, "TAKEN", "7", "5", HOLDER}},
    {SCRIPT_RAISE, 1, {"1", "0", NONCE, "GONE"}},
    {SCRIPT_RENEW, 4, {"1", "0", NONCE, "1f0x"}},
    {SCRIPT_RELEASE, 3, {"1", "0", "''", "0f1"}},
    {SCRIPT_QUERY, 0, {"1700000000", "0", NONCE, "FREE", "7"}},
    {SCRIPT_QUERY, 0, {"1700000000", "0", NONCE, "HELD", "7", "#-1", "''"}},
    {SCRIPT_QUERY, 0, {"1", "0", NONCE, "HELD", "7", "#5", ID, HOLDER}},
    {SCRIPT_FORCE, 0, {"1700000000", "0", NONCE, "FREE", "7"}},
    {SCRIPT_FORCE, 0, {"1700000000", "0", NONCE, "HELD", "7", "#5", ID}},
    {SCRIPT_FORCE, 0, {"1700000000", "0", NONCE, "FORCED", "7", "#5", ID}},
    {SCRIPT_LISTING, 0, {"1700000000", "0", NONCE, "0"}},
    {SCRIPT_LISTING, 0, {"1700000000", "0", NONCE, "18446744073709551615", "not an item"}},
    {SCRIPT_SENTINEL, 0, {"1", "0", "''", "0"}},
    {SCRIPT_SENTINEL,
     0,
     {"1", "0", NONCE, "1", "1000000", "1700000000000", "60000", "3", "cafe", "''", "''", "''"}},
    {SCRIPT_SENTINEL,
     0,
     {"1", "0", STAMP, "0", "1000000", "1700000000000", "60000", "3", "cafe", "a text", "h 0 7",
      "cafe"}},
    {SCRIPT_ACQUIRE, 1, {"1700000000", "5", STAMP, "OK", "7"}},
    {SCRIPT_RENEW, 4, {"1", "0", STAMP, "1f01"}},
    {SCRIPT_FLEET, 0, {"1", "0", STAMP, "OK"}},
    {SCRIPT_FLEET, 0, {"1", "0", STAMP, "STALE"}},
    {SCRIPT_FLEET, 0, {"1", "0", "''", "SENTINEL"}},
};

/* rows of `right` */
#define QUERY_FREE 9
#define SENTINEL   18 /* made, and none of the fleet's record */
#define FLEET      22

static size_t words_of(size_t i)
{
    size_t n = 0;

    while (n < MAX_WORDS && right[i].words[n])
        n++;
    return n;
}

TEST(test_right_shapes)
{
    for (size_t i = 0; i < HF_LENGTH(right); i++) {
        struct link_reply out;
        redisReply *reply =
            decode_words(right[i].script, right[i].keys, right[i].words, words_of(i), &out);

        if (out.outcome != LINK_ANSWERED)
            fail_msg("row %zu: %s", i, out.error_text);
        freeReplyObject(reply);
    }
}

TEST(test_values)
{
    struct link_reply out;
    redisReply *reply = decode_words(SCRIPT_HEAL, 1, right[5].words, words_of(5), &out);

    assert_int_equal(out.verdict, VERDICT_TAKEN);
    assert_true(out.fence == 7 && out.holder.fence == 7 << FENCE_HANDOFF_BITS);
    assert_true(out.holder.pttl_ms == 5 && out.holder.since_wall_ms == 1700000000000);
    assert_int_equal(out.holder.pid, 12);
    assert_string_equal(out.holder.host, "host");
    freeReplyObject(reply);
    reply = decode_words(SCRIPT_ACQUIRE, 1, right[1].words, words_of(1), &out);
    assert_true(out.node_time.us == INT64_C(1700000000999999));
    assert_true(out.fence == FENCE_NODE_MAX);
    freeReplyObject(reply);
}

/* Whose the fence is; what is no tag of an agent's stays unknown. */
TEST(test_values_of_a_higher_fence)
{
    static const struct {
        const char *tag, *id;
    } tags[] = {{ID, ID}, {"''", ""}, {NONCE, ""}, {"another program's", ""}};

    for (size_t i = 0; i < HF_LENGTH(tags); i++) {
        const char *const low[] = {"1", "0", NONCE, "LOW", "7", tags[i].tag};
        const char *const healed[] = {"1", "0", NONCE, "OK", "7", tags[i].tag};
        struct link_reply out;
        redisReply *reply = decode_words(SCRIPT_RAISE, 1, low, 6, &out);

        assert_int_equal(out.verdict, VERDICT_LOW);
        assert_string_equal(out.id, tags[i].id);
        freeReplyObject(reply);
        reply = decode_words(SCRIPT_HEAL, 1, healed, 6, &out);
        assert_int_equal(out.verdict, VERDICT_OK);
        assert_true(out.fence == 7);
        assert_string_equal(out.id, tags[i].id);
        freeReplyObject(reply);
    }
}

TEST(test_values_of_a_query)
{
    struct link_reply out;
    redisReply *reply = decode_words(SCRIPT_QUERY, 0, right[QUERY_FREE].words, 5, &out);

    assert_int_equal(out.verdict, VERDICT_FREE);
    assert_true(out.fence == 7 && out.holder.pttl_ms == -2);
    assert_string_equal(out.id, "");
    freeReplyObject(reply);
    reply = decode_words(SCRIPT_QUERY, 0, right[QUERY_FREE + 1].words, 7, &out);
    assert_int_equal(out.verdict, VERDICT_TAKEN);
    assert_true(out.fence == 7 && out.holder.fence == 0 && out.holder.pttl_ms == -1);
    assert_string_equal(out.id, "");
    freeReplyObject(reply);
    reply = decode_words(SCRIPT_QUERY, 0, right[QUERY_FREE + 2].words, 8, &out);
    assert_int_equal(out.verdict, VERDICT_TAKEN);
    assert_string_equal(out.id, ID);
    assert_true(out.holder.fence == 7 << FENCE_HANDOFF_BITS && out.holder.pttl_ms == 5);
    assert_true(out.holder.pid == 12 && out.holder.since_wall_ms == 1700000000000);
    assert_string_equal(out.holder.host, "host");
    assert_string_equal(out.holder.comm, "cmd");
    assert_string_equal(out.holder.note, "a note");
    freeReplyObject(reply);
}

TEST(test_values_of_a_force)
{
    struct link_reply out;

    freeReplyObject(decode_words(SCRIPT_FORCE, 0, right[QUERY_FREE + 4].words, 7, &out));
    assert_true(out.verdict == VERDICT_TAKEN && !out.forced);
    freeReplyObject(decode_words(SCRIPT_FORCE, 0, right[QUERY_FREE + 5].words, 7, &out));
    assert_true(out.verdict == VERDICT_OK && out.forced);
    assert_string_equal(out.id, ID);
    /* Seen by a query it is held still. */
    freeReplyObject(decode_words(SCRIPT_QUERY, 0, right[QUERY_FREE + 5].words, 7, &out));
    assert_true(out.verdict == VERDICT_TAKEN && out.forced);
}

/* A nonce, and perhaps the digest of the fleet's record. */
TEST(test_values_of_a_stamp)
{
    static const struct {
        const char *stamp, *nonce, *digest;
    } stamps[] = {
        {"''", "", ""}, {NONCE, NONCE, ""}, {STAMP, NONCE, DIGEST}, {":" DIGEST, "", DIGEST}};

    for (size_t i = 0; i < HF_LENGTH(stamps); i++) {
        const char *const words[] = {"1", "0", stamps[i].stamp, "GONE"};
        struct link_reply out;

        freeReplyObject(decode_words(SCRIPT_RAISE, 1, words, 4, &out));
        assert_int_equal(out.outcome, LINK_ANSWERED);
        assert_string_equal(out.nonce, stamps[i].nonce);
        assert_string_equal(out.digest, stamps[i].digest);
    }
}

TEST(test_values_of_a_sentinel)
{
    struct link_reply out;
    redisReply *reply = decode_words(SCRIPT_SENTINEL, 0, right[SENTINEL].words, 12, &out);

    assert_true(out.sentinel_created && out.sentinel.present);
    assert_true(out.record && out.record_len == 0);
    assert_string_equal(out.digest, "");
    assert_string_equal(out.record_by, "");
    freeReplyObject(reply);
    reply = decode_words(SCRIPT_SENTINEL, 0, right[SENTINEL + 1].words, 12, &out);
    assert_false(out.sentinel_created);
    assert_string_equal(out.sentinel.nonce, NONCE);
    assert_true(out.sentinel.created.us == 1000000 && out.sentinel.ttl_max_ms == 60000);
    assert_string_equal(out.sentinel.list_hash, "cafe");
    assert_string_equal(out.digest, DIGEST);
    assert_int_equal(out.record_len, 6);
    assert_memory_equal(out.record, "a text", 6);
    assert_string_equal(out.record_by, "h 0 7");
    assert_string_equal(out.record_sure, "cafe");
    freeReplyObject(reply);
    reply = decode_words(SCRIPT_SENTINEL, 0, right[SENTINEL - 1].words, 4, &out);
    assert_false(out.sentinel_created || out.sentinel.present);
    assert_null(out.record); /* nothing was read */
    freeReplyObject(reply);
}

TEST(test_values_of_a_put)
{
    static const enum link_verdict verdicts[] = {VERDICT_OK, VERDICT_STALE, VERDICT_SENTINEL};

    for (size_t i = 0; i < HF_LENGTH(verdicts); i++) {
        struct link_reply out;

        freeReplyObject(decode_words(SCRIPT_FLEET, 0, right[FLEET + i].words, 4, &out));
        assert_int_equal(out.verdict, verdicts[i]);
    }
}

TEST(test_items_of_a_listing)
{
    redisReply *reply = from_resp("*7\r\n$1\r\n1\r\n$1\r\n0\r\n$0\r\n\r\n$2\r\n12\r\n"
                                  "$4\r\nnone\r\n"
                                  "*5\r\n$3\r\naxb\r\n$40\r\n" ID "\r\n$1\r\n7\r\n:5\r\n"
                                  "$14\r\n7\n12\n0\n9\nh\n\nn\n\r\n"
                                  "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    struct link_reply out = {.outcome = LINK_ERROR};
    struct link_item item;

    reply_decode(reply, SCRIPT_LISTING, 0, &out);
    assert_int_equal(out.outcome, LINK_ANSWERED);
    assert_true(out.cursor == 12 && out.item_count == 3);
    assert_false(link_item(&out, 0, &item));
    assert_true(link_item(&out, 1, &item));
    assert_int_equal(item.key_len, 3);
    assert_memory_equal(item.key, "axb", 3);
    assert_string_equal(item.id, ID);
    assert_true(item.holder.fence == 7 << FENCE_HANDOFF_BITS && item.holder.pttl_ms == 5 &&
                item.holder.pid == 12);
    assert_string_equal(item.holder.comm, "");
    assert_false(link_item(&out, 2, &item));
    freeReplyObject(reply);
}

/* What others may have written into a record: unknown. tests/unit/test_agent_holder_text.c has all of that. */
TEST(test_strange_holder)
{
    static const char *const texts[] = {"", "x", "8\n12\n0\n9\nhost\nc\nn",
                                        "many words of another program"};

    for (size_t i = 0; i < HF_LENGTH(texts); i++) {
        const char *const words[] = {"1", "0", NONCE, "TAKEN", "7", "-2", texts[i]};
        struct link_reply out;

        freeReplyObject(decode_words(SCRIPT_ACQUIRE, 1, words, HF_LENGTH(words), &out));
        assert_int_equal(out.outcome, LINK_ANSWERED);
        assert_true(out.fence == 7 && out.holder.pttl_ms == -2);
        assert_true(out.holder.pid == 0 && out.holder.since_wall_ms == 0);
        assert_string_equal(out.holder.host, "");
    }
}

/* --- what is wrong ---------------------------------------------------------------------------- */

/* Each right answer with each of its first words spoilt in every way, and cut after each word. */
TEST(test_wrong_shapes)
{
    static const char *const spoilt[] = {"-",      "[]", "''", "x", "-1", "99999999999999999999",
                                         NONCE "0"};

    for (size_t i = 0; i < HF_LENGTH(right); i++) {
        size_t count = words_of(i);

        for (size_t at = 0; at < count; at++) {
            const char *words[MAX_WORDS];
            struct link_reply out;

            memcpy(words, right[i].words, sizeof(words));
            for (size_t k = 0; k < HF_LENGTH(spoilt); k++) {
                words[at] = spoilt[k];
                freeReplyObject(decode_words(right[i].script, right[i].keys, words, count, &out));
                if (at < 2) /* TIME is needed always */
                    assert_int_equal(out.error, HF_NODE_ERR_PROTOCOL);
            }
            words[at] = right[i].words[at];
            freeReplyObject(decode_words(right[i].script, right[i].keys, words, at, &out));
            if (at <= 3)
                assert_int_equal(out.outcome, LINK_ERROR);
        }
    }
}

TEST(test_wrong_values)
{
    static const struct {
        enum script script;
        const char *words[MAX_WORDS];
    } wrong[] = {
        {SCRIPT_ACQUIRE, {"1", "1000000", NONCE, "OK", "7"}},
        {SCRIPT_ACQUIRE, {"9223372036854775807", "0", NONCE, "OK", "7"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "OK", "9007199254740992"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "OK", "-1"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "OK"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "ok", "1"}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "FREE"}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "FREE", "7", "#5"}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "HELD", "7", "#5"}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "HELD", "7", "#5", NONCE}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "HELD", "7", "#5", NONCE "7654321X"}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "HELD", "7", "#5", ID, HOLDER, "1"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "TAKEN", "7"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "TAKEN", "7", "x"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "TAKEN", "7", "-"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "TAKEN", "7", "+5"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "TAKEN", "7", "9223372036854775808"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "TAKEN", "7", "12345678901234567890"}},
        {SCRIPT_ACQUIRE, {"1", "0", NONCE, "STALE", "7"}},
        {SCRIPT_HEAL, {"1", "0", NONCE, "OK", "7", ID, "7"}},
        {SCRIPT_QUERY, {"1", "0", NONCE, "TAKEN", "7", "#5"}},
        {SCRIPT_FORCE, {"1", "0", NONCE, "OK", "7"}},
        {SCRIPT_LISTING, {"1", "0", NONCE}},
        {SCRIPT_LISTING, {"1", "0", NONCE, "-1"}},
        {SCRIPT_LISTING, {"1", "0", NONCE, "#0"}},
        {SCRIPT_LISTING, {"1", "0", NONCE, "999999999999999999999"}},
        {SCRIPT_RENEW, {"1", "0", NONCE, "1"}},
        {SCRIPT_RENEW, {"1", "0", NONCE, "111"}},
        {SCRIPT_RENEW, {"1", "0", NONCE, "1k"}},
        {SCRIPT_RELEASE, {"1", "0", NONCE, "1x"}},
        {SCRIPT_SENTINEL, {"1", "0", NONCE, "0"}},
        {SCRIPT_SENTINEL, {"1", "0", "''", "0", "1", "1", "1", "1", "x", "", "", ""}},
        {SCRIPT_SENTINEL, {"1", "0", NONCE, "0", "1", "1", "1", "1", "x"}},
        {SCRIPT_SENTINEL, {"1", "0", NONCE, "0", "1", "1", "1", "1", "x", "-", "''", "''"}},
        {SCRIPT_SENTINEL, {"1", "0", NONCE, "0", "1", "1", "1", "1", "x", "''", "-", "''"}},
        {SCRIPT_SENTINEL, {"1", "0", NONCE, "0", "1", "1", "1", "1", "x", "''", "''", "-"}},
        {SCRIPT_FLEET, {"1", "0", STAMP, "OK", "7"}},
        {SCRIPT_FLEET, {"1", "0", STAMP}},
        {SCRIPT_RAISE, {"1", "0", NONCE ":", "GONE"}},
        {SCRIPT_RAISE, {"1", "0", NONCE ":89abcde", "GONE"}},
        {SCRIPT_RAISE, {"1", "0", STAMP "0", "GONE"}},
        {SCRIPT_RAISE, {"1", "0", NONCE "0:" DIGEST, "GONE"}},
    };

    for (size_t i = 0; i < HF_LENGTH(wrong); i++) {
        struct link_reply out;
        size_t count = 0;

        while (wrong[i].words[count])
            count++;
        freeReplyObject(decode_words(wrong[i].script, 2, wrong[i].words, count, &out));
        if (out.outcome != LINK_ERROR || out.error != HF_NODE_ERR_PROTOCOL)
            fail_msg("row %zu was taken", i);
    }
}

/* --- errors, INFO ----------------------------------------------------------------------------- */

TEST(test_error_classes)
{
    static const struct {
        const char *text;
        enum hf_node_error error;
        const char *name;
    } rows[] = {
        {"NOAUTH Authentication required.", HF_NODE_ERR_AUTH, "auth"},
        {"WRONGPASS invalid username-password pair or user is disabled.", HF_NODE_ERR_AUTH, "auth"},
        {"NOPERM this user has no permissions to run the 'evalsha' command", HF_NODE_ERR_PERM,
         "perm"},
        {"BUSY Redis is busy running a script.", HF_NODE_ERR_BUSY, "busy"},
        {"BUSYGROUP x", HF_NODE_ERR_OTHER, "other"},
        {"LOADING Redis is loading the dataset in memory", HF_NODE_ERR_LOADING, "loading"},
        {"MISCONF Redis is configured to save RDB snapshots", HF_NODE_ERR_MISCONF, "misconf"},
        {"READONLY You can't write against a read only replica.", HF_NODE_ERR_READONLY, "readonly"},
        {"OOM command not allowed when used memory > 'maxmemory'.", HF_NODE_ERR_OOM, "oom"},
        {"NOSCRIPT No matching script.", HF_NODE_ERR_NOSCRIPT, "noscript"},
        {"NOREPLICAS Not enough good replicas to write.", HF_NODE_ERR_NOREPLICAS, "noreplicas"},
        /* within a script: 7.0, 7.2, 6.2 */
        {"ERR The user executing the script can't run this command or subcommand script: 01, on "
         "@user_script:14.",
         HF_NODE_ERR_PERM, "perm"},
        {"ERR ACL failure in script: User agent has no permissions to run the 'set' command "
         "script: "
         "01, on @user_script:14.",
         HF_NODE_ERR_PERM, "perm"},
        {"ERR Error running script (call to f_01): @user_script:14: @user_script: 14: -OOM command "
         "not allowed when used memory > 'maxmemory'.",
         HF_NODE_ERR_OOM, "oom"},
        {"ERR Error running script (call to f_01): @user_script:14: @user_script: 14: Unknown "
         "Redis "
         "command called from Lua script",
         HF_NODE_ERR_OTHER, "other"},
        {"ERR max number of clients reached", HF_NODE_ERR_OTHER, "other"},
        {"", HF_NODE_ERR_OTHER, "other"},
    };

    for (size_t i = 0; i < HF_LENGTH(rows); i++) {
        assert_int_equal(reply_error_class(rows[i].text), rows[i].error);
        assert_string_equal(link_error_name(rows[i].error), rows[i].name);
    }
    assert_string_equal(link_error_name((enum hf_node_error)99), "unknown");
}

static bool info(const char *text, struct node_facts *facts)
{
    char resp[2048];
    redisReply *reply;
    bool ok;

    memset(facts, 0, sizeof(*facts));
    snprintf(resp, sizeof(resp), "$%zu\r\n%s\r\n", strlen(text), text);
    reply = from_resp(resp);
    ok = reply_decode_info(reply, facts);
    freeReplyObject(reply);
    return ok;
}

#define NO_ID  "0000000000000000000000000000000000000000"
#define MASTER "run_id:" RUN_ID "\r\nuptime_in_seconds:7\r\nrole:master\r\n"

TEST(test_info)
{
    struct node_facts facts;

    assert_true(
        info("# Server\r\nredis_version:7.0.15\r\nrun_id:" RUN_ID "\r\nuptime_in_seconds:77\r\n\r\n"
             "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nrole:master\r\ncluster_enabled:0\r\n",
             &facts));
    assert_string_equal(facts.run_id, RUN_ID);
    assert_string_equal(facts.version, "7.0.15");
    assert_true(facts.uptime.ns == 77 * HF_NS_PER_SEC);
    assert_false(facts.replica || facts.cluster || facts.evicts);

    assert_true(info(
        "redis_version:7.2.4\r\nvalkey_version:8.1.1\r\nrun_id:" RUN_ID
        "\r\nuptime_in_seconds:0\r\n"
        "maxmemory:1048576\r\nmaxmemory_policy:volatile-ttl\r\nrole:slave\r\ncluster_enabled:1",
        &facts));
    assert_string_equal(facts.version, "8.1.1");
    assert_true(facts.replica && facts.cluster && facts.evicts);

    assert_false(facts.replicated);

    /* A master alone, with replicas, after a failover, and one that says neither. */
    assert_true(info(MASTER "connected_slaves:0\r\nmaster_replid2:" NO_ID "\r\n", &facts));
    assert_false(facts.replicated);
    assert_true(info(MASTER "connected_slaves:1\r\nmaster_replid2:" NO_ID "\r\n", &facts));
    assert_true(facts.replicated);
    assert_true(info(MASTER "connected_slaves:0\r\nmaster_replid2:" RUN_ID "\r\n", &facts));
    assert_true(facts.replicated);
    assert_true(info(MASTER "connected_slaves:0\r\n", &facts));
    assert_false(facts.replicated);

    /* Its clock was set back beyond its start. */
    assert_true(info("run_id:" RUN_ID "\r\nuptime_in_seconds:-20\r\nrole:master\r\n", &facts));
    assert_true(facts.uptime.ns == 0);

    /* redis_mode:sentinel has no role; the others are half an answer. */
    assert_false(info("run_id:" RUN_ID "\r\nuptime_in_seconds:1\r\n", &facts));
    assert_false(info("run_id:short\r\nuptime_in_seconds:1\r\nrole:master\r\n", &facts));
    assert_false(info("xrun_id:" RUN_ID "\r\nuptime_in_seconds:1\r\nrole:master\r\n", &facts));
    assert_false(info("run_id:" RUN_ID "0\r\nuptime_in_seconds:1\r\nrole:master\r\n", &facts));
    assert_false(info("", &facts));
}

/* (!) As long as it may be, and of lines only: it costs no more than a few readings of its bytes. */
TEST(test_info_is_bounded)
{
    static char text[INFO_MOST + 2];
    redisReply reply = {.type = REDIS_REPLY_STRING, .str = text};
    struct node_facts facts = {0};
    size_t tail = strlen(MASTER);

    memset(text, '\n', sizeof(text) - 1);
    memcpy(text + INFO_MOST - tail, MASTER, tail);
    text[INFO_MOST] = '\0';
    reply.len = INFO_MOST;
    assert_true(reply_decode_info(&reply, &facts));
    assert_string_equal(facts.run_id, RUN_ID);
    assert_false(reply_info_is_long(&reply));
    text[INFO_MOST] = '\n';
    reply.len = INFO_MOST + 1;
    assert_true(reply_info_is_long(&reply));
    assert_false(reply_decode_info(&reply, &facts));
    /* The first line of a name counts, whatever is behind it. */
    assert_true(info(MASTER "role:slave\r\nrun_id:" NO_ID "\r\n:\r\n::\nrole", &facts));
    assert_false(facts.replica);
    assert_string_equal(facts.run_id, RUN_ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_shapes),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_values_of_a_higher_fence),
        cmocka_unit_test(test_values_of_a_force),
        cmocka_unit_test(test_values_of_a_query),
        cmocka_unit_test(test_values_of_a_force),
        cmocka_unit_test(test_values_of_a_stamp),
        cmocka_unit_test(test_values_of_a_sentinel),
        cmocka_unit_test(test_values_of_a_put),
        cmocka_unit_test(test_items_of_a_listing),
        cmocka_unit_test(test_strange_holder),
        cmocka_unit_test(test_wrong_shapes),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_error_classes),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_info_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

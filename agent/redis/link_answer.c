/* Decoding of the scripts' answers: words with a space between them, or arrays (agent/scripts/common.lua). Every wrong
 * shape is an error and no crash. */
#include <stdlib.h>
#include <string.h>

#include "agent/core/fence.h"
#include "agent/redis/holder_text.h"
#include "agent/redis/link_internal.h"
#include "agent/redis/script.h"
#include "shm/text.h"
#include "shm/wordings.h"

/* --- values ----------------------------------------------------------------------------------- */

/* Of an answer: `at[length]` is a space or NUL. */
struct word {
    const char *at;
    size_t length;
};

static bool answer_is_string(const redisReply *e)
{
    return e->type == REDIS_REPLY_STRING || e->type == REDIS_REPLY_STATUS;
}

static struct word answer_word_of(const redisReply *e)
{
    return answer_is_string(e) ? (struct word){e->str, e->len} : (struct word){"", 0};
}

static bool answer_equals(struct word word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

static bool answer_get_number(struct word word, int64_t *ret_number)
{
    bool below = word.length > 0 && word.at[0] == '-';
    uint64_t number;

    if (!hf_decimal_read(word.at + below, word.length - below, INT64_MAX, &number))
        return false;
    *ret_number = below ? -(int64_t)number : (int64_t)number;
    return true;
}

/* A whole number, as an integer or in decimal digits. */
static bool answer_get_element_number(const redisReply *e, int64_t *ret_number)
{
    if (e->type != REDIS_REPLY_INTEGER)
        return answer_get_number(answer_word_of(e), ret_number);
    *ret_number = e->integer;
    return true;
}

static bool answer_get_fence(struct word word, uint64_t *ret_fence)
{
    int64_t number;

    if (!answer_get_number(word, &number) || number < 0 || (uint64_t)number > FENCE_NODE_MAX)
        return false;
    *ret_fence = (uint64_t)number;
    return true;
}

/* Cut to fit; an absent one is "". */
static void answer_get_text(const redisReply *e, char *to, size_t size)
{
    struct word word = answer_word_of(e);
    size_t length = strnlen(word.at, word.length);

    if (length >= size)
        length = size - 1;
    if (length > 0)
        memcpy(to, word.at, length);
    to[length] = '\0';
}

static bool answer_get_id(struct word word, char ret_id[LINK_ID_LEN + 1])
{
    if (word.length != LINK_ID_LEN || strspn(word.at, "0123456789abcdef") != LINK_ID_LEN)
        return false;
    memcpy(ret_id, word.at, LINK_ID_LEN);
    ret_id[LINK_ID_LEN] = '\0';
    return true;
}

static void answer_get_holder(struct word text, uint64_t fence, struct hf_wire_holder *holder)
{
    holder->fence = fence_make(fence, 0);
    holder_text_read(text.at, text.length, fence, holder);
}

/* NONCE, or NONCE:DIGEST */
static bool answer_get_stamp(struct word word, struct link_reply *out)
{
    const char *colon = word.length ? memchr(word.at, ':', word.length) : NULL;
    size_t nonce = colon ? (size_t)(colon - word.at) : word.length;
    size_t digest = colon ? word.length - nonce - 1 : 0;

    if (nonce >= sizeof(out->nonce) || (colon && digest != FLEET_DIGEST_LEN) ||
        strnlen(word.at, word.length) != word.length)
        return false;
    memcpy(out->nonce, word.at, nonce);
    out->nonce[nonce] = '\0';
    memcpy(out->digest, word.at + word.length - digest, digest);
    out->digest[digest] = '\0';
    return true;
}

/* What every answer begins with. */
static bool answer_get_head(struct word seconds, struct word micros, struct word stamp,
                            struct link_reply *out)
{
    int64_t s, us;

    if (!answer_get_number(seconds, &s) || !answer_get_number(micros, &us) || s < 0 ||
        s > INT64_MAX / 2000000 || us < 0 || us >= 1000000 || !answer_get_stamp(stamp, out))
        return false;
    out->node_time.us = s * 1000000 + us;
    return true;
}

/* --- words ------------------------------------------------------------------------------------ */

/* What is left of a line; `at` NULL: nothing, not even an empty word. */
static bool answer_take(struct word *rest, struct word *ret_word)
{
    const char *space;

    if (!rest->at)
        return false;
    space = rest->length ? memchr(rest->at, ' ', rest->length) : NULL;
    *ret_word = (struct word){rest->at, space ? (size_t)(space - rest->at) : rest->length};
    *rest = space ? (struct word){space + 1, rest->length - ret_word->length - 1}
                  : (struct word){NULL, 0};
    return true;
}

static bool answer_take_fence(struct word *rest, uint64_t *ret_fence)
{
    struct word word;

    return answer_take(rest, &word) && answer_get_fence(word, ret_fence);
}

/* FENCE PTTL and perhaps the holder's text */
static bool answer_get_taken(struct word rest, struct link_reply *out)
{
    struct word pttl;

    if (!answer_take_fence(&rest, &out->fence) || !answer_take(&rest, &pttl) ||
        !answer_get_number(pttl, &out->holder.pttl_ms))
        return false;
    if (rest.at)
        answer_get_holder(rest, out->fence, &out->holder);
    return true;
}

static bool answer_get_verdict(struct word rest, struct link_reply *out)
{
    static const struct {
        const char *text;
        enum link_verdict verdict;
        bool has_fence;
    } verdicts[] = {
        {"OK", VERDICT_OK, true},        {"LOW", VERDICT_LOW, true},
        {"STALE", VERDICT_STALE, false}, {"SENTINEL", VERDICT_SENTINEL, false},
        {"GONE", VERDICT_GONE, false},
    };
    struct word word, tag;

    out->holder.pttl_ms = -2;
    if (!answer_take(&rest, &word))
        return false;
    if (answer_equals(word, "TAKEN")) {
        out->verdict = VERDICT_TAKEN;
        return answer_get_taken(rest, out);
    }
    for (size_t i = 0; i < HF_LENGTH(verdicts); i++) {
        if (!answer_equals(word, verdicts[i].text))
            continue;
        out->verdict = verdicts[i].verdict;
        if (!verdicts[i].has_fence)
            return !rest.at;
        if (!answer_take_fence(&rest, &out->fence))
            return false;
        if (answer_take(&rest, &tag)) /* a tag that is no agent's stays unknown */
            (void)answer_get_id(tag, out->id);
        return !rest.at;
    }
    return false;
}

/* OK, SEEN SEEN_TURN FENCE TURN AT_US ASKER ENDED of the record that was there, and the text of who wrote it; or as of other
 * scripts */
static bool answer_get_once(struct word rest, struct link_reply *out)
{
    struct word whole = rest, word;

    if (!answer_take(&rest, &word) || !answer_equals(word, "OK"))
        return answer_get_verdict(whole, out);
    out->verdict = VERDICT_OK;
    if (!answer_take_fence(&rest, &out->once.seen) || !answer_take(&rest, &word) ||
        !answer_get_number(word, &out->once.seen_turn) ||
        !answer_take_fence(&rest, &out->once.fence) || !answer_take(&rest, &word) ||
        !answer_get_number(word, &out->once.turn) || !answer_take(&rest, &word) ||
        !answer_get_number(word, &out->once.at_us) || out->once.at_us < 0 ||
        !answer_take(&rest, &word) || !answer_get_number(word, &out->once.asker) ||
        !answer_take(&rest, &word) || !answer_get_number(word, &out->once.ended))
        return false;
    if (rest.at)
        holder_text_read(rest.at, rest.length, 0, &out->holder);
    return true;
}

static bool answer_get_marks(struct word rest, size_t keys, const char *known,
                             struct link_reply *out)
{
    if (!rest.at || rest.length != keys || strspn(rest.at, known) != rest.length)
        return false;
    out->marks = rest.at;
    out->mark_count = keys;
    return true;
}

static bool answer_decode_line(const redisReply *answer, enum script script, size_t keys,
                               struct link_reply *out)
{
    struct word rest = answer_word_of(answer), seconds, micros, stamp;

    if (!answer_take(&rest, &seconds) || !answer_take(&rest, &micros) ||
        !answer_take(&rest, &stamp) || !answer_get_head(seconds, micros, stamp, out))
        return false;
    if (script == SCRIPT_RENEW)
        return answer_get_marks(rest, keys, "10fx", out);
    if (script == SCRIPT_RELEASE)
        return answer_get_marks(rest, keys, "10f", out);
    if (script == SCRIPT_ONCE)
        return answer_get_once(rest, out);
    return answer_get_verdict(rest, out);
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* {'FREE', fence} or {'HELD' or 'FORCED', fence, pttl, id} and perhaps the holder's text */
static bool answer_get_query(redisReply *const *e, size_t count, enum script script,
                             struct link_reply *out)
{
    struct hf_wire_holder *holder = &out->holder;
    struct word word = count > 0 ? answer_word_of(e[0]) : (struct word){"", 0};

    holder->pttl_ms = -2;
    if (count == 2 && answer_equals(word, "FREE")) {
        out->verdict = VERDICT_FREE;
        return answer_get_fence(answer_word_of(e[1]), &out->fence);
    }
    if ((count != 4 && count != 5) || !answer_get_fence(answer_word_of(e[1]), &out->fence) ||
        !answer_get_element_number(e[2], &holder->pttl_ms))
        return false;
    out->forced = answer_equals(word, "FORCED");
    if ((!out->forced && !answer_equals(word, "HELD")) || !answer_is_string(e[3]) ||
        (!answer_get_id(answer_word_of(e[3]), out->id) && e[3]->len > 0))
        return false;
    out->verdict = script == SCRIPT_FORCE && out->forced ? VERDICT_OK : VERDICT_TAKEN;
    if (count > 4)
        answer_get_holder(answer_word_of(e[4]), out->fence, holder);
    return true;
}

/* {cursor, item...}; link_item() decodes the items. */
static bool answer_get_listing(redisReply *const *e, size_t count, struct link_reply *out)
{
    char *end;

    if (count == 0 || !answer_is_string(e[0]) || e[0]->len == 0 || e[0]->len > 20 ||
        strspn(e[0]->str, "0123456789") != e[0]->len)
        return false;
    out->cursor = strtoull(e[0]->str, &end, 10);
    out->items = e + 1;
    out->item_count = count - 1;
    return true;
}

/* {key, id, fence, pttl, the holder's text} */
bool link_item(const struct link_reply *reply, size_t i, struct link_item *ret_item)
{
    const redisReply *item = ((redisReply *const *)reply->items)[i];
    redisReply *const *e = item->element;
    uint64_t fence;

    memset(ret_item, 0, sizeof(*ret_item));
    if (item->type != REDIS_REPLY_ARRAY || item->elements != 5 || !answer_is_string(e[0]) ||
        !answer_get_id(answer_word_of(e[1]), ret_item->id) ||
        !answer_get_fence(answer_word_of(e[2]), &fence) ||
        !answer_get_element_number(e[3], &ret_item->holder.pttl_ms))
        return false;
    ret_item->key = e[0]->str;
    ret_item->key_len = e[0]->len;
    answer_get_holder(answer_word_of(e[4]), fence, &ret_item->holder);
    return true;
}

/* {created_us, created_wall_ms, ttl_max_ms, nodes, list_hash} */
#define CONSTANTS   5
#define RECORD_PART 3 /* record, record_by, sure */
static bool answer_get_constants(redisReply *const *e, struct node_sentinel *sentinel)
{
    int64_t nodes;

    if (!answer_get_element_number(e[0], &sentinel->created.us) ||
        !answer_get_element_number(e[1], &sentinel->created_wall.ms) ||
        !answer_get_element_number(e[2], &sentinel->ttl_max_ms) ||
        !answer_get_element_number(e[3], &nodes) || nodes < 0 || nodes > INT32_MAX)
        return false;
    sentinel->present = true;
    sentinel->nodes = (int)nodes;
    answer_get_text(e[4], sentinel->list_hash, sizeof(sentinel->list_hash));
    return true;
}

/* {created} and, if there is one, the constants */
static bool answer_get_sentinel(redisReply *const *e, size_t count, struct link_reply *out)
{
    struct node_sentinel *sentinel = &out->sentinel;

    if (count == 0 || !answer_is_string(e[0]))
        return false;
    out->sentinel_created = answer_equals(answer_word_of(e[0]), "1");
    if (count == 1)
        return out->nonce[0] == '\0';
    if (count != 1 + CONSTANTS + RECORD_PART || out->nonce[0] == '\0' ||
        !answer_get_constants(e + 1, sentinel) || !answer_is_string(e[1 + CONSTANTS]) ||
        !answer_is_string(e[2 + CONSTANTS]) || !answer_is_string(e[3 + CONSTANTS]))
        return false;
    memcpy(sentinel->nonce, out->nonce, sizeof(sentinel->nonce));
    out->record = e[1 + CONSTANTS]->str;
    out->record_len = e[1 + CONSTANTS]->len;
    out->record_by = e[2 + CONSTANTS]->str;
    out->record_sure = e[3 + CONSTANTS]->str;
    return true;
}

/* {'OK'}, {'STALE'} or {'SENTINEL'} */
static bool answer_get_put(redisReply *const *e, size_t count, struct link_reply *out)
{
    struct word word;

    if (count != 1)
        return false;
    word = answer_word_of(e[0]);
    if (!answer_equals(word, "OK"))
        return answer_get_verdict(word, out);
    out->verdict = VERDICT_OK;
    return true;
}

static bool answer_decode_array(const redisReply *answer, enum script script,
                                struct link_reply *out)
{
    redisReply *const *e = answer->element;
    size_t count = answer->elements;

    if (count < 3 || !answer_is_string(e[2]) ||
        !answer_get_head(answer_word_of(e[0]), answer_word_of(e[1]), answer_word_of(e[2]), out))
        return false;
    switch (script) {
    case SCRIPT_QUERY:
    case SCRIPT_FORCE:
        return answer_get_query(e + 3, count - 3, script, out);
    case SCRIPT_LISTING:
        return answer_get_listing(e + 3, count - 3, out);
    case SCRIPT_SENTINEL:
        return answer_get_sentinel(e + 3, count - 3, out);
    default:
        return answer_get_put(e + 3, count - 3, out);
    }
}

/* --- both ------------------------------------------------------------------------------------- */

static bool answer_decode(const redisReply *answer, enum script script, size_t keys,
                          struct link_reply *out)
{
    switch (script) {
    case SCRIPT_ACQUIRE:
    case SCRIPT_RAISE:
    case SCRIPT_HEAL:
    case SCRIPT_RENEW:
    case SCRIPT_RELEASE:
    case SCRIPT_ONCE:
        return answer->type == REDIS_REPLY_STRING && answer_decode_line(answer, script, keys, out);
    default:
        return answer->type == REDIS_REPLY_ARRAY && answer_decode_array(answer, script, out);
    }
}

void reply_decode(const redisReply *answer, enum script script, size_t keys, struct link_reply *out)
{
    if (answer->type == REDIS_REPLY_ERROR) {
        out->outcome = LINK_ERROR;
        out->error = reply_error_class(answer->str);
        out->error_text = reply_error_text(answer->str);
    } else if (!answer_decode(answer, script, keys, out)) {
        out->outcome = LINK_ERROR;
        out->error = HF_NODE_ERR_PROTOCOL;
        out->error_text = "a script's answer has the wrong shape";
    } else {
        out->outcome = LINK_ANSWERED;
        out->error = HF_NODE_ERR_NONE;
        out->error_text = "";
    }
}

/* --- errors, and what a node says of itself --------------------------------------------------- */

/* Errors, and what a node says of itself: INFO. */

/* --- errors ----------------------------------------------------------------------------------- */

const char *link_error_name(enum hf_node_error error)
{
    return error == HF_NODE_ERR_NONE ? "none" : hf_why_failed((uint32_t)error)->word;
}

/* "ERR Error running script (call to f_..): @user_script:3: @user_script: 3: -OOM command not ..." */
const char *reply_error_text(const char *text)
{
    const char *inner;

    if (strncmp(text, "ERR Error running script", strlen("ERR Error running script")) != 0)
        return text;
    inner = strstr(text, ": -");
    return inner ? inner + strlen(": -") : text;
}

/* In 7.2 and before, a right that is missing within a script has no error code of its own. */
static bool reply_is_script_perm(const char *text)
{
    return strstr(text, "The user executing the script can't ") ||
           strstr(text, "ACL failure in script");
}

enum hf_node_error reply_error_class(const char *text)
{
    static const struct {
        const char *code;
        enum hf_node_error error;
    } codes[] = {
        {"NOAUTH", HF_NODE_ERR_AUTH},       {"WRONGPASS", HF_NODE_ERR_AUTH},
        {"NOPERM", HF_NODE_ERR_PERM},       {"BUSY", HF_NODE_ERR_BUSY},
        {"LOADING", HF_NODE_ERR_LOADING},   {"MISCONF", HF_NODE_ERR_MISCONF},
        {"READONLY", HF_NODE_ERR_READONLY}, {"OOM", HF_NODE_ERR_OOM},
        {"NOSCRIPT", HF_NODE_ERR_NOSCRIPT}, {"NOREPLICAS", HF_NODE_ERR_NOREPLICAS},
    };
    size_t length;

    if (reply_is_script_perm(text))
        return HF_NODE_ERR_PERM;
    text = reply_error_text(text);
    length = strcspn(text, " ");

    for (size_t i = 0; i < HF_LENGTH(codes); i++) {
        if (strlen(codes[i].code) == length && memcmp(codes[i].code, text, length) == 0)
            return codes[i].error;
    }
    return HF_NODE_ERR_OTHER;
}

/* --- INFO -------------------------------------------------------------------------------------- */

/* The lines that are read. */
enum info_name {
    INFO_RUN_ID,
    INFO_UPTIME,
    INFO_ROLE,
    INFO_REPLICAS,
    INFO_ID_BEFORE,
    INFO_CLUSTER,
    INFO_MEMORY,
    INFO_POLICY,
    INFO_VALKEY,
    INFO_REDIS,
    INFO_NAMES
};
static const char *const info_names[INFO_NAMES] = {
    [INFO_RUN_ID] = "run_id",
    [INFO_UPTIME] = "uptime_in_seconds",
    [INFO_ROLE] = "role",
    [INFO_REPLICAS] = "connected_slaves",
    [INFO_ID_BEFORE] = "master_replid2",
    [INFO_CLUSTER] = "cluster_enabled",
    [INFO_MEMORY] = "maxmemory",
    [INFO_POLICY] = "maxmemory_policy",
    [INFO_VALKEY] = "valkey_version",
    [INFO_REDIS] = "redis_version",
};

/* Their values; `at` NULL: there is no such line. */
struct info {
    struct word value[INFO_NAMES];
};

/* "NAME:value"; the first line of a name counts. */
static void reply_info_line(struct info *info, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    struct word name = {line, colon ? (size_t)(colon - line) : 0};
    const char *end = line + length;

    if (!colon)
        return;
    if (end[-1] == '\r')
        end--;
    for (int i = 0; i < INFO_NAMES; i++)
        if (!info->value[i].at && answer_equals(name, info_names[i]))
            info->value[i] = (struct word){colon + 1, (size_t)(end - colon - 1)};
}

/* (!) In one pass: a node that means ill sends as many lines as it may. */
static void reply_info_read(struct info *info, const char *text, size_t length)
{
    const char *end = text + length;

    memset(info, 0, sizeof(*info));
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;

        reply_info_line(info, text, (size_t)(stop - text));
        text = stop + 1;
    }
}

/* False: it is not there, or does not fit. */
static bool reply_info_text(const struct info *info, enum info_name name, char *ret_text,
                            size_t size)
{
    struct word value = info->value[name];

    if (!value.at || value.length >= size)
        return false;
    memcpy(ret_text, value.at, value.length);
    ret_text[value.length] = '\0';
    return true;
}

static bool reply_info_is(const struct info *info, enum info_name name, const char *text)
{
    return info->value[name].at && answer_equals(info->value[name], text);
}

static bool reply_info_is_other(const struct info *info, enum info_name name, const char *text)
{
    return info->value[name].at && !answer_equals(info->value[name], text);
}

/* The second replication id is that of a master that it followed before; zeros if it never did. A plain
 * restart keeps the zeros, a restart with a dump made beside replicas does not. */
static void reply_decode_replication(const struct info *info, struct node_facts *facts)
{
    struct word before = info->value[INFO_ID_BEFORE];
    bool says = info->value[INFO_REPLICAS].at && before.at;
    bool some = says && (!reply_info_is(info, INFO_REPLICAS, "0") ||
                         strspn(before.at, "0") < before.length);

    facts->replicated = some && !facts->replica;
}

bool reply_info_is_long(const redisReply *answer)
{
    return answer->type == REDIS_REPLY_STRING && answer->len > INFO_MOST;
}

bool reply_decode_info(const redisReply *answer, struct node_facts *facts)
{
    char run_id[TRUST_RUN_ID_LEN + 1], uptime[24];
    struct info info;
    long long seconds;

    if (answer->type != REDIS_REPLY_STRING || reply_info_is_long(answer) ||
        strlen(answer->str) != answer->len)
        return false;
    reply_info_read(&info, answer->str, answer->len);
    if (!reply_info_text(&info, INFO_RUN_ID, run_id, sizeof(run_id)) ||
        strlen(run_id) != TRUST_RUN_ID_LEN ||
        !reply_info_text(&info, INFO_UPTIME, uptime, sizeof(uptime)) || !info.value[INFO_ROLE].at)
        return false;
    seconds = strtoll(uptime, NULL, 10);
    if (seconds > INT64_MAX / HF_NS_PER_SEC)
        return false;
    if (seconds < 0)
        seconds = 0; /* its clock was set back since its start: it counts as just started */
    memcpy(facts->run_id, run_id, sizeof(run_id));
    facts->uptime = hf_ns(seconds * HF_NS_PER_SEC);
    facts->replica = !reply_info_is(&info, INFO_ROLE, "master");
    reply_decode_replication(&info, facts);
    facts->cluster = reply_info_is_other(&info, INFO_CLUSTER, "0");
    facts->evicts = reply_info_is_other(&info, INFO_MEMORY, "0") &&
                    reply_info_is_other(&info, INFO_POLICY, "noeviction");
    if (!reply_info_text(&info, INFO_VALKEY, facts->version, sizeof(facts->version)) &&
        !reply_info_text(&info, INFO_REDIS, facts->version, sizeof(facts->version)))
        facts->version[0] = '\0';
    return true;
}

#include <stdlib.h>
#include <string.h>

#include "agent/core/fence.h"
#include "agent/redis/link_internal.h"
#include "shm/node_words.h"

/* --- errors ----------------------------------------------------------------------------------- */

const char *link_error_name(enum hf_node_error error)
{
    return error == HF_NODE_ERR_NONE ? "none" : hf_node_error_word((uint32_t)error);
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
static bool is_script_perm(const char *text)
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

    if (is_script_perm(text))
        return HF_NODE_ERR_PERM;
    text = reply_error_text(text);
    length = strcspn(text, " ");

    for (size_t i = 0; i < HF_LENGTH(codes); i++) {
        if (strlen(codes[i].code) == length && memcmp(codes[i].code, text, length) == 0)
            return codes[i].error;
    }
    return HF_NODE_ERR_OTHER;
}

/* --- elements --------------------------------------------------------------------------------- */

static bool is_string(const redisReply *e)
{
    return e->type == REDIS_REPLY_STRING || e->type == REDIS_REPLY_STATUS;
}

/* A whole number, as an integer or in decimal digits. */
static bool get_number(const redisReply *e, int64_t *ret_number)
{
    char *end;
    long long number;

    if (e->type == REDIS_REPLY_INTEGER) {
        *ret_number = e->integer;
        return true;
    }
    if (!is_string(e) || e->len == 0 || e->len > 19)
        return false;
    number = strtoll(e->str, &end, 10);
    if (end != e->str + e->len)
        return false;
    *ret_number = number;
    return true;
}

static bool get_fence(const redisReply *e, uint64_t *ret_fence)
{
    int64_t number;

    if (!get_number(e, &number) || number < 0 || (uint64_t)number > FENCE_NODE_MAX)
        return false;
    *ret_fence = (uint64_t)number;
    return true;
}

/* Cut to fit; an absent one is "". */
static void get_text(const redisReply *e, char *to, size_t size)
{
    size_t length = is_string(e) ? strnlen(e->str, e->len) : 0;

    if (length >= size)
        length = size - 1;
    if (length > 0)
        memcpy(to, e->str, length);
    to[length] = '\0';
}

static bool equals(const redisReply *e, const char *text)
{
    return is_string(e) && e->len == strlen(text) && memcmp(e->str, text, e->len) == 0;
}

/* --- scripts ---------------------------------------------------------------------------------- */

/* {host, pid, uid, command, note, since}. Another program may have written the record: a field that is no
 * number stays unknown. */
#define RECORD_FIELDS 6
static void get_record(redisReply *const *e, struct hf_wire_holder *holder)
{
    int64_t pid, uid, since;

    get_text(e[0], holder->host, sizeof(holder->host));
    get_text(e[3], holder->comm, sizeof(holder->comm));
    get_text(e[4], holder->note, sizeof(holder->note));
    if (get_number(e[1], &pid) && pid > 0 && pid <= INT32_MAX)
        holder->pid = (uint32_t)pid;
    if (get_number(e[2], &uid) && uid >= 0 && uid <= UINT32_MAX)
        holder->uid = (uint32_t)uid;
    if (get_number(e[5], &since))
        holder->since_wall_ms = since;
}

static bool get_id(const redisReply *e, char ret_id[LINK_ID_LEN + 1])
{
    if (!is_string(e) || e->len != LINK_ID_LEN || strspn(e->str, "0123456789abcdef") != LINK_ID_LEN)
        return false;
    memcpy(ret_id, e->str, LINK_ID_LEN + 1);
    return true;
}

/* {fence, pttl} and perhaps a record */
static bool get_taken(redisReply *const *e, size_t count, struct link_reply *out)
{
    if ((count != 2 && count != 2 + RECORD_FIELDS) || !get_fence(e[0], &out->fence) ||
        !get_number(e[1], &out->holder.pttl_ms))
        return false;
    if (count == 2)
        return true;
    out->holder.fence = fence_make(out->fence, 0);
    get_record(e + 2, &out->holder);
    return true;
}

static bool get_verdict(redisReply *const *e, size_t count, struct link_reply *out)
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

    out->holder.pttl_ms = -2;
    if (count == 0)
        return false;
    if (equals(e[0], "TAKEN")) {
        out->verdict = VERDICT_TAKEN;
        return get_taken(e + 1, count - 1, out);
    }
    for (size_t i = 0; i < HF_LENGTH(verdicts); i++) {
        if (!equals(e[0], verdicts[i].text))
            continue;
        out->verdict = verdicts[i].verdict;
        if (!verdicts[i].has_fence)
            return count == 1;
        if (count == 3) /* a tag that is no agent's stays unknown */
            (void)get_id(e[2], out->id);
        return (count == 2 || count == 3) && get_fence(e[1], &out->fence);
    }
    return false;
}

/* {'FREE', fence} or {'HELD' or 'FORCED', fence, pttl, id} and perhaps a record */
static bool get_query(redisReply *const *e, size_t count, enum script script,
                      struct link_reply *out)
{
    struct hf_wire_holder *holder = &out->holder;

    holder->pttl_ms = -2;
    if (count == 2 && equals(e[0], "FREE")) {
        out->verdict = VERDICT_FREE;
        return get_fence(e[1], &out->fence);
    }
    if ((count != 4 && count != 4 + RECORD_FIELDS) || !get_fence(e[1], &out->fence) ||
        !get_number(e[2], &holder->pttl_ms))
        return false;
    out->forced = equals(e[0], "FORCED");
    if ((!out->forced && !equals(e[0], "HELD")) || (!get_id(e[3], out->id) && !equals(e[3], "")))
        return false;
    out->verdict = script == SCRIPT_FORCE && out->forced ? VERDICT_OK : VERDICT_TAKEN;
    if (count > 4) {
        holder->fence = fence_make(out->fence, 0);
        get_record(e + 4, holder);
    }
    return true;
}

/* {cursor, item...}; link_item() decodes the items. */
static bool get_listing(redisReply *const *e, size_t count, struct link_reply *out)
{
    char *end;

    if (count == 0 || !is_string(e[0]) || e[0]->len == 0 || e[0]->len > 20 ||
        strspn(e[0]->str, "0123456789") != e[0]->len)
        return false;
    out->cursor = strtoull(e[0]->str, &end, 10);
    out->items = e + 1;
    out->item_count = count - 1;
    return true;
}

/* {key, id, fence, pttl} and a record */
bool link_item(const struct link_reply *reply, size_t i, struct link_item *ret_item)
{
    const redisReply *item = ((redisReply *const *)reply->items)[i];
    redisReply *const *e = item->element;
    uint64_t fence;

    memset(ret_item, 0, sizeof(*ret_item));
    if (item->type != REDIS_REPLY_ARRAY || item->elements != 4 + RECORD_FIELDS ||
        !is_string(e[0]) || !get_id(e[1], ret_item->id) || !get_fence(e[2], &fence) ||
        !get_number(e[3], &ret_item->holder.pttl_ms))
        return false;
    ret_item->key = e[0]->str;
    ret_item->key_len = e[0]->len;
    ret_item->holder.fence = fence_make(fence, 0);
    get_record(e + 4, &ret_item->holder);
    return true;
}

static bool get_marks(redisReply *const *e, size_t count, size_t keys, struct link_reply *out)
{
    if (count != 1 || !is_string(e[0]) || e[0]->len != keys ||
        strspn(e[0]->str, "10fx") != e[0]->len)
        return false;
    out->marks = e[0]->str;
    out->mark_count = keys;
    return true;
}

/* {created_us, created_wall_ms, ttl_max_ms, nodes, list_hash} */
#define CONSTANTS   5
#define RECORD_PART 2 /* record, record_by */
static bool get_constants(redisReply *const *e, struct node_sentinel *sentinel)
{
    int64_t nodes;

    if (!get_number(e[0], &sentinel->created.us) || !get_number(e[1], &sentinel->created_wall.ms) ||
        !get_number(e[2], &sentinel->ttl_max_ms) || !get_number(e[3], &nodes) || nodes < 0 ||
        nodes > INT32_MAX)
        return false;
    sentinel->present = true;
    sentinel->nodes = (int)nodes;
    get_text(e[4], sentinel->list_hash, sizeof(sentinel->list_hash));
    return true;
}

/* {created} and, if there is one, the constants */
static bool get_sentinel(redisReply *const *e, size_t count, struct link_reply *out)
{
    struct node_sentinel *sentinel = &out->sentinel;

    if (count == 0 || !is_string(e[0]))
        return false;
    out->sentinel_created = equals(e[0], "1");
    if (count == 1)
        return out->nonce[0] == '\0';
    if (count != 1 + CONSTANTS + RECORD_PART || out->nonce[0] == '\0' ||
        !get_constants(e + 1, sentinel) || !is_string(e[1 + CONSTANTS]) ||
        !is_string(e[2 + CONSTANTS]))
        return false;
    memcpy(sentinel->nonce, out->nonce, sizeof(sentinel->nonce));
    out->record = e[1 + CONSTANTS]->str;
    out->record_len = e[1 + CONSTANTS]->len;
    out->record_by = e[2 + CONSTANTS]->str;
    return true;
}

bool reply_decode_sentinel(const redisReply *answer, struct node_sentinel *ret_sentinel)
{
    struct node_sentinel sentinel = {0};
    redisReply *const *e = answer->element;

    if (answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 + CONSTANTS)
        return false;
    if (is_string(e[0])) {
        if (!get_constants(e + 1, &sentinel))
            return false;
        get_text(e[0], sentinel.nonce, sizeof(sentinel.nonce));
    }
    *ret_sentinel = sentinel;
    return true;
}

/* NONCE, or NONCE:DIGEST */
static bool get_stamp(const redisReply *e, struct link_reply *out)
{
    size_t nonce, digest;

    if (!is_string(e) || strlen(e->str) != e->len)
        return false;
    nonce = strcspn(e->str, ":");
    digest = nonce < e->len ? e->len - nonce - 1 : 0;
    if (nonce >= sizeof(out->nonce) || (nonce < e->len && digest != FLEET_DIGEST_LEN))
        return false;
    memcpy(out->nonce, e->str, nonce);
    out->nonce[nonce] = '\0';
    memcpy(out->digest, e->str + e->len - digest, digest + 1);
    return true;
}

static bool get_put(redisReply *const *e, size_t count, struct link_reply *out)
{
    if (count != 1)
        return false;
    if (!equals(e[0], "OK"))
        return get_verdict(e, count, out);
    out->verdict = VERDICT_OK;
    return true;
}

static bool decode(const redisReply *answer, enum script script, size_t keys,
                   struct link_reply *out)
{
    redisReply *const *e = answer->element;
    int64_t seconds, micros;

    if (answer->type != REDIS_REPLY_ARRAY || answer->elements < 3)
        return false;
    if (!get_number(e[0], &seconds) || !get_number(e[1], &micros) || seconds < 0 ||
        seconds > INT64_MAX / 2000000 || micros < 0 || micros >= 1000000)
        return false;
    if (!get_stamp(e[2], out))
        return false;
    out->node_time.us = seconds * 1000000 + micros;
    switch (script) {
    case SCRIPT_RENEW:
    case SCRIPT_RELEASE:
        return get_marks(e + 3, answer->elements - 3, keys, out);
    case SCRIPT_QUERY:
    case SCRIPT_FORCE:
        return get_query(e + 3, answer->elements - 3, script, out);
    case SCRIPT_LISTING:
        return get_listing(e + 3, answer->elements - 3, out);
    case SCRIPT_SENTINEL:
        return get_sentinel(e + 3, answer->elements - 3, out);
    case SCRIPT_FLEET:
        return get_put(e + 3, answer->elements - 3, out);
    default:
        return get_verdict(e + 3, answer->elements - 3, out);
    }
}

void reply_decode(const redisReply *answer, enum script script, size_t keys, struct link_reply *out)
{
    if (answer->type == REDIS_REPLY_ERROR) {
        out->outcome = LINK_ERROR;
        out->error = reply_error_class(answer->str);
        out->error_text = reply_error_text(answer->str);
    } else if (!decode(answer, script, keys, out)) {
        out->outcome = LINK_ERROR;
        out->error = HF_NODE_ERR_PROTOCOL;
        out->error_text = "a script's answer has the wrong shape";
    } else {
        out->outcome = LINK_ANSWERED;
        out->error = HF_NODE_ERR_NONE;
        out->error_text = "";
    }
}

/* --- INFO and CONFIG GET ---------------------------------------------------------------------- */

/* The value of a line "NAME:value"; false: there is no such line, or it is longer than `size`. */
static bool info_line(const char *info, const char *name, char *ret_value, size_t size)
{
    size_t name_length = strlen(name);

    for (const char *line = info; line; line = strchr(line, '\n')) {
        size_t length;

        if (*line == '\n')
            line++;
        if (strncmp(line, name, name_length) != 0 || line[name_length] != ':')
            continue;
        line += name_length + 1;
        length = strcspn(line, "\r\n");
        if (length >= size)
            return false;
        memcpy(ret_value, line, length);
        ret_value[length] = '\0';
        return true;
    }
    return false;
}

/* The second replication id is that of a master that it followed before; zeros if it never did. A plain
 * restart keeps the zeros, a restart with a dump made beside replicas does not. */
static void decode_replication(const char *info, struct node_facts *facts)
{
    char replicas[24], before[64];
    bool says = info_line(info, "connected_slaves", replicas, sizeof(replicas)) &&
                info_line(info, "master_replid2", before, sizeof(before));
    bool some = says && (strcmp(replicas, "0") != 0 || before[strspn(before, "0")] != '\0');

    facts->replicated = some && !facts->replica;
    facts->sole = says && !some && !facts->replica;
}

bool reply_decode_info(const redisReply *answer, struct node_facts *facts)
{
    char run_id[TRUST_RUN_ID_LEN + 1], uptime[24], value[32];
    const char *info = answer->str;
    long long seconds;

    if (answer->type != REDIS_REPLY_STRING || strlen(info) != answer->len)
        return false;
    if (!info_line(info, "run_id", run_id, sizeof(run_id)) || strlen(run_id) != TRUST_RUN_ID_LEN ||
        !info_line(info, "uptime_in_seconds", uptime, sizeof(uptime)) ||
        !info_line(info, "role", value, sizeof(value)))
        return false;
    seconds = strtoll(uptime, NULL, 10);
    if (seconds > INT64_MAX / HF_NS_PER_SEC)
        return false;
    if (seconds < 0)
        seconds = 0; /* its clock was set back since its start: it counts as just started */
    memcpy(facts->run_id, run_id, sizeof(run_id));
    facts->uptime = hf_ns(seconds * HF_NS_PER_SEC);
    facts->replica = strcmp(value, "master") != 0;
    decode_replication(info, facts);
    facts->cluster =
        info_line(info, "cluster_enabled", value, sizeof(value)) && strcmp(value, "0") != 0;
    facts->evicts = info_line(info, "maxmemory", value, sizeof(value)) && strcmp(value, "0") != 0 &&
                    info_line(info, "maxmemory_policy", value, sizeof(value)) &&
                    strcmp(value, "noeviction") != 0;
    if (!info_line(info, "valkey_version", facts->version, sizeof(facts->version)) &&
        !info_line(info, "redis_version", facts->version, sizeof(facts->version)))
        facts->version[0] = '\0';
    return true;
}

bool reply_decode_durable(const redisReply *answer)
{
    static const struct {
        const char *name, *value;
    } wanted[] = {
        {"appendonly", "yes"}, {"appendfsync", "always"}, {"no-appendfsync-on-rewrite", "no"}};
    size_t found = 0;

    if (answer->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i + 1 < answer->elements; i += 2) {
        for (size_t k = 0; k < HF_LENGTH(wanted); k++)
            found += equals(answer->element[i], wanted[k].name) &&
                     equals(answer->element[i + 1], wanted[k].value);
    }
    return found == HF_LENGTH(wanted);
}

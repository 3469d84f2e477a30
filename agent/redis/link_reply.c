/* Errors, and what a node says of itself: INFO. */
#include <stdlib.h>
#include <string.h>

#include "agent/redis/link_internal.h"
#include "shm/node_words.h"

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

/* The value of a line "NAME:value"; false: there is no such line, or it is longer than `size`. */
static bool reply_info_line(const char *info, const char *name, char *ret_value, size_t size)
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
static void reply_decode_replication(const char *info, struct node_facts *facts)
{
    char replicas[24], before[64];
    bool says = reply_info_line(info, "connected_slaves", replicas, sizeof(replicas)) &&
                reply_info_line(info, "master_replid2", before, sizeof(before));
    bool some = says && (strcmp(replicas, "0") != 0 || before[strspn(before, "0")] != '\0');

    facts->replicated = some && !facts->replica;
}

bool reply_decode_info(const redisReply *answer, struct node_facts *facts)
{
    char run_id[TRUST_RUN_ID_LEN + 1], uptime[24], value[32];
    const char *info = answer->str;
    long long seconds;

    if (answer->type != REDIS_REPLY_STRING || strlen(info) != answer->len)
        return false;
    if (!reply_info_line(info, "run_id", run_id, sizeof(run_id)) ||
        strlen(run_id) != TRUST_RUN_ID_LEN ||
        !reply_info_line(info, "uptime_in_seconds", uptime, sizeof(uptime)) ||
        !reply_info_line(info, "role", value, sizeof(value)))
        return false;
    seconds = strtoll(uptime, NULL, 10);
    if (seconds > INT64_MAX / HF_NS_PER_SEC)
        return false;
    if (seconds < 0)
        seconds = 0; /* its clock was set back since its start: it counts as just started */
    memcpy(facts->run_id, run_id, sizeof(run_id));
    facts->uptime = hf_ns(seconds * HF_NS_PER_SEC);
    facts->replica = strcmp(value, "master") != 0;
    reply_decode_replication(info, facts);
    facts->cluster =
        reply_info_line(info, "cluster_enabled", value, sizeof(value)) && strcmp(value, "0") != 0;
    facts->evicts = reply_info_line(info, "maxmemory", value, sizeof(value)) &&
                    strcmp(value, "0") != 0 &&
                    reply_info_line(info, "maxmemory_policy", value, sizeof(value)) &&
                    strcmp(value, "noeviction") != 0;
    if (!reply_info_line(info, "valkey_version", facts->version, sizeof(facts->version)) &&
        !reply_info_line(info, "redis_version", facts->version, sizeof(facts->version)))
        facts->version[0] = '\0';
    return true;
}

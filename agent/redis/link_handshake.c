/* The commands on a new connection, in this order, and again at each probe from INFO on:
 *   AUTH, SELECT, INFO | CLIENT SETNAME, INFO, every SCRIPT LOAD
 *     | writes that change nothing, the sentinel
 * (!) INFO is answered before anything else is sent that counts: which server it is comes before what it says. (The
 * survey of rights, acl.h, comes before it, and says nothing of the server.)
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/redis/link_internal.h"
#include "agent/redis/acl.h"
#include "shm/status.h"

/* The words of a command, NULL behind the last. */
static int handshake_ask(struct link *link, call_fn *fn, ...) __attribute__((sentinel));
static int handshake_ask(struct link *link, call_fn *fn, ...)
{
    const char *words[6];
    int count = 0;
    va_list args;

    va_start(args, fn);
    while (count < (int)HF_LENGTH(words) && (words[count] = va_arg(args, const char *)))
        count++;
    va_end(args);
    return call_own(link, fn, count, words, NULL);
}

/* Until INFO was answered, only the class is told: the server's text may repeat what we sent, our
 * password included. */
static void handshake_refused(struct link *link, const char *command, enum hf_node_error error,
                              const char *text)
{
    char shown[LINK_TEXT_MAX] = "", better[LINK_TEXT_MAX], remedy[REMEDY_SIZE];

    if (error == HF_NODE_ERR_PERM && acl_of_error(link, text, better) == better) {
        link_end(link, error, "%s: %s", command, better);
        return;
    }
    if (link->is_redis)
        link_copy_text(link, shown, text);
    if (!*shown)
        snprintf(shown, sizeof(shown), "%s",
                 error == HF_NODE_ERR_OTHER ? "refused" : link_error_name(error));
    if (*remedy_of(command, text, link->is_redis, remedy))
        link_end(link, error, "%s (%s: %.100s)", remedy, command, shown);
    else
        link_end(link, error, "%s: %.100s", command, shown);
}

static bool handshake_is_error(const redisReply *answer)
{
    return answer->type == REDIS_REPLY_ERROR;
}

static void handshake_not_redis(struct link *link, const char *command)
{
    link_end(link, HF_NODE_ERR_PROTOCOL, "no Redis answers %s like that", command);
}

/* --- writes that change nothing --------------------------------------------------------------- */

/* The fence record of the empty name, which no lock has: an absent key, among those that the Redis user
 * needs rights for anyway. */
#define ABSENT_KEY LINK_FENCE_PREFIX

static void handshake_on_write(struct link *link, const struct call *call, const redisReply *answer)
{
    char better[LINK_TEXT_MAX];
    const char *text;

    (void)call;
    if (!handshake_is_error(answer) || link->write_error != HF_NODE_ERR_NONE)
        return;
    text = reply_error_text(answer->str);
    link->write_error = reply_error_class(answer->str);
    if (link->write_error == HF_NODE_ERR_PERM)
        text = acl_of_error(link, text, better);
    link_copy_text(link, link->write_text, text);
}

/* A node checks memory, disk, replicas and rights before it sees that there is nothing to do: nothing
 * is written, propagated or synced. */
static void handshake_try_writes(struct link *link)
{
    link->write_tried = false;
    link->write_error = HF_NODE_ERR_NONE;
    link->write_text[0] = '\0';
    if (link->options.probe_writes && !link->asked.replica && !link->asked.cluster)
        link->write_tried =
            handshake_ask(link, handshake_on_write, "SET", ABSENT_KEY, "0", "XX", "PX", "1",
                          NULL) == HF_OK &&
            handshake_ask(link, handshake_on_write, "PEXPIRE", ABSENT_KEY, "1", NULL) == HF_OK &&
            handshake_ask(link, handshake_on_write, "DEL", ABSENT_KEY, NULL) == HF_OK;
}

/* --- the sentinel, and the end ---------------------------------------------------------------- */

static void handshake_schedule_probe(struct link *link)
{
    if (link->options.probe.ns > 0)
        (void)loop_timer_set(link->options.loop, &link->probe,
                             hf_time_add(clock_now(), link->options.probe));
}

/* (!) Another's key, or what is left of one: agents do not replace it. */
static bool handshake_is_no_sentinel(const struct link_reply *reply)
{
    return reply->outcome == LINK_ERROR && (reply->error == HF_NODE_ERR_PROTOCOL ||
                                            strncmp(reply->error_text, "WRONGTYPE", 9) == 0);
}

/* The handshake is done. */
static void handshake_end(struct link *link, const struct link_reply *sentinel)
{
    link_enter(link, LINK_UP, HF_TIME_NEVER);
    link->mute_ends = 0;
    link->other = HF_NODE_ERR_NONE;
    link->up_since = clock_now();
    link->options.events->up(link, &link->facts, sentinel, link->options.arg);
    tracking_begin(link);
}

static void handshake_on_sentinel(struct link *link, const struct link_reply *reply, void *arg)
{
    /* A node that will not be used may refuse scripts: the link's owner still wants its facts. */
    bool useless = link->asked.replica || link->asked.cluster;
    struct link_reply told = *reply;

    (void)arg;
    told.write_tried = link->write_tried;
    told.write_error = link->write_error;
    told.write_text = link->write_text;
    if (reply->outcome == LINK_TIMEOUT || reply->outcome == LINK_BROKEN)
        return;
    if (link->state == LINK_GREETING) {
        if (handshake_is_no_sentinel(reply) && !useless) {
            link_end(link, reply->error, "its key %s is no agent's: %.60s", LINK_SENTINEL_KEY,
                     reply->error_text);
            return;
        }
        if (reply->outcome == LINK_ERROR && !useless) {
            handshake_refused(link, "EVALSHA", reply->error, reply->error_text);
            return;
        }
        link->facts = link->asked;
        handshake_schedule_probe(link);
        handshake_end(link, &told);
    } else if (link->state == LINK_UP) {
        handshake_schedule_probe(link);
        if (!link->asked_well)
            return;
        /* It does nothing else for a lock either, whatever it says to plain commands. */
        if (reply->outcome == LINK_ERROR && !useless && told.write_error == HF_NODE_ERR_NONE) {
            told.write_tried = link->options.probe_writes;
            told.write_error = reply->error;
            told.write_text = reply->error_text;
        }
        link->facts = link->asked;
        link->options.events->probed(link, &link->facts, &told, link->options.arg);
    }
}

static void handshake_read_sentinel(struct link *link)
{
    const struct link_sentinel read_only = {.nonce = "", .list_hash = ""};

    handshake_try_writes(link);
    if (script_sentinel(link, &read_only, hf_time_add(clock_now(), link->options.silence),
                        handshake_on_sentinel, NULL) == HF_OK)
        return;
    if (link->state == LINK_UP)
        handshake_schedule_probe(link); /* a slow node has as many commands in flight as allowed */
    else
        link_end(link, HF_NODE_ERR_OTHER, "sentinel: cannot be sent");
}

/* --- INFO and what follows it ----------------------------------------------------------------- */

static void handshake_on_loaded(struct link *link, const struct call *call,
                                const redisReply *answer)
{
    link->loading[call->script] = false;
    if (handshake_is_error(answer)) {
        handshake_refused(link, "SCRIPT LOAD", reply_error_class(answer->str), answer->str);
    } else if (answer->type != REDIS_REPLY_STRING || answer->len != SCRIPT_SHA_LEN) {
        handshake_not_redis(link, "SCRIPT LOAD");
    } else {
        memcpy(link->sha[call->script], answer->str, SCRIPT_SHA_LEN + 1);
        if (call->script == SCRIPTS - 1)
            handshake_read_sentinel(link);
    }
}

static void handshake_on_info(struct link *link, const struct call *call, const redisReply *answer)
{
    bool sent;

    (void)call;
    if (handshake_is_error(answer)) {
        handshake_refused(link, "INFO", reply_error_class(answer->str), answer->str);
        return;
    }
    if (!identity_read(link, answer, &link->asked,
                       remedy_of_info(answer->type == REDIS_REPLY_STRING ? answer->str : "")))
        return;
    link->is_redis = true;
    sent = identity_name(link) == HF_OK;
    for (int i = 0; sent && i < SCRIPTS; i++)
        sent = call_load(link, (enum script)i, handshake_on_loaded) == HF_OK;
    if (!sent)
        link_end(link, HF_NODE_ERR_OTHER, "out of memory");
}

static void handshake_on_probe_info(struct link *link, const struct call *call,
                                    const redisReply *answer)
{
    (void)call;
    if (handshake_is_error(answer))
        return;
    link->asked_well = identity_read(link, answer, &link->asked, "no Redis answers INFO like that");
    if (link->asked_well && !identity_holds(link, &link->asked))
        identity_differs(link, &link->asked);
}

static void handshake_on_probe(struct loop_timer *timer, hf_time now)
{
    struct link *link = HF_CONTAINER(timer, struct link, probe);

    link->probed = now;
    if (link->state != LINK_UP)
        return;
    link->asked_well = false;
    memset(&link->asked, 0, sizeof(link->asked));
    if (identity_check(link) == HF_OK && acl_survey(link) == HF_OK &&
        handshake_ask(link, handshake_on_probe_info, "INFO", NULL) == HF_OK)
        handshake_read_sentinel(link);
    else
        handshake_schedule_probe(link);
    link_flush(link);
}

/* --- AUTH and SELECT -------------------------------------------------------------------------- */

static void handshake_on_auth(struct link *link, const struct call *call, const redisReply *answer)
{
    enum hf_node_error error;

    (void)call;
    if (!handshake_is_error(answer))
        return;
    /* Never the text: "unknown command 'AUTH', with args beginning with: ..." would tell the
     * password. */
    error = reply_error_class(answer->str);
    if (error == HF_NODE_ERR_AUTH || error == HF_NODE_ERR_OTHER)
        link_end(link, HF_NODE_ERR_AUTH, "AUTH: user or password is wrong, or none is wanted");
    else
        handshake_refused(link, "AUTH", error, "");
}

static void handshake_on_select(struct link *link, const struct call *call,
                                const redisReply *answer)
{
    (void)call;
    if (handshake_is_error(answer))
        handshake_refused(link, "SELECT", reply_error_class(answer->str), answer->str);
}

void handshake_begin(struct link *link)
{
    const struct node_address *address = link->options.address;
    char db[12];
    int rc = HF_OK;

    link->is_redis = false;
    link->is_strange = false;
    memset(&link->asked, 0, sizeof(link->asked));
    if (address->password[0] && address->user[0])
        rc = handshake_ask(link, handshake_on_auth, "AUTH", address->user, address->password, NULL);
    else if (address->password[0])
        rc = handshake_ask(link, handshake_on_auth, "AUTH", address->password, NULL);
    if (rc == HF_OK && address->db != 0) {
        snprintf(db, sizeof(db), "%d", address->db);
        rc = handshake_ask(link, handshake_on_select, "SELECT", db, NULL);
    }
    if (rc == HF_OK)
        rc = acl_survey(link);
    if (rc == HF_OK)
        (void)handshake_ask(link, handshake_on_info, "INFO", NULL);
}

void handshake_init(struct link *link)
{
    link->probe.fn = handshake_on_probe;
    link->probed = HF_TIME_PAST;
}

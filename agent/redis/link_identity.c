/* Whether the server that answers is still the one that was greeted. A proxy may keep our connection
 * while the server behind it has restarted, or is another one.
 *
 * - The handshake gives the connection a name. The name is asked for before any command that may count,
 *   once for all that leave together; a connection without it is not the one that was greeted, and
 *   ends.
 * - (!) INFO is asked for again behind the name: another server may have come between, and got it.
 * - An answer that shows lost scripts, loading, or a server that may not write any more puts in doubt
 *   which server it is: INFO is sent at once, but ten times a second at most. Until it is answered no answer counts
 *   (link_script.c).
 *   With the same run_id all is well. With another run_id or role the connection ends.
 * After each end the link connects anew, and the handshake's INFO comes before anything else.
 */
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/core/share.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

#define ADVICE "connect to the node directly"

/* Between two INFOs in doubt in the long run. At once it may be one for each script, four times: a
 * server that forgot them says so for each. */
#define WHO_EACH  hf_ms(100)
#define WHO_BURST (4 * SCRIPTS)

/* --- doubt ------------------------------------------------------------------------------------ */

static const struct node_facts *identity_greeted(const struct link *link)
{
    return link->state == LINK_UP ? &link->facts : &link->asked;
}

bool identity_holds(const struct link *link, const struct node_facts *facts)
{
    const struct node_facts *known = identity_greeted(link);

    return strcmp(known->run_id, facts->run_id) == 0 && known->replica == facts->replica &&
           known->cluster == facts->cluster;
}

void identity_differs(struct link *link, const struct node_facts *facts)
{
    if (strcmp(identity_greeted(link)->run_id, facts->run_id) != 0)
        link_end(link, HF_NODE_ERR_BROKEN, ADVICE ": another server answers behind a proxy");
    else
        link_end(link, HF_NODE_ERR_BROKEN, "its role has changed");
}

bool identity_read(struct link *link, const redisReply *answer, struct node_facts *facts,
                   const char *text)
{
    if (reply_decode_info(answer, facts))
        return true;
    if (reply_info_is_long(answer)) {
        link->bounds.beyond = true;
        text = "its answer to INFO is longer than 64 KiB; see what listens there";
    }
    link_end(link, HF_NODE_ERR_PROTOCOL, "%s", text);
    return false;
}

/* Whether INFO's answer is of the server that was greeted. Otherwise the link has ended. */
static bool identity_is_the_same(struct link *link, const redisReply *answer)
{
    struct node_facts facts = {0};

    if (answer->type == REDIS_REPLY_ERROR)
        link_end(link, reply_error_class(answer->str),
                 "INFO is refused while it is in doubt who answers");
    else if (identity_read(link, answer, &facts, "no Redis answers INFO like that")) {
        if (identity_holds(link, &facts))
            return true;
        identity_differs(link, &facts);
    }
    return false;
}

/* A name that could not be asked for is set anew, if that is still allowed. */
static void identity_on_who(struct link *link, const struct call *call, const redisReply *answer)
{
    (void)call;
    if (!identity_is_the_same(link, answer))
        return;
    link->doubted = !link->named;
    if (!link->named && identity_name(link) != HF_OK)
        link_end(link, HF_NODE_ERR_OTHER, "out of memory");
}

static void identity_send_who(struct link *link)
{
    const char *argv[] = {"INFO"};

    if (call_own(link, identity_on_who, (int)HF_LENGTH(argv), argv, NULL) != HF_OK)
        link_end(link, HF_NODE_ERR_OTHER, "out of memory");
}

static void identity_on_due(struct loop_timer *timer, hf_time now)
{
    struct link *link = HF_CONTAINER(timer, struct link, who);

    (void)now;
    identity_send_who(link);
    link_flush(link);
}

/* (!) Each answer can put it in doubt, and the node chooses its answers: INFO waits where it was asked for too often. The
 * doubt does not: nothing counts until INFO is answered. */
static void identity_ask_who(struct link *link)
{
    hf_time now = clock_now(), due;

    if (link->doubted)
        return;
    link->doubted = true;
    due = bucket_next(link->who_paid, hf_ns((WHO_BURST - 1) * WHO_EACH.ns), now);
    bucket_use(&link->who_paid, WHO_EACH, now);
    if (hf_time_before(now, due))
        (void)loop_timer_set(link->options.loop, &link->who, due);
    else
        identity_send_who(link);
}

/* Also where it came from within a script, which older servers wrap in a text of their own. */
static bool identity_has_code(const redisReply *answer, const char *code)
{
    const char *text = reply_error_text(answer->str);
    size_t length = strlen(code);

    return strncmp(text, code, length) == 0 && (text[length] == ' ' || text[length] == '\0');
}

bool identity_is_doubtful(struct link *link, const redisReply *answer)
{
    static const char *const codes[] = {"NOSCRIPT",   "LOADING", "READONLY",
                                        "MASTERDOWN", "MOVED",   "CLUSTERDOWN"};

    if (answer->type != REDIS_REPLY_ERROR || link->state != LINK_UP)
        return false;
    if (identity_has_code(answer, "NOAUTH")) {
        /* We are logged in, or needed no login. */
        link_end(link, HF_NODE_ERR_AUTH, ADVICE ": another server answers, which wants a login");
        return true;
    }
    for (size_t i = 0; i < HF_LENGTH(codes); i++) {
        if (identity_has_code(answer, codes[i])) {
            identity_ask_who(link);
            return true;
        }
    }
    return false;
}

/* --- the connection's name -------------------------------------------------------------------- */

static bool identity_is_ours(const struct link *link, const redisReply *answer)
{
    return answer->type == REDIS_REPLY_STRING && strcmp(answer->str, link->name) == 0;
}

/* The server does not know the command, or does not let us use it. (!) Any other error says nothing of that: a
 * proxy gives one while the server behind it is away. */
static bool identity_is_refused(const redisReply *answer)
{
    static const char *const unknown[] = {"unknown command", "unknown subcommand",
                                          "unsupported command"};

    if (answer->type != REDIS_REPLY_ERROR)
        return false;
    for (size_t i = 0; i < HF_LENGTH(unknown); i++)
        if (strcasestr(answer->str, unknown[i]))
            return true;
    return identity_has_code(answer, "NOPERM");
}

static void identity_on_set(struct link *link, const struct call *call, const redisReply *answer)
{
    (void)call;
    link->nameless = identity_is_refused(answer);
    if (answer->type == REDIS_REPLY_ERROR && !link->nameless)
        link_end(link, HF_NODE_ERR_BROKEN, ADVICE ": an error came when it was named");
}

/* Where it may not be set, or not be asked for, it proves nothing. */
static void identity_on_named(struct link *link, const struct call *call, const redisReply *answer)
{
    (void)call;
    link->nameless |= identity_is_refused(answer);
    link->named = identity_is_ours(link, answer);
    if (!link->named && !link->nameless)
        link_end(link, HF_NODE_ERR_BROKEN, ADVICE ": this connection has not got the name");
}

/* The name is on the connection to the server that was greeted. */
static void identity_on_confirmed(struct link *link, const struct call *call,
                                  const redisReply *answer)
{
    (void)call;
    if (identity_is_the_same(link, answer))
        link->doubted = false;
}

int identity_name(struct link *link)
{
    const char *set[] = {"CLIENT", "SETNAME", link->name}, *get[] = {"CLIENT", "GETNAME"};
    const char *info[] = {"INFO"};
    int rc;

    snprintf(link->name, sizeof(link->name), "holdfast-%08x%08x", link_random(link),
             link_random(link));
    rc = call_own(link, identity_on_set, (int)HF_LENGTH(set), set, NULL);
    if (rc == HF_OK)
        rc = call_own(link, identity_on_named, (int)HF_LENGTH(get), get, NULL);
    return rc == HF_OK ? call_own(link, identity_on_confirmed, (int)HF_LENGTH(info), info, NULL)
                       : rc;
}

static void identity_on_name(struct link *link, const struct call *call, const redisReply *answer)
{
    (void)call;
    hf_assert(link->checks > 0, "checks %d, in_flight %d", link->checks, link->in_flight);
    link->checks--;
    if (identity_is_doubtful(link, answer))
        return;
    /* (!) An error is no name: a proxy answers so while the server behind it is away. A busy node
     * answers the commands behind this one in the same way. */
    if (answer->type == REDIS_REPLY_ERROR && !identity_has_code(answer, "BUSY")) {
        link->named = false;
        identity_ask_who(link);
    } else if (answer->type != REDIS_REPLY_ERROR && !identity_is_ours(link, answer))
        link_end(link, HF_NODE_ERR_BROKEN, ADVICE ": a proxy has replaced this connection");
}

int identity_check(struct link *link)
{
    const char *argv[] = {"CLIENT", "GETNAME"};
    hf_time turn = loop_now(link->options.loop);
    int rc;

    if (link->state != LINK_UP || !link->named || link->checked.ns == turn.ns)
        return HF_OK;
    rc = call_own(link, identity_on_name, (int)HF_LENGTH(argv), argv, NULL);
    if (rc == HF_OK) {
        link->checked = turn;
        link->checks++;
    }
    return rc;
}

void identity_init(struct link *link)
{
    link->who.fn = identity_on_due;
    link->who_paid = HF_TIME_PAST;
}

void identity_reset(struct link *link)
{
    link->named = link->doubted = false;
    link->checked = HF_TIME_PAST;
    link->checks = 0;
}

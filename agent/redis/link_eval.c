/* A script's run on the node: EVALSHA with its deadline, its answer, and a script that the node does not have any more. */
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

/* NOSCRIPT says that the script did not run, so it is loaded and the command is sent again,
 * once.
 * (!) Not a command that writes a key or makes it live longer: only its owner knows whether the lease
 * is over and its token released meanwhile. */
static bool eval_reload(struct link *link, struct call *call)
{
    bool wanted = call->script == SCRIPT_RELEASE; /* however late */

    if (call->script == SCRIPT_RAISE || call->script == SCRIPT_SENTINEL ||
        call->script == SCRIPT_FLEET || call->script >= SCRIPT_QUERY)
        wanted = !call->timed_out;
    if (call->reloaded || !link->context)
        return false;
    call->reloaded = true;
    call->mark = 0; /* what was to be tracked was that attempt */
    if (call_load(link, call->script, NULL) != HF_OK || !wanted)
        return false;
    return call_send(link, call) == HF_OK;
}

/* (!) A reply from an unknown server is no answer: an acquire's may come from a server that has forgotten
 * the true holder. Then nothing is known of the command, as after NOSCRIPT, and its owner sends it once
 * more, after INFO. A release only needs to have been run. */
static bool eval_counts(const struct link *link, const struct call *call)
{
    return !link->doubted || call->script == SCRIPT_RELEASE;
}

static bool eval_answered(struct link *link, struct call *call, const redisReply *answer)
{
    ABOUT_NODE(link->options.address->id);
    struct link_reply reply = call_reply(call, LINK_ANSWERED, HF_NODE_ERR_NONE, link->heard);
    char text[LINK_TEXT_MAX], better[LINK_TEXT_MAX];

    reply_decode(answer, call->script, call->keys, &reply);
    /* First, so that INFO precedes the script and the commands that are sent again. */
    if (!identity_is_doubtful(link, answer) && reply.outcome == LINK_ANSWERED &&
        !eval_counts(link, call)) {
        reply.outcome = LINK_ERROR;
        reply.error = HF_NODE_ERR_NOSCRIPT;
        reply.error_text = "not counted: it is in doubt who answers";
    }
    reply.doubtful = link->doubted;
    reply.tracked = tracking_stands(link, call->mark);
    if (reply.error == HF_NODE_ERR_NOSCRIPT) {
        hf_time deadline = call->deadline.item.at;

        if (eval_reload(link, call)) {
            if (!call->timed_out)
                (void)loop_timer_set(link->options.loop, &call->deadline, deadline);
            return true;
        }
    }
    if (reply.error == HF_NODE_ERR_PERM)
        reply.error_text = acl_of_error(link, reply.error_text, better);
    link_copy_text(link, text, reply.error_text);
    reply.error_text = text;
    call->fn(link, &reply, call->arg);
    return false;
}

int eval_script(struct link *link, enum script script, size_t keys, hf_time deadline,
                link_reply_fn *fn, void *arg, int argc, const char **argv, size_t *lengths)
{
    struct call *call;
    uint32_t mark;
    int rc = HF_OK;

    hf_assert((unsigned)script < SCRIPTS && fn, "script %d", (int)script);
    if (call_unsent(link) > BOUNDS_LINK / 2)
        link_flush(link); /* not later: a check leaves together with what it is for */
    if (link_in_flight(link) >= LINK_IN_FLIGHT_MAX || !link->context)
        return HF_ENOQUORUM;
    if (script != SCRIPT_RELEASE)
        rc = identity_check(link);
    if (rc != HF_OK)
        return rc;
    mark = tracking_mark(link); /* right ahead of it */
    argv[0] = "EVALSHA";
    lengths[0] = 7;
    argv[1] = link->sha[script];
    lengths[1] = SCRIPT_SHA_LEN;
    call = call_new(link, argc, argv, lengths);
    if (!call)
        return HF_ENOMEM;
    call->mark = mark;
    call->script = script;
    call->keys = keys;
    call->answered = eval_answered;
    call->fn = fn;
    call->arg = arg;
    rc = loop_timer_set(link->options.loop, &call->deadline, deadline);
    if (rc == HF_OK)
        rc = call_send(link, call);
    if (rc != HF_OK) {
        loop_timer_cancel(link->options.loop, &call->deadline);
        call_free(call);
    }
    return rc;
}

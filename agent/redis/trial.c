#include "agent/redis/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

struct trials {
    struct loop *loop;
    struct resolver *resolver;
    struct loop_timer over;
    hf_time keys_until;
    struct trial *trial;
    struct link **links;
    int count, open;
    bool closing;
};

static struct trial *trial_of(const struct trials *t, const struct link *link)
{
    return &t->trial[link_node(link)];
}

/* Its first word counts: it is not tried again. */
static void trial_tell(struct trials *t, struct trial *trial, bool answered,
                       enum hf_node_error error, const char *text)
{
    hf_assert(!trial->told && t->open > 0, "open %d, told %d", t->open, trial->told);
    trial->told = true;
    trial->answered = answered;
    trial->error = error;
    snprintf(trial->text, sizeof(trial->text), "%s", text);
    if (--t->open == 0)
        loop_stop(t->loop);
}

static bool trial_is_over(const struct trials *t, const struct trial *trial)
{
    return t->closing || trial->told;
}

/* --- rights ----------------------------------------------------------------------------------- */

static void trial_name_rights(const struct link *link, const struct trial *trial,
                              char ret_text[TRIAL_TEXT])
{
    const char *user = trial->address->user[0] ? trial->address->user : "default";
    char text[ACL_TEXT];

    snprintf(ret_text, TRIAL_TEXT, "ACL SETUSER %s %s: its user lacks these rights", user,
             acl_text(&link->acl, text));
}

/* Returns whether that ends it. */
static bool trial_lacks_rights(struct trials *t, const struct link *link, struct trial *trial)
{
    char text[TRIAL_TEXT];

    if (!trial->asks_rights || acl_suffices(&link->acl))
        return false;
    trial_name_rights(link, trial, text);
    trial_tell(t, trial, false, HF_NODE_ERR_PERM, text);
    return true;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* [cursor, [keys...]] */
static bool trial_is_page(const redisReply *answer)
{
    return answer->type == REDIS_REPLY_ARRAY && answer->elements == 2 &&
           answer->element[0]->type == REDIS_REPLY_STRING &&
           answer->element[1]->type == REDIS_REPLY_ARRAY;
}

static int trial_seek_keys(struct link *link, const char *cursor);

/* A server with very many keys of others is not looked through to its end, nor one where this user may not. */
static void trial_on_page(struct link *link, const struct call *call, const redisReply *answer)
{
    struct trials *t = link->options.arg;
    struct trial *trial = trial_of(t, link);
    const redisReply *keys;

    (void)call;
    if (trial_is_over(t, trial))
        return;
    if (trial_is_page(answer)) {
        keys = answer->element[1];
        if (keys->elements > 0 && keys->element[0]->type == REDIS_REPLY_STRING)
            snprintf(trial->key, sizeof(trial->key), "%s", keys->element[0]->str);
        else if (strcmp(answer->element[0]->str, "0") != 0 &&
                 hf_time_before(clock_now(), t->keys_until) &&
                 trial_seek_keys(link, answer->element[0]->str) == HF_OK)
            return;
    }
    trial_tell(t, trial, true, HF_NODE_ERR_NONE, "");
}

static int trial_seek_keys(struct link *link, const char *cursor)
{
    const char *scan[] = {"SCAN", cursor, "MATCH", LINK_KEYS_OF_AGENTS, "COUNT", "500"};

    return call_own(link, trial_on_page, (int)HF_LENGTH(scan), scan, NULL);
}

/* --- what a link tells ------------------------------------------------------------------------ */

static void trial_take_sentinel(struct trial *trial, const struct link_reply *reply)
{
    if (trial->facts.replica || trial->facts.cluster)
        return; /* whatever it has is not its own */
    trial->sentinel = reply->sentinel;
    if (reply->record_len > 0)
        trial->recorded = fleet_record_read(reply->record, reply->record_len, &trial->record);
}

static void trial_on_up(struct link *link, const struct node_facts *facts,
                        const struct link_reply *reply, void *arg)
{
    struct trials *t = arg;
    struct trial *trial = trial_of(t, link);
    bool may_have_keys = trial->seeks_keys && !facts->replica && !facts->cluster;

    if (trial_is_over(t, trial))
        return;
    trial->connected = true;
    trial->facts = *facts;
    trial_take_sentinel(trial, reply);
    link_peer(link, trial->peer);
    if (trial_lacks_rights(t, link, trial))
        return;
    if (!acl_is_complete(&link->acl))
        trial_name_rights(link, trial, trial->lacks);
    if (may_have_keys && trial_seek_keys(link, "0") == HF_OK)
        return;
    trial_tell(t, trial, true, reply->write_tried ? reply->write_error : HF_NODE_ERR_NONE,
               reply->write_tried ? reply->write_text : "");
}

static void trial_on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    struct trials *t = arg;
    struct trial *trial = trial_of(t, link);

    if (trial_is_over(t, trial))
        return;
    trial->connected |= error != HF_NODE_ERR_CONNECT && error != HF_NODE_ERR_RESOLVE;
    if (link->mute_ends > 0 && !trial->address->unix_socket)
        return; /* the next attempts find out whether it speaks the other protocol */
    if (error == HF_NODE_ERR_PERM && trial_lacks_rights(t, link, trial))
        return;
    if (error == HF_NODE_ERR_TLS && link->secure_slow)
        error = HF_NODE_ERR_TIMEOUT;
    trial_tell(t, trial, false, error, text);
}

static const struct link_events events = {.up = trial_on_up, .down = trial_on_down};

static void trial_on_over(struct loop_timer *timer, hf_time now)
{
    struct trials *t = HF_CONTAINER(timer, struct trials, over);

    (void)now;
    loop_stop(t->loop);
}

static void trial_on_wake(void *arg)
{
    resolver_deliver(((struct trials *)arg)->resolver);
}

static void trial_forget(struct trial *trial, hf_dur most)
{
    *trial = (struct trial){.address = trial->address,
                            .keys = trial->keys,
                            .asks_rights = trial->asks_rights,
                            .seeks_keys = trial->seeks_keys,
                            .error = HF_NODE_ERR_TIMEOUT,
                            .recorded = HF_ENOTHELD};
    snprintf(trial->text, sizeof(trial->text), "no answer within %.3g s",
             (double)hf_dur_ms(most) / 1000);
}

/* (!) Handshakes of TLS for half of the time: who says nothing there is then asked in plain. */
static int trial_begin(struct trials *t, hf_dur most)
{
    int rc = HF_OK;

    for (int i = 0; i < t->count && rc == HF_OK; i++) {
        const struct link_options options = {
            .loop = t->loop,
            .resolver = t->resolver,
            .address = t->trial[i].address,
            .keys = t->trial[i].keys,
            .node = i,
            .connect_timeout = t->trial[i].address->tls ? hf_ns(most.ns / 2) : most,
            .silence = hf_ns(2 * most.ns), /* a connection stands until the trial is over */
            .probe_writes = true,
            .asks_rights = t->trial[i].asks_rights,
            .events = &events,
            .arg = t,
        };

        rc = link_create(&options, &t->links[i]);
    }
    for (int i = 0; i < t->count && rc == HF_OK; i++)
        link_start(t->links[i]);
    return rc;
}

static int trial_run_loop(struct trials *t, hf_dur most)
{
    hf_time now = clock_now();
    int rc = loop_create(&t->loop);

    if (rc < 0)
        return rc;
    rc = resolver_create(t->loop, &t->resolver);
    if (rc < 0)
        goto error_loop;
    loop_on_wake(t->loop, trial_on_wake, t);
    t->keys_until = hf_time_add(now, hf_ns(most.ns / 2));
    rc = trial_begin(t, most);
    if (rc == HF_OK)
        rc = loop_timer_set(t->loop, &t->over, hf_time_add(now, most));
    if (rc == HF_OK)
        loop_run(t->loop);
    t->closing = true; /* what ends now says nothing */
    loop_timer_cancel(t->loop, &t->over);
    for (int i = 0; i < t->count; i++) {
        if (!t->trial[i].told && t->links[i])
            t->trial[i].connected |= link_is_connected(t->links[i]);
        link_destroy(t->links[i]);
    }
    resolver_destroy(t->resolver);
error_loop:
    loop_destroy(t->loop);
    return rc;
}

int trial_run(struct trial *trials, int count, hf_dur most)
{
    struct trials t = {
        .trial = trials, .count = count, .open = count, .over = {.fn = trial_on_over}};
    int rc;

    if (count <= 0)
        return HF_OK;
    for (int i = 0; i < count; i++)
        trial_forget(&trials[i], most);
    t.links = calloc((size_t)count, sizeof(struct link *));
    rc = t.links ? trial_run_loop(&t, most) : HF_ENOMEM;
    free(t.links);
    for (int i = 0; i < count && rc < 0; i++)
        snprintf(trials[i].text, sizeof(trials[i].text), "%s", hf_status_text(rc));
    return rc;
}

bool trial_may_pass(const struct trial *trial)
{
    switch (trial->error) {
    case HF_NODE_ERR_RESOLVE:
    case HF_NODE_ERR_CONNECT:
    case HF_NODE_ERR_BROKEN:
    case HF_NODE_ERR_TIMEOUT:
    case HF_NODE_ERR_SILENT:
    case HF_NODE_ERR_BUSY:
    case HF_NODE_ERR_LOADING:
        return !trial->answered;
    default:
        return false;
    }
}

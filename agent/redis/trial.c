#include "agent/redis/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/redis/link.h"
#include "agent/redis/resolver.h"
#include "shm/compiler.h"
#include "shm/status.h"

struct trials {
    struct loop *loop;
    struct resolver *resolver;
    struct loop_timer over;
    struct trial *trial;
    struct link **links;
    int count, open;
    bool closing;
};

/* Its first word counts: it is not tried again. */
static bool told_before(struct trials *t, struct trial *trial)
{
    bool before = trial->told;

    trial->told = true;
    if (!before && --t->open == 0)
        loop_stop(t->loop);
    return before;
}

static void on_up(struct link *link, const struct node_facts *facts, const struct link_reply *reply,
                  void *arg)
{
    struct trials *t = arg;
    struct trial *trial = &t->trial[link_node(link)];

    if (t->closing || told_before(t, trial))
        return;
    trial->answered = trial->connected = true;
    trial->error = reply->write_tried ? reply->write_error : HF_NODE_ERR_NONE;
    if (reply->write_tried)
        snprintf(trial->text, sizeof(trial->text), "%s", reply->write_text);
    memcpy(trial->run_id, facts->run_id, sizeof(trial->run_id));
}

static void on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    struct trials *t = arg;
    struct trial *trial = &t->trial[link_node(link)];

    if (t->closing || told_before(t, trial))
        return;
    trial->connected = error != HF_NODE_ERR_CONNECT && error != HF_NODE_ERR_RESOLVE;
    trial->error = error;
    snprintf(trial->text, sizeof(trial->text), "%s", text);
}

static const struct link_events events = {.up = on_up, .down = on_down};

static void on_over(struct loop_timer *timer, hf_time now)
{
    struct trials *t = HF_CONTAINER(timer, struct trials, over);

    (void)now;
    loop_stop(t->loop);
}

static void on_wake(void *arg)
{
    resolver_deliver(((struct trials *)arg)->resolver);
}

static int begin(struct trials *t, hf_dur most)
{
    int rc = HF_OK;

    for (int i = 0; i < t->count && rc == HF_OK; i++) {
        const struct link_options options = {
            .loop = t->loop,
            .resolver = t->resolver,
            .address = t->trial[i].address,
            .keys = t->trial[i].keys,
            .node = i,
            .connect_timeout = most,
            .silence = hf_ns(2 * most.ns), /* a connection stands until the trial is over */
            .probe_writes = true,
            .events = &events,
            .arg = t,
        };

        t->trial[i].told = t->trial[i].connected = t->trial[i].answered = false;
        t->trial[i].error = HF_NODE_ERR_TIMEOUT;
        snprintf(t->trial[i].text, sizeof(t->trial[i].text), "no answer");
        rc = link_create(&options, &t->links[i]);
    }
    for (int i = 0; i < t->count && rc == HF_OK; i++)
        link_start(t->links[i]);
    return rc;
}

int trial_run(struct trial *trials, int count, hf_dur most)
{
    struct trials t = {.trial = trials, .count = count, .open = count, .over = {.fn = on_over}};
    int rc;

    if (count == 0)
        return HF_OK;
    t.links = calloc((size_t)count, sizeof(struct link *));
    if (!t.links)
        return HF_ENOMEM;
    rc = loop_create(&t.loop);
    if (rc < 0)
        goto error_links;
    rc = resolver_create(t.loop, &t.resolver);
    if (rc < 0)
        goto error_loop;
    loop_on_wake(t.loop, on_wake, &t);
    rc = begin(&t, most);
    if (rc == HF_OK)
        rc = loop_timer_set(t.loop, &t.over, hf_time_add(clock_now(), most));
    if (rc == HF_OK)
        loop_run(t.loop);
    t.closing = true; /* what ends now says nothing */
    loop_timer_cancel(t.loop, &t.over);
    for (int i = 0; i < count; i++) {
        if (!trials[i].told && t.links[i])
            trials[i].connected = link_is_connected(t.links[i]);
        link_destroy(t.links[i]);
    }
    resolver_destroy(t.resolver);
error_loop:
    loop_destroy(t.loop);
error_links:
    free(t.links);
    return rc;
}

#include "agent/broker/nodes/nodes.h"
#include "agent/base/thread_role.h"
#include "agent/broker/queries/queries.h"
#include "agent/broker/queries/survey.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "shm/status.h"

/* A node with so many open commands gets none that no lease needs. */
#define IN_FLIGHT_MOST 1024

static void survey_free(struct survey *survey)
{
    LIST_REMOVE(survey, all);
    survey->queries->survey_count--;
    loop_timer_cancel(survey->queries->loop, &survey->timer);
    free(survey);
}

static void tell(struct survey *survey)
{
    survey_fn *fn = survey->fn;

    survey->fn = NULL;
    loop_timer_cancel(survey->queries->loop, &survey->timer);
    if (fn)
        fn(survey, survey->arg);
}

static void on_timer(struct loop_timer *timer, hf_time now)
{
    struct survey *survey = HF_CONTAINER(timer, struct survey, timer);

    (void)now;
    tell(survey);
    if (survey->calls == 0)
        survey_free(survey);
}

/* Tells the outcome once it is certain; at once if no node is awaited. */
static void review(struct survey *survey)
{
    hf_dur wait = survey->grace;

    if (!survey->fn || census_decide(&survey->census) == CENSUS_OPEN)
        return;
    if (census_complete(&survey->census))
        wait = hf_ms(0);
    else if (heap_has(&survey->timer.item))
        return;
    loop_timer_set(survey->queries->loop, &survey->timer, hf_time_add(clock_now(), wait));
}

static void hear(struct survey *survey, int node, const struct link_reply *reply) IN_BROKER_THREAD
{
    struct queries *queries = survey->queries;

    survey->node[node].error = reply->error;
    if (reply->outcome != LINK_ANSWERED) {
        if (!reply->late)
            census_silent(&survey->census, node);
        return;
    }
    survey->node[node].fence = reply->fence;
    survey->node[node].forced = reply->forced;
    survey->node[node].tracked = reply->tracked;
    survey->node[node].holder = reply->holder;
    if (reply->verdict == VERDICT_TAKEN || reply->verdict == VERDICT_OK)
        census_key(&survey->census, node, reply->id, reply->holder.pttl_ms);
    else if (nodes_may_vote(queries->nodes, node, clock_now()))
        census_no_key(&survey->census, node);
    else
        census_silent(&survey->census, node);
}

static void on_reply(struct link *link, const struct link_reply *reply, void *arg)
{
    struct survey *survey = arg;
    int node = link_node(link);

    is_broker_thread();
    nodes_on_reply(survey->queries->nodes, node, reply);
    survey->calls -= reply->final;
    if (survey->fn) {
        hear(survey, node, reply);
        review(survey);
    } else if (survey->calls == 0) {
        survey_free(survey);
    }
}

static bool ask(struct survey *survey, enum survey_kind kind, int node, const void *key,
                size_t key_len, const struct link_force *force)
{
    struct queries *queries = survey->queries;
    struct link *link = queries->nodes->links[node];
    hf_time deadline = hf_time_add(clock_now(), queries->config->timing.attempt);
    int rc;

    if (!queries->nodes->node[node].up || queries->nodes->node[node].trust.refused ||
        link_in_flight(link) > IN_FLIGHT_MOST)
        return false;
    if (kind == SURVEY_TRACK)
        link_track(link);
    rc = kind == SURVEY_FORCE ? link_force(link, force, deadline, on_reply, survey)
                              : link_look(link, key, key_len, true, deadline, on_reply, survey);
    if (rc == HF_OK)
        link_flush(link);
    return rc == HF_OK;
}

int survey_begin(struct queries *queries, enum survey_kind kind, const void *key, size_t key_len,
                 const struct link_force *force, hf_dur grace, survey_fn *fn, void *arg,
                 struct survey **ret_survey)
{
    struct survey *survey = calloc(1, sizeof(*survey));

    if (!survey)
        return HF_ENOMEM;
    survey->queries = queries;
    survey->grace = grace;
    survey->fn = fn;
    survey->arg = arg;
    survey->timer.fn = on_timer;
    census_init(&survey->census, queries->n, queries->q);
    LIST_INSERT_HEAD(&queries->surveys, survey, all);
    queries->survey_count++;
    for (int i = 0; i < queries->n; i++) {
        survey->node[i].asked = ask(survey, kind, i, key, key_len, force);
        if (survey->node[i].asked)
            survey->calls++;
        else
            census_silent(&survey->census, i);
    }
    review(survey);
    *ret_survey = survey;
    return HF_OK;
}

void survey_drop(struct survey *survey)
{
    if (!survey)
        return;
    survey->fn = NULL;
    loop_timer_cancel(survey->queries->loop, &survey->timer);
    if (survey->calls == 0)
        survey_free(survey);
}

void surveys_destroy(struct queries *queries)
{
    struct survey *survey;

    while ((survey = LIST_FIRST(&queries->surveys)))
        survey_free(survey);
}

bool survey_holder(const struct survey *survey, struct hf_wire_holder *ret_holder)
{
    const struct census *c = &survey->census;
    int leader = census_leader(c), best = leader;

    if (leader < 0)
        return false;
    /* A node whose record another's attempt wrote over tells less. */
    for (int i = 0; i < c->n; i++)
        if (c->node[i].word == CENSUS_A_KEY && !strcmp(c->node[i].id, c->node[leader].id) &&
            !survey->node[best].holder.fence && survey->node[i].holder.fence)
            best = i;
    *ret_holder = survey->node[best].holder;
    ret_holder->pttl_ms = census_lapse_ms(c, leader);
    return true;
}

int survey_forced(const struct survey *survey)
{
    int count = 0;

    for (int i = 0; i < survey->census.n; i++)
        count += survey->node[i].forced;
    return count;
}

int survey_tracked(const struct survey *survey)
{
    int count = 0;

    for (int i = 0; i < survey->census.n; i++)
        count += survey->node[i].tracked;
    return count;
}

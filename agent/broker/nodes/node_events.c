/* One event for each thing that happens to a node, though both threads see it, several replies show
 * it, and an absent sentinel is a changed one later. */
#include "agent/broker/nodes/node_events.h"

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/node_texts.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/record/events.h"

#define TOLD_BEFORE (UINT32_C(1) << 31) /* a bit beside the quarantine's reasons */

static int64_t events_middle_us(const struct node_trust *t)
{
    return t->low_us + (t->high_us - t->low_us) / 2;
}

static uint32_t events_quarantine_of(const struct node_trust *t, hf_time now)
{
    return hf_time_before(now, t->until) ? t->reasons : 0;
}

void node_events_begin(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];
    const struct node_trust *t = &node->trust;

    node->told = (struct node_told){
        .refusal = t->refused ? t->refusal : HF_REFUSED_NOT,
        /* Its beginning may be untold, and its end may have come while no agent ran to tell it. */
        .reasons = event_quarantine_stands(nodes->agent, i) ? t->reasons | TOLD_BEFORE : 0,
        .mark = t->mark,
        .own_steps = t->steps,
        .absent = t->nonce_seen && !t->nonce[0],
        .middle_us = events_middle_us(t),
    };
}

void node_events_up(struct nodes *nodes, int i, const char *version)
{
    nodes->node[i].told.up = nodes->node[i].told.tried = true;
    event_node_up(nodes->agent, i, version);
}

/* While a node stays away only the first reason is told: each attempt may fail in another way. */
void node_events_down(struct nodes *nodes, int i, enum hf_node_error error, const char *text)
{
    struct node_told *told = &nodes->node[i].told;

    if (told->up || !told->tried)
        event_node_down(nodes->agent, i, error, text);
    told->up = false;
    told->tried = true;
}

/* Both threads see each step, sooner or later: the number of steps is the larger of their counts.
 */
static void events_tell_steps(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];
    uint32_t own = node->trust.steps - node->told.own_steps;
    uint32_t most = own > node->told.renewal_steps ? own : node->told.renewal_steps;
    int64_t middle = events_middle_us(&node->trust);

    if (most > node->told.steps)
        event_node_stepped(nodes->agent, i, own == most ? middle - node->told.middle_us : 0);
    node->told.steps = most;
}

/* That our own new sentinel replaces none is no event. */
static void events_tell_forgot(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];

    if (node->trust.mark != node->told.mark && !node->told.absent)
        event_node_forgot(nodes->agent, i);
    node->told.mark = node->trust.mark;
    node->told.absent = node->trust.nonce[0] == '\0';
}

void node_events_found(struct nodes *nodes, int i, unsigned events)
{
    if (events & TRUST_RESTARTED)
        event_node_restarted(nodes->agent, i, nodes->node[i].trust.facts.run_id);
    if (events & TRUST_FORGOT)
        events_tell_forgot(nodes, i);
    if (events & TRUST_STEPPED)
        events_tell_steps(nodes, i);
}

/* This thread will still see a restart and a changed sentinel by itself; a clock that stepped twice it may
 * never see. */
void node_events_heard(struct nodes *nodes, int i, unsigned events)
{
    if (events & TRUST_STEPPED) {
        nodes->node[i].told.renewal_steps++;
        events_tell_steps(nodes, i);
    }
}

static void events_tell_refusal(struct nodes *nodes, int i, enum hf_node_refusal refusal)
{
    bool by_fleet = refusal == HF_REFUSED_FLEET || refusal == HF_REFUSED_MISPLACED;
    const char *fleet = by_fleet ? nodes->node[i].fleet_text : "";
    const struct hf_why *why = hf_why_refused(refusal);

    if (*fleet)
        log_warn("node %s is refused: %s", nodes->config->nodes[i].id, fleet);
    else if (refusal != HF_REFUSED_NOT)
        log_warn("node %s is refused: %s; %s", nodes->config->nodes[i].id, why->sentence,
                 why->remedy);
    event_node_refused(nodes->agent, i, refusal, fleet);
}

/* Nothing is known of that while the node is away. */
static void events_tell_writes(struct nodes *nodes, int i, enum hf_node_error error)
{
    const char *id = nodes->config->nodes[i].id, *text = nodes->node[i].writes.text;

    if (log_allows(&nodes->writes, LOG_LIMIT, loop_now(nodes->loop))) {
        if (error != HF_NODE_ERR_NONE)
            log_warn("node %s refuses writes, so no lock can be had there: %s: %s", id,
                     link_error_name(error), text);
        else
            log_info("node %s takes writes again", id);
    }
    event_node_writes(nodes->agent, i, error, text);
}

void node_events_review(struct nodes *nodes, int i, hf_time now)
{
    struct node *node = &nodes->node[i];
    struct node_told *told = &node->told;
    enum hf_node_refusal refusal = node->trust.refused ? node->trust.refusal : HF_REFUSED_NOT;
    uint32_t reasons = events_quarantine_of(&node->trust, now);
    enum hf_node_error writes = node->up ? writes_refused(&node->writes) : told->writes;

    if (refusal != told->refusal)
        events_tell_refusal(nodes, i, refusal);
    if (reasons & ~told->reasons) {
        log_warn("node %s gives no votes: %s", nodes->config->nodes[i].id,
                 node_quarantine_text(reasons));
        event_quarantine(nodes->agent, i, reasons, node->trust.until);
    } else if (told->reasons && !reasons) {
        event_quarantine_over(nodes->agent, i);
    }
    if (writes != told->writes)
        events_tell_writes(nodes, i, writes);
    told->refusal = refusal;
    told->writes = writes;
    told->reasons = reasons;
    told->middle_us = events_middle_us(&node->trust);
}

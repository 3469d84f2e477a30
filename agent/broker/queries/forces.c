/* Ending a hold by force: agent/scripts/force.lua on all nodes, for the very hold that is meant.
 * docs/SAFETY.md says what that does and does not do. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/base/thread_role.h"
#include "agent/broker/clients/rights.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/wakeups.h"
#include "agent/broker/queries/fanout.h"
#include "agent/broker/queries/queries.h"
#include "agent/broker/queries/query.h"
#include "agent/core/fence.h"
#include "agent/record/events.h"
#include "shm/hex.h"
#include "shm/status.h"

/* How long a mark stays in the place of a value that has not the form of an agent's token. */
#define FOREIGN_MS 1000

static void forces_force(struct query *query);

/* On how many servers the hold that is meant is forced out; its id. */
static int forces_forced_on(const struct fanout *fanout, char ret_id[LINK_ID_LEN + 1])
{
    const struct tally *t = &fanout->tally;
    uint32_t forced = 0;

    ret_id[0] = '\0';
    for (int i = 0; i < t->n; i++) {
        if (!fanout->node[i].forced || t->node[i].word != TALLY_A_KEY)
            continue;
        if (!*ret_id)
            snprintf(ret_id, LINK_ID_LEN + 1, "%s", t->node[i].id);
        if (strcmp(ret_id, t->node[i].id) == 0)
            forced |= UINT32_C(1) << i;
    }
    return twins_count(&t->twins, forced);
}

/* Whether a node still has the very token in question: an attempt of another agent wrote over its
 * record, so that the fence did not match there. */
static bool forces_was_missed(const struct fanout *fanout, const char *id)
{
    const struct tally *t = &fanout->tally;

    for (int i = 0; i < t->n; i++)
        if (t->node[i].word == TALLY_A_KEY && !fanout->node[i].forced && !strcmp(t->node[i].id, id))
            return true;
    return false;
}

static void forces_on_forced(const struct fanout *fanout, void *arg)
{
    struct query *query = arg;
    struct queries *queries = query->queries;
    char id[LINK_ID_LEN + 1], name[HF_NAME_MAX + 1], text[184] = "";
    int count = forces_forced_on(fanout, id), status = HF_OK;

    is_broker_thread();
    query->fanout = NULL;
    query_fill(query, fanout);
    if (*id && !*query->wanted && forces_was_missed(fanout, id)) {
        query->fence = 0;
        memcpy(query->wanted, id, sizeof(query->wanted));
        forces_force(query);
        return;
    }
    query->answer.query_forced = (uint8_t)count;
    /* Nodes send no notice of our own writes, and no longer track the key. */
    for (int i = 0; count > 0 && i < queries->n; i++)
        if (fanout->node[i].forced) {
            wakeups_noticed(queries->locks, i, query->key, query->key_len);
            query_hear_noticed(queries, query->key, query->key_len);
        }
    if (count > 0) {
        log_warn("user %" PRIu32 " forced out the hold of %s (fence %" PRIu64 ") on %d of %d nodes",
                 query->session->uid, log_name(query->name, query->name_len, name, sizeof(name)),
                 query->answer.holder.fence, count, queries->n);
        event_forced(queries->agent, query->name, query->name_len, query->answer.holder.fence,
                     query->session->client->pid, query->session->uid, count);
    }
    if (count >= queries->q) {
        /* done */
    } else if (query->answer.query_outcome == HF_QUERY_FREE) {
        status = HF_ENOTHELD;
    } else if (count == 0 && query->answer.query_outcome == HF_QUERY_HELD) {
        status = HF_EBUSY;
        snprintf(text, sizeof(text), "another hold than the one that is meant has it by now");
    } else {
        status = HF_ENOQUORUM;
        snprintf(text, sizeof(text),
                 "forced out on %d of %d nodes, %d are needed; its holder keeps what it has on the "
                 "others",
                 count, queries->n, queries->q);
    }
    query_end(query, status, text);
}

static void forces_force(struct query *query)
{
    struct queries *queries = query->queries;
    struct link_force order = {.key = query->key,
                               .key_len = query->key_len,
                               .fence = fence_node_part(query->fence),
                               .id = query->wanted,
                               .foreign_ms = FOREIGN_MS,
                               .ttl_max_ms = queries->config->ttl_max_ms};

    is_broker_thread();
    if (fanout_begin(queries, FANOUT_FORCE, query->key, query->key_len, &order,
                     queries->config->timing.attempt, forces_on_forced, query, &query->fanout) < 0)
        query_end(query, HF_ENOMEM, "");
}

/* (!) Nodes do not know of a hand-off within this host. */
static bool forces_was_handed_on(const struct query *query) IN_BROKER_THREAD
{
    const struct resource *r = query_held_here(query);
    const struct lease *lease = r ? resource_lease(r) : NULL;

    return lease && query->fence && lease->fence != query->fence &&
           fence_node_part(lease->fence) == fence_node_part(query->fence);
}

void forces_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct query *query;
    char text[184];

    if (q->name_len && !rights_allow(s, RIGHT_FORCE, q->name, q->name_len, text, sizeof(text))) {
        query_refuse(queries, s, q, HF_EPERM, text);
        return;
    }
    query = query_new(queries, s, q);
    if (!query)
        return;
    query->fence = q->target;
    hf_key_id_text(q->key_id, query->wanted);
    if (!query->fence && !*query->wanted)
        query_end(query, HF_EINVAL, "say which hold is meant: by its fence or its id");
    else if (forces_was_handed_on(query))
        query_end(query, HF_EBUSY, "another hold than the one that is meant has it by now");
    else
        forces_force(query);
}

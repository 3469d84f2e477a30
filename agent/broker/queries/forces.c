/* Ending a hold by force: agent/scripts/force.lua on all nodes, for the very hold that is meant.
 * docs/SAFETY.md says what that does and does not do. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/base/thread_role.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/wakeups.h"
#include "agent/broker/queries/look.h"
#include "agent/broker/queries/queries.h"
#include "agent/broker/queries/survey.h"
#include "agent/core/fence.h"
#include "agent/record/events.h"
#include "shm/hex.h"
#include "shm/status.h"

/* How long a mark stays in the place of a value that has not the form of an agent's token. */
#define FOREIGN_MS 1000

static void force(struct look *look);

/* On how many nodes the hold that is meant is forced out; its id. */
static int forced_on(const struct survey *survey, char ret_id[LINK_ID_LEN + 1])
{
    const struct census *c = &survey->census;
    int count = 0;

    ret_id[0] = '\0';
    for (int i = 0; i < c->n; i++) {
        if (!survey->node[i].forced || c->node[i].word != CENSUS_A_KEY)
            continue;
        if (!*ret_id)
            snprintf(ret_id, LINK_ID_LEN + 1, "%s", c->node[i].id);
        count += strcmp(ret_id, c->node[i].id) == 0;
    }
    return count;
}

/* Whether a node still has the very token in question: an attempt of another agent wrote over its
 * record, so that the fence did not match there. */
static bool was_missed(const struct survey *survey, const char *id)
{
    const struct census *c = &survey->census;

    for (int i = 0; i < c->n; i++)
        if (c->node[i].word == CENSUS_A_KEY && !survey->node[i].forced &&
            !strcmp(c->node[i].id, id))
            return true;
    return false;
}

static void on_forced(const struct survey *survey, void *arg)
{
    struct look *look = arg;
    struct queries *queries = look->queries;
    char id[LINK_ID_LEN + 1], name[HF_NAME_MAX + 1], text[184] = "";
    int count = forced_on(survey, id), status = HF_OK;

    is_broker_thread();
    look->survey = NULL;
    look_fill(look, survey);
    if (*id && !*look->wanted && was_missed(survey, id)) {
        look->fence = 0;
        memcpy(look->wanted, id, sizeof(look->wanted));
        force(look);
        return;
    }
    look->answer.look_forced = (uint8_t)count;
    /* Nodes send no notice of our own writes, and no longer track the key. */
    for (int i = 0; count > 0 && i < queries->n; i++)
        if (survey->node[i].forced) {
            wakeups_noticed(queries->locks, i, look->key, look->key_len);
            looks_hear_noticed(queries, look->key, look->key_len);
        }
    if (count > 0) {
        log_warn("user %" PRIu32 " forced out the hold of %s (fence %" PRIu64 ") on %d of %d nodes",
                 look->session->uid, log_name(look->name, look->name_len, name, sizeof(name)),
                 look->answer.holder.fence, count, queries->n);
        event_forced(queries->agent, look->name, look->name_len, look->answer.holder.fence,
                     look->session->client->pid, look->session->uid, count);
    }
    if (count >= queries->q) {
        /* done */
    } else if (look->answer.look == HF_LOOK_FREE) {
        status = HF_ENOTHELD;
    } else if (count == 0 && look->answer.look == HF_LOOK_HELD) {
        status = HF_EBUSY;
        snprintf(text, sizeof(text), "another hold than the one that is meant has it by now");
    } else {
        status = HF_ENOQUORUM;
        snprintf(text, sizeof(text),
                 "forced out on %d of %d nodes, %d are needed; its holder keeps what it has on the "
                 "others",
                 count, queries->n, queries->q);
    }
    look_end(look, status, text);
}

static void force(struct look *look)
{
    struct queries *queries = look->queries;
    struct link_force order = {.key = look->key,
                               .key_len = look->key_len,
                               .fence = fence_node_part(look->fence),
                               .id = look->wanted,
                               .foreign_ms = FOREIGN_MS,
                               .ttl_max_ms = queries->config->ttl_max_ms};

    is_broker_thread();
    if (survey_begin(queries, SURVEY_FORCE, look->key, look->key_len, &order,
                     queries->config->timing.attempt, on_forced, look, &look->survey) < 0)
        look_end(look, HF_ENOMEM, "");
}

/* (!) Nodes do not know of a hand-off within this host. */
static bool was_handed_on(const struct look *look) IN_BROKER_THREAD
{
    const struct resource *r = look_held_here(look);
    const struct lease *lease = r ? resource_lease(r) : NULL;

    return lease && look->fence && lease->fence != look->fence &&
           fence_node_part(lease->fence) == fence_node_part(look->fence);
}

void forces_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct look *look;

    if (s->uid != 0 && s->uid != (uint32_t)geteuid()) {
        look_refuse(queries, s, q, HF_EPERM,
                    "only root and the agent's user may end a hold by force");
        return;
    }
    look = look_new(queries, s, q);
    if (!look)
        return;
    look->fence = q->target;
    hf_key_id_text(q->key_id, look->wanted);
    if (!look->fence && !*look->wanted)
        look_end(look, HF_EINVAL, "say which hold is meant: by its fence or its id");
    else if (was_handed_on(look))
        look_end(look, HF_EBUSY, "another hold than the one that is meant has it by now");
    else
        force(look);
}

#include "agent/broker/locks/locks.h"

#include <stdlib.h>
#include <string.h>

#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/config/config.h"
#include "shm/status.h"

int locks_create(struct agent *agent, struct loop *loop, struct nodes *nodes,
                 struct clients *clients, const uint8_t hash_key[16],
                 const struct locks_owner *owner, struct locks **ret_locks)
{
    struct locks *locks = calloc(1, sizeof(*locks));
    int rc;

    if (!locks)
        return HF_ENOMEM;
    locks->agent = agent;
    locks->config = agent->config;
    locks->loop = loop;
    locks->nodes = nodes;
    locks->key_deleter = nodes->key_deleter;
    locks->clients = clients;
    locks->owner = *owner;
    memcpy(locks->hash_key, hash_key, sizeof(locks->hash_key));
    locks->n = nodes->n;
    locks->q = nodes->q;
    locks->started = nodes->started;
    LIST_INIT(&locks->rounds);
    LIST_INIT(&locks->laters);
    TAILQ_INIT(&locks->waiters_by_age);
    shown_waiters_create(locks);
    short_holds_create(locks);
    step_init(locks);
    if ((rc = names_create(locks)) < 0 || (rc = wakeups_create(locks)) < 0) {
        locks_destroy(locks);
        return rc;
    }
    *ret_locks = locks;
    return HF_OK;
}

void locks_configure(struct locks *locks, const struct config *config)
{
    bool other_rules = config_allow_differs(&locks->config->rules, &config->rules);

    locks->config = config;
    if (other_rules)
        requests_look_at_rules(locks);
}

void locks_go_away(struct locks *locks, bool again)
{
    locks->going = true;
    locks->again = again;
    short_holds_adopt(locks);
    requests_go_away(locks);
}

bool locks_busy(const struct locks *locks)
{
    return rounds_busy(locks) || locks->handoff_count;
}

void locks_close(struct locks *locks)
{
    locks->closing = true;
}

void locks_destroy(struct locks *locks)
{
    if (!locks)
        return;
    loop_timer_cancel(locks->loop, &locks->stalled_timer);
    loop_timer_cancel(locks->loop, &locks->short_holds_timer);
    readopt_destroy(locks);
    rounds_destroy(locks);
    wakeups_destroy(locks);
    short_holds_destroy(locks);
    handoffs_destroy(locks);
    names_destroy(locks);
    free(locks);
}

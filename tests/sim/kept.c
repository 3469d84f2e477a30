#include "tests/sim/kept.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/token.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/rooms.h"
#include "agent/record/lease.h"
#include "agent/redis/script.h"
#include "tests/sim/checks.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/fleets.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define KEPT_MOST 512 /* more than a schedule has with a min-hold */
#define KEPT_MARK "holdfast:kept:"
#define LEFT_MARK "holdfast:left:"

/* A token whose holder wanted a min-hold. */
struct kept {
    char id[SHA1_HEX_LEN + 1];
    const struct sim_host *host;
    int resource;
    uint32_t generation; /* of the last holder that is known */
    sim_ns until;        /* by true time, whatever the host's clock */
    uint32_t nodes;      /* that have kept it */
    bool stands;         /* a quorum has: from here on nobody gets the lock */
    bool forced;         /* somebody ended the hold by force */
};

static struct kept kept[KEPT_MOST];
static int kept_count;

void kept_begin(void)
{
    kept_count = 0;
}

uint32_t kept_wanted(uint32_t ttl_ms)
{
    struct sim_rng *rng = wide_rng(WIDE_MIN_HOLD);

    if (!wide_has(WIDE_MIN_HOLD) || sim.settling || !rng_chance(rng, 0.6))
        return 0;
    if (rng_chance(rng, 0.1)) /* to be refused: a node that forgets is kept out for less */
        return (uint32_t)rng_between(rng, 2 * (int64_t)sim.plan.ttl_max_ms + 2000,
                                     5 * (int64_t)sim.plan.ttl_max_ms);
    return (uint32_t)rng_between(rng, ttl_ms / 4, sim.plan.ttl_max_ms);
}

bool kept_is_mark(const char *value)
{
    return strncmp(value, KEPT_MARK, strlen(KEPT_MARK)) == 0 ||
           strncmp(value, LEFT_MARK, strlen(LEFT_MARK)) == 0;
}

static struct kept *find(const char *id)
{
    for (int i = 0; i < kept_count; i++)
        if (strcmp(kept[i].id, id) == 0)
            return &kept[i];
    return NULL;
}

/* Clocks are within 0.45 % of true time: the host's may be fast. */
static sim_ns least(uint32_t min_hold_ms)
{
    return (sim_ns)min_hold_ms * SIM_MS * 9955 / 10000;
}

static void judge(const struct sim_host *host, int resource, const char *id, uint32_t generation)
{
    for (int i = 0; i < kept_count; i++) {
        const struct kept *k = &kept[i];
        bool same = strcmp(k->id, id) == 0;

        if (k->resource != resource || k->forced || sim.now >= k->until)
            continue;
        if (same ? k->generation != generation : k->stands)
            sim_violation("kept", "r%d: h%d %s %.3f s before its min-hold on h%d is over", resource,
                          host->number, same ? "hands it over" : "grants it",
                          (double)(k->until - sim.now) / SIM_SEC, k->host->number);
    }
}

void kept_granted(const struct sim_host *host, int resource, uint32_t slot, uint32_t generation,
                  uint32_t min_hold_ms)
{
    const struct lease *lease = resources_lease(host->broker->locks, slot, generation);
    char id[SHA1_HEX_LEN + 1], text[TOKEN_LEN + 1] = "";
    struct kept *k;

    if (!wide_has(WIDE_MIN_HOLD) || !lease)
        return;
    token_text(&lease->token, text);
    scripts_id(text, id);
    judge(host, resource, id, generation);
    k = find(id);
    if (!k && (!min_hold_ms || kept_count == KEPT_MOST))
        return;
    if (!k)
        k = &kept[kept_count++];
    if (k->host && strcmp(k->id, id) == 0 && k->generation == generation)
        return; /* answered once more */
    *k = (struct kept){
        .host = host,
        .resource = resource,
        .generation = generation,
        /* The grant was a moment before its answer, at most as long as an agent stands still. */
        .until = clock_when(&host->boot, lease->since.ns) + least(min_hold_ms)};
    memcpy(k->id, id, sizeof(k->id));
}

void kept_stored(const struct vnode *node, const char *value, const struct sim_message *m)
{
    int script = atoi(m->command.argv[1]);
    const char *id = strrchr(value, ':');
    struct kept *k = id ? find(id + 1) : NULL;

    if (!k)
        return;
    if (script == SCRIPT_FORCE)
        k->forced = true;
    if (script != SCRIPT_RELEASE || !kept_is_mark(value))
        return;
    k->nodes |= UINT32_C(1) << node->number;
    if (k->stands || __builtin_popcount(k->nodes) < fleets_quorum(k->host))
        return;
    k->stands = true;
    sim.seen[SEEN_KEPT] = true;
    sim_trace("r%d is kept by a quorum until %.3f", k->resource, (double)k->until / SIM_SEC);
}

void kept_deleted(const char *value, const struct sim_message *m)
{
    const char *id = strrchr(value, ':');
    struct kept *k = id ? find(id + 1) : NULL;

    if (k && atoi(m->command.argv[1]) == SCRIPT_FORCE)
        k->forced = true;
}

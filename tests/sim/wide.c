#include "tests/sim/wide.h"

#include <string.h>

#include "tests/sim/addresses.h"
#include "tests/sim/changes.h"
#include "tests/sim/drains.h"
#include "tests/sim/excursions.h"
#include "tests/sim/fleets.h"
#include "tests/sim/foundings.h"
#include "tests/sim/groups.h"
#include "tests/sim/hot.h"
#include "tests/sim/rates.h"
#include "tests/sim/rollbacks.h"
#include "tests/sim/sharers.h"
#include "tests/sim/steps.h"
#include "tests/sim/wander.h"

const char *const sim_wide_names[WIDES] = {
    [WIDE_SIZES] = "sizes",
    [WIDE_STEPS] = "steps",
    [WIDE_FAR] = "far",
    [WIDE_RETENTION] = "retention",
    [WIDE_HOT] = "hot",
    [WIDE_ROLLBACK] = "rollback",
    [WIDE_PROXY] = "proxy",
    [WIDE_RATES] = "rates",
    [WIDE_DRAINS] = "drains",
    [WIDE_FOUNDING] = "founding",
    [WIDE_ADDRESSES] = "addresses",
    [WIDE_CHANGES] = "changes",
    [WIDE_SHARED] = "shared",
    [WIDE_GROUPS] = "groups",
    [WIDE_EXCURSIONS] = "excursions",
    [WIDE_WANDER] = "wander",
};

static const double likelihood[WIDES] = {
    [WIDE_SIZES] = 0.2,   [WIDE_STEPS] = 0.12,   [WIDE_FAR] = 0.02,       [WIDE_RETENTION] = 0.08,
    [WIDE_HOT] = 0.001,   [WIDE_ROLLBACK] = 0.1, [WIDE_PROXY] = 0.1,      [WIDE_RATES] = 0.25,
    [WIDE_DRAINS] = 0.1,  [WIDE_FOUNDING] = 0.1, [WIDE_ADDRESSES] = 0.08, [WIDE_CHANGES] = 0.1,
    [WIDE_SHARED] = 0.12, [WIDE_GROUPS] = 0.1,   [WIDE_EXCURSIONS] = 0.1, [WIDE_WANDER] = 0.1,
};

uint32_t wide_allowed = (1u << WIDES) - 1;
bool wide_every, wide_lies, wide_groups;

static struct sim_rng rng[WIDES];

bool wide_parse(const char *list, uint32_t *ret_mask)
{
    uint32_t mask = 0;

    if (strcmp(list, "all") == 0)
        mask = (1u << WIDES) - 1;
    else if (strcmp(list, "none") != 0)
        while (*list) {
            size_t length = strcspn(list, ",");
            int i = 0;

            while (i < WIDES && (strlen(sim_wide_names[i]) != length ||
                                 strncmp(sim_wide_names[i], list, length) != 0))
                i++;
            if (i == WIDES)
                return false;
            mask |= 1u << i;
            list += length + (list[length] == ',');
        }
    *ret_mask = mask;
    return true;
}

void wide_draw(void)
{
    sim.wide = 0;
    for (int i = 0; i < WIDES; i++) {
        rng[i].state = (sim.seed * UINT64_C(0xa24baed4963ee407) + 5) ^ (uint64_t)(i + 1) << 56;
        if ((rng_chance(&rng[i], likelihood[i]) || wide_every) && wide_allowed >> i & 1)
            sim.wide |= 1u << i;
    }
    if (wide_groups)
        sim.wide = (sim.wide & ~(1u << WIDE_FAR | 1u << WIDE_HOT)) | 1u << WIDE_GROUPS;
    /* Schedules of their own. */
    if (wide_has(WIDE_FAR))
        sim.wide = 1u << WIDE_FAR;
    if (wide_has(WIDE_HOT))
        sim.wide = 1u << WIDE_HOT;
    if (wide_has(WIDE_RETENTION)) /* a fence record outlives its key */
        sim.wide &= ~(1u << WIDE_EXCURSIONS | 1u << WIDE_WANDER);
    if (wide_has(WIDE_CHANGES))
        sim.wide &= 1u << WIDE_CHANGES | 1u << WIDE_SHARED | 1u << WIDE_RATES | 1u << WIDE_DRAINS |
                    1u << WIDE_GROUPS;
}

struct sim_rng *wide_rng(enum sim_wide kind)
{
    return &rng[kind];
}

int wide_nodes(int nodes)
{
    static const int sizes[] = {1, 2, 2, 4, 4};

    return wide_has(WIDE_SIZES) ? sizes[rng_below(&rng[WIDE_SIZES], HF_LENGTH(sizes))] : nodes;
}

/* As far as the default TTL allows for (agent/core/timing.h), and all leases have that; then there is no room for clocks
 * that run apart, nor for single answers that are slow. */
static void plan_far(struct sim_plan *p)
{
    struct sim_rng *far = &rng[WIDE_FAR];

    memset(p->fault, 0, sizeof(p->fault));
    p->ttl_max_ms = p->ttl_ms = (uint32_t)rng_between(far, 2000, 4000);
    p->delay_high = p->delay_low = 20 * SIM_US;
    p->faults_until += 2 * (sim_ns)p->ttl_ms * SIM_MS;
    for (int h = 0; h < p->hosts; h++)
        p->far[h][rng_below(far, 2)] = rng_below(far, (sim_ns)p->ttl_ms * SIM_US * 48 / 10);
}

void wide_plan(void)
{
    struct sim_plan *p = &sim.plan;

    if (wide_has(WIDE_STEPS) || wide_has(WIDE_ROLLBACK) || wide_has(WIDE_FAR) ||
        wide_has(WIDE_PROXY) || wide_has(WIDE_EXCURSIONS) || wide_has(WIDE_WANDER)) {
        p->tolerant = p->flushes = false;
        p->amnesia = true;
    }
    if (wide_has(WIDE_FAR))
        plan_far(p);
    if (wide_has(WIDE_RETENTION)) {
        p->retention_ms = rng_between(&rng[WIDE_RETENTION], 1000, 2000);
        p->faults_until += 4 * SIM_SEC;
    }
    if (wide_has(WIDE_GROUPS) &&
        !wide_has(WIDE_CHANGES)) /* there is time for a job, whatever the other faults are */
        p->faults_until += 2 * SIM_SEC;
    if (wide_has(WIDE_SHARED))
        p->resources = SIM_RESOURCES;
    if (wide_has(WIDE_HOT))
        hot_plan();
    if (wide_has(WIDE_FOUNDING))
        foundings_plan();
    fleets_plan();
    addresses_plan();
    changes_plan();
}

void wide_begin(void)
{
    drains_begin();
    sharers_begin();
    groups_begin();
    if (wide_has(WIDE_FOUNDING))
        foundings_begin();
    if (wide_has(WIDE_ADDRESSES))
        addresses_begin();
    if (wide_has(WIDE_CHANGES))
        changes_begin();
    if (wide_has(WIDE_STEPS) || wide_has(WIDE_FAR))
        steps_begin();
    if (wide_has(WIDE_ROLLBACK) || wide_has(WIDE_PROXY))
        rollbacks_begin();
    if (wide_has(WIDE_EXCURSIONS))
        excursions_begin();
    if (wide_has(WIDE_WANDER))
        wander_begin();
    if (wide_has(WIDE_RATES))
        rates_begin();
    if (wide_has(WIDE_HOT))
        hot_begin();
}

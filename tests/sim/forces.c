#include "tests/sim/forces.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/fence.h"
#include "agent/redis/script.h"
#include "tests/sim/checks.h"
#include "tests/sim/vnode.h"

#define MARK       "holdfast:forced:"
#define ARGUMENTS  10
#define TIMES_MOST 4

struct order { /* to one node */
    struct sim_event event;
    struct vnode *node;
    char key[4], record[24], fence[24], id[48]; /* fence or id is "" */
};

static struct sim_rng rng;

bool forces_is_mark(const char *value)
{
    return strncmp(value, MARK, strlen(MARK)) == 0;
}

bool forces_same_hold(const char *value, const char *other)
{
    char id[48];

    if (forces_is_mark(value) == forces_is_mark(other))
        return strcmp(value, other) == 0;
    if (forces_is_mark(other))
        return forces_same_hold(other, value);
    scripts_id(other, id, sizeof(id));
    return strcmp(value + strlen(MARK), id) == 0;
}

static void on_arrival(struct sim_event *event)
{
    struct order *order = HF_CONTAINER(event, struct order, event);
    struct vnode *node = order->node;
    const char *argv[ARGUMENTS] = {
        "EVALSHA",     "",           "3",       "holdfast:node", order->key,
        order->record, order->fence, order->id, "1000",          "60000"};
    size_t length[ARGUMENTS];
    char script[8];
    struct sim_message message = {.command = {.argc = ARGUMENTS, .argv = argv, .length = length}};

    if (!node->running || node->stopped_until > sim.now || node->error_until > sim.now)
        return;
    snprintf(script, sizeof(script), "%d", SCRIPT_FORCE);
    argv[1] = script;
    for (int i = 0; i < ARGUMENTS; i++)
        length[i] = strlen(argv[i]);
    sim_trace("n%d is to force out %s, fence %s, id %s", node->number, order->key, order->fence,
              order->id);
    (void)scripts_run(node, SCRIPT_FORCE, &message);
}

/* The id of the hold with that fence, as the nodes' records have it; "": none has it. */
static void id_of(const struct order *order, char *ret_id, size_t size)
{
    *ret_id = '\0';
    for (int i = 0; i < sim.plan.nodes && !*ret_id; i++) {
        struct vnode *node = sim.node[i];
        const struct store_key *record =
            store_find(&node->store, order->record, vnode_wall_us(node) / 1000);
        const char *fence = record ? store_field(record, "fence") : NULL;

        if (fence && strcmp(fence, order->fence) == 0)
            snprintf(ret_id, size, "%s", store_field(record, "tag"));
    }
}

/* By id, where the fence did not fit: the record there is another's by now. */
static void send_second(const struct order *first, const char *id, sim_ns at)
{
    struct order *order = sim_alloc(sizeof(*order));

    *order = (struct order){.event.fn = on_arrival, .node = first->node};
    memcpy(order->key, first->key, sizeof(order->key));
    memcpy(order->record, first->record, sizeof(order->record));
    snprintf(order->id, sizeof(order->id), "%s", id);
    sim_at(&order->event, at);
}

/* Whoever has a lock now, by the fence that could be read. */
static void on_force(struct sim_event *event)
{
    const struct claim *claim = checks_some_valid();

    (void)event;
    if (!claim)
        return;
    sim.seen[SEEN_FORCED] = true;
    for (int i = 0; i < sim.plan.nodes; i++) {
        struct order *order;
        char id[48];
        sim_ns at = sim.now + rng_log(&rng, 50 * SIM_US, 400 * SIM_MS);

        if (rng_chance(&rng, 0.1))
            continue; /* it did not arrive */
        order = sim_alloc(sizeof(*order));
        order->event.fn = on_arrival;
        order->node = sim.node[i];
        snprintf(order->key, sizeof(order->key), "r%d", claim->resource);
        snprintf(order->record, sizeof(order->record), "holdfast:fence:%s", order->key);
        snprintf(order->fence, sizeof(order->fence), "%" PRIu64, fence_node_part(claim->fence));
        sim_at(&order->event, at);
        id_of(order, id, sizeof(id));
        if (*id)
            send_second(order, id, at + rng_log(&rng, 50 * SIM_US, 400 * SIM_MS));
    }
}

void forces_begin(void)
{
    int times;

    rng.state = sim.seed * UINT64_C(0xd1342543de82ef95) + 3;
    /* Who is forced out loses its lease, and that is no fault of the nodes'. */
    if (sim.plan.tolerant || sim.plan.flushes || sim.plan.scene || !rng_chance(&rng, 0.2))
        return;
    times = (int)rng_between(&rng, 1, TIMES_MOST);
    for (int i = 0; i < times; i++) {
        struct sim_event *event = sim_alloc(sizeof(*event));

        event->fn = on_force;
        sim_at(event, rng_between(&rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}

#include "agent/process/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "shm/exposition.h"
#include "shm/slot.h"
#include "shm/status.h"

#define SLOT_STATES (HF_SLOT_ENDED + 1)
#define NAME_ROOM   (4 * HF_NAME_MAX + 1)

static const char *const slot_states[SLOT_STATES] = {"free",   "held", "late",
                                                     "losing", "lost", "ended"};

static bool is_silent(const _Atomic int64_t *beat, hf_time now)
{
    int64_t at = atomic_load_explicit(beat, memory_order_relaxed);

    return at && now.ns - at > HF_SILENCE_MS * HF_NS_PER_MS;
}

void metrics_write(const struct agent *agent, FILE *out)
{
    const struct hf_table_header *h = agent->table.header;
    struct hf_exposition e = {.agent = h->agent_name,
                              .state = HF_AGENT_ALIVE,
                              .now = clock_now(),
                              .wall_ms = clock_wall().ms};

    /* Main lives: it is answering. */
    if (is_silent(&h->broker_beat_ns, e.now) || is_silent(&h->renewal_beat_ns, e.now))
        e.state = HF_AGENT_HUNG;
    hf_exposition_write(&e, &agent->table, out);
}

struct list {
    struct agent *agent;
    const char *only;
    FILE *out;
    hf_time now;
    int lines;
};

static void list_lease(const struct lease *lease, void *arg)
{
    struct list *list = arg;
    uint32_t state = atomic_load_explicit(&lease->state, memory_order_relaxed);
    int64_t left = atomic_load_explicit(&lease->valid_ns, memory_order_relaxed) - list->now.ns;
    struct hf_slot_view view;
    char name[NAME_ROOM];
    int votes = -1;

    (void)log_name(lease_name(lease), lease->name_len, name, sizeof(name));
    if (list->only && strcmp(list->only, name) != 0)
        return;
    /* Votes are the renewal thread's to count; it publishes them in the slot. */
    if (hf_slot_read(&list->agent->table, lease->slot, &view) == HF_OK &&
        view.generation == lease->generation)
        votes = (int)view.votes;
    fprintf(list->out,
            "%s %.3fs votes=%d pid=%" PRIu32 " uid=%" PRIu32 " ttl_ms=%" PRIu32 " fence=%" PRIu64
            " run=%d %s\n",
            state < SLOT_STATES ? slot_states[state] : "?",
            left > 0 ? (double)left / HF_NS_PER_SEC : 0.0, votes, lease->pid, lease->uid,
            lease->ttl_ms, lease->fence, lease->run, name);
    list->lines++;
}

int metrics_list(struct agent *agent, const char *only, FILE *out)
{
    struct list list = {.agent = agent, .only = only, .out = out, .now = clock_now()};

    (void)lease_table_walk(agent->leases, list_lease, &list);
    return list.lines;
}

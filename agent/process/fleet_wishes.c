#include "agent/process/fleet_wishes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/process/fleet_look.h"
#include "agent/process/fleet_request.h"
#include "agent/process/helper.h"
#include "agent/record/fleet_order.h"
#include "shm/assert.h"
#include "shm/slot.h"
#include "shm/status.h"

enum stage {
    IDLE,
    LOOKING, /* the thread is at it */
    ASKING,  /* `order` is on its way to the broker */
};

enum owner { THREAD, DONE, LEFT };

/* The thread's until DONE, main's from then on. Who comes second frees it. */
struct job {
    _Atomic int owner;
    struct fleet_look look;
};

struct fleet_wishes {
    struct agent *agent;
    enum stage stage;
    uint64_t number, over; /* of the one that runs or was the last, and of the last that is over */
    struct job *job;
    struct fleet_order order;
    char line[1024];
};

/* --- its thread -------------------------------------------------------------------------------- */

static void wishes_job_free(struct job *job)
{
    if (!job)
        return;
    explicit_bzero(job, sizeof(*job)); /* passwords */
    free(job);
}

static void *wishes_thread_main(void *arg)
{
    struct job *job = arg;

    (void)pthread_setname_np(pthread_self(), "hf-fleet");
    fleet_look(&job->look);
    if (atomic_exchange(&job->owner, DONE) == LEFT)
        wishes_job_free(job);
    return NULL;
}

/* --- what this host itself knows --------------------------------------------------------------- */

struct longest {
    int64_t most_ms;
    char name[4 * HF_NAME_MAX + 1];
    uint32_t ttl_ms;
};

static void wishes_see_lease(const struct lease *lease, void *arg)
{
    struct longest *l = arg;
    uint32_t state = atomic_load_explicit(&lease->state, memory_order_relaxed);

    if (state > HF_SLOT_LOSING || (int64_t)lease->ttl_ms <= l->most_ms ||
        lease->ttl_ms <= l->ttl_ms)
        return;
    l->ttl_ms = lease->ttl_ms;
    (void)log_name(lease_name(lease), lease->name_len, l->name, sizeof(l->name));
}

/* (!) A lease of a longer TTL than the fleet's largest would outlive the quarantines. */
static bool wishes_judge_ttl_max(const struct fleet_wishes *w, const struct config *config,
                                 int64_t most_ms, char *ret_why, size_t size)
{
    struct longest longest = {.most_ms = most_ms};

    if ((int64_t)config->ttl_ms > most_ms) {
        snprintf(ret_why, size,
                 "ttl is %" PRIu32 " ms here; set ttl to %" PRId64
                 " ms or less on every host first (holdfast reload)",
                 config->ttl_ms, most_ms);
        return false;
    }
    (void)lease_table_walk(w->agent->leases, wishes_see_lease, &longest);
    if (longest.ttl_ms == 0)
        return true;
    snprintf(ret_why, size,
             "the lease of %.200s on this host has a TTL of %" PRIu32
             " ms; wait until it is released, or choose a longer ttl_max",
             longest.name, longest.ttl_ms);
    return false;
}

/* (!) Of nodes at their seats only: a file that is ahead of the fleet leads to the server that is to be a node. */
static void wishes_copy_servers(const struct agent *agent, struct fleet_look *look)
{
    struct hf_node_row row;

    for (int i = 0; i < look->config.node_count; i++)
        if (strcmp(look->shown.node[i].peer, look->shown.node[i].seat) == 0 &&
            hf_node_read(&agent->table, (uint32_t)i, &row) == HF_OK)
            snprintf(look->run_id[i], sizeof(look->run_id[i]), "%s", row.run_id);
}

static int wishes_begin(struct fleet_wishes *w, const struct fleet_wish *wish,
                        const struct config *config)
{
    struct job *job = calloc(1, sizeof(*job));

    if (!job)
        return HF_ENOMEM;
    job->look.wish = *wish;
    job->look.config = *config;
    fleet_board_look(&w->agent->fleet_board, &job->look.shown);
    wishes_copy_servers(w->agent, &job->look);
    if (helper_start(wishes_thread_main, job) < 0) {
        wishes_job_free(job);
        return HF_ENOMEM;
    }
    w->job = job;
    w->stage = LOOKING;
    return HF_OK;
}

/* --- the steps --------------------------------------------------------------------------------- */

static void wishes_end(struct fleet_wishes *w)
{
    hf_assert(w->stage != IDLE && w->over < w->number, "stage %d, number %llu, over %llu",
              (int)w->stage, (unsigned long long)w->number, (unsigned long long)w->over);
    w->stage = IDLE;
    w->over = w->number;
}

/* It may quote any bytes. */
static void wishes_refused(struct fleet_wishes *w, const char *why, bool later)
{
    char shown[sizeof(w->line) / 2];

    (void)log_name(why, strlen(why), shown, sizeof(shown));
    snprintf(w->line, sizeof(w->line), "error: %s%s\n", later ? "later: " : "", shown);
    log_info("a change of the fleet is refused: %s", shown);
    wishes_end(w);
}

static void wishes_ask_broker(struct fleet_wishes *w, const struct fleet_wish *wish)
{
    struct message *m = message_new(MSG_FLEET_CHANGE);

    w->order = (struct fleet_order){.wish = *wish};
    m->change = &w->order;
    w->stage = ASKING;
    mailbox_post(&w->agent->to_broker, m);
}

static void wishes_take_look(struct fleet_wishes *w)
{
    struct job *job = w->job;

    hf_assert(job && w->stage == LOOKING, "stage %d", (int)w->stage);
    w->job = NULL;
    if (job->look.good)
        wishes_ask_broker(w, &job->look.wish);
    else
        wishes_refused(w, job->look.why, false);
    wishes_job_free(job);
}

static void wishes_take_answer(struct fleet_wishes *w)
{
    const struct fleet_order *order = &w->order;
    FILE *out;

    if (order->rc < 0) {
        wishes_refused(w, order->why, order->rc == HF_EBUSY);
        return;
    }
    memset(w->line, 0, sizeof(w->line));
    out = fmemopen(w->line, sizeof(w->line), "w");
    if (out) {
        fleet_request_begun(&order->record, order->wish.seat, out);
        (void)fclose(out);
    }
    log_info("version %" PRIu64 " of the fleet is begun by an operator", order->record.version);
    wishes_end(w);
}

void fleet_wishes_turn(struct fleet_wishes *w)
{
    if (w->stage == LOOKING && atomic_load(&w->job->owner) == DONE)
        wishes_take_look(w);
    else if (w->stage == ASKING && atomic_load_explicit(&w->order.taken, memory_order_acquire))
        wishes_take_answer(w);
}

void fleet_wishes_end(struct fleet_wishes *w)
{
    fleet_wishes_turn(w);
    if (w->stage != IDLE)
        wishes_refused(w, "the agent ends or starts again: try again in some seconds", true);
}

/* --- the door ---------------------------------------------------------------------------------- */

int fleet_wishes_create(struct agent *agent, struct fleet_wishes **ret_wishes)
{
    struct fleet_wishes *w = calloc(1, sizeof(*w));

    if (!w)
        return HF_ENOMEM;
    w->agent = agent;
    *ret_wishes = w;
    return HF_OK;
}

void fleet_wishes_destroy(struct fleet_wishes *w)
{
    if (!w)
        return;
    if (w->job && atomic_exchange(&w->job->owner, LEFT) == DONE)
        wishes_job_free(w->job);
    free(w);
}

static bool wishes_may_ask(const struct fleet_wishes *w, const struct fleet_wish *wish,
                           const struct config *config, char *ret_why, size_t size)
{
    if (w->stage != IDLE)
        snprintf(ret_why, size,
                 "later: another change is being asked for; try again in some seconds");
    else if (config->ephemeral)
        snprintf(ret_why, size,
                 "--dev agents have no fleet to change; start an agent without --dev");
    else if (wish->kind == FLEET_WISH_TTL_MAX)
        return wishes_judge_ttl_max(w, config, wish->ttl_max_ms, ret_why, size);
    else
        return true;
    return false;
}

uint64_t fleet_wishes_ask(struct fleet_wishes *w, const char *request, uint32_t uid,
                          const struct config *config, char *ret_why, size_t size)
{
    struct fleet_wish wish;

    if (fleet_request_read(request, &wish) < 0) {
        snprintf(ret_why, size,
                 "the requests are: fleet-change move ID ADDRESS [gone], add ID ADDRESS, remove ID "
                 "[gone], ttl-max MS, gone ID, abort [gone], confirm");
        return 0;
    }
    wish.uid = uid;
    if (!wishes_may_ask(w, &wish, config, ret_why, size))
        return 0;
    if (wishes_begin(w, &wish, config) < 0) {
        snprintf(ret_why, size, "later: no memory");
        return 0;
    }
    return ++w->number;
}

bool fleet_wishes_over(const struct fleet_wishes *w, uint64_t number, const char **ret_line)
{
    if (w->over < number)
        return false;
    *ret_line = w->line;
    return true;
}

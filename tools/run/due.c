#include "tools/run/due.h"

#include <poll.h>
#include <unistd.h>

#include "tools/common/exit_code.h"
#include "tools/run/say.h"

#define NS_PER_MS INT64_C(1000000)
/* (!) Without -w, too: the nodes may have a record of a run that has not begun, which nobody else can begin. */
#define NODES_NS (5000 * NS_PER_MS)
#define AGAIN_MS 200

/* Before the nodes are asked again. False: a signal came, of which the outer guardian tells, or that one is gone. (!) The client's
 * events do not end it: each answer is one. */
static bool due_pause(const struct guardian *g)
{
    struct pollfd fds[] = {
        {.fd = g->plan->signals->fd, .events = POLLIN},
        {.fd = g->link_fd, .events = POLLIN},
        {.fd = g->peer_fd, .events = POLLIN},
    };

    (void)poll(fds, sizeof(fds) / sizeof(fds[0]), AGAIN_MS);
    hf_dispatch(g->hold.client);
    return !fds[0].revents && !fds[1].revents && !fds[2].revents;
}

static bool due_is_held(struct guardian *g)
{
    return guardian_judge(g, timeline_now_ns()) == TIMELINE_HELD;
}

static int due_ask(struct guardian *g)
{
    int64_t until_ns = timeline_now_ns() + NODES_NS, before = 0;
    int status;

    if (until_ns < g->plan->once_until_ns)
        until_ns = g->plan->once_until_ns;
    do /* nodes come back, as those of an agent that has just started; a loss ends it */
        status = hold_once(&g->hold, g->plan->once_per_ms, &before);
    while (status == HF_ENOQUORUM && due_is_held(g) && timeline_now_ns() < until_ns &&
           due_pause(g));
    atomic_store(&g->shared->once_before, before);
    return status;
}

static bool due_outer_is_gone(const struct guardian *g)
{
    struct pollfd outer = {.fd = g->peer_fd, .events = POLLIN};

    return poll(&outer, 1, 0) > 0;
}

/* It was told to start the job. Returns the exit code, if that must not be any more. */
static int due_still(struct guardian *g)
{
    if (!due_is_held(g)) {
        say("%s: the lock was lost before the job was started", g->plan->name);
        return EXIT_LOST;
    }
    return due_outer_is_gone(g) ? EXIT_FAILED : EXIT_OK;
}

bool due_now(struct guardian *g, int *ret_code)
{
    int status;

    if (!g->plan->once_per_ms)
        return true;
    status = due_ask(g);
    if (status == HF_OK) {
        *ret_code = due_still(g);
        if (*ret_code != EXIT_OK)
            due_take_back(g);
        return *ret_code == EXIT_OK;
    }
    /* On a terminal, and if asked to: cron makes a mail of each line. */
    if (status != HF_EDONE || g->plan->verbose || isatty(STDERR_FILENO))
        say("%s: not run: %s", g->plan->name, hf_last_message());
    *ret_code = status == HF_EDONE ? g->plan->done_code : exit_code_of(status);
    return false;
}

void due_take_back(const struct guardian *g)
{
    if (g->plan->once_per_ms && hold_once_take_back(&g->hold, g->plan->once_per_ms,
                                                    atomic_load(&g->shared->once_before)) < 0)
        say("%s: the job was not started, but counts as run in this period: %s", g->plan->name,
            hf_last_message());
}

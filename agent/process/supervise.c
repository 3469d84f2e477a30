#include "agent/process/supervise.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/broker.h"
#include "agent/core/ballot.h"
#include "agent/process/control.h"
#include "agent/process/notify.h"
#include "agent/process/reload.h"
#include "agent/state/drain_record.h"
#include "shm/assert.h"

#define BEAT_MS      100
#define LOOK_EVERY   hf_ms(1000) /* how often the table's name is checked */
#define WAIT_BEFORE  hf_ms(1000) /* so long without a quorum before it is told */
#define REPEAT_AFTER hf_ms(5000)
#define RELOAD_MOST                                                                                \
    hf_ms(10000) /* so long keeps a reload the agent from starting again before it is told */
#define ROUSE_AFTER hf_ms(500) /* so long without a sign of life of the broker thread */
#define ROUSE_EVERY hf_ms(300)

struct watch {
    struct agent *agent;
    bool said_ready, told_manager, table_gone;
    bool told_drained;     /* the service manager's status says so */
    hf_time waiting_since; /* not ready since */
    hf_time said_waiting;
    char why[256]; /* as it was last told */
    hf_time looked, roused;
    hf_time again_since; /* the agent is to start again */
    bool said_reload;
    struct watchdog dog;
};

static void supervise_signals_of_ours(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    (void)sigaddset(ret_set, SIGTERM);
    (void)sigaddset(ret_set, SIGINT);
    (void)sigaddset(ret_set, SIGHUP);
}

/* Their default would end the agent, or, at a limit on files, end it by a core dump instead of an error. */
static void supervise_ignore_strays(void)
{
    static const int strays[] = {SIGUSR1, SIGUSR2, SIGALRM,   SIGVTALRM, SIGPROF,
                                 SIGIO,   SIGPWR,  SIGSTKFLT, SIGXFSZ};

    for (size_t i = 0; i < sizeof(strays) / sizeof(strays[0]); i++)
        (void)signal(strays[i], SIG_IGN);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        (void)signal(i, SIG_IGN);
}

void supervise_block_signals(void)
{
    sigset_t set;

    supervise_ignore_strays();
    supervise_signals_of_ours(&set);
    (void)sigaddset(&set, SIGPIPE); /* stderr may be a pipe that nobody reads any more */
    (void)sigaddset(&set, BROKER_ROUSE);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void supervise_beat(struct agent *agent, hf_time now)
{
    atomic_store_explicit(&agent->table.header->main_beat_ns, now.ns, memory_order_relaxed);
}

static void supervise_watch_broker(struct watch *w, hf_time now)
{
    const struct hf_table_header *h = w->agent->table.header;
    hf_time beaten = {atomic_load_explicit(&h->broker_beat_ns, memory_order_relaxed)};

    if (hf_time_before(now, hf_time_add(beaten, ROUSE_AFTER)) ||
        hf_time_before(now, hf_time_add(w->roused, ROUSE_EVERY)))
        return;
    w->roused = now;
    broker_rouse(w->agent->broker);
}

/* --- ready, or not ---------------------------------------------------------------------------- */

/* The service manager shows a drain. */
static void supervise_watch_drain(struct watch *w)
{
    char text[DRAIN_RECORD_TEXT], status[DRAIN_RECORD_TEXT + 32];
    struct hf_drained now;

    hf_drained_read(&w->agent->table, &now);
    if (!w->said_ready || now.stands == w->told_drained)
        return;
    w->told_drained = now.stands;
    drain_record_say(&now, w->agent->config->name, text);
    snprintf(status, sizeof(status), "STATUS=Ready%s%s", now.stands ? ", but " : "",
             now.stands ? text : "");
    notify_send(status);
}

static void supervise_say_ready(struct watch *w)
{
    const struct config *c = w->agent->config;

    log_say("ready: %s, %d nodes, quorum %d, socket %s", c->name, c->node_count, c->quorum,
            w->agent->socket_path);
    notify_send("READY=1\nSTATUS=Ready");
    w->told_drained = false; /* by this status */
    w->said_ready = w->told_manager = true;
    w->why[0] = '\0';
}

/* The agent starts without a quorum, says so, and becomes ready by itself. */
static void supervise_say_waiting(struct watch *w, hf_time now)
{
    char why[sizeof(w->why)], status[sizeof(w->why) + 32];

    broker_why_not_ready(w->agent->broker, why, sizeof(why));
    if (!why[0])
        snprintf(why, sizeof(why), "too few nodes have answered so far");
    /* The reason may count down: the first one is told at once, later ones
     * not too often. */
    if (w->why[0] && (strcmp(why, w->why) == 0 ||
                      hf_time_before(now, hf_time_add(w->said_waiting, REPEAT_AFTER))))
        return;
    log_say("waiting: %s", why);
    snprintf(status, sizeof(status), "%sSTATUS=Waiting: %s", w->told_manager ? "" : "READY=1\n",
             why);
    notify_send(status);
    w->told_manager = true;
    w->said_ready = false;
    w->said_waiting = now;
    memcpy(w->why, why, sizeof(why));
}

static bool supervise_waits_newly(const struct watch *w)
{
    return w->waiting_since.ns != HF_TIME_NEVER.ns &&
           hf_time_before(clock_now(), hf_time_add(w->waiting_since, WAIT_BEFORE));
}

static void supervise_watch_readiness(struct watch *w, hf_time now)
{
    if (broker_ready(w->agent->broker)) {
        w->waiting_since = HF_TIME_NEVER;
        if (!w->said_ready)
            supervise_say_ready(w);
        return;
    }
    w->waiting_since = hf_time_min(w->waiting_since, now);
    if (hf_time_reached(now, hf_time_add(w->waiting_since, WAIT_BEFORE)))
        supervise_say_waiting(w, now);
}

/* Holders have the table by descriptor, and new clients are given a descriptor, too. */
static void supervise_watch_table(struct watch *w, hf_time now)
{
    struct agent *agent = w->agent;

    if (w->table_gone || hf_time_before(now, hf_time_add(w->looked, LOOK_EVERY)))
        return;
    w->looked = now;
    if (hf_table_is_linked(&agent->table, agent->shm_name))
        return;
    w->table_gone = true;
    log_error(
        "/dev/shm%s was removed or replaced by somebody (RemoveIPC= in logind.conf does so at "
        "logout). Leases go on and are extended, but status, list and show cannot see them until "
        "the agent is started again, and that ends those that are held: wait for them first",
        agent->shm_name);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* True when it is time to end. */
static bool supervise_take_signals(int fd, struct reload *reload) IN_MAIN_THREAD
{
    struct signalfd_siginfo info;
    bool end = false;

    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTERM:
        case SIGINT:
            /* It may come twice: whoever started the agent may pass on what a terminal sends to both. */
            if (!end)
                log_info("ending, by signal %s", info.ssi_signo == SIGTERM ? "TERM" : "INT");
            end = true;
            break;
        case SIGHUP:
            (void)reload_ask(reload);
            break;
        }
    }
    return end;
}

int supervise_signals(void)
{
    sigset_t set;

    supervise_signals_of_ours(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* After a reload under way, whose thread uses what this agent has; renewals go on meanwhile. */
static bool supervise_starts_again(struct watch *w, const struct reload *reload,
                                   hf_time now) IN_MAIN_THREAD
{
    if (!atomic_load_explicit(&w->agent->again, memory_order_acquire))
        return false;
    if (!reload_busy(reload))
        return true;
    w->again_since = hf_time_min(w->again_since, now);
    if (!w->said_reload && hf_time_reached(now, hf_time_add(w->again_since, RELOAD_MOST))) {
        w->said_reload = true;
        log_warn("restart this agent if the reload that is under way does not end (a look-up of "
                 "its group?): "
                 "no lock is granted before this host goes by the fleet's record");
    }
    return false;
}

bool supervise(struct agent *agent, int signals, struct control *control, struct reload *reload)
{
    struct watch w = {.agent = agent, .waiting_since = HF_TIME_NEVER, .again_since = HF_TIME_NEVER};
    struct pollfd polls[1 + CONTROL_POLLS];

    watchdog_init(&w.dog);
    for (;;) {
        /* Often at first, so that the ready line comes as soon as it is true; and when it is not any more: the agent may be
         * about to start again. */
        bool busy = !(w.said_ready || w.why[0]) || reload_busy(reload) || supervise_waits_newly(&w);
        int timeout_ms = busy ? 10 : BEAT_MS;
        size_t count;
        hf_time now;

        polls[0] = (struct pollfd){.fd = signals, .events = POLLIN};
        count = control_poll(control, &polls[1]);
        hf_assert(count <= CONTROL_POLLS, "polls %zu", count);
        (void)poll(polls, 1 + count, timeout_ms);
        now = clock_now();
        supervise_beat(agent, now);
        if (polls[0].revents && supervise_take_signals(signals, reload))
            return false;
        if (supervise_starts_again(&w, reload, now))
            return true;
        reload_turn(reload);
        control_serve(control, &polls[1], count, now);
        supervise_watch_readiness(&w, now);
        supervise_watch_drain(&w);
        supervise_watch_table(&w, now);
        supervise_watch_broker(&w, now);
        watchdog_turn(&w.dog, w.agent->table.header, now);
    }
}

struct ending {
    struct broker *broker;
    atomic_bool done;
};

static void *supervise_join_broker(void *arg)
{
    struct ending *e = arg;

    broker_join(e->broker);
    atomic_store_explicit(&e->done, true, memory_order_release);
    return NULL;
}

void supervise_end(struct agent *agent)
{
    struct ending e = {.broker = agent->broker};
    struct watch w = {.agent = agent};
    pthread_t joiner;

    watchdog_init(&w.dog);
    if (pthread_create(&joiner, NULL, supervise_join_broker, &e) != 0) {
        broker_join(agent->broker);
        return;
    }
    while (!atomic_load_explicit(&e.done, memory_order_acquire)) {
        hf_time now = clock_now();

        supervise_beat(agent, now);
        supervise_watch_broker(&w, now);
        watchdog_turn(&w.dog, w.agent->table.header, now);
        (void)poll(NULL, 0, 5);
    }
    (void)pthread_join(joiner, NULL);
}

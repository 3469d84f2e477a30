/* holdfastd: the steps of the start, and of the end in reverse order. A step that fails
 * undoes the steps before it. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/broker.h"
#include "agent/check/check.h"
#include "agent/config/config_report.h"
#include "agent/config/config.h"
#include "agent/dev/dev.h"
#include "agent/process/confine.h"
#include "agent/process/control.h"
#include "agent/process/host.h"
#include "agent/process/notify.h"
#include "agent/process/reload.h"
#include "agent/process/singleton.h"
#include "agent/process/supervise.h"
#include "agent/state/fleet_memory.h"
#include "agent/state/stores.h"
#include "agent/renewal/renewal.h"
#include "shm/table_notes.h"
#include "shm/status.h"
#include "shm/process.h"
#include "shm/wire.h"

#define HOLD_BACK_S    5
#define HOLD_BACK_SOON 1 /* s: for what another program may be writing */

enum exit_code {
    EXIT_UNAVAILABLE = 69, /* --dev: no redis-server */
    EXIT_SYSTEM = 71,      /* directories, /dev/shm, journal, threads */
    EXIT_SECOND = 75,      /* an agent of that name runs already */
    EXIT_DENIED = 77,      /* the directory is another user's */
    EXIT_CONFIG = 78,      /* too few descriptors for any client */
};

static int main_exit_code_of(int status)
{
    switch (status) {
    case HF_OK:
        return EXIT_SUCCESS;
    case HF_ENOAGENT:
        return EXIT_UNAVAILABLE;
    case HF_EBUSY:
        return EXIT_SECOND;
    case HF_EPERM:
        return EXIT_DENIED;
    default:
        return EXIT_SYSTEM;
    }
}

struct start {
    struct config *config; /* as read, or as reloaded since */
    struct config *now;    /* the same by the fleet's record */
    const struct host *host;
    struct reload_start began;
    struct singleton singleton;
    hf_time started;
    struct control control; /* its socket stays when the agent starts again */
    int listener;           /* agent.listener */
    hf_time shown;          /* agent.fleet_shown */
    bool again;             /* by another record */
    bool left;              /* anything, for the next agent */
    bool refused;           /* by what is there: no start at once mends it */
};

/* An agent that starts again is confined already. */
static void main_confine_once(const struct start *s)
{
    const struct confine c = {.base = s->singleton.base,
                              .dir = s->singleton.dir,
                              .lock_memory = s->now->lock_memory,
                              .priority = s->now->renewal_priority > 0};
    char why[512];

    if (s->began.again)
        return;
    confine(&c, why, sizeof(why));
    if (why[0])
        log_info("this kernel does not confine the agent by %s; the agent runs without that", why);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void main_stop_renewal(struct agent *agent) IN_MAIN_THREAD
{
    mailbox_post(&agent->to_renewal, message_new(MSG_STOP));
    renewal_join(agent->renewal);
}

static int main_start_threads(struct agent *agent, const char *dir, struct reload *reload,
                              struct control *control) IN_MAIN_THREAD
{
    const char *what = "start the renewal thread";
    int rc = renewal_start(agent->renewal);

    if (rc < 0)
        goto error;
    what = "open the control socket";
    rc = control_open(control, agent, dir, reload);
    if (rc < 0)
        goto error_renewal;
    /* No client can see it before the broker listens. */
    hf_table_set_state(&agent->table, HF_TABLE_ALIVE);
    what = "listen for clients and start the broker thread";
    rc = broker_start(agent->broker);
    if (rc < 0)
        goto error_control;
    log_begin_thread(); /* it found no thread before, perhaps */
    return HF_OK;

error_control:
    hf_table_set_state(&agent->table, HF_TABLE_STOPPED);
    control_close(control);
error_renewal:
    main_stop_renewal(agent);
error:
    log_error("cannot %s in %s: %s%s", what, dir,
              rc == HF_ESYS ? strerror(errno) : hf_status_text(rc),
              rc == HF_ESYS && errno == ENOSPC ? "; free an inode there: df -i" : "");
    return rc;
}

static void *main_do_nothing(void *arg)
{
    return arg;
}

/* (!) liburcu starts the thread that frees leases with the first of them, and aborts if the host has no thread left: so it is started
 * where there was one a moment ago, and before anything depends on this agent. */
static int main_start_freeing(void)
{
    pthread_t probe;
    int rc = thread_start("freeing", main_do_nothing, NULL, &probe);

    if (rc < 0)
        return rc;
    (void)pthread_join(probe, NULL);
    (void)get_default_call_rcu_data();
    return HF_OK;
}

/* Runs until a signal ends it. */
static int main_serve(struct agent *agent, const char *dir, struct start *start) IN_MAIN_THREAD
{
    struct reload *reload = NULL;
    int rc, signals = supervise_signals();

    if (signals < 0) {
        log_error("no signalfd: %s", strerror(errno));
        return HF_ESYS;
    }
    rc = main_start_freeing();
    if (rc < 0) {
        log_error("cannot start a thread in %s: %s", dir, strerror(errno));
        goto error_signals;
    }
    rc = reload_create(agent, &start->began, &reload);
    if (rc < 0)
        goto error_signals;
    rc = lease_table_create(agent->table.capacity, &agent->leases);
    if (rc < 0)
        goto error_signals;
    rc = renewal_create(agent, &agent->renewal);
    if (rc < 0)
        goto error_leases;
    rc = broker_create(agent, &agent->broker);
    if (rc < 0)
        goto error_renewal;
    rc = main_start_threads(agent, dir, reload, &start->control);
    if (rc < 0)
        goto error_broker;
    thread_role_now = THREAD_ROLE_MAIN;

    start->again = supervise(agent, signals, &start->control, reload);

    notify_send(start->again ? "STATUS=Starting again by the fleet's record"
                             : "STOPPING=1\nSTATUS=Ending");
    atomic_store_explicit(&agent->stays, start->again, memory_order_release);
    mailbox_post(&agent->to_broker, message_new(MSG_GO_AWAY));
    supervise_end(agent);
    if (start->again)
        control_pause(&start->control);
    else
        control_close(&start->control);
    main_stop_renewal(agent);
    thread_role_now = THREAD_ROLE_NONE;
error_broker:
    broker_destroy(agent->broker);
error_renewal:
    renewal_destroy(agent->renewal);
error_leases:
    lease_table_destroy(agent->leases);
error_signals:
    reload_take(reload, start->config);
    reload_destroy(reload);
    close(signals);
    return rc;
}

/* Of the agent before this one, which may have been another program's. */
static void main_say_last_words(const struct hf_table_header *header)
{
    struct hf_last_words words;

    if (hf_last_words_read(header, &words))
        log_warn("the agent before this one (pid %" PRIu32 ") ended by a failed assertion: %s",
                 words.pid, words.text);
}

/* The agent, from its files to their end, under the singleton's lock. Returns the exit code. */
static int main_run(struct start *s)
{
    const char *dir = s->singleton.dir;
    struct agent agent = {.config = s->now,
                          .started = s->started,
                          .listener = s->listener,
                          .fleet_shown = s->shown,
                          .timens_inode = s->host->timens_inode,
                          .pidns_inode = s->host->pidns_inode};
    char why[1024];
    int rc;

    ASSERT_MAIN_THREAD();
    rcu_register_thread();
    if (s->now->lock_memory && !s->began.again && real_time_lock_memory(why, sizeof(why)) < 0)
        log_warn("%s; the agent goes on without it", why);
    main_confine_once(s);
    agent.clock = s->host->clock;
    memcpy(agent.host, s->host->name, sizeof(agent.host));
    snprintf(agent.socket_path, sizeof(agent.socket_path), "%.590s/sock", dir);
    /* The configuration's check has judged the name. */
    (void)hf_table_name(s->config->name, s->config->system, geteuid(), agent.shm_name);
    log_begin_thread();
    fleet_board_init(&agent.fleet_board);
    rc = stores_open(&agent, dir, why, sizeof(why));
    if (rc < 0) {
        log_error("%s", why);
        s->refused = !s->began.again && (rc == HF_ETABLE || rc == HF_EPERM || rc == HF_EBUSY);
    } else {
        failure_into(agent.table.header);
        main_say_last_words(agent.table.header);
        rc = main_serve(&agent, dir, s);
        failure_into(NULL);
        s->left = stores_close(&agent);
    }
    s->listener = agent.listener;
    s->shown = agent.fleet_shown;
    fleet_board_fini(&agent.fleet_board);
    rcu_unregister_thread();
    return main_exit_code_of(rc);
}

/* (!) An agent goes by one record of the fleet from its start to its end (agent/core/fleet.h). It starts again under the same
 * lock, with the configuration that was in force: a file that is being edited does not end it. */
static int main_run_by_records(struct start *s)
{
    int code;

    do {
        *s->now = *s->config;
        fleet_start(s->now, s->singleton.dir, &s->host->clock);
        config_bound_clients(s->now, s->began.descriptors);
        s->again = false;
        code = main_run(s);
        s->began.again = true;
        s->config->reset_fleet = s->config->assume_fresh = false;
    } while (s->again && code == EXIT_SUCCESS);
    control_drop(&s->control);
    if (s->listener) /* this start has failed before it listened */
        close(s->listener);
    return code;
}

/* Its nodes are its own, and so is its fleet. */
static int main_run_dev(void *arg)
{
    struct start *s = arg;

    *s->now = *s->config;
    config_bound_clients(s->now, s->began.descriptors);
    return main_run(s);
}

/* A service manager starts the agent again at once, for leases lapse meanwhile. Where something is in its way (a table or a
 * directory of somebody else, another agent) that would be ten starts a second, and as many lines in the log. */
static void main_hold_back(int seconds)
{
    const struct timespec pause = {.tv_sec = seconds};
    sigset_t ends;

    if (!notify_is_wanted())
        return;
    log_info("the next start is in %d s: this one was refused", seconds);
    notify_send("STATUS=Refused to start, see its log; the next start is in some seconds");
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL); /* it may be early */
    (void)sigtimedwait(&ends, NULL, &pause);
}

static int main_start(struct config *config, const struct host *host,
                      const struct reload_start *began)
{
    static struct config now; /* as in main() */
    struct start s = {.config = config,
                      .now = &now,
                      .host = host,
                      .began = *began,
                      .started = clock_now(),
                      .shown = HF_TIME_PAST};
    char why[1024];
    int code = EXIT_SYSTEM, rc = singleton_take(config, &s.singleton, why, sizeof(why));

    if (rc < 0)
        goto error;
    rc = stores_refuse_second(config, NULL, why, sizeof(why));
    if (rc < 0) {
        singleton_release(&s.singleton, !s.singleton.found);
        goto error;
    }
    /* (!) A start that fails before it knows leaves what it found. */
    s.left = s.singleton.found && !config->ephemeral;
    dev_clean(s.singleton.dir);
    if (config->ephemeral)
        rc = dev_run(config, s.singleton.dir, main_run_dev, &s, &code, why, sizeof(why));
    else
        code = main_run_by_records(&s);
    singleton_release(&s.singleton, !s.left);
    if (rc < 0)
        goto error;
    if (s.refused)
        main_hold_back(HOLD_BACK_S);
    return code;

error:
    log_error("%s", why);
    if (rc == HF_EBUSY || rc == HF_EPERM)
        main_hold_back(HOLD_BACK_S);
    return main_exit_code_of(rc);
}

/* Says the first fault (--check-config tells all of them), and returns the exit code. */
static int main_refuse(const struct config_report *report, int rc)
{
    char text[sizeof(report->file) + sizeof(report->faults[0].text)];
    int more = report->fault_count - 1;

    if (report->fault_count == 0)
        snprintf(text, sizeof(text), "%s", hf_status_text(rc));
    else
        (void)config_fault_text(report, &report->faults[0], text, sizeof(text));
    if (more > 0)
        log_say("%s (and %d more: --check-config FILE shows all)", text, more);
    else
        log_say("%s", text);
    if (report->exit == EXIT_SYSTEM)
        main_hold_back(HOLD_BACK_SOON);
    return report->exit;
}

int main(int argc, char **argv)
{
    static struct config config; /* large, and holds passwords: not on the stack */
    struct reload_start began = {.argc = argc, .argv = argv};
    static struct config_report report;
    struct host host;
    char why[1024] = "";
    int rc;

    host_keep_secrets();
    if (hf_streams_hold(0) < 0)
        return EXIT_SYSTEM;
    rc = config_read(argc, argv, &config, &report);
    if (rc == HF_ECANCELED)
        return hf_streams_finish("holdfastd", EXIT_SUCCESS, EXIT_SYSTEM);
    if (report.check) {
        log_init(LOG_LEVEL_ERROR);
        return hf_streams_finish("holdfastd", check_config(&config, &report), EXIT_SYSTEM);
    }
    log_init(config.log_level);
    failure_hear();
    if (rc < 0)
        return main_refuse(&report, rc);
    if (host_read(&host, why, sizeof(why)) < 0) {
        log_error("%s", why);
        return EXIT_SYSTEM;
    }
    if (config_use_tls(&config, why, sizeof(why)) < 0) { /* it has changed since it was judged */
        log_error("%s", why);
        return EXIT_SYSTEM;
    }
    if (config.warning[0])
        log_warn("%s", config.warning);
    if (config_short_ttl(&config, why, sizeof(why)))
        log_info("%s", why);
    began.descriptors = host_raise_descriptors();
    if (began.descriptors < hf_descriptors_least((uint32_t)config.node_count)) {
        log_error("the limit of %" PRId64
                  " descriptors is too low: an agent with %d nodes needs %" PRId64
                  " for itself, and %d more for each client; raise LimitNOFILE= in the unit, or "
                  "ulimit -n",
                  began.descriptors, config.node_count,
                  hf_descriptors_least((uint32_t)config.node_count), HF_SESSION_FDS);
        return EXIT_CONFIG;
    }
    config_bound_clients(&config, began.descriptors);
    /* (!) It starts all the same: leases of an earlier agent want to be renewed. */
    if (hf_sessions_fit(began.descriptors, (uint32_t)config.node_count) == 0)
        log_error("the limit of %" PRId64
                  " descriptors has no room for a client beside %d nodes: programs may fail to "
                  "attach; raise LimitNOFILE= in the unit, or ulimit -n",
                  began.descriptors, config.node_count);
    else if (config.descriptors_bound)
        log_info("the limit of descriptors has room for %" PRIu32
                 " clients, fewer than clients_max; raise LimitNOFILE= in the unit, or ulimit -n",
                 config.clients_max);
    supervise_block_signals();
    return main_start(&config, &host, &began);
}

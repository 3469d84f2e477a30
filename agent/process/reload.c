#include "agent/process/reload.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/config/config.h"
#include "agent/config/config_report.h"
#include "agent/redis/trial.h"
#include "shm/status.h"
#include "agent/base/log.h"
#include "agent/base/tls_keys.h"
#include "agent/base/thread.h"
#include "agent/process/host.h"
#include "agent/process/notify.h"
#include "agent/process/singleton.h"
#include "agent/state/mailbox.h"
#include "shm/assert.h"
#include "shm/table_notes.h"
#include "shm/text.h"

/* --- the check of what a reload may change ---------------------------------------------------- */

#define TRIAL_MOST hf_ms(2000)

/* --- the nodes -------------------------------------------------------------------------------- */

static void check_refuse(struct reload_check *c, const char *format, ...) HF_PRINTF(2, 3);
static void check_refuse(struct reload_check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->why, sizeof(c->why), format, args);
    va_end(args);
    c->good = false;
}

/* Of the server that a node was when it was last up. */
static bool check_known_run_id(const struct reload_check *c, int node, struct hf_node_row *ret_row)
{
    return hf_node_read(&c->agent->table, (uint32_t)node, ret_row) == HF_OK && *ret_row->run_id;
}

/* The node whose server this is, or NULL. */
static const char *check_owner_of(const struct reload_check *c, const char *run_id)
{
    struct hf_node_row row;

    for (int i = 0; i < c->now->node_count; i++)
        if (check_known_run_id(c, i, &row) && strcmp(row.run_id, run_id) == 0)
            return c->now->nodes[i].id;
    return NULL;
}

static bool check_is_refusal(enum hf_node_error error)
{
    return error == HF_NODE_ERR_AUTH || error == HF_NODE_ERR_PERM;
}

static bool check_is_tls(enum hf_node_error error)
{
    return error >= HF_NODE_ERR_TLS && error <= HF_NODE_ERR_WANTS_TLS;
}

/* (!) By its run id, which no other server ever has. At the address before may be nobody, but nobody else:
 * other hosts would ask that one. Who does not say who it is counts as somebody else. */
static void check_judge_address(struct reload_check *c, int node, const struct trial *there,
                                const struct trial *before)
{
    const char *id = c->next->nodes[node].id, *address = c->next->nodes[node].text, *owner;
    struct hf_node_row row;

    if (!there->answered)
        check_refuse(c, "node %s cannot be reached at %s: %s", id, address, there->text);
    else if (!check_known_run_id(c, node, &row))
        check_refuse(
            c,
            "node %s has not been up since this agent began, so it is not known whether %s is "
            "the same server: try again when the node is up at %s",
            id, address, c->now->nodes[node].text);
    else if (before->answered && strcmp(before->facts.run_id, row.run_id) != 0)
        check_refuse(c, "node %s: another server than before answers at its present address %s", id,
                     c->now->nodes[node].text);
    else if (before->connected && !before->answered)
        check_refuse(
            c,
            "node %s: it cannot be told which server is at its present address %s (%s), and other "
            "hosts may ask that one: stop it first",
            id, c->now->nodes[node].text, before->text);
    else if (strcmp(there->facts.run_id, row.run_id) == 0)
        return;
    else if ((owner = check_owner_of(c, there->facts.run_id)))
        check_refuse(c, "node %s: %s leads to the server of node %s", id, address, owner);
    else
        check_refuse(
            c,
            "node %s: %s is another server than the fleet's at %s. To give a node another server: "
            "holdfast fleet move; while one moves, reload again when it has settled",
            id, address, row.address);
}

/* A node that was refused before is no worse off. */
static void check_judge_certificates(struct reload_check *c, const char *id,
                                     const struct trial *there, const struct trial *before)
{
    if (!there->answered && check_is_tls(there->error) && before->answered)
        check_refuse(
            c,
            "node %s does not go with the new certificates (%s): correct the files, or the "
            "server first",
            id, there->text);
}

static void check_judge_node(struct reload_check *c, const struct config_change *change,
                             const struct trial *there, const struct trial *before)
{
    const char *id = c->next->nodes[change->node].id;

    if (change->certificates) {
        check_judge_certificates(c, id, there, before);
        return;
    }
    if (check_is_refusal(there->error))
        check_refuse(
            c,
            "node %s refuses the new user or password (%s): give the user its rights there "
            "first, or correct the file",
            id, there->text);
    else if (change->effect == CONFIG_MOVED)
        check_judge_address(c, change->node, there, before);
    else if (!there->answered) {
        size_t used = strlen(c->untried);

        snprintf(c->untried + used, sizeof(c->untried) - used, "%s%s", used ? ", " : "", id);
    }
}

/* Where the node is for this agent, by the fleet's record or else by the configuration; by the new user: the old one
 * may have been taken away there. */
static void check_present_address(const struct reload_check *c, int node, struct node_address *ret)
{
    const struct node_address *configured = &c->now->nodes[node];
    struct fleet_shown shown;

    fleet_board_look(&c->agent->fleet_board, &shown);
    if (configured->as[0] || !shown.known ||
        !node_address_from_seat(shown.node[node].seat, configured, ret))
        *ret = *configured;
    memcpy(ret->user, c->next->nodes[node].user, sizeof(ret->user));
    memcpy(ret->password, c->next->nodes[node].password, sizeof(ret->password));
}

#define TRIALS_MAX                                                                                 \
    (3 *                                                                                           \
     HF_NODES_MAX) /* a node may have another address, another password and other certificates */

struct trials {
    int count; /* of changes, each with two trials: */
    struct config_change wanted[TRIALS_MAX];
    struct trial pair[TRIALS_MAX][2]; /* as it will be, and as it is */
    struct node_address present[HF_NODES_MAX];
};

static void check_want_trial(struct reload_check *c, struct trials *t,
                             const struct config_change *change)
{
    int node = change->node;

    check_present_address(c, node, &t->present[node]);
    t->wanted[t->count] = *change;
    t->pair[t->count][0] = (struct trial){.address = &c->next->nodes[node], .keys = c->keys};
    t->pair[t->count++][1] = (struct trial){.address = &t->present[node]};
}

static void check_want_trials(struct reload_check *c, struct trials *t)
{
    for (size_t i = 0; i < c->change_count; i++) {
        struct config_change change = c->changes[i];

        if (change.secret || change.effect == CONFIG_MOVED)
            check_want_trial(c, t, &change);
        for (change.node = 0; change.certificates && change.node < c->next->node_count;
             change.node++)
            if (c->next->nodes[change.node].tls)
                check_want_trial(c, t, &change);
    }
}

/* Two trials for each change of a node that wants one. */
static void check_try_nodes(struct reload_check *c)
{
    struct trials *t = calloc(1, sizeof(*t));
    int rc;

    if (!t) {
        check_refuse(c, "%s", hf_status_text(HF_ENOMEM));
        return;
    }
    check_want_trials(c, t);
    rc = trial_run(t->pair[0], 2 * t->count, TRIAL_MOST);
    if (rc < 0)
        check_refuse(c, "the nodes cannot be tried: %s", hf_status_text(rc));
    for (int i = 0; i < t->count && c->good; i++)
        check_judge_node(c, &t->wanted[i], &t->pair[i][0], &t->pair[i][1]);
    explicit_bzero(t, sizeof(*t)); /* passwords */
    free(t);
}

/* --- the file --------------------------------------------------------------------------------- */

static bool check_read_file(struct reload_check *c)
{
    struct config_report *report = malloc(sizeof(*report));
    char why[sizeof(c->why) / 2];
    int rc;

    if (!report) {
        check_refuse(c, "%s", hf_status_text(HF_ENOMEM));
        return false;
    }
    rc = config_reload(c->start->argc, c->start->argv, c->next, report);
    snprintf(c->path, sizeof(c->path), "%s", report->file);
    if (rc == HF_OK || report->fault_count == 0)
        snprintf(why, sizeof(why), "%s", hf_status_text(rc));
    else
        (void)config_fault_text(report, &report->faults[0], why, sizeof(why));
    if (rc < 0 && report->fault_count > 1)
        check_refuse(c, "%s (and %d more: holdfastd --check-config FILE shows all)", why,
                     report->fault_count - 1);
    else if (rc < 0)
        check_refuse(c, "%s", why);
    free(report);
    return rc == HF_OK;
}

/* Fills in all but the first three, the places of `next` and `plain` and `done`. */
static void reload_check(struct reload_check *c)
{
    char text[RELOAD_TEXT_SIZE / 2];

    if (!check_read_file(c))
        return;
    if (config_tls_keys(c->next, &c->keys, text, sizeof(text)) < 0) {
        check_refuse(c, "%s", text); /* it has changed since it was judged */
        return;
    }
    if (c->start->again)
        c->next->reset_fleet = c->next->assume_fresh = false;
    *c->plain = *c->next;
    if (c->now->by_record && config_is_of(c->next, c->agent->fleet, c->now->file_hash))
        config_go_by(c->next, c->agent->fleet, c->now->settled, c->agent->fleet_here);
    config_bound_clients(c->next, c->start->descriptors);
    c->change_count = config_changes(c->now, c->next, c->changes);
    c->good = true;
    if (config_changes_text(c->changes, c->change_count, CONFIG_RESTART, text, sizeof(text)))
        check_refuse(c, "%.500s: only a restart changes this: %s", c->path, text);
    else
        check_try_nodes(c);
}

/* --- a reload --------------------------------------------------------------------------------- */

#define END_WAITS_MS 5000 /* for a reload under way, when the agent ends */

enum stage {
    IDLE,
    READING, /* the thread is at it */
    TELLING, /* `order` is on its way to the threads */
};

struct reload {
    struct agent *agent;
    struct reload_start start;
    enum stage stage;
    uint64_t number; /* of the reload that runs or was the last; 0 none */
    bool again;      /* another one follows */
    struct reload_check *check;
    struct config *now;   /* in force; NULL: the one of the start */
    struct config *plain; /* the same as its file has it, without the fleet's record */
    struct config_order order;
    int told; /* threads that got `order` */
    bool applied;
    char text[RELOAD_TEXT_SIZE]; /* of the last one that is over */
    uint64_t over;               /* its number */
};

/* --- its thread -------------------------------------------------------------------------------- */

static void *reload_thread_main(void *arg)
{
    struct reload_check *check = arg;

    (void)pthread_setname_np(pthread_self(), "hf-reload");
    reload_check(check);
    atomic_store_explicit(&check->done, true, memory_order_release);
    return NULL;
}

/* --- main: the steps ---------------------------------------------------------------------------- */

static const struct config *reload_in_force_now(const struct reload *r)
{
    return r->now ? r->now : r->agent->config;
}

static void reload_config_free(struct config *config)
{
    if (!config)
        return;
    explicit_bzero(config, sizeof(*config)); /* passwords */
    free(config);
}

static void reload_check_free(struct reload_check *check)
{
    if (!check)
        return;
    reload_config_free(check->next);
    reload_config_free(check->plain);
    tls_keys_drop(check->keys);
    free(check);
}

/* Cut behind a word. Returns `out`. */
static const char *reload_fit(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)size - 1, text);
    hf_text_cut(out, size);
    return out;
}

static void reload_finish(struct reload *r)
{
    char status[256], refusal[184];
    struct hf_drained drained;
    const char *rest;

    hf_assert(r->stage == TELLING && r->over < r->number, "stage %d, number %llu, over %llu",
              (int)r->stage, (unsigned long long)r->number, (unsigned long long)r->over);
    hf_assert(!r->check, "number %llu", (unsigned long long)r->number);
    r->stage = IDLE;
    r->over = r->number;
    /* The manager shows one status only: a drain stays in it. */
    hf_drained_read(&r->agent->table, &drained);
    rest = drained.stands ? "; this host is drained" : "";
    if (r->applied)
        snprintf(status, sizeof(status), "READY=1\nSTATUS=Reloaded%s", rest);
    else
        snprintf(status, sizeof(status), "READY=1\nSTATUS=Reload refused: %s%s",
                 reload_fit(r->text, refusal, sizeof(refusal)), rest);
    notify_send(status);
}

static void reload_tell(struct reload *r, const struct config *config)
{
    struct message *m = message_new(MSG_CONFIG);

    r->order = (struct config_order){.config = config};
    (void)reload_fit(r->text, r->order.text, sizeof(r->order.text));
    r->stage = TELLING;
    r->told = config ? 2 : 1;
    m->order = &r->order;
    mailbox_post(&r->agent->to_broker, m);
    if (!config)
        return;
    m = message_new(MSG_CONFIG);
    m->order = &r->order;
    mailbox_post(&r->agent->to_renewal, m);
}

/* It may quote any bytes of a file. */
static void reload_refused(struct reload *r, const char *why)
{
    char shown[RELOAD_TEXT_SIZE];

    r->applied = false;
    snprintf(r->text, sizeof(r->text), "%s", log_name(why, strlen(why), shown, sizeof(shown)));
    log_warn("the configuration is not reloaded, and nothing changes: %s", r->text);
    reload_tell(r, NULL);
}

static void reload_say_applied(struct reload *r, const struct reload_check *check)
{
    char changes[RELOAD_TEXT_SIZE / 2], moved[RELOAD_TEXT_SIZE / 2], shown[RELOAD_TEXT_SIZE];
    size_t now = config_changes_text(check->changes, check->change_count, CONFIG_NOW, changes,
                                     sizeof(changes)),
           there = config_changes_text(check->changes, check->change_count, CONFIG_MOVED, moved,
                                       sizeof(moved));
    char text[2 * RELOAD_TEXT_SIZE];

    snprintf(text, sizeof(text), "%s%s%s%s%s%s", now || there ? "" : "nothing has changed", changes,
             now && there ? "; " : "", moved,
             check->untried[0] ? "; not tried, because nobody answers there: node " : "",
             check->untried);
    snprintf(r->text, sizeof(r->text), "%s", log_name(text, strlen(text), shown, sizeof(shown)));
    log_info("the configuration is reloaded from %s: %s", check->path, r->text);
    if (check->next->descriptors_bound && !check->now->descriptors_bound)
        log_warn(
            "raise LimitNOFILE= in the unit, or ulimit -n, and restart the agent: its limit of "
            "descriptors has room for %" PRIu32 " clients, fewer than clients_max",
            check->next->clients_max);
    if (check->next->warning[0])
        log_warn("%s", check->next->warning);
}

static void reload_apply(struct reload *r, struct reload_check *check)
{
    char why[512];

    if (permissions_change(r->agent, reload_in_force_now(r), check->next, why, sizeof(why)) < 0) {
        reload_refused(r, why);
        return;
    }
    hf_assert(r->stage == READING && check == r->check, "stage %d", (int)r->stage);
    r->applied = true;
    tls_keys_use(check->keys);
    check->keys = NULL;
    log_set_level(check->next->log_level);
    atomic_store_explicit(&r->agent->table.header->ttl_ms, check->next->ttl_ms,
                          memory_order_relaxed);
    reload_say_applied(r, check);
    reload_tell(r, check->next);
}

static int reload_begin(struct reload *r)
{
    struct reload_check *check = calloc(1, sizeof(*check));

    if (!check)
        return HF_ENOMEM;
    check->agent = r->agent;
    check->start = &r->start;
    check->now = reload_in_force_now(r);
    check->next = calloc(1, sizeof(*check->next));
    check->plain = calloc(1, sizeof(*check->plain));
    if (!check->next || !check->plain || thread_start_helper(reload_thread_main, check) < 0) {
        reload_check_free(check);
        return HF_ENOMEM;
    }
    hf_assert(r->stage == IDLE && !r->check, "stage %d", (int)r->stage);
    r->check = check;
    r->stage = READING;
    return HF_OK;
}

/* --- main: the door ----------------------------------------------------------------------------- */

int reload_create(struct agent *agent, const struct reload_start *start, struct reload **ret_reload)
{
    struct reload *r = calloc(1, sizeof(*r));

    if (!r)
        return HF_ENOMEM;
    r->agent = agent;
    r->start = *start;
    *ret_reload = r;
    return HF_OK;
}

/* A look-up of a group that never ends keeps what its thread uses. */
void reload_destroy(struct reload *r)
{
    if (!r)
        return;
    for (int waited = 0; r->stage == READING && waited < END_WAITS_MS; waited += 10) {
        if (atomic_load_explicit(&r->check->done, memory_order_acquire))
            r->stage = IDLE;
        else
            (void)poll(NULL, 0, 10);
    }
    if (r->stage == READING)
        return;
    reload_check_free(r->check);
    reload_config_free(r->now);
    reload_config_free(r->plain);
    explicit_bzero(r, sizeof(*r));
    free(r);
}

void reload_take(const struct reload *r, struct config *config)
{
    if (r && r->plain)
        *config = *r->plain;
}

uint64_t reload_ask(struct reload *r)
{
    if (r->stage != IDLE) {
        r->again = true;
        return r->number + 1;
    }
    r->number++;
    notify_reloading();
    if (r->agent->config->ephemeral)
        reload_refused(r,
                       "restart the agent instead: with --dev it cannot reload its configuration");
    else if (reload_begin(r) < 0)
        reload_refused(r, "no memory");
    return r->number;
}

bool reload_busy(const struct reload *r)
{
    return r->stage != IDLE || r->again;
}

void reload_turn(struct reload *r)
{
    struct reload_check *check = r->check;

    if (r->stage == READING && atomic_load_explicit(&check->done, memory_order_acquire)) {
        if (check->good)
            reload_apply(r, check);
        else
            reload_refused(r, check->why);
    } else if (r->stage == TELLING &&
               atomic_load_explicit(&r->order.taken, memory_order_acquire) == r->told) {
        if (r->applied) {
            reload_config_free(r->now);
            reload_config_free(r->plain);
            r->now = check->next;
            r->plain = check->plain;
            check->next = check->plain = NULL;
        }
        reload_check_free(check);
        r->check = NULL;
        reload_finish(r);
    } else if (r->stage == IDLE && r->again) {
        r->again = false; /* a turn later: who asked for the one before has its answer */
        (void)reload_ask(r);
    }
}

const struct config *reload_in_force(const struct reload *r)
{
    return reload_in_force_now(r);
}

bool reload_over(const struct reload *r, uint64_t number, bool *ret_applied, const char **ret_text)
{
    if (r->over < number)
        return false;
    *ret_applied = r->applied;
    *ret_text = r->text;
    return true;
}

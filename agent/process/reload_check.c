#include "agent/process/reload_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/config/config_fleet.h"
#include "agent/config/config_report.h"
#include "agent/config/config_secrets.h"
#include "agent/process/reload.h"
#include "agent/redis/trial.h"
#include "shm/status.h"

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

void reload_check(struct reload_check *c)
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

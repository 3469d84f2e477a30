/* Judges the journal and the table as a start would, by the functions of the start, and says what becomes of the leases
 * in them. An agent that runs goes on writing both meanwhile. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/locks/readopt.h"
#include "agent/check/parts.h"
#include "agent/config/list_hash.h"
#include "agent/core/validity.h"
#include "agent/process/control.h"
#include "agent/process/singleton.h"
#include "agent/record/stores.h"
#include "shm/status.h"

#define READ_TRIES 3

struct look {
    const struct config *config;
    const struct host *host;
    struct findings *findings;
    char shm_name[HF_TABLE_NAME_MAX];
    pid_t pid; /* of the agent that runs; 0: none does */
    struct stores_view view;
    char why[1024];
    unsigned held, unfit, unreadable;
    char example[256]; /* the first of the unfit */
};

/* --- another list of nodes or other key formats ----------------------------------------------- */

/* The earlier agent's nodes, from its table, whose sequence count keeps them whole. Returns how many; 0: not known. */
static int leases_earlier_nodes(const struct look *k, struct node_address ret_nodes[HF_NODES_MAX])
{
    int count = k->view.journal.nodes;
    struct hf_node_row row;
    struct hf_table table;
    char why[256];

    if (hf_table_open(k->shm_name, geteuid(), &table, why, sizeof(why)) != HF_OK)
        return 0;
    for (int i = 0; i < count; i++) {
        if ((uint32_t)i >= hf_table_nodes(&table) ||
            hf_node_read(&table, (uint32_t)i, &row) != HF_OK || !row.id[0]) {
            count = 0;
            break;
        }
        memset(&ret_nodes[i], 0, sizeof(ret_nodes[i]));
        memcpy(ret_nodes[i].id, row.id, sizeof(row.id));
    }
    hf_table_close(&table);
    return count;
}

static void leases_list_ids(const struct node_address *nodes, int count, char *ret_text,
                            size_t size)
{
    size_t at = 0;

    ret_text[0] = '\0';
    for (int i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(ret_text + at, size - at, "%s%s", i ? ", " : "", nodes[i].id);
}

/* In `ret_text` what differs. Returns the line of the file that says so, 0: none. */
static int leases_difference(const struct look *k, char *ret_text, size_t size)
{
    const struct config *c = k->config;
    const struct config_report *r = k->findings->report;
    struct node_address nodes[HF_NODES_MAX];
    int count = leases_earlier_nodes(k, nodes), same = 0;
    char here[256], there[256], hash[41], keys[CONFIG_KEYS_TEXT];

    if (count == 0) {
        snprintf(ret_text, size, "its list of nodes or its key formats are others");
        return 0;
    }
    while (same < count && same < c->node_count && strcmp(nodes[same].id, c->nodes[same].id) == 0)
        same++;
    if (same == count && same == c->node_count) {
        snprintf(ret_text, size, "its key_format or key_format_for is another");
        return r->line[CONFIG_ID_key_format] ? r->line[CONFIG_ID_key_format]
                                             : r->line[CONFIG_ID_key_format_for];
    }
    config_keys_text(c, keys);
    list_hash_with(nodes, count, keys, hash);
    leases_list_ids(c->nodes, c->node_count, here, sizeof(here));
    leases_list_ids(nodes, count, there, sizeof(there));
    snprintf(ret_text, size, "its nodes are %s, and those of the file are %s%s", there, here,
             strcmp(hash, k->view.journal.list_hash) == 0 ? "" : "; its key formats differ, too");
    return same < c->node_count ? r->node_line[same] : 0;
}

static void leases_say_other_list(struct look *k)
{
    char text[700];
    int line = leases_difference(k, text, sizeof(text));
    int64_t left = hf_time_since(k->view.journal.until, clock_now()).ns / HF_NS_PER_SEC + 1;

    if (k->pid)
        find_fault(k->findings, line,
                   "an agent would not start while leases of the running one (pid %ld) are held, "
                   "%" PRIu32 " now: %s; let them end first, or keep its list",
                   (long)k->pid, k->view.journal.live, text);
    else
        find_fault(
            k->findings, line,
            "an agent would not start for %" PRId64 " s, until %" PRIu32
            " leases of the agent that ended are over: %s; wait until then, or keep its list",
            left < 1 ? 1 : left, k->view.journal.live, text);
}

/* --- leases ----------------------------------------------------------------------------------- */

/* What is written just now is asked for again. */
static int leases_get(const struct look *k, uint32_t slot, struct journal_identity *ret_id,
                      struct journal_lease *ret_state)
{
    int rc = HF_ETABLE;

    for (int try = 0; try < READ_TRIES && rc == HF_ETABLE; try++) {
        if (try)
            (void)poll(NULL, 0, 1);
        rc = journal_get(k->view.journal.journal, slot, ret_id, ret_state);
    }
    return rc;
}

/* Whether a start now would meet it held: with an agent that runs its holder is alive, and it is renewed. */
static bool leases_stands(const struct look *k, const struct journal_identity *id,
                          const struct journal_lease *state)
{
    const struct config *c = k->config;

    if (!readopt_is_held(state))
        return false;
    return k->pid ||
           (hf_time_before(clock_now(), validity_qth(state->d, c->node_count, c->quorum)) &&
            id->who.pidns_inode == k->host->pidns_inode &&
            (id->who.run || client_lives(id->who.pid, id->who.start_time)));
}

static void leases_count_leases(struct look *k)
{
    for (uint32_t slot = 0; slot < journal_slots_live(k->view.journal.journal); slot++) {
        struct journal_identity id;
        struct journal_lease state;
        struct timing timing;
        char why[200], name[64];
        int rc = leases_get(k, slot, &id, &state);

        if (rc == HF_ETABLE)
            k->unreadable++;
        if (rc < 0 || !leases_stands(k, &id, &state))
            continue;
        k->held++;
        if (readopt_fits(k->config, &id, &timing, why, sizeof(why)))
            continue;
        if (k->unfit++ == 0)
            snprintf(k->example, sizeof(k->example), "%s, held by pid %" PRIu32 ": %s",
                     log_name(id.name, id.name_len, name, sizeof(name)), id.who.pid, why);
    }
}

static void leases_say_leases(struct look *k)
{
    struct findings *f = k->findings;
    const struct config_report *r = f->report;

    if (k->unfit)
        find_fault(f, r->line[CONFIG_ID_ttl_max],
                   "a restart would end %u of the %u leases that are held, such as %s", k->unfit,
                   k->held, k->example);
    if (k->held && !k->view.warm)
        find_fault(f, 0, "a restart would end the %u leases that are held: %s", k->held, k->why);
    if (k->unreadable)
        find_warning(f, 0, "%u records of the journal cannot be read: a restart ends their leases",
                     k->unreadable);
}

static void leases_say_agent(const struct look *k)
{
    const char *name = k->config->name;
    unsigned kept = k->view.warm ? k->held - k->unfit : 0;

    if (k->pid && k->held)
        find_fact("agent: %s runs (pid %ld); a restart readopts %u of its %u leases", name,
                  (long)k->pid, kept, k->held);
    else if (k->pid)
        find_fact("agent: %s runs (pid %ld) and holds no lease", name, (long)k->pid);
    else if (k->held)
        find_fact("agent: no %s runs; a start readopts %u of the %u leases that the last one left",
                  name, kept, k->held);
    else
        find_fact("agent: no %s runs, and none left leases that are held", name);
}

void check_leases(const struct config *c, const struct host *host, struct findings *f)
{
    struct look k = {.config = c, .host = host, .findings = f};
    char dir[600];
    int rc = singleton_look(c, dir, k.why, sizeof(k.why));

    if (rc == HF_OK) {
        k.pid = control_find(dir);
        /* The configuration's check has judged the name. */
        (void)hf_table_name(c->name, c->system, geteuid(), k.shm_name);
        k.why[0] = '\0';
        rc = stores_look(c, dir, k.shm_name, &host->clock, host->timens_inode, &k.view, k.why,
                         sizeof(k.why));
    } else if (rc == HF_EPERM) {
        find_fault(f, f->report->line[CONFIG_ID_runtime_dir], "%s", k.why);
        return;
    }
    if (rc == HF_ETABLE && k.view.journal.other_list && k.view.journal.refused) {
        leases_say_other_list(&k);
    } else if (rc == HF_ETABLE || rc == HF_EBUSY) {
        find_fault(f, 0, "an agent would not start: %s", k.why);
    } else if (rc < 0) {
        find_warning(f, 0, "what a start would do to leases is not known: %s; be the agent's user",
                     k.why[0] ? k.why : hf_status_text(rc));
        return;
    } else {
        if (k.view.journal.journal && !k.view.journal.other_list)
            leases_count_leases(&k);
        if (k.view.journal.copy)
            find_warning(f, 0, JOURNAL_IS_COPY, dir);
        leases_say_leases(&k);
        leases_say_agent(&k);
    }
    journal_close(k.view.journal.journal);
}

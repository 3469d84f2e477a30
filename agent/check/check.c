#include "agent/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/check/findings.h"
#include "agent/config/config.h"
#include "agent/core/timing.h"
#include "agent/process/control.h"
#include "agent/process/singleton.h"
#include "agent/state/stores.h"
#include "shm/status.h"
#include "shm/compiler.h"

/* --- leases ----------------------------------------------------------------------------------- */

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
            (id->who.is_job || client_lives(id->who.pid, id->who.birth)));
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

/* What a start would do to leases: those of the agent of that name that runs, or that it left. */
static void check_leases(const struct config *c, const struct host *host, struct findings *f)
{
    struct look k = {.config = c, .host = host, .findings = f};
    char dir[600];
    int rc = singleton_dry_run(c, dir, k.why, sizeof(k.why));

    if (rc == HF_OK) {
        k.pid = control_find(dir);
        /* The configuration's check has judged the name. */
        (void)hf_table_name(c->name, c->system, geteuid(), k.shm_name);
        k.why[0] = '\0';
        rc = stores_dry_run(c, dir, k.shm_name, &host->clock, host->timens_inode, &k.view, k.why,
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

/* --- the check -------------------------------------------------------------------------------- */

#define EXIT_CODE_UNAVAILABLE 69
#define EXIT_CODE_SYSTEM      71
#define EXIT_CODE_CONFIG      78

static void check_say_faults(const struct config_report *r, struct findings *f)
{
    int kept = r->fault_count < CONFIG_FAULTS_MAX ? r->fault_count : CONFIG_FAULTS_MAX;

    for (int i = 0; i < kept; i++) {
        const struct config_fault *fault = &r->faults[i];

        if (fault->of_file)
            find_fault(f, fault->line, "%s", fault->text);
        else
            log_say("%s", fault->text);
    }
    f->faults += r->fault_count - kept;
}

/* What a start would log, and more. */
static void check_warn(const struct config *c, struct findings *f)
{
    size_t named = strlen(f->report->file);
    char text[512];

    if (strncmp(c->warning, f->report->file, named) == 0) /* it begins with the file's name */
        find_warning(f, 0, "it%s", c->warning + named);
    else if (c->warning[0])
        find_warning(f, 0, "%s", c->warning);
    if (config_short_ttl(c, text, sizeof(text)))
        find_warning(f, f->report->line[CONFIG_ID_ttl], "%s", text);
}

static void check_warn_even(const struct config *c, struct findings *f)
{
    if (c->node_count % 2 == 0)
        find_warning(f, f->report->node_line[c->node_count - 1],
                     "use an odd number of nodes: %d nodes stand no more failures than %d",
                     c->node_count, c->node_count - 1);
}

static bool check_become(uid_t uid, gid_t gid)
{
    const struct passwd *user = getpwuid(uid);
    int rc = user ? initgroups(user->pw_name, user->pw_gid) : setgroups(0, NULL);

    return rc == 0 && setegid(user ? user->pw_gid : gid) == 0 && seteuid(uid) == 0;
}

/* As the agent's user. A credential is read by the service manager. */
static void check_password_file(const char *path, int line, struct findings *f)
{
    if (path[0] == '/' && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0)
        find_fault(f, line, "password_file: let the agent's user (uid %u) read %.160s",
                   (unsigned)geteuid(), path);
}

static void check_files(const struct config *c, struct findings *f)
{
    char why[512];

    check_password_file(c->password_file, f->report->line[CONFIG_ID_password_file], f);
    for (int i = 0; i < c->node_count; i++)
        check_password_file(c->nodes[i].password_file, f->report->node_line[i], f);
    if (config_use_tls(c, why, sizeof(why)) < 0)
        find_fault(f, 0, "%s", why);
}

/* (!) An operator checks as root what an agent of another user will read: that user is whose files these are. */
static void check_become_the_agents_user(const struct config *c, struct findings *f)
{
    char dir[sizeof(c->runtime_dir) + sizeof(c->name) + 2];
    struct stat st;

    snprintf(dir, sizeof(dir), "%s/%s", c->runtime_dir, c->name);
    if (geteuid() != 0 || (stat(dir, &st) < 0 && stat(c->runtime_dir, &st) < 0) || st.st_uid == 0)
        return;
    if (!check_become(st.st_uid, st.st_gid))
        find_warning(f, 0, "cannot become the agent's user (uid %u): %s", (unsigned)st.st_uid,
                     strerror(errno));
    else if (faccessat(AT_FDCWD, f->report->file, R_OK, AT_EACCESS) < 0)
        find_fault(f, 0, "the agent's user (uid %u) cannot read it: give it that owner or group",
                   (unsigned)st.st_uid);
}

/* (!) By what an agent would go by: the fleet's record goes before the file. */
static void check_as_a_start(const struct config *c, const struct host *host, struct findings *f)
{
    static struct config now; /* as in main() */
    static struct config_report report;
    static struct trial nodes[HF_NODES_MAX];
    const struct config_report *whole = f->report;

    now = *c;
    report = *f->report;
    check_fleet(&now, host, nodes, f);
    for (int i = 0; i < now.node_count; i++) {
        int place = config_place_of(c, now.nodes[i].id);

        report.node_line[i] = place < 0 ? 0 : whole->node_line[place];
    }
    f->report = &report;
    check_warn_even(&now, f);
    check_leases(&now, host, f);
    check_nodes(&now, nodes, f);
    f->report = whole;
}

static void check_say_rules(const struct config *c)
{
    if (c->rules.count)
        find_fact("rules: %d; names that none of them matches are %s to take", c->rules.count,
                  rules_are_closed(&c->rules) ? "nobody's" : "everybody's");
}

/* For each right the rule that decides, whoever asks. */
static void check_say_who(const struct config *c, const char *name)
{
    const struct caller anybody = {.uid = UINT32_MAX, .gid = UINT32_MAX};
    const struct rule *rule;

    for (unsigned right = RIGHT_TAKE; right <= RIGHT_FORCE; right <<= 1) {
        const char *without = right == RIGHT_FORCE ? "only root and the agent's user" : "everybody";

        (void)rules_allow(&c->rules, right, name, strlen(name), &anybody, &rule);
        find_fact("%s: %s: %s%s", name, right_word(right), rule ? "allow = " : "",
                  rule ? rule->text : without);
    }
}

int check_config(const struct config *c, const struct config_report *r)
{
    struct findings f = {.report = r};
    char why[1024];
    struct host host;

    (void)signal(SIGPIPE, SIG_IGN); /* a node may close the connection */
    if (r->fault_count) {
        check_say_faults(r, &f);
        if (r->exit == EXIT_CODE_CONFIG)
            findings_end(&f);
        return r->exit;
    }
    check_warn(c, &f);
    check_say_rules(c);
    if (r->who)
        check_say_who(c, r->who);
    if (!r->offline && !c->ephemeral) {
        if (host_read(&host, why, sizeof(why)) < 0) {
            log_error("%s", why);
            return EXIT_CODE_SYSTEM;
        }
        check_become_the_agents_user(c, &f);
        check_files(c, &f);
        check_as_a_start(c, &host, &f);
    } else {
        check_warn_even(c, &f);
    }
    findings_end(&f);
    if (f.faults)
        return EXIT_CODE_CONFIG;
    return f.no_quorum ? EXIT_CODE_UNAVAILABLE : EXIT_SUCCESS;
}

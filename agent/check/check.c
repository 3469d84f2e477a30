#include "agent/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/check/parts.h"
#include "agent/config/config_fleet.h"
#include "agent/config/config_secrets.h"
#include "shm/compiler.h"

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

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
#include "agent/record/fleet_start.h"

#define EXIT_CODE_SYSTEM 71
#define EXIT_CODE_CONFIG 78

static void say_faults(const struct config_report *r, struct findings *f)
{
    int kept = r->fault_count < CONFIG_FAULTS_MAX ? r->fault_count : CONFIG_FAULTS_MAX;
    char shown[2048];

    for (int i = 0; i < kept; i++) {
        const struct config_fault *fault = &r->faults[i];

        if (fault->of_file)
            find_fault(f, fault->line, "%s", fault->text);
        else
            log_say("%s", log_name(fault->text, strlen(fault->text), shown, sizeof(shown)));
    }
    f->faults += r->fault_count - kept;
}

/* What a start would log, and more. */
static void warn(const struct config *c, struct findings *f)
{
    size_t named = strlen(f->report->file);
    char text[512];

    if (strncmp(c->warning, f->report->file, named) == 0) /* it begins with the file's name */
        find_warning(f, 0, "it%s", c->warning + named);
    else if (c->warning[0])
        find_warning(f, 0, "%s", c->warning);
    if (config_short_ttl(c, text, sizeof(text)))
        find_warning(f, f->report->line[CONFIG_ID_ttl], "%s", text);
    if (c->node_count % 2 == 0)
        find_warning(f, f->report->node_line[c->node_count - 1],
                     "use an odd number of nodes: %d nodes stand no more failures than %d",
                     c->node_count, c->node_count - 1);
}

static bool become(uid_t uid, gid_t gid)
{
    const struct passwd *user = getpwuid(uid);
    int rc = user ? initgroups(user->pw_name, user->pw_gid) : setgroups(0, NULL);

    return rc == 0 && setegid(user ? user->pw_gid : gid) == 0 && seteuid(uid) == 0;
}

/* (!) An operator checks as root what an agent of another user will read: that user is whose files these are. */
static void become_the_agents_user(const struct config *c, struct findings *f)
{
    char dir[sizeof(c->runtime_dir) + sizeof(c->name) + 2];
    struct stat st;

    snprintf(dir, sizeof(dir), "%s/%s", c->runtime_dir, c->name);
    if (geteuid() != 0 || (stat(dir, &st) < 0 && stat(c->runtime_dir, &st) < 0) || st.st_uid == 0)
        return;
    if (!become(st.st_uid, st.st_gid))
        find_warning(f, 0, "cannot become the agent's user (uid %u): %s", (unsigned)st.st_uid,
                     strerror(errno));
    else if (faccessat(AT_FDCWD, f->report->file, R_OK, AT_EACCESS) < 0)
        find_fault(f, 0, "the agent's user (uid %u) cannot read it: give it that owner or group",
                   (unsigned)st.st_uid);
}

/* Of the file's nodes; -1: it has none of that id. */
static int place_of(const struct config *c, const char *id)
{
    for (int i = 0; i < c->node_count; i++)
        if (strcmp(c->nodes[i].id, id) == 0)
            return i;
    return -1;
}

/* How the fleet by whose record this host goes differs from the file. */
static void say_record(const struct config *c, const struct config *now, struct findings *f)
{
    for (int i = 0; i < now->node_count; i++)
        if (now->unconfigured >> i & 1)
            find_warning(f, 0,
                         "node %s is at %s for this fleet, and not in this file: agents go there",
                         now->nodes[i].id, now->nodes[i].text);
    for (int i = 0; i < c->node_count; i++) {
        const struct node_address *a = &c->nodes[i];
        int place = place_of(now, a->id), line = f->report->node_line[i];

        if (place < 0)
            find_warning(f, line, "node %s has left this fleet: agents do not go there", a->id);
        else if ((a->numeric || a->unix_socket) && !a->as[0] &&
                 !node_address_same(a, &now->nodes[place]))
            find_warning(f, line,
                         "node %s is at %s for this fleet, and this leads to %s: agents go to %s",
                         a->id, now->nodes[place].text, a->text, now->nodes[place].text);
    }
    if (now->settled && now->ttl_max_ms != c->ttl_max_ms)
        find_warning(f, f->report->line[CONFIG_ID_ttl_max],
                     "ttl_max is %.1f s for this fleet, whatever this file says",
                     (double)now->ttl_max_ms / 1000);
}

/* (!) By what an agent would go by: its memory of the fleet's record goes before the file. */
static void check_as_a_start(const struct config *c, const struct host *host, struct findings *f)
{
    static struct config now; /* as in main() */
    static struct config_report report;
    const struct config_report *whole = f->report;
    char dir[sizeof(c->runtime_dir) + sizeof(c->name) + 2];

    now = *c;
    report = *f->report;
    snprintf(dir, sizeof(dir), "%s/%s", c->runtime_dir, c->name);
    fleet_start(&now, dir, host->boot_id);
    if (now.by_record)
        say_record(c, &now, f);
    for (int i = 0; i < now.node_count; i++) {
        int place = place_of(c, now.nodes[i].id);

        report.node_line[i] = place < 0 ? 0 : f->report->node_line[place];
    }
    f->report = &report;
    check_leases(&now, host, f);
    check_nodes(&now, f);
    f->report = whole;
}

int check_config(const struct config *c, const struct config_report *r)
{
    struct findings f = {.report = r};
    char why[1024];
    struct host host;

    (void)signal(SIGPIPE, SIG_IGN); /* a node may close the connection */
    if (r->fault_count) {
        say_faults(r, &f);
        if (r->exit == EXIT_CODE_CONFIG)
            findings_end(&f);
        return r->exit;
    }
    warn(c, &f);
    if (!r->offline && !c->ephemeral) {
        if (host_read(&host, why, sizeof(why)) < 0) {
            log_error("%s", why);
            return EXIT_CODE_SYSTEM;
        }
        become_the_agents_user(c, &f);
        check_as_a_start(c, &host, &f);
    }
    findings_end(&f);
    return f.faults ? EXIT_CODE_CONFIG : EXIT_SUCCESS;
}

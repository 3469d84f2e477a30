#include "agent/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/config/config_load.h"
#include "agent/config/config_rows.h"
#include "agent/core/ballot.h"
#include "shm/bases.h"
#include "shm/status.h"
#include "shm/table.h"
#include "shm/wire.h"

#define EXIT_CODE_USAGE  64
#define EXIT_CODE_SYSTEM 71
#define EXIT_CODE_CONFIG 78
#define SYSTEM_DIR       "/run/holdfast"
#define SYSTEM_CONFIG    "/etc/holdfast/%s.conf"
#define REQUESTS_PER_UID 10000
/* The longest name in an agent's directory is the socket of a private node. */
#define LONGEST_FILE "/dev-XXXXXX/n1.sock"

/* --- file and command line -------------------------------------------------------------------- */

/* The file to read, "" for none. Only a system agent has one by default. */
static void config_choose_file(const struct config_load *l, char *ret_path, size_t size)
{
    const char *name = l->option[CONFIG_ID_name] ? l->option[CONFIG_ID_name] : l->config.name;
    bool system =
        l->option[CONFIG_ID_system] || (geteuid() == 0 && !l->option[CONFIG_ID_runtime_dir] &&
                                        !secure_getenv("HOLDFAST_RUNTIME_DIR"));

    ret_path[0] = '\0';
    if (l->file)
        snprintf(ret_path, size, "%s", l->file);
    else if (system && !l->option[CONFIG_ID_dev]) {
        snprintf(ret_path, size, SYSTEM_CONFIG, name);
        if (!l->again && access(ret_path, F_OK) != 0)
            ret_path[0] = '\0';
    }
}

/* Not refused: on a development machine the password may be no secret. */
static void config_warn_of_passwords(struct config_load *l, const char *path)
{
    struct config *c = &l->config;
    bool has_password = false;

    for (int i = 0; i < c->node_count; i++)
        has_password |= l->has_password[i];
    if (!has_password)
        return;
    if (l->origin[CONFIG_ID_node] == ORIGIN_COMMAND_LINE)
        snprintf(c->warning, sizeof(c->warning),
                 "put the nodes into a file that only the agent's user can read: --node has a "
                 "password, and every user sees it in the list of processes");
    else if (l->file_is_public)
        snprintf(c->warning, sizeof(c->warning),
                 "%.120s has passwords and every user can read it: chmod o-r it", path);
}

static void config_apply_option(struct config_load *l, int row, const char *value)
{
    char why[sizeof(l->report->faults[0].text)];

    if (config_row_set(&config_rows[row], &l->config, value, why, sizeof(why)) == HF_OK)
        return;
    l->faulty[row] = true;
    (void)config_wrong(l, "%s", why);
}

static void config_apply_command_line(struct config_load *l)
{
    /* A list on the command line replaces the file's as a whole. */
    if (l->origin[CONFIG_ID_node] == ORIGIN_COMMAND_LINE)
        l->config.node_count = 0;
    if (l->origin[CONFIG_ID_key_format_for] == ORIGIN_COMMAND_LINE)
        l->config.key_rule_count = 0;
    if (l->origin[CONFIG_ID_allow] == ORIGIN_COMMAND_LINE)
        l->config.rules.count = 0;
    for (int i = 0; i < l->repeated_count; i++)
        config_apply_option(l, l->repeated[i].row, l->repeated[i].value);
    for (int i = 0; i < CONFIG_ROWS; i++)
        if (l->option[i])
            config_apply_option(l, i, l->option[i]);
}

/* --- values that follow from others ----------------------------------------------------------- */

static int config_find_runtime_dir(struct config_load *l)
{
    struct config *c = &l->config;
    const char *own = secure_getenv("HOLDFAST_RUNTIME_DIR");
    const char *dir;
    char user_dir[HF_USER_DIR_SIZE];
    struct stat st;
    int length;

    if (c->runtime_dir[0])
        return HF_OK;
    if (own && *own && !c->system) {
        if (strlen(own) >= sizeof(c->runtime_dir))
            return config_wrong(l, "HOLDFAST_RUNTIME_DIR is longer than %zu bytes",
                                sizeof(c->runtime_dir) - 1);
        strcpy(c->runtime_dir, own);
        return HF_OK;
    }
    if (c->system || geteuid() == 0) {
        c->system = true;
        strcpy(c->runtime_dir, SYSTEM_DIR);
        return HF_OK;
    }
    /* Under cron and sudo XDG_RUNTIME_DIR is not set, though the directory may be there. Clients
     * look in both, too. */
    dir = hf_user_dir(user_dir);
    if (dir == user_dir && (stat(dir, &st) < 0 || st.st_uid != geteuid()))
        return config_wrong(l, "give a place for the agent's files with --runtime-dir DIR: "
                               "XDG_RUNTIME_DIR is not set, or not this user's");
    length = snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s/holdfast", dir);
    if ((size_t)length >= sizeof(c->runtime_dir))
        return config_wrong(l, "give a shorter --runtime-dir DIR: XDG_RUNTIME_DIR is too long");
    return HF_OK;
}

static int config_check_paths(struct config_load *l)
{
    const struct config *c = &l->config;
    size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(LONGEST_FILE);

    if (c->runtime_dir[0] != '/')
        return config_wrong_row(
            l, CONFIG_ID_runtime_dir,
            "runtime_dir: give an absolute path: '%.64s' does not begin with a '/'",
            c->runtime_dir);
    if (strlen(c->runtime_dir) + 1 + strlen(c->name) > most)
        return config_wrong_row(
            l, l->report->line[CONFIG_ID_runtime_dir] ? CONFIG_ID_runtime_dir : CONFIG_ID_name,
            "use a shorter runtime directory or name: %.128s/%s is longer than the %zu bytes that "
            "leave room for a socket's name",
            c->runtime_dir, c->name, most);
    return HF_OK;
}

static int config_settle_name(struct config_load *l)
{
    char table[HF_TABLE_NAME_MAX];

    if (hf_table_name(l->config.name, true, 0, table) < 0)
        return config_wrong_row(l, CONFIG_ID_name,
                                "name: use letters, digits, '.', '_' and '-', the first not a '.': "
                                "'%s' has others",
                                l->config.name);
    return HF_OK;
}

void config_count_all(struct config *c)
{
    c->quorum = ballot_quorum(c->node_count);
    c->counting = (1u << c->node_count) - 1;
    c->ttl_longest_ms = c->ttl_max_ms;
}

static int config_settle_nodes(struct config_load *l)
{
    struct config *c = &l->config;
    char keys[CONFIG_KEYS_TEXT];

    for (int i = 0; i < c->node_count; i++)
        l->has_password[i] = c->nodes[i].password[0];

    if (c->dev_nodes && l->origin[CONFIG_ID_node] == ORIGIN_COMMAND_LINE)
        return config_wrong(l, "give --dev or --node, not both: --dev starts nodes of its own");
    c->ephemeral = c->dev_nodes > 0;
    if (c->ephemeral) {
        c->node_count = c->dev_nodes; /* their addresses are known once they run */
        memset(c->nodes, 0, sizeof(c->nodes));
        for (int i = 0; i < c->node_count; i++)
            snprintf(c->nodes[i].id, sizeof(c->nodes[i].id), "n%d", i + 1);
    }
    if (c->node_count == 0)
        return config_wrong_row(l, CONFIG_ID_node,
                                l->report->file[0]
                                    ? "write node = ADDRESS for each Redis master: no nodes are "
                                      "given"
                                    : "use --node ADDRESS for each Redis master, or --dev to try "
                                      "it out: no nodes are given");
    config_keys_text(c, keys);
    list_hash_with(c->nodes, c->node_count, keys, c->list_hash);
    memcpy(c->file_hash, c->list_hash, sizeof(c->file_hash));
    config_count_all(c);
    if (!c->ephemeral)
        config_read_passwords(l);
    return HF_OK;
}

static int config_settle_timing(struct config_load *l)
{
    struct config *c = &l->config;
    char why[sizeof(l->report->faults[0].text)];
    int rc;

    /* A ttl_max below the default TTL becomes the TTL. */
    if (c->ttl_ms > c->ttl_max_ms && l->origin[CONFIG_ID_ttl] == ORIGIN_NONE)
        c->ttl_ms = c->ttl_max_ms;
    config_count_all(c);
    c->file_ttl_max_ms = c->ttl_max_ms;
    rc = timing_derive(hf_ms(c->ttl_ms), hf_ms(c->ttl_max_ms), &c->timing, why, sizeof(why));
    if (rc < 0)
        (void)config_wrong_row(
            l, l->origin[CONFIG_ID_ttl] == ORIGIN_NONE ? CONFIG_ID_ttl_max : CONFIG_ID_ttl, "%s",
            why);
    return rc;
}

static uint32_t config_limit_for_one(const struct config_load *l, enum config_id row,
                                     uint32_t given, uint32_t all)
{
    if (l->origin[row] != ORIGIN_NONE)
        return given;
    return l->config.system ? all - all / 4 : 0;
}

static void config_settle(struct config_load *l)
{
    struct config *c = &l->config;
    const bool *faulty = l->faulty;
    bool named = !faulty[CONFIG_ID_name] && config_settle_name(l) == HF_OK;

    if (!faulty[CONFIG_ID_runtime_dir] && config_find_runtime_dir(l) == HF_OK && named)
        (void)config_check_paths(l);
    if (!faulty[CONFIG_ID_node] && !faulty[CONFIG_ID_dev])
        (void)config_settle_nodes(l);
    c->clients_per_uid =
        config_limit_for_one(l, CONFIG_ID_clients_per_uid, c->clients_per_uid, c->clients_max);
    c->leases_per_uid =
        config_limit_for_one(l, CONFIG_ID_leases_per_uid, c->leases_per_uid, c->capacity);
    c->waiters_per_uid =
        config_limit_for_one(l, CONFIG_ID_waiters_per_uid, c->waiters_per_uid, c->capacity);
    if (l->origin[CONFIG_ID_requests_per_uid] == ORIGIN_NONE && c->system)
        c->requests_per_uid = REQUESTS_PER_UID;
    if (!faulty[CONFIG_ID_tls_ca_file] && !faulty[CONFIG_ID_tls_cert_file] &&
        !faulty[CONFIG_ID_tls_key_file] && !c->ephemeral)
        config_read_tls(l);
    if (!faulty[CONFIG_ID_ttl] && !faulty[CONFIG_ID_ttl_max])
        (void)config_settle_timing(l);
    config_read_subuids(l);
}

/* Of a job's control group the agent keeps cgroup.kill, cgroup.freeze and cgroup.events. */
#define JOB_GROUP_FDS 3

void config_bound_clients(struct config *c, int64_t descriptors)
{
    int64_t fit = hf_sessions_fit(descriptors, (uint32_t)c->node_count);
    uint64_t share;

    if (fit < 1)
        fit = 1;
    c->groups_max = 0;
    c->guardians_fit = false;
    if (fit >= c->clients_max) {
        int64_t spare = (fit - c->clients_max) * HF_SESSION_FDS / JOB_GROUP_FDS;

        /* A job has two clients. */
        c->groups_max = spare < c->clients_max / 2 ? (uint32_t)spare : c->clients_max / 2;
        c->guardians_fit =
            spare >= c->groups_max + (int64_t)c->clients_max * HF_SESSION_FDS / JOB_GROUP_FDS;
        return;
    }
    share = (uint64_t)c->clients_per_uid * (uint64_t)fit / c->clients_max;
    if (c->clients_per_uid)
        c->clients_per_uid = share ? (uint32_t)share : 1; /* 0 would be no limit */
    c->clients_max = (uint32_t)fit;
    c->descriptors_bound = true;
}

bool config_short_ttl(const struct config *c, char *text, size_t size)
{
    hf_dur ttl_max = hf_ms(c->ttl_max_ms), least = timing_rolling(ttl_max);

    if (c->ephemeral || c->ttl_ms >= hf_dur_ms(least))
        return false;
    snprintf(text, size,
             "use a TTL of at least %.1f s, or a smaller ttl_max (%.1f s) in the whole fleet: with "
             "one of %.1f s leases are lost when most nodes restart within %.1f s",
             (double)hf_dur_ms(least) / 1000, (double)c->ttl_max_ms / 1000,
             (double)c->ttl_ms / 1000, (double)hf_dur_ms(timing_age(ttl_max)) / 1000);
    return true;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void config_set_defaults(struct config_load *l)
{
    char why[256];

    l->config.group = (gid_t)-1;
    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type != CONFIG_DEV && *row->standard &&
            config_row_set(row, &l->config, row->standard, why, sizeof(why)) < 0)
            abort(); /* a row of config.def contradicts its own range */
    }
}

static int config_load_all(struct config_load *l, int argc, char **argv)
{
    struct config_report *report = l->report;
    int rc;

    config_set_defaults(l);
    rc = config_command_line(l, argc, argv);
    if (rc < 0)
        return rc;
    config_choose_file(l, report->file, sizeof(report->file));
    if (strlen(report->file) < sizeof(l->config.file))
        memcpy(l->config.file, report->file, strlen(report->file) + 1);
    if (l->again && !report->file[0])
        return config_wrong(l, "start the agent with --config FILE: it has only the options of its "
                               "command line, and there is no file to read again");
    if (report->file[0] && (rc = config_file_read(l)) < 0)
        return rc;
    config_apply_command_line(l);
    config_settle(l);
    if (report->fault_count)
        return HF_EINVAL;
    config_warn_of_passwords(l, report->file);
    if (!l->print_config || l->again)
        return HF_OK;
    for (int i = 0; i < CONFIG_ROWS; i++)
        config_row_print(&config_rows[i], &l->config, stdout);
    return report->check ? HF_OK : HF_ECANCELED;
}

/* (!) Files that a setting names are written one after the other: a start in between is tried again, or its leases would be lost. */
static int config_exit_of(const struct config_report *report)
{
    if (!report->check && report->passing == report->fault_count)
        return EXIT_CODE_SYSTEM;
    return report->faults[0].of_file ? EXIT_CODE_CONFIG : EXIT_CODE_USAGE;
}

static int config_read_all(bool again, int argc, char **argv, struct config *ret_config,
                           struct config_report *ret_report)
{
    struct config_load *l = calloc(1, sizeof(*l));
    int rc;

    memset(ret_report, 0, sizeof(*ret_report));
    if (!l) {
        config_report_add(ret_report, false, 0, "out of memory");
        ret_report->exit = EXIT_CODE_USAGE;
        return HF_ENOMEM;
    }
    l->report = ret_report;
    l->again = again;
    rc = config_load_all(l, argc, argv);
    if (rc == HF_OK)
        *ret_config = l->config;
    else if (rc != HF_ECANCELED)
        ret_report->exit = config_exit_of(ret_report);
    explicit_bzero(l, sizeof(*l)); /* passwords */
    free(l);
    return rc;
}

int config_read(int argc, char **argv, struct config *ret_config, struct config_report *ret_report)
{
    return config_read_all(false, argc, argv, ret_config, ret_report);
}

int config_reload(int argc, char **argv, struct config *ret_config,
                  struct config_report *ret_report)
{
    return config_read_all(true, argc, argv, ret_config, ret_report);
}

/* --- for the files that clients use ----------------------------------------------------------- */

mode_t config_dir_mode(const struct config *c)
{
    /* (!) Whoever may list it can keep everybody from making and removing files there, for ever. */
    return c->system || c->group != (gid_t)-1 ? 0711 : 0700;
}

mode_t config_socket_mode(const struct config *c)
{
    if (c->group != (gid_t)-1)
        return 0660;
    return c->system ? 0666 : 0600;
}

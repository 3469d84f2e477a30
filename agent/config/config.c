#include "agent/config/config.h"

#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/config/config_load.h"
#include "agent/config/config_rows.h"
#include "agent/config/list_hash.h"
#include "shm/status.h"
#include "shm/table.h"
#include "shm/wire.h"

#define EXIT_CODE_USAGE  64
#define EXIT_CODE_CONFIG 78
#define SYSTEM_DIR       "/run/holdfast"
#define SYSTEM_CONFIG    "/etc/holdfast/%s.conf"
#define REQUESTS_PER_UID 10000
/* The longest name in an agent's directory is the socket of a private node. */
#define LONGEST_FILE "/dev-XXXXXX/n1.sock"

int config_wrong(struct config_load *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(l->why, l->why_size, format, args);
    va_end(args);
    return HF_EINVAL;
}

/* --- file ------------------------------------------------------------------------------------- */

static int take_setting(struct config_load *l, const char *section, const char *key,
                        const char *value)
{
    int row = config_row_find(key, strlen(key));

    if (*section)
        return config_wrong(l, "remove [%.64s]: there are no sections", section);
    if (row < 0)
        return config_wrong(l, "there is no setting '%.64s'; see holdfast.conf(5)", key);
    if (config_rows[row].where == CONFIG_COMMAND_LINE)
        return config_wrong(l, "give '%.64s' on the command line: it holds for one start only",
                            key);
    if (l->origin[row] == ORIGIN_COMMAND_LINE)
        return HF_OK;
    if (l->origin[row] == ORIGIN_FILE && !config_row_repeats(&config_rows[row]))
        return config_wrong(l, "'%.64s' is set twice", key);
    l->origin[row] = ORIGIN_FILE;
    return config_row_set(&config_rows[row], &l->config, value, l->why, l->why_size);
}

/* inih's handler: 0 is an error. Only the first one is kept. */
static int on_setting(void *arg, const char *section, const char *key, const char *value)
{
    struct config_load *l = arg;

    return !l->why[0] && take_setting(l, section, key, value) == HF_OK;
}

struct reader {
    FILE *file;
    bool line_too_long;
};

/* inih would read the rest of a long line as a line of its own. */
static char *read_line(char *buffer, int size, void *arg)
{
    struct reader *r = arg;
    char *line = fgets(buffer, size, r->file);

    if (line && strlen(line) + 1 == (size_t)size && line[size - 2] != '\n' && !feof(r->file))
        r->line_too_long = true;
    return r->line_too_long ? NULL : line;
}

static int parse_file(struct config_load *l, const char *path)
{
    struct reader reader = {0};
    struct stat st;
    char said[512];
    int line;

    /* At the start it may be a pipe. A reload would wait for its writer. */
    if (l->again && stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return config_wrong(l, "cannot read %s again: it is not a regular file", path);
    reader.file = fopen(path, "re");
    if (!reader.file)
        return config_wrong(l, "cannot read %s: %m", path);
    l->file_is_public = fstat(fileno(reader.file), &st) == 0 && (st.st_mode & S_IROTH);
    l->why[0] = '\0';
    line = ini_parse_stream(read_line, &reader, on_setting, l);
    (void)fclose(reader.file);
    if (reader.line_too_long)
        return config_wrong(l, "%s: a line is longer than %d bytes", path, INI_MAX_LINE - 2);
    if (line == 0)
        return HF_OK;
    snprintf(said, sizeof(said), "%s", l->why[0] ? l->why : "write \"key = value\"");
    return config_wrong(l, "%s:%d: %s", path, line, said);
}

/* The file to read, "" for none. Only a system agent has one by default. */
static void choose_file(const struct config_load *l, char *ret_path, size_t size)
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
static void warn_of_passwords(struct config_load *l, const char *path)
{
    struct config *c = &l->config;
    bool has_password = false;

    for (int i = 0; i < c->node_count; i++)
        has_password |= c->nodes[i].password[0] != '\0';
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

static int apply_command_line(struct config_load *l)
{
    int rc;

    /* A list on the command line replaces the file's as a whole. */
    if (l->origin[CONFIG_ID_node] == ORIGIN_COMMAND_LINE)
        l->config.node_count = 0;
    if (l->origin[CONFIG_ID_key_format_for] == ORIGIN_COMMAND_LINE)
        l->config.key_rule_count = 0;
    for (int i = 0; i < l->repeated_count; i++) {
        rc = config_row_set(&config_rows[l->repeated[i].row], &l->config, l->repeated[i].value,
                            l->why, l->why_size);
        if (rc < 0)
            return rc;
    }
    for (int i = 0; i < CONFIG_ROWS; i++) {
        if (!l->option[i])
            continue;
        rc = config_row_set(&config_rows[i], &l->config, l->option[i], l->why, l->why_size);
        if (rc < 0)
            return rc;
    }
    return HF_OK;
}

/* --- values that follow from others ----------------------------------------------------------- */

static int find_runtime_dir(struct config_load *l)
{
    struct config *c = &l->config;
    const char *own = secure_getenv("HOLDFAST_RUNTIME_DIR");
    const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
    char user_dir[32];
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
    snprintf(user_dir, sizeof(user_dir), "/run/user/%u", (unsigned)geteuid());
    if ((!xdg || !*xdg) && stat(user_dir, &st) == 0 && st.st_uid == geteuid())
        xdg = user_dir;
    if (!xdg || !*xdg)
        return config_wrong(l, "give a place for the agent's files with --runtime-dir DIR: "
                               "XDG_RUNTIME_DIR is not set");
    length = snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s/holdfast", xdg);
    if ((size_t)length >= sizeof(c->runtime_dir))
        return config_wrong(l, "XDG_RUNTIME_DIR is too long");
    return HF_OK;
}

static int check_paths(struct config_load *l)
{
    const struct config *c = &l->config;
    size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(LONGEST_FILE);

    if (c->runtime_dir[0] != '/')
        return config_wrong(l, "runtime_dir: '%.64s' does not begin with a '/'", c->runtime_dir);
    if (strlen(c->runtime_dir) + 1 + strlen(c->name) > most)
        return config_wrong(l,
                            "%.128s/%s is longer than the %zu bytes that leave room for a socket's "
                            "name; use a shorter runtime directory or name",
                            c->runtime_dir, c->name, most);
    return HF_OK;
}

static int settle_nodes(struct config_load *l)
{
    struct config *c = &l->config;
    char keys[CONFIG_KEYS_TEXT];

    if (c->dev_nodes && l->origin[CONFIG_ID_node] == ORIGIN_COMMAND_LINE)
        return config_wrong(l, "--dev starts nodes of its own: it cannot be given with --node");
    c->ephemeral = c->dev_nodes > 0;
    if (c->ephemeral) {
        c->node_count = c->dev_nodes; /* their addresses are known once they run */
        memset(c->nodes, 0, sizeof(c->nodes));
        for (int i = 0; i < c->node_count; i++)
            snprintf(c->nodes[i].id, sizeof(c->nodes[i].id), "n%d", i + 1);
    }
    if (c->node_count == 0 && l->again)
        return config_wrong(l,
                            "no nodes are given: write \"node = ADDRESS\" for each Redis master");
    if (c->node_count == 0)
        return config_wrong(l, "no nodes are given: use --node ADDRESS for each Redis master, or "
                               "--dev to try it out");
    config_keys_text(c, keys);
    list_hash_with(c->nodes, c->node_count, keys, c->list_hash);
    return HF_OK;
}

static int settle_timing(struct config_load *l)
{
    struct config *c = &l->config;

    /* A ttl_max below the default TTL becomes the TTL. */
    if (c->ttl_ms > c->ttl_max_ms && l->origin[CONFIG_ID_ttl] == ORIGIN_NONE)
        c->ttl_ms = c->ttl_max_ms;
    return timing_derive(hf_ms(c->ttl_ms), hf_ms(c->ttl_max_ms), &c->timing, l->why, l->why_size);
}

static uint32_t limit_for_one(const struct config_load *l, enum config_id row, uint32_t given,
                              uint32_t all)
{
    if (l->origin[row] != ORIGIN_NONE)
        return given;
    return l->config.system ? all - all / 4 : 0;
}

static int settle(struct config_load *l)
{
    struct config *c = &l->config;
    char table[HF_TABLE_NAME_MAX];
    int rc;

    if (hf_table_name(c->name, true, 0, table) < 0)
        return config_wrong(l,
                            "name: '%s' has other characters than letters, digits, '.', '_' and "
                            "'-', or begins with a '.'",
                            c->name);
    if ((rc = find_runtime_dir(l)) < 0 || (rc = check_paths(l)) < 0 || (rc = settle_nodes(l)) < 0)
        return rc;
    c->clients_per_uid =
        limit_for_one(l, CONFIG_ID_clients_per_uid, c->clients_per_uid, c->clients_max);
    c->leases_per_uid = limit_for_one(l, CONFIG_ID_leases_per_uid, c->leases_per_uid, c->capacity);
    c->waiters_per_uid =
        limit_for_one(l, CONFIG_ID_waiters_per_uid, c->waiters_per_uid, c->capacity);
    if (l->origin[CONFIG_ID_requests_per_uid] == ORIGIN_NONE && c->system)
        c->requests_per_uid = REQUESTS_PER_UID;
    return settle_timing(l);
}

void config_bound_clients(struct config *c, int64_t descriptors)
{
    int64_t fit = hf_sessions_fit(descriptors, (uint32_t)c->node_count);
    uint64_t share;

    if (fit < 1)
        fit = 1;
    c->groups_max = 0;
    if (fit >= c->clients_max) {
        int64_t spare = (fit - c->clients_max) * HF_SESSION_FDS / 2;

        /* A job has two clients. */
        c->groups_max = spare < c->clients_max / 2 ? (uint32_t)spare : c->clients_max / 2;
        return;
    }
    share = (uint64_t)c->clients_per_uid * (uint64_t)fit / c->clients_max;
    if (c->clients_per_uid)
        c->clients_per_uid = share ? (uint32_t)share : 1; /* 0 would be no limit */
    c->clients_max = (uint32_t)fit;
    c->descriptors_bound = true;
}

static uint32_t share_of(uint32_t limit, uint32_t part, uint32_t all)
{
    uint32_t share = (uint32_t)((uint64_t)limit * part / all);

    return limit && !share ? 1 : share; /* 0 would be no limit */
}

void config_bound_leases(struct config *c, uint32_t capacity)
{
    if (capacity >= c->capacity)
        return;
    c->leases_per_uid = share_of(c->leases_per_uid, capacity, c->capacity);
    c->waiters_per_uid = share_of(c->waiters_per_uid, capacity, c->capacity);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void set_defaults(struct config_load *l)
{
    l->config.group = (gid_t)-1;
    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type != CONFIG_DEV && *row->standard &&
            config_row_set(row, &l->config, row->standard, l->why, l->why_size) < 0)
            abort(); /* a row of config.def contradicts its own range */
    }
}

/* When settings do not go together: 78 if any came from a file. */
static int exit_code_for_settings(const struct config_load *l)
{
    for (int i = 0; i < CONFIG_ROWS; i++)
        if (l->origin[i] == ORIGIN_FILE)
            return EXIT_CODE_CONFIG;
    return EXIT_CODE_USAGE;
}

static int load(struct config_load *l, int argc, char **argv, int *ret_exit)
{
    char *path = l->path;
    int rc;

    set_defaults(l);
    *ret_exit = EXIT_CODE_USAGE;
    rc = config_command_line(l, argc, argv);
    if (rc < 0) {
        if (rc == HF_ECANCELED)
            *ret_exit = 0;
        return rc;
    }
    choose_file(l, path, sizeof(l->path));
    if (l->again && !path[0])
        return config_wrong(l, "start the agent with --config FILE: it has only the options of its "
                               "command line, and there is no file to read again");
    if (path[0] && (rc = parse_file(l, path)) < 0) {
        *ret_exit = EXIT_CODE_CONFIG;
        return rc;
    }
    rc = apply_command_line(l);
    if (rc < 0)
        return rc;
    *ret_exit = exit_code_for_settings(l);
    rc = settle(l);
    if (rc < 0)
        return rc;
    *ret_exit = 0;
    warn_of_passwords(l, path);
    if (!l->print_config || l->again)
        return HF_OK;
    for (int i = 0; i < CONFIG_ROWS; i++)
        config_row_print(&config_rows[i], &l->config, stdout);
    return HF_ECANCELED;
}

static int load_all(struct config_load *l, int argc, char **argv, struct config *ret_config,
                    int *ret_exit, char *why, size_t why_size)
{
    int rc;

    l->why = why;
    l->why_size = why_size;
    rc = load(l, argc, argv, ret_exit);
    if (rc == HF_OK)
        *ret_config = l->config;
    return rc;
}

static struct config_load *begin(char *why, size_t why_size)
{
    struct config_load *l = calloc(1, sizeof(*l));

    if (!l)
        snprintf(why, why_size, "out of memory");
    return l;
}

static void end(struct config_load *l)
{
    explicit_bzero(l, sizeof(*l)); /* passwords */
    free(l);
}

int config_load(int argc, char **argv, struct config *ret_config, int *ret_exit, char *why,
                size_t why_size)
{
    struct config_load *l = begin(why, why_size);
    int rc;

    if (!l)
        return HF_ENOMEM;
    rc = load_all(l, argc, argv, ret_config, ret_exit, why, why_size);
    end(l);
    return rc;
}

int config_reload(int argc, char **argv, struct config *ret_config, char *ret_path,
                  size_t path_size, char *why, size_t why_size)
{
    struct config_load *l = begin(why, why_size);
    int code, rc;

    ret_path[0] = '\0';
    if (!l)
        return HF_ENOMEM;
    l->again = true;
    rc = load_all(l, argc, argv, ret_config, &code, why, why_size);
    snprintf(ret_path, path_size, "%s", l->path);
    end(l);
    return rc;
}

/* --- for the files that clients use ----------------------------------------------------------- */

mode_t config_dir_mode(const struct config *c)
{
    return c->system || c->group != (gid_t)-1 ? 0755 : 0700;
}

mode_t config_socket_mode(const struct config *c)
{
    if (c->group != (gid_t)-1)
        return 0660;
    return c->system ? 0666 : 0600;
}

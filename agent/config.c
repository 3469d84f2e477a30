#include "agent/config.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/ballot.h"
#include "agent/version.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define EXIT_USAGE  64
#define EXIT_CONFIG 78
#define DEV_NODES   3
#define RESERVED    "holdfast:"

enum type { TEXT, SPAN, COUNT, FLAG, MODE, GROUP, LEVEL };

static const struct row {
    const char *key;
    enum type type;
    const char *preset;
    int64_t min, max;
    const char *unit, *doc;
} rows[] = {
#define CONFIG_ROW(key, type, preset, min, max, unit, doc)                                         \
    {#key, type, preset, min, max, unit, doc},
#include "agent/config.def"
#undef CONFIG_ROW
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* What is being filled, and where complaints go. */
struct reading {
    struct config *config;
    const char *place; /* "--key" or "file:line" is told by this */
    char *why;
    size_t why_size;
    int failed;
    bool nodes_by_flags; /* the file's nodes are not looked at */
};

static int complain(struct reading *r, const char *format, ...) HF_PRINTF(2, 3);

static int complain(struct reading *r, const char *format, ...)
{
    va_list args;

    if (!r->failed) {
        va_start(args, format);
        vsnprintf(r->why, r->why_size, format, args);
        va_end(args);
    }
    r->failed = HF_EINVAL;
    return HF_EINVAL;
}

/* Where the value of a row lives. */
static void *field(struct config *c, const char *key)
{
    static const struct {
        const char *key;
        size_t offset;
    } fields[] = {
        {"name", offsetof(struct config, name)},
        {"runtime_dir", offsetof(struct config, runtime_dir)},
        {"ttl", offsetof(struct config, ttl_ms)},
        {"ttl_max", offsetof(struct config, ttl_max_ms)},
        {"max_hold", offsetof(struct config, max_hold_ms)},
        {"capacity", offsetof(struct config, capacity)},
        {"clients_max", offsetof(struct config, clients_max)},
        {"clients_per_uid", offsetof(struct config, clients_per_uid)},
        {"leases_per_uid", offsetof(struct config, leases_per_uid)},
        {"waiters_per_uid", offsetof(struct config, waiters_per_uid)},
        {"key_format", offsetof(struct config, key_format)},
        {"table_mode", offsetof(struct config, table_mode)},
        {"group", offsetof(struct config, group)},
        {"system", offsetof(struct config, system)},
        {"assume_fresh", offsetof(struct config, assume_fresh)},
        {"allow_eviction", offsetof(struct config, allow_eviction)},
        {"new_list", offsetof(struct config, new_list)},
        {"log_level", offsetof(struct config, log_level)},
    };

    for (size_t i = 0; i < HF_LENGTH(fields); i++)
        if (strcmp(fields[i].key, key) == 0)
            return (char *)c + fields[i].offset;
    return NULL;
}

/* --- values ---------------------------------------------------------------------------------------- */

static int parse_span(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *suffix;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    char *end;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    if (end == text || errno || !isdigit((unsigned char)text[0]))
        return HF_EINVAL;
    for (size_t i = 0; i < HF_LENGTH(units); i++)
        if (strcmp(end, units[i].suffix) == 0 && n <= INT64_MAX / units[i].ms) {
            *ret_ms = n * units[i].ms;
            return HF_OK;
        }
    return HF_EINVAL;
}

static int set_number(struct reading *r, const struct row *row, uint32_t *target, const char *value)
{
    int64_t n;

    if (row->type == SPAN) {
        if (parse_span(value, &n) < 0)
            return complain(r, "%s: '%s' is not a span of time such as 30s, 500ms, 5m or 1h",
                            r->place, value);
    } else {
        char *end;

        errno = 0;
        n = strtoll(value, &end, 10);
        if (end == value || *end || errno)
            return complain(r, "%s: '%s' is not a whole number of %s", r->place, value, row->unit);
    }
    if (n < row->min || n > row->max)
        return complain(r, "%s: %s is outside %" PRId64 " to %" PRId64 " %s", r->place, value,
                        row->min, row->max, row->unit);
    *target = (uint32_t)n;
    return HF_OK;
}

static int set_flag(struct reading *r, bool *target, const char *value)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false",
                                                                                "off", "0", ""};

    for (size_t i = 0; i < HF_LENGTH(yes); i++)
        if (strcmp(value, yes[i]) == 0)
            return *target = true, HF_OK;
    for (size_t i = 0; i < HF_LENGTH(no); i++)
        if (strcmp(value, no[i]) == 0)
            return *target = false, HF_OK;
    return complain(r, "%s: '%s' is neither yes nor no", r->place, value);
}

static int set_value(struct reading *r, const struct row *row, const char *value)
{
    struct config *c = r->config;
    void *target = field(c, row->key);
    char *end;

    switch (row->type) {
    case TEXT:
        if ((int64_t)strlen(value) < row->min || (int64_t)strlen(value) > row->max)
            return complain(r, "%s: '%s' must have %" PRId64 " to %" PRId64 " bytes", r->place,
                            value, row->min, row->max);
        strcpy(target, value);
        return HF_OK;
    case SPAN:
    case COUNT:
        return set_number(r, row, target, value);
    case FLAG:
        return set_flag(r, target, value);
    case MODE:
        c->table_mode = (mode_t)strtoul(value, &end, 8);
        if (*end || (c->table_mode != 0644 && c->table_mode != 0640))
            return complain(r, "%s: the mode of the table is 0644 or 0640, not '%s'", r->place,
                            value);
        return HF_OK;
    case GROUP: {
        struct group *g = *value ? getgrnam(value) : NULL;

        if (*value && !g)
            return complain(r, "%s: there is no group '%s'", r->place, value);
        c->group = g ? g->gr_gid : (gid_t)-1;
        return HF_OK;
    }
    case LEVEL:
        for (size_t i = 0; i < HF_LENGTH(level_names); i++)
            if (strcmp(value, level_names[i]) == 0) {
                c->log_level = (enum log_level)i;
                return HF_OK;
            }
        return complain(r, "%s: '%s' is none of error, warn, info, debug", r->place, value);
    }
    return HF_EINVAL;
}

static const struct row *row_find(const char *key)
{
    for (size_t i = 0; i < HF_LENGTH(rows); i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

static int add_node(struct reading *r, const char *text)
{
    struct config *c = r->config;
    struct node_address *node = &c->nodes[c->node_count];
    char why[256];

    if (c->node_count == HF_NODES_MAX)
        return complain(r, "%s: more than %d nodes; use 3 or 5", r->place, HF_NODES_MAX);
    if (node_address_parse(text, node, why, sizeof(why)) < 0)
        return complain(r, "%s: %s", r->place, why);
    for (int i = 0; i < c->node_count; i++) {
        const struct node_address *other = &c->nodes[i];

        if (strcmp(other->id, node->id) == 0)
            return complain(r, "%s: the node id '%s' stands twice in the list", r->place, node->id);
        if (other->unix_socket == node->unix_socket && strcmp(other->host, node->host) == 0 &&
            other->port == node->port)
            return complain(r,
                            "%s: nodes '%s' and '%s' are one server, %s; every node must be a "
                            "server of its own",
                            r->place, other->id, node->id, node->text);
    }
    c->node_count++;
    return HF_OK;
}

/* --- the file ---------------------------------------------------------------------------------------- */

static int on_file_key(void *arg, const char *section, const char *key, const char *value)
{
    struct reading *r = arg;
    const struct row *row = row_find(key);

    r->place = key;
    if (*section)
        complain(r, "section [%s] is not known; keys stand by themselves", section);
    else if (strcmp(key, "node") == 0) {
        if (!r->nodes_by_flags)
            (void)add_node(r, value);
    } else if (!row)
        complain(r, "the key '%s' is not known; holdfast.conf(5) has them all", key);
    else
        (void)set_value(r, row, value);
    return !r->failed;
}

static int read_file(struct reading *r, const char *path, bool must_exist)
{
    char detail[256];
    int line;

    if (!must_exist && access(path, F_OK) < 0)
        return HF_OK;
    line = ini_parse(path, on_file_key, r);
    if (line == -1)
        return complain(r, "cannot read %s: %s", path, strerror(errno));
    if (line != 0) {
        snprintf(detail, sizeof(detail), "%s", r->failed ? r->why : "not of the form key = value");
        r->failed = 0;
        return complain(r, "%s line %d: %s", path, line, detail);
    }
    return HF_OK;
}

/* --- the command line --------------------------------------------------------------------------------- */

static void flag_of(const char *key, char *ret_flag, size_t size)
{
    snprintf(ret_flag, size, "--%s", key);
    for (char *p = ret_flag; *p; p++)
        if (*p == '_')
            *p = '-';
}

static void print_help(void)
{
    printf("usage: holdfastd [--config FILE] [--node [ID=]ADDRESS]... [OPTION]...\n"
           "       holdfastd --dev [N]\n\n"
           "The lock agent of this host; see holdfastd(8).\n\n"
           "  --node [ID=]ADDRESS    a Redis master: HOST[:PORT], [V6]:PORT, unix:/PATH, or a "
           "redis:// address\n"
           "  --config FILE          default /etc/holdfast/NAME.conf, if it is there and the agent "
           "is root's\n"
           "  --dev [N]              no configuration: N (%d) private redis-servers as nodes\n"
           "  --print-config         print what would be used, and end\n"
           "  --help, --version\n\n",
           DEV_NODES);
    for (size_t i = 0; i < HF_LENGTH(rows); i++) {
        char flag[64];

        flag_of(rows[i].key, flag, sizeof(flag));
        printf("  %-22s %s%s%s%s\n", flag, rows[i].doc, *rows[i].preset ? " (" : "", rows[i].preset,
               *rows[i].preset ? ")" : "");
    }
}

static void print_config(const struct config *c)
{
    printf("name = %s\nruntime_dir = %s\nttl = %" PRIu32 "ms\nttl_max = %" PRIu32
           "ms\nmax_hold = %" PRIu32 "ms\n",
           c->name, c->runtime_dir, c->ttl_ms, c->ttl_max_ms, c->max_hold_ms);
    printf("capacity = %" PRIu32 "\nclients_max = %" PRIu32 "\nclients_per_uid = %" PRIu32
           "\nleases_per_uid = %" PRIu32 "\nwaiters_per_uid = %" PRIu32 "\n",
           c->capacity, c->clients_max, c->clients_per_uid, c->leases_per_uid, c->waiters_per_uid);
    printf("key_format = %s\ntable_mode = %04o\nassume_fresh = %s\nallow_eviction = %s\nlog_level "
           "= %s\n",
           c->key_format, (unsigned)c->table_mode, c->assume_fresh ? "yes" : "no",
           c->allow_eviction ? "yes" : "no", level_names[c->log_level]);
    for (int i = 0; i < c->node_count; i++)
        printf("node = %s=%s\n", c->nodes[i].id, c->nodes[i].text);
}

struct arguments {
    const char *config_file;
    bool print;
};

/* The value of argv[*i]: "--key=value" or the next word. */
static const char *value_of(struct reading *r, int argc, char **argv, int *i)
{
    char *equals = strchr(argv[*i], '=');

    if (equals)
        return equals + 1;
    if (*i + 1 >= argc) {
        complain(r, "%s needs a value", argv[*i]);
        return NULL;
    }
    return argv[++*i];
}

static bool is_flag(const char *word, const char *flag)
{
    size_t n = strlen(flag);

    return strncmp(word, flag, n) == 0 && (word[n] == '\0' || word[n] == '=');
}

static int dev_option(struct reading *r, int argc, char **argv, int *i)
{
    const char *equals = strchr(argv[*i], '=');
    const char *value = equals                                                     ? equals + 1
                        : *i + 1 < argc && isdigit((unsigned char)argv[*i + 1][0]) ? argv[++*i]
                                                                                   : NULL;
    long n = DEV_NODES;

    if (value) {
        char *end;

        n = strtol(value, &end, 10);
        if (*end || n < 1 || n > HF_NODES_MAX)
            return complain(r, "--dev: '%s' is not a number of nodes from 1 to %d", value,
                            HF_NODES_MAX);
    }
    r->config->dev_nodes = (int)n;
    return HF_OK;
}

/* One option; `second` is the pass after the file was read: the command line wins. */
static int one_option(struct reading *r, struct arguments *a, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *value;
    char flag[64];

    r->place = word;
    if (is_flag(word, "--dev"))
        return dev_option(r, argc, argv, i);
    if (strcmp(word, "--print-config") == 0)
        return a->print = true, HF_OK;
    if (is_flag(word, "--config")) {
        a->config_file = value_of(r, argc, argv, i);
        return r->failed;
    }
    if (is_flag(word, "--node")) {
        value = value_of(r, argc, argv, i);
        r->place = "--node";
        r->nodes_by_flags = true;
        return value ? add_node(r, value) : HF_EINVAL;
    }
    for (size_t k = 0; k < HF_LENGTH(rows); k++) {
        flag_of(rows[k].key, flag, sizeof(flag));
        if (!is_flag(word, flag))
            continue;
        if (rows[k].type == FLAG && !strchr(word, '='))
            value = "yes";
        else
            value = value_of(r, argc, argv, i);
        r->place = flag;
        return value ? set_value(r, &rows[k], value) : HF_EINVAL;
    }
    return complain(r, "unknown option '%s'; holdfastd --help has them all", word);
}

static int options(struct reading *r, struct arguments *a, int argc, char **argv)
{
    for (int i = 1; i < argc && !r->failed; i++)
        (void)one_option(r, a, argc, argv, &i);
    return r->failed;
}

/* --- all together ---------------------------------------------------------------------------------------- */

static void list_hash(struct config *c)
{
    /* Ordered ids, each with its end: FNV-1a with two offsets; it tells lists apart and keeps nothing secret. */
    uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < c->node_count; i++)
            for (const char *p = c->nodes[i].id;; p++) {
                h[k] = (h[k] ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
                if (!*p)
                    break;
            }
    snprintf(c->list_hash, sizeof(c->list_hash), "%016" PRIx64 "%016" PRIx64, h[0], h[1]);
}

static bool is_agent_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            return false;
    return *name && *name != '.';
}

static int runtime_dir(struct reading *r)
{
    struct config *c = r->config;
    const char *xdg = getenv("XDG_RUNTIME_DIR");

    if (*c->runtime_dir)
        return HF_OK;
    if (c->system)
        snprintf(c->runtime_dir, sizeof(c->runtime_dir), "/run/holdfast");
    else if (xdg && *xdg == '/')
        snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%.400s/holdfast", xdg);
    else
        return complain(r, "XDG_RUNTIME_DIR is not set, so there is no place for socket and "
                           "journal: log in properly, or name "
                           "one with --runtime-dir");
    return HF_OK;
}

static int cross_check(struct reading *r)
{
    struct config *c = r->config;
    const char *percent = strchr(c->key_format, '%');
    char why[200];

    if (!is_agent_name(c->name))
        return complain(
            r,
            "the name '%s' may have letters, digits, '.', '_' and '-' only, and not begin with '.'",
            c->name);
    if (!percent || percent[1] != 's' || strchr(percent + 2, '%'))
        return complain(r, "key_format '%s' must have exactly one %%s and no other %%",
                        c->key_format);
    if (c->ttl_ms > c->ttl_max_ms)
        return complain(r,
                        "ttl (%" PRIu32 " ms) must not exceed ttl_max (%" PRIu32
                        " ms); lower it, or raise ttl_max in the whole fleet",
                        c->ttl_ms, c->ttl_max_ms);
    if (timing_derive(hf_ms(c->ttl_ms), hf_ms(c->ttl_max_ms), &c->timing, why, sizeof(why)) < 0)
        return complain(r, "ttl: %s", why);
    if (c->dev_nodes && c->node_count)
        return complain(r, "--dev makes its own nodes; it does not go with --node");
    if (!c->dev_nodes && c->node_count == 0)
        return complain(r, "no nodes: name Redis masters with --node or in the file, or try --dev");
    if (c->table_mode == 0640 && c->group == (gid_t)-1)
        return complain(r, "table_mode 0640 needs a group");
    list_hash(c);
    return runtime_dir(r);
}

int config_load(int argc, char **argv, struct config *ret_config, int *ret_exit, char *why,
                size_t why_size)
{
    struct config *c = ret_config;
    struct reading r = {.config = c, .why = why, .why_size = why_size};
    struct arguments a = {0};
    char standard[128];

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0) {
            if (argv[i][2] == 'h')
                print_help();
            else
                printf("holdfastd %s\n", HOLDFAST_VERSION);
            *ret_exit = 0;
            return HF_ECANCELED;
        }
    *c = (struct config){.group = (gid_t)-1, .system = geteuid() == 0};
    for (size_t i = 0; i < HF_LENGTH(rows); i++)
        if (*rows[i].preset && set_value(&r, &rows[i], rows[i].preset) < 0)
            return r.failed; /* a row of config.def is wrong */

    /* Twice over the command line: first for the file's name and nodes, last because it wins over the file. */
    *ret_exit = EXIT_USAGE;
    if (options(&r, &a, argc, argv) < 0)
        return r.failed;
    snprintf(standard, sizeof(standard), "/etc/holdfast/%s.conf", c->name);
    *ret_exit = EXIT_CONFIG;
    if ((a.config_file || (geteuid() == 0 && !c->dev_nodes && !c->node_count)) &&
        read_file(&r, a.config_file ? a.config_file : standard, a.config_file != NULL) < 0)
        return r.failed;
    *ret_exit = EXIT_USAGE;
    if (r.nodes_by_flags)
        c->node_count = 0;
    if (options(&r, &a, argc, argv) < 0)
        return r.failed;
    *ret_exit = a.config_file ? EXIT_CONFIG : EXIT_USAGE;
    if (cross_check(&r) < 0)
        return r.failed;
    if (a.print) {
        print_config(c);
        *ret_exit = 0;
        return HF_ECANCELED;
    }
    return HF_OK;
}

int config_key(const struct config *c, const void *name, size_t name_len,
               uint8_t ret_key[CONFIG_KEY_MAX], size_t *ret_key_len)
{
    const char *slot = strstr(c->key_format, "%s");
    size_t before = (size_t)(slot - c->key_format), after = strlen(slot + 2);

    if (name_len == 0 || name_len > HF_NAME_MAX)
        return HF_ENAME;
    memcpy(ret_key, c->key_format, before);
    memcpy(ret_key + before, name, name_len);
    memcpy(ret_key + before + name_len, slot + 2, after);
    *ret_key_len = before + name_len + after;
    if (*ret_key_len >= sizeof(RESERVED) - 1 &&
        memcmp(ret_key, RESERVED, sizeof(RESERVED) - 1) == 0)
        return HF_ENAME;
    return HF_OK;
}

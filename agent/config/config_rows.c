#include "agent/config/config_rows.h"

#include <ctype.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/core/rules.h"
#include "shm/compiler.h"
#include "shm/nstime.h"
#include "shm/status.h"

#define AT_ONCE          NULL
#define RESTART(words)   words
#define RESTART_KEEPS    "a restart keeps all leases"
#define RESTART_CAPACITY "a restart keeps all leases"
#define RESTART_OTHER_AGENT                                                                        \
    "a restart makes another agent, and the leases of this one end with their validity"
#define RESTART_ONE_START "it holds for one start only"
#define RESTART_FLEET                                                                              \
    "it is the same in the whole fleet: holdfast fleet ttl-max changes it there, and then every "  \
    "host's file follows"
#define RESTART_LIST                                                                               \
    "it is the same in the whole fleet: holdfast fleet move, add and remove change it there; for " \
    "other ids stop the agents of all hosts for one quarantine, then start them with "             \
    "--reset-fleet"
#define RESTART_KEYS                                                                               \
    "it is the same in the whole fleet: drain all hosts, and start their agents with the new one " \
    "and --reset-fleet"

const struct config_row config_rows[CONFIG_ROWS] = {
#define CONFIG_ROW(key, type, field, min, max, standard, argument, where, reload, doc)             \
    {#key,                                                                                         \
     CONFIG_##type,                                                                                \
     offsetof(struct config, field),                                                               \
     min,                                                                                          \
     max,                                                                                          \
     standard,                                                                                     \
     argument,                                                                                     \
     CONFIG_##where,                                                                               \
     reload,                                                                                       \
     doc},
#include "agent/config/config.def"
};

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

#define NUMBER_MAX (INT64_C(1) << 40)

int config_row_find(const char *key, size_t key_len)
{
    for (int i = 0; i < CONFIG_ROWS; i++) {
        const char *known = config_rows[i].key;
        size_t at = 0;

        while (at < key_len && known[at] && (key[at] == '-' ? '_' : key[at]) == known[at])
            at++;
        if (at == key_len && !known[at])
            return i;
    }
    return -1;
}

/* --- values ----------------------------------------------------------------------------------- */

/* Digits of that base only; strtoll would take blanks, signs and "0x". */
static bool config_rows_parse_number(const char *text, int base, const char **ret_end,
                                     int64_t *ret_number)
{
    const char *p = text;
    int64_t number = 0;

    for (; *p >= '0' && *p < '0' + base; p++) {
        number = number * base + (*p - '0');
        if (number > NUMBER_MAX)
            return false;
    }
    if (p == text)
        return false;
    *ret_end = p;
    *ret_number = number;
    return true;
}

static bool config_rows_parse_whole(const char *text, int base, int64_t *ret_number)
{
    const char *end;

    return config_rows_parse_number(text, base, &end, ret_number) && *end == '\0';
}

/* A whole number of milliseconds; "1.5s" is one, "1.5ms" is not. */
static bool config_rows_parse_duration(const char *text, int64_t *ret_ms)
{
    int64_t ms;
    bool part;

    if (hf_duration_parse(text, NUMBER_MAX, &ms, &part) != HF_OK || part)
        return false;
    *ret_ms = ms;
    return true;
}

static bool config_rows_parse_flag(const char *text, bool *ret_flag)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};

    for (size_t i = 0; i < HF_LENGTH(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret_flag = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static void config_rows_show_duration(int64_t ms, char *buffer, size_t size)
{
    if (ms % 1000 == 0)
        snprintf(buffer, size, "%" PRId64 "s", ms / 1000);
    else
        snprintf(buffer, size, "%" PRId64 "ms", ms);
}

static int config_rows_out_of_range(const struct config_row *row, const char *value, char *why,
                                    size_t why_size)
{
    char low[32], high[32];

    if (row->type == CONFIG_DURATION) {
        config_rows_show_duration(row->min, low, sizeof(low));
        config_rows_show_duration(row->max, high, sizeof(high));
        snprintf(why, why_size,
                 "%s: give a time from %s to %s, such as 500ms, 30s, 2m or 1h: '%.64s' is none",
                 row->key, low, high, value);
    } else if (row->type == CONFIG_TEXT)
        snprintf(why, why_size, "%s: give %" PRId64 " to %" PRId64 " bytes: '%.64s' has %zu",
                 row->key, row->min, row->max, value, strlen(value));
    else
        snprintf(why, why_size,
                 "%s: give a number from %" PRId64 " to %" PRId64 ": '%.64s' is none", row->key,
                 row->min, row->max, value);
    return HF_EINVAL;
}

/* Whether ,fleet_address= of one says what the other is, as far as addresses tell without looking up names. */
static bool config_rows_same_seat(const struct node_address *a, const struct node_address *b)
{
    struct node_address there;

    if (a->as[0] && b->as[0])
        return strcmp(a->as, b->as) == 0;
    return (a->as[0] && node_address_from_seat(a->as, b, &there) && node_address_same(&there, b)) ||
           (b->as[0] && node_address_from_seat(b->as, a, &there) && node_address_same(&there, a));
}

static int config_rows_set_node(struct config *config, const char *value, char *why,
                                size_t why_size)
{
    struct node_address *node = &config->nodes[config->node_count];
    int rc;

    if (config->node_count == HF_NODES_MAX) {
        snprintf(why, why_size, "node: more than %d nodes are given", HF_NODES_MAX);
        return HF_EINVAL;
    }
    rc = node_address_parse(value, node, why, why_size);
    if (rc < 0)
        return rc;
    for (int i = 0; i < config->node_count; i++) {
        const struct node_address *other = &config->nodes[i];
        bool same_id = strcmp(other->id, node->id) == 0;

        if (config_rows_same_seat(other, node)) {
            snprintf(why, why_size,
                     "node: '%s' and '%s' have one fleet address: list each node once", other->id,
                     node->id);
            return HF_EINVAL;
        }
        if (same_id || node_address_same(other, node)) {
            snprintf(why, why_size, "node: %s '%s' is listed twice; list each node once",
                     same_id ? "the id" : "the address", same_id ? node->id : node->text);
            return HF_EINVAL;
        }
    }
    /* (!) A host that looks into another database of a node sees none of the others' keys: the record names one for all. */
    if (config->node_count > 0 && node->db != config->nodes[0].db) {
        snprintf(why, why_size,
                 "node: use one database on all nodes, as on the other hosts: '%.64s' has %d, "
                 "'%.64s' has %d",
                 config->nodes[0].id, config->nodes[0].db, node->id, node->db);
        return HF_EINVAL;
    }
    config->node_count++;
    return HF_OK;
}

static int config_rows_set_group(const char *value, gid_t *ret_group, char *why, size_t why_size)
{
    const struct group *group = getgrnam(value);
    int64_t number;

    if (group)
        *ret_group = group->gr_gid;
    else if (config_rows_parse_whole(value, 10, &number) && number < UINT32_MAX)
        *ret_group = (gid_t)number;
    else {
        snprintf(why, why_size, "group: there is no group '%.64s' on this host", value);
        return HF_EINVAL;
    }
    return HF_OK;
}

static int config_rows_set_level(const char *value, enum log_level *ret_level, char *why,
                                 size_t why_size)
{
    for (size_t i = 0; i < HF_LENGTH(level_names); i++)
        if (strcmp(value, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return HF_OK;
        }
    snprintf(why, why_size, "log_level: '%.64s' is none of error, warn, info, debug", value);
    return HF_EINVAL;
}

/* Checks that the format gives every name a key of its own. */
static int config_rows_check_format(const struct config_row *row, const char *format, char *why,
                                    size_t why_size)
{
    const char *percent = strchr(format, '%');

    if (strlen(format) >= sizeof(((struct config *)0)->key_format))
        snprintf(why, why_size, "%s: the format '%.64s' is longer than %zu bytes", row->key, format,
                 sizeof(((struct config *)0)->key_format) - 1);
    else if (!percent || percent[1] != 's' || strchr(percent + 1, '%'))
        snprintf(why, why_size,
                 "%s: '%s' must have exactly one %%s, which stands for the name, as in redlock:%%s",
                 row->key, format);
    else
        return HF_OK;
    return HF_EINVAL;
}

static int config_rows_set_key_rule(const struct config_row *row, struct config *config,
                                    const char *value, char *why, size_t why_size)
{
    struct config_key_rule *rule = &config->key_rules[config->key_rule_count];
    size_t length = strcspn(value, " \t");
    const char *format = value + length + strspn(value + length, " \t");

    if (config->key_rule_count == CONFIG_KEY_RULES_MAX) {
        snprintf(why, why_size, "%s: more than %d are given", row->key, CONFIG_KEY_RULES_MAX);
        return HF_EINVAL;
    }
    if (length == 0 || !*format) {
        snprintf(why, why_size,
                 "%s: '%.64s' must be a pattern, a blank and a format, as in orders/* redlock:%%s",
                 row->key, value);
        return HF_EINVAL;
    }
    if (length >= sizeof(rule->pattern)) {
        snprintf(why, why_size, "%s: the pattern '%.64s' is longer than %zu bytes", row->key, value,
                 sizeof(rule->pattern) - 1);
        return HF_EINVAL;
    }
    if (!pattern_is_good(value, length)) {
        snprintf(why, why_size, "%s: the pattern '%.*s' has a '\\' that begins no escape", row->key,
                 (int)length, value);
        return HF_EINVAL;
    }
    if (config_rows_check_format(row, format, why, why_size) < 0)
        return HF_EINVAL;
    for (int i = 0; i < config->key_rule_count; i++) {
        const char *other = config->key_rules[i].pattern;

        if (strlen(other) == length && strncmp(other, value, length) == 0) {
            snprintf(why, why_size, "%s: the pattern '%s' is given twice", row->key, other);
            return HF_EINVAL;
        }
    }
    memcpy(rule->pattern, value, length);
    rule->pattern[length] = '\0';
    strcpy(rule->format, format);
    config->key_rule_count++;
    return HF_OK;
}

bool config_row_repeats(const struct config_row *row)
{
    return row->type == CONFIG_NODE || row->type == CONFIG_KEY_RULE || row->type == CONFIG_ALLOW;
}

int config_row_set(const struct config_row *row, struct config *config, const char *value,
                   char *why, size_t why_size)
{
    void *field = (char *)config + row->offset;
    int64_t number = 0;
    bool good = true;

    switch (row->type) {
    case CONFIG_NODE:
        return config_rows_set_node(config, value, why, why_size);
    case CONFIG_KEY_RULE:
        return config_rows_set_key_rule(row, config, value, why, why_size);
    case CONFIG_ALLOW:
        return config_allow_add(config, value, why, why_size);
    case CONFIG_KEY_FORMAT:
        if (config_rows_check_format(row, value, why, why_size) < 0)
            return HF_EINVAL;
        strcpy(field, value);
        return HF_OK;
    case CONFIG_GROUP:
        return config_rows_set_group(value, field, why, why_size);
    case CONFIG_LEVEL:
        return config_rows_set_level(value, field, why, why_size);
    case CONFIG_FLAG:
        if (config_rows_parse_flag(value, field))
            return HF_OK;
        snprintf(why, why_size, "%s: '%.64s' is neither yes nor no", row->key, value);
        return HF_EINVAL;
    case CONFIG_TEXT:
        number = (int64_t)strlen(value);
        break;
    case CONFIG_DURATION:
        good = config_rows_parse_duration(value, &number);
        break;
    case CONFIG_MODE:
        good = config_rows_parse_whole(value, 8, &number) &&
               (number == 0644 || number == 0640 || number == 0600);
        if (good)
            break;
        snprintf(why, why_size, "%s: '%.64s' is none of 0644, 0640, 0600", row->key, value);
        return HF_EINVAL;
    case CONFIG_COUNT:
    case CONFIG_DEV:
        good = config_rows_parse_whole(value, 10, &number);
        break;
    }
    if (!good || number < row->min || number > row->max)
        return config_rows_out_of_range(row, value, why, why_size);
    if (row->type == CONFIG_TEXT)
        memcpy(field, value, (size_t)number + 1);
    else if (row->type == CONFIG_DEV)
        *(int *)field = (int)number;
    else if (row->type == CONFIG_MODE)
        *(mode_t *)field = (mode_t)number;
    else
        *(uint32_t *)field = (uint32_t)number;
    return HF_OK;
}

/* Appends a line of a list. */
static size_t config_rows_add_line(char *text, size_t size, size_t used, const char *first,
                                   const char *between, const char *second)
{
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", first,
                                 between, second);
    return used;
}

const char *config_row_text(const struct config_row *row, const struct config *config, char *text,
                            size_t size)
{
    const void *field = (const char *)config + row->offset;
    char node[NODE_ADDRESS_SHOWN];
    size_t used = 0;

    text[0] = '\0';
    switch (row->type) {
    case CONFIG_NODE:
        for (int i = 0; i < config->node_count && !config->dev_nodes; i++)
            used = config_rows_add_line(text, size, used,
                                        node_address_shown(&config->nodes[i], node), "", "");
        break;
    case CONFIG_KEY_RULE:
        for (int i = 0; i < config->key_rule_count; i++)
            used = config_rows_add_line(text, size, used, config->key_rules[i].pattern, " ",
                                        config->key_rules[i].format);
        break;
    case CONFIG_ALLOW:
        for (int i = 0; i < config->rules.count; i++)
            used = config_rows_add_line(text, size, used, config->rules.rule[i].text, "", "");
        break;
    case CONFIG_DEV:
        if (config->dev_nodes)
            snprintf(text, size, "%d", config->dev_nodes);
        break;
    case CONFIG_GROUP:
        if (config->group != (gid_t)-1)
            snprintf(text, size, "%u", (unsigned)config->group);
        break;
    case CONFIG_FLAG:
        snprintf(text, size, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case CONFIG_LEVEL:
        snprintf(text, size, "%s", level_names[*(const enum log_level *)field]);
        break;
    case CONFIG_TEXT:
    case CONFIG_KEY_FORMAT:
        snprintf(text, size, "%s", (const char *)field);
        break;
    case CONFIG_MODE:
        snprintf(text, size, "%04o", (unsigned)*(const mode_t *)field);
        break;
    case CONFIG_DURATION:
        config_rows_show_duration(*(const uint32_t *)field, text, size);
        break;
    case CONFIG_COUNT:
        snprintf(text, size, "%" PRIu32, *(const uint32_t *)field);
        break;
    }
    return text;
}

/* As a comment: what a value would look like. */
static void config_rows_print_unset(const struct config_row *row, FILE *out)
{
    const char *argument = row->argument + (*row->argument == '\''); /* quoted for a shell */

    fprintf(out, "# %s = %.*s\n", row->key, (int)strcspn(argument, "'"), argument);
}

void config_row_print(const struct config_row *row, const struct config *config, FILE *out)
{
    char text[1024], node[NODE_ADDRESS_SHOWN];

    switch (row->type) {
    case CONFIG_NODE:
        for (int i = 0; i < config->node_count && !config->dev_nodes; i++)
            fprintf(out, "%s = %s\n", row->key, node_address_shown(&config->nodes[i], node));
        if (config->dev_nodes)
            config_rows_print_unset(row, out);
        return;
    case CONFIG_KEY_RULE:
        for (int i = 0; i < config->key_rule_count; i++)
            fprintf(out, "%s = %s %s\n", row->key, config->key_rules[i].pattern,
                    config->key_rules[i].format);
        if (config->key_rule_count == 0)
            config_rows_print_unset(row, out);
        return;
    case CONFIG_ALLOW:
        for (int i = 0; i < config->rules.count; i++)
            fprintf(out, "%s = %s\n", row->key, config->rules.rule[i].text);
        if (config->rules.count == 0)
            config_rows_print_unset(row, out);
        return;
    default:
        break;
    }
    if (*config_row_text(row, config, text, sizeof(text)))
        fprintf(out, "%s%s = %s\n", row->where == CONFIG_COMMAND_LINE ? "# " : "", row->key, text);
    else
        config_rows_print_unset(row, out);
}

/* --- key formats ------------------------------------------------------------------------------ */

/* Names to keys, and back. A key format is text around the name, so a key has one name at most
 * under a format. Of two names with the same key only the earlier rule's is accepted, so no two
 * locks share a key. */

#define KEY_RESERVED "holdfast:"

/* The first rule that matches the name; key_rule_count: none does, and key_format is used. */
static int config_key_rule_of(const struct config *c, const uint8_t *name, size_t len)
{
    for (int rule = 0; rule < c->key_rule_count; rule++) {
        const char *pattern = c->key_rules[rule].pattern;

        if (pattern_matches(pattern, strlen(pattern), name, len))
            return rule;
    }
    return c->key_rule_count;
}

static const char *config_key_format_of(const struct config *c, int rule)
{
    return rule < c->key_rule_count ? c->key_rules[rule].format : c->key_format;
}

/* The part of the key that stands for %s, if this format made the key. */
static bool config_key_undo(const char *format, const uint8_t *key, size_t len,
                            const uint8_t **ret_name, size_t *ret_name_len)
{
    const char *percent = strchr(format, '%');
    size_t before = (size_t)(percent - format), after = strlen(percent + 2);

    if (len <= before + after || len - before - after > HF_NAME_MAX ||
        memcmp(key, format, before) != 0 || memcmp(key + len - after, percent + 2, after) != 0)
        return false;
    *ret_name = key + before;
    *ret_name_len = len - before - after;
    return true;
}

int config_key_name(const struct config *c, const uint8_t *key, size_t key_len,
                    const uint8_t **ret_name, size_t *ret_name_len)
{
    const uint8_t *name;
    size_t len;

    for (int rule = 0; rule <= c->key_rule_count; rule++)
        if (config_key_undo(config_key_format_of(c, rule), key, key_len, &name, &len) &&
            config_key_rule_of(c, name, len) == rule) {
            *ret_name = name;
            *ret_name_len = len;
            return HF_OK;
        }
    return HF_ENAME;
}

/* Makes the key without judging it. */
static size_t config_key_make_key(const char *format, const void *name, size_t name_len,
                                  uint8_t *ret_key)
{
    const char *percent = strchr(format, '%');
    size_t before = (size_t)(percent - format), after = strlen(percent + 2);

    memcpy(ret_key, format, before);
    memcpy(ret_key + before, name, name_len);
    memcpy(ret_key + before + name_len, percent + 2, after);
    return before + name_len + after;
}

static bool config_key_is_reserved(const uint8_t *key, size_t len)
{
    return len >= strlen(KEY_RESERVED) && memcmp(key, KEY_RESERVED, strlen(KEY_RESERVED)) == 0;
}

int config_key(const struct config *c, const void *name, size_t name_len,
               uint8_t ret_key[CONFIG_KEY_MAX], size_t *ret_key_len)
{
    const uint8_t *owner;
    size_t key_len, owner_len;

    if (name_len == 0 || name_len > HF_NAME_MAX)
        return HF_ENAME;
    key_len = config_key_make_key(config_key_format_of(c, config_key_rule_of(c, name, name_len)),
                                  name, name_len, ret_key);
    if (config_key_is_reserved(ret_key, key_len) ||
        config_key_name(c, ret_key, key_len, &owner, &owner_len) < 0 || owner_len != name_len ||
        memcmp(owner, name, name_len) != 0)
        return HF_ENAME;
    *ret_key_len = key_len;
    return HF_OK;
}

void config_key_refused(const struct config *c, const void *name, size_t name_len, char *text,
                        size_t size)
{
    uint8_t key[CONFIG_KEY_MAX];
    const uint8_t *owner;
    size_t key_len, owner_len;
    char shown[64];

    key_len = config_key_make_key(config_key_format_of(c, config_key_rule_of(c, name, name_len)),
                                  name, name_len, key);
    if (config_key_is_reserved(key, key_len) ||
        config_key_name(c, key, key_len, &owner, &owner_len) < 0) {
        snprintf(text, size,
                 "use another name: keys that begin with \"holdfast:\" are reserved for agents");
        return;
    }
    snprintf(text, size,
             "use another name: with key_format_for this one has the same key as \"%s\"",
             log_name(owner, owner_len, shown, sizeof(shown)));
}

void config_keys_text(const struct config *c, char ret_text[CONFIG_KEYS_TEXT])
{
    bool standard = strcmp(c->key_format, "%s") == 0 && c->key_rule_count == 0;
    size_t at;

    at = (size_t)snprintf(ret_text, CONFIG_KEYS_TEXT, "%s", standard ? "" : c->key_format);
    for (int i = 0; i < c->key_rule_count; i++)
        at += (size_t)snprintf(ret_text + at, CONFIG_KEYS_TEXT - at, "\n%s %s",
                               c->key_rules[i].pattern, c->key_rules[i].format);
    if (c->node_count > 0 && c->nodes[0].db)
        (void)snprintf(ret_text + at, CONFIG_KEYS_TEXT - at, "\ndatabase %d", c->nodes[0].db);
}

/* The rows of config.def as a table: finds a row, reads a value into its field, writes it out
 * again. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_ROWS_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/config/config.h"

enum config_type {
    CONFIG_TEXT,
    CONFIG_DURATION,
    CONFIG_COUNT,
    CONFIG_FLAG,
    CONFIG_MODE,
    CONFIG_GROUP,
    CONFIG_LEVEL,
    CONFIG_NODE,
    CONFIG_KEY_FORMAT,
    CONFIG_KEY_RULE,
    CONFIG_ALLOW,
    CONFIG_DEV,
};

enum config_where { CONFIG_ANYWHERE, CONFIG_COMMAND_LINE };

enum config_id {
#define CONFIG_ROW(key, type, field, min, max, standard, argument, where, reload, doc)             \
    CONFIG_ID_##key,
#include "agent/config/config.def"
    CONFIG_ROWS
};

struct config_row {
    const char *key; /* with underscores */
    enum config_type type;
    size_t offset; /* of the field in struct config */
    int64_t min, max;
    const char *standard, *argument;
    enum config_where where;
    const char *restart; /* what a restart would do; NULL: a reload applies it */
    const char *doc;
};

extern const struct config_row config_rows[CONFIG_ROWS];

/* Dashes and underscores are the same here. Returns the row's number, or -1. */
int config_row_find(const char *key, size_t key_len);

/* Reads `value` into the row's field. HF_EINVAL, with a sentence in `why` that names key, value and
 * range. A node or a rule is added to the earlier ones. */
int config_row_set(const struct config_row *row, struct config *config, const char *value,
                   char *why, size_t why_size);

/* The value alone, as a file would have it, cut to fit; "" for a setting that is off. Of a list the
 * lines, joined with ", "; passwords are left out. Returns `text`. */
const char *config_row_text(const struct config_row *row, const struct config *config, char *text,
                            size_t size);

/* Whether the row may be given more than once, as a list. */
bool config_row_repeats(const struct config_row *row);

/* Writes "key = value" lines, as a file would have them; passwords are left out. A setting that has no value, or is of
 * the command line only, is a comment. */
void config_row_print(const struct config_row *row, const struct config *config, FILE *out);

#endif

/* The state while the configuration is loaded, shared by config.c (values that follow from others), config_report.c and
 * config_load.c (file, command line and --help). Nobody else includes this. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_LOAD_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/config/config_report.h"
#include "agent/config/config_rows.h"
#include "shm/compiler.h"

/* More than any two lists take, so that config_row_set() says which one is too long. */
#define CONFIG_REPEATED_MAX (HF_NODES_MAX + CONFIG_KEY_RULES_MAX + RULES_MAX + 32)

enum config_origin { ORIGIN_NONE, ORIGIN_FILE, ORIGIN_COMMAND_LINE };

struct config_load {
    struct config config;
    enum config_origin origin[CONFIG_ROWS];
    bool faulty[CONFIG_ROWS];        /* what follows from its value is not judged */
    const char *option[CONFIG_ROWS]; /* values of the command line, NULL: not given */
    struct {
        int row;
        const char *value;
    } repeated[CONFIG_REPEATED_MAX]; /* of the command line, in its order */
    int repeated_count;
    const char *file; /* of --config or --check-config */
    bool again;       /* a reload: there must be a file, and nothing is printed */
    bool print_config;
    bool file_is_public;             /* every user can read it */
    bool has_password[HF_NODES_MAX]; /* in its line */
    struct config_report *report;
};

/* Adds a fault: of the command line; of a line of the file, 0: of all of it. Returns HF_EINVAL. */
int config_wrong(struct config_load *load, const char *format, ...) HF_PRINTF(2, 3);
int config_wrong_line(struct config_load *load, int line, const char *format, ...) HF_PRINTF(3, 4);
/* Of the place where the setting stands. A default that does not go with a file is that file's fault. */
int config_wrong_row(struct config_load *load, enum config_id row, const char *format, ...)
    HF_PRINTF(3, 4);

/* Reads report->file. HF_EINVAL: it cannot be read; what is wrong in it is only added to the faults. */
int config_file_read(struct config_load *load);

/* Fills in the subordinate uids of the host's users; a host without any has none. */
void config_read_subuids(struct config_load *load);

/* Keeps the options without judging them. HF_EINVAL; HF_ECANCELED after --help or --version. */
int config_command_line(struct config_load *load, int argc, char **argv);

#endif

/* Reads the configuration. All that is wrong with it is found, and in which lines its settings stand: what --check-config
 * shows. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_REPORT_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/config/config_rows.h"

#define CONFIG_FAULTS_MAX 64

struct config_fault {
    bool of_file; /* otherwise of the command line */
    int line;     /* of the file; 0: of no single line */
    char text[512];
};

struct config_report {
    bool check;      /* --check-config */
    bool offline;    /* --offline: agent and nodes are not looked at */
    const char *who; /* --who: the name that is asked for; NULL */
    char file[4096]; /* that was read or could not be; "" none */
    int exit; /* of a start: 0; 64 for the command line, 78 for the file, 71 for what may pass */
    int fault_count; /* that there are; the first CONFIG_FAULTS_MAX are kept */
    int passing;     /* of these: what files with passwords, certificates and keys say now */
    /* Command line, then by line, then the file as a whole. */
    struct config_fault faults[CONFIG_FAULTS_MAX];
    int line[CONFIG_ROWS]; /* where the file sets it first; 0: the setting is not the file's */
    int node_line[HF_NODES_MAX]; /* the same of each node */
};

/* Parses argv and the file that it names. HF_OK; or HF_EINVAL or HF_ENOMEM, with faults in the report. `--help` and
 * `--version` print, as `--print-config` does, and give HF_ECANCELED. `ret_report` is always filled in, `ret_config`
 * after HF_OK. */
int config_read(int argc, char **argv, struct config *ret_config, struct config_report *ret_report);

/* The same for a running agent with the arguments of its start: the file is read again, and the command line goes
 * before it as it did then. HF_EINVAL also if there is no file. Nothing is printed. */
int config_reload(int argc, char **argv, struct config *ret_config,
                  struct config_report *ret_report);

/* Adds a fault in its place. */
void config_report_add(struct config_report *report, bool of_file, int line, const char *text);
/* "FILE:LINE: text", "FILE: text" or "text". Returns `buffer`. */
const char *config_fault_text(const struct config_report *report, const struct config_fault *fault,
                              char *buffer, size_t size);

#endif

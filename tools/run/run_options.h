/* The command line of `holdfast run`. */
#ifndef HOLDFAST_TOOLS_RUN_RUN_OPTIONS_H
#define HOLDFAST_TOOLS_RUN_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_sets.h"

struct run_options {
    const char *agent, *note, *on_lost;
    const char *names[HF_SET_MAX]; /* NAME, and those of --also */
    size_t count;
    int slots; /* 0: NAME is no counted lock */
    char *const *argv;
    int64_t wait_ms;                           /* 0: not at all; -1: without limit */
    int64_t ttl_ms, max_hold_ms, heartbeat_ms; /* 0: not given */
    int busy_code, stop_signal;
    bool no_new_privs, verbose;
};

#define RUN_OPTIONS_NAME_SIZE (255 + sizeof("#63")) /* of a name with a slot's number */

/* EXIT_OK, or the exit code after a message. `ret_help`: only the help was asked for. */
int run_options_parse(struct run_options *run, int argc, char **argv, bool *ret_help);

void run_options_help(void);

/* The lock with that number: one of the names, or a slot of the only name. May use `ret_name`. */
const char *run_options_name(const struct run_options *run, unsigned index,
                             char ret_name[RUN_OPTIONS_NAME_SIZE]);

#endif

/* The command lines of `holdfast run` and `holdfast hold`, which have most options in common. */
#ifndef HOLDFAST_TOOLS_RUN_RUN_OPTIONS_H
#define HOLDFAST_TOOLS_RUN_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_sets.h"

/* Bits: an option may be of both. */
enum run_options_of { OF_RUN = 1, OF_HOLD = 2 };

enum run_mode {
    RUN_PLAIN,
    RUN_SHARED,
    RUN_EXCLUSIVE,
};

struct run_options {
    enum run_options_of command;
    const char *agent, *note, *on_lost;
    const char *names[HF_SET_MAX]; /* NAME, and those of --also */
    size_t count;
    enum run_mode mode;
    int slots;         /* 0: NAME is no counted lock, or with RUN_SHARED: as many as there can be */
    char *const *argv; /* of run */
    int64_t wait_ms;   /* 0: not at all; -1: without limit */
    int64_t ttl_ms, max_hold_ms, heartbeat_ms; /* 0: not given */
    int64_t once_per_ms;                       /* likewise */
    int done_code;                             /* with it: the job has run already */
    bool retry_failed;
    int busy_code, stop_signal;
    bool no_new_privs, verbose;
    bool no_wait, given_wait; /* -n and -w were given */
    bool json, no_stdin;      /* of hold */
};

#define RUN_OPTIONS_NAME_SIZE (255 + sizeof("#63")) /* of a name with a slot's number */

/* EXIT_OK, or the exit code after a message. `ret_help`: only the help was asked for. */
int run_options_parse(struct run_options *run, enum run_options_of command, int argc, char **argv,
                      bool *ret_help);

void run_options_help(enum run_options_of command);

/* How many leases one runs under. */
size_t run_options_leases(const struct run_options *run);

/* The lock with that number: one of the names, or a slot of the only name; with RUN_SHARED and RUN_EXCLUSIVE
 * HF_EXCLUSIVE_NAME is the name itself. May use `ret_name`. */
const char *run_options_name(const struct run_options *run, unsigned index,
                             char ret_name[RUN_OPTIONS_NAME_SIZE]);

#endif

/* Reading the command line: what the subcommands share. */
#ifndef HOLDFAST_TOOLS_COMMON_ARGS_H
#define HOLDFAST_TOOLS_COMMON_ARGS_H

#include <stdint.h>

/* "30" and "30s" are seconds; "500ms", "5m", "1h", "1d"; decimals such as "1.5s" are taken, a
 * fraction of a millisecond is rounded up. HF_OK, or HF_EINVAL: not a duration, negative, or over a
 * hundred years. */
int args_duration_ms(const char *text, int64_t *ret_ms);

/* A whole number from `least` to `most`, in decimal digits only. HF_OK or HF_EINVAL. */
int args_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number);

/* A signal by number, "TERM" or "SIGTERM". HF_OK or HF_EINVAL. */
int args_signal(const char *text, int *ret_signal);

/* The error in `name` as a lock's name, or NULL. Static storage. */
const char *args_name_problem(const char *name);

/* Prints "holdfast <subcommand>: <message>" and where to find help; returns EXIT_USAGE. */
int args_usage(const char *subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The last step of a subcommand with the operand NAME only: gives argv[optind]. Returns EXIT_OK or,
 * with a message, EXIT_USAGE. */
int args_only_name(int argc, char **argv, const char **ret_name);

/* No operand at all. Returns EXIT_OK or, with a message, EXIT_USAGE. */
int args_none(int argc, char **argv);

/* The exit codes of every subcommand, in one place; docs/man/holdfast.1 lists them for users. */

enum exit_code {
    EXIT_OK = 0,
    EXIT_NOT_HELD = 3,     /* held, show, release: nothing is held by that name */
    EXIT_ATTENTION = 3,    /* status, metrics, fleet, doctor: something is not as it should be */
    EXIT_UNKNOWN = 4,      /* held: cannot be told */
    EXIT_USAGE = 64,       /* bad option, name or value */
    EXIT_UNAVAILABLE = 69, /* no agent, too few voting nodes, drained, or the agent is full */
    EXIT_BUSY = 75,        /* held by another (-n), or the wait is over (-w) */
    EXIT_DENIED = 77,      /* not allowed */
    EXIT_CONFIG = 78,      /* this agent's constants differ from the fleet's */
    EXIT_LOST = 124,       /* run: the lease was lost and the job stopped */
    EXIT_FAILED = 125,     /* Holdfast itself failed */
    EXIT_CANNOT_RUN = 126, /* run: the command exists but cannot be executed */
    EXIT_NOT_FOUND = 127,  /* run: no such command */
    EXIT_BY_SIGNAL = 128   /* run: plus the signal's number */
};

/* The exit code for a HF_E* status of the library; EXIT_OK for HF_OK. */
int exit_code_of(int status);

#endif

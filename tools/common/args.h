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

#endif

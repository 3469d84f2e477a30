/* Options of the reading subcommands: each accepts some of one list. */
#ifndef HOLDFAST_TOOLS_READER_READER_ARGS_H
#define HOLDFAST_TOOLS_READER_READER_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

struct reader_args {
    const char *agent;     /* --agent NAME; NULL: not given */
    bool json;             /* --json */
    bool all;              /* -a, --all */
    bool quiet;            /* -q, --quiet */
    bool escaped;          /* -e, --escaped: NAME is as the reading subcommands print it */
    bool clean;            /* --clean */
    bool force;            /* --force */
    bool yes;              /* --yes */
    bool all_hosts;        /* --all-hosts */
    uint64_t fence;        /* --fence N; 0: not given */
    const char *id;        /* --id ID; NULL: not given */
    int64_t wait_ms;       /* -w, --wait SEC; -1: not given */
    bool until_none;       /* --wait, without a value */
    int64_t timeout_ms;    /* --timeout T; -1: not given */
    bool stop_jobs;        /* --stop-jobs */
    bool gone;             /* --old-server-dead */
    bool no_wait;          /* --no-wait */
    bool history;          /* --history */
    uint32_t count;        /* -n, --count COUNT; 0: not given */
    int64_t since_wall_ms; /* --since TIME, as Unix time; 0: not given */
    bool once;             /* --once */
    bool forget;           /* --forget */
    int64_t delay_ms;      /* -d, --delay TIME; -1: not given */
    const char *node;      /* --node ID; NULL: not given */
    const char *textfile;  /* --textfile PATH; NULL: not given */
};

/* A name: any bytes. */
struct reader_name {
    uint8_t bytes[HF_NAME_MAX];
    size_t len;
};

#define READER_ARGS_GO_ON (-1)

/* Parses argv. `letters`: which options apply, of "jaqecfFIyAwWTSGonptB1dNHX"; --help always does, and
 * --agent unless '!' is among them. `usage` follows "Usage: holdfast "; `about` is the rest of the help except the options.
 * READER_ARGS_GO_ON, or the exit code: help was shown, or a bad option named. */
int reader_args_parse(int argc, char **argv, const char *letters, const char *usage,
                      const char *about, struct reader_args *ret_args);

/* The one operand NAME; see args_only_name(). With `args->escaped` its escapes are undone. */
int reader_args_name(int argc, char **argv, const struct reader_args *args,
                     struct reader_name *ret_name);

/* The operand PREFIX; empty if there is none. EXIT_OK or, with a message, EXIT_USAGE. */
int reader_args_prefix(int argc, char **argv, const struct reader_args *args,
                       struct reader_name *ret_prefix);

/* An operand as bytes; HF_EINVAL on a bad escape or over 255 bytes. */
int reader_args_bytes(const struct reader_args *args, const char *operand,
                      struct reader_name *ret_name);

#endif

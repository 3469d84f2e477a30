/* From the command line to the grant: finds the agent, asks for the lock and waits for it.
 *
 * A wait says what it waits for, serves signals all the time, and ends whatever the agent does. One
 * thread. */
#ifndef HOLDFAST_TOOLS_RUN_ACQUIRE_H
#define HOLDFAST_TOOLS_RUN_ACQUIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_run.h"
#include "tools/common/text.h"
#include "tools/run/run_options.h"
#include "tools/run/signals.h"
#include "tools/run/say.h"

/* The line that tells on a terminal how a long wait goes: since when, at which place, for whom. It is rewritten in its place, and is
 * gone when anything else is said. Logs and pipes do not get it. */

#define WAIT_LINE_EVERY_MS 1000

struct wait_line {
    struct hf_progress last; /* `reason` 0: nothing was heard yet */
};

#define WAIT_LINE_SIZE (CONFLICT_SIZE + 128)

/* "waiting for 1m12s of 5m0s, place 2: db/migrate is held by ...". `most_ms`: of the wait; not above 0: no limit. Returns `out`. */
const char *wait_line_text(char out[WAIT_LINE_SIZE], const struct wait_line *line, const char *name,
                           int64_t waited_ms, int64_t most_ms, int64_t now_wall_ms);

/* Shows it, from the third second on. Returns whether to come again after WAIT_LINE_EVERY_MS. */
bool wait_line_show(const struct wait_line *line, const char *name, int64_t waited_ms,
                    int64_t most_ms);

/* Whoever the lock is for, when that is not a job of ours. */
struct acquire_for {
    int fd;                  /* looked at during the wait */
    bool (*gone)(void *arg); /* `fd` has something: whether nobody waits for the lock any more */
    bool hears_terminal;     /* the terminal's signals reach them, too, and are theirs to act on */
    /* Instead of words on stderr; NULL: none. */
    void (*progress)(const struct hf_progress *progress, void *arg);
    void *arg;
};

struct acquire {
    const struct run_options *wanted;
    const struct signals *signals;
    const struct acquire_for *by; /* NULL: a job */
    bool given_up;                /* as `by` has it */
    bool pids_are_ours;           /* the agent counts processes as this PID namespace does */
    bool around;                  /* a lock is held by the job that this command is part of */
    char shown[TEXT_NAME_SIZE];   /* the names, escaped, for messages */
    int64_t began_ns;
    int said_reason; /* the last reason that was reported; 0 none yet */
    size_t said_index;
    struct wait_line line; /* on a terminal */
    char said_text[sizeof(((struct hf_progress *)0)->text)];
};

/* Begins the wait. Keeps both pointers. */
void acquire_init(struct acquire *acquire, const struct run_options *wanted,
                  const struct signals *signals);

/* HF_OK with a client, or a negative code, HF_ECANCELED when it was given up; `ret_signal` gets a signal that ends this process.
 * With -w it also waits for an agent that is away. */
int acquire_connect(struct acquire *acquire, hf_client **ret_client, int *ret_signal);

/* The agent of `client` has gone, or too few nodes answer it: sleeps a moment. False: that is not waited for (no -w), or not any
 * more. */
bool acquire_sleep(const struct acquire *acquire, hf_client *client);

/* Asks for all locks. HF_OK or a negative code. */
int acquire_begin(struct acquire *acquire, hf_client *client, hf_op **ret_op);

/* Ends the op. True: gives the leases, in the order of the names. False: gives the exit code, which -E can make 0. */
bool acquire_await(struct acquire *acquire, hf_client *client, hf_op *op, hf_lease **ret_leases,
                   int *ret_code);

/* The exit code of an acquire that failed, with its message. */
int acquire_refused(const struct acquire *acquire, int status);

/* The same of a wait that was given up. */
int acquire_given_up(const struct acquire *acquire);

/* A signal that came and ends the wait, or stops this process (SIGTSTP); 0: none. */
int acquire_signal(const struct acquire *acquire);

#endif

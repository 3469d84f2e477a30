/* From the command line to the grant: the agent is found, the lock asked for and waited for.
 *
 * A wait says what it is for, hears signals all along, and ends whatever the agent does. One thread. */
#ifndef HOLDFAST_TOOLS_RUN_ACQUIRE_H
#define HOLDFAST_TOOLS_RUN_ACQUIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_run.h"
#include "tools/common/text.h"
#include "tools/run/run_options.h"
#include "tools/run/signals.h"

struct acquire {
    const struct run_options *wanted;
    const struct signals *signals;
    char shown[TEXT_NAME_SIZE]; /* the names, escaped, for messages */
    int64_t began_ns;
    int said_reason; /* what the wait was last said to be for; 0 nothing yet */
    size_t said_index;
    char said_text[sizeof(((struct hf_progress *)0)->text)];
};

/* The wait begins. Both are kept. */
void acquire_init(struct acquire *acquire, const struct run_options *wanted,
                  const struct signals *signals);

/* HF_OK with a client, or a negative code; a signal that ends us in `ret_signal`. With -w an agent that
 * is away is waited for, as one that is there would be. */
int acquire_connect(struct acquire *acquire, hf_client **ret_client, int *ret_signal);

/* Asks for all locks. HF_OK or a negative code. */
int acquire_begin(struct acquire *acquire, hf_client *client, hf_op **ret_op);

/* Ends the op. True: the leases, in the order of the names. False: the exit code, which -E makes 0. */
bool acquire_await(struct acquire *acquire, hf_client *client, hf_op *op, hf_lease **ret_leases,
                   int *ret_code);

/* The exit code of an acquire that failed, with its message. */
int acquire_refused(const struct acquire *acquire, int status);

/* A signal that came and ends the wait, or is to stop us (SIGTSTP); 0: none. */
int acquire_signal(const struct acquire *acquire);

#endif

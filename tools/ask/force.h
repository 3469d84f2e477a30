/* Ending a hold by force, in two steps: what is there and what to type; then that very hold. */
#ifndef HOLDFAST_TOOLS_ASK_FORCE_H
#define HOLDFAST_TOOLS_ASK_FORCE_H

#include "libclient/holdfast_admin.h"
#include "tools/reader/reader_args.h"

/* The first step where the holder cannot be asked: says who it is, and what ends its hold. An exit
 * code. */
int force_offer(hf_client *client, const struct reader_args *args, const struct reader_name *name);

/* What to type for the second step, as a line on stdout. */
void force_say_how(const struct reader_args *args, const char *shown,
                   const struct hf_holder *holder, const char *id);

/* The second step: ends the hold that --fence or --id names, or with --yes the one that is found. An
 * exit code. */
int force_do(hf_client *client, const struct reader_args *args, const struct reader_name *name);

#endif

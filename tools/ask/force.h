/* Forcing out a hold in two steps: show the hold and the command to type; then end exactly that hold. */
#ifndef HOLDFAST_TOOLS_ASK_FORCE_H
#define HOLDFAST_TOOLS_ASK_FORCE_H

#include "libclient/holdfast_admin.h"
#include "tools/reader/reader_args.h"

/* The first step, when the holder cannot be asked: shows the holder, and the command that ends its
 * hold. An exit code. */
int force_offer(hf_client *client, const struct reader_args *args, const struct reader_name *name);

/* Prints the command for the second step on stdout. */
void force_say_how(const struct reader_args *args, const char *shown,
                   const struct hf_holder *holder, const char *id);

/* The second step: ends the hold that --fence or --id names, or with --yes the present hold. An exit
 * code. */
int force_do(hf_client *client, const struct reader_args *args, const struct reader_name *name);

#endif

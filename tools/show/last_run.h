/* The last run of a job that runs once in a period, for show and history. */
#ifndef HOLDFAST_TOOLS_SHOW_LAST_RUN_H
#define HOLDFAST_TOOLS_SHOW_LAST_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "libclient/holdfast.h"
#include "tools/output/json.h"

/* Asks the nodes by the agent; false: there is none that counts, or nobody can say. */
bool last_run_ask(const char *agent, const void *name, size_t name_len,
                  struct hf_once_info *ret_info);
/* The members of it. */
void last_run_put(json_t *object, const struct hf_once_info *info);

#endif

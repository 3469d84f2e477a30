/* The last run of a job that runs once in a period, as people read it. */
#ifndef HOLDFAST_TOOLS_COMMON_ONCE_RUN_H
#define HOLDFAST_TOOLS_COMMON_ONCE_RUN_H

#include <stddef.h>

#include "libclient/holdfast.h"

#define ONCE_RUN_SIZE 320

/* "started 2026-01-02T03:04:05Z on host7 (pid 12, user 0), ended with 0". */
const char *once_run(char *out, size_t size, const struct hf_once_info *info);
/* A stable word for enum hf_once_end. */
const char *once_run_end(int end);

#endif

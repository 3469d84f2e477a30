/* For log lines that may come in floods. Within a second at most `most` lines of one kind are
 * logged, then one that says that more are left out. The first line of a later second is preceded
 * by how many were. One thread per limit. */
#ifndef HOLDFAST_AGENT_BASE_LOG_LIMIT_H
#define HOLDFAST_AGENT_BASE_LOG_LIMIT_H

#include <stdbool.h>

#include "shm/nstime.h"

#define LOG_LIMIT 10 /* for lines that clients or nodes can cause at will */

struct log_limit { /* zeroed before first use */
    hf_time until; /* end of the second that is counted */
    unsigned lines;
};

bool log_allows(struct log_limit *limit, unsigned most, hf_time now);

#endif

/* For lines of log that may come in floods: at most `most` a second of one kind, then one that says so,
 * and how many more there were before the first of a later second. One thread per limit. */
#ifndef HOLDFAST_AGENT_BASE_LOG_LIMIT_H
#define HOLDFAST_AGENT_BASE_LOG_LIMIT_H

#include <stdbool.h>

#include "shm/nstime.h"

#define LOG_LIMIT 10 /* for lines that others can cause at will */

struct log_limit { /* zeroed before first use */
    hf_time until; /* of the second that is counted */
    unsigned lines;
};

bool log_allows(struct log_limit *limit, unsigned most, hf_time now);

#endif

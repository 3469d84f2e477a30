/* For lines of log that others can cause at will: at most LOG_LIMIT a second of one kind, then a line
 * that says how many more there were. One thread per limit. */
#ifndef HOLDFAST_AGENT_LOG_LIMIT_H
#define HOLDFAST_AGENT_LOG_LIMIT_H

#include <stdbool.h>

#include "shm/nstime.h"

#define LOG_LIMIT 10

struct log_limit { /* zeroed before first use */
    hf_time until; /* of the second that is counted */
    unsigned lines;
};

bool log_allows(struct log_limit *limit, hf_time now);

#endif

#include "agent/log_limit.h"

#include "agent/log.h"

bool log_allows(struct log_limit *limit, hf_time now)
{
    if (hf_time_reached(now, limit->until)) {
        if (limit->lines > LOG_LIMIT)
            log_warn("%u more like the last of these were not told", limit->lines - LOG_LIMIT);
        *limit = (struct log_limit){.until = hf_time_add(now, hf_ns(HF_NS_PER_SEC))};
    }
    return ++limit->lines <= LOG_LIMIT;
}

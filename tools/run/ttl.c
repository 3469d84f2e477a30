#include "tools/run/ttl.h"

#include <stddef.h>

#define NS_PER_MS INT64_C(1000000)

int64_t ttl_now_ns(hf_client *client, int64_t asked_ns, int64_t told_ns)
{
    struct hf_agent_info agent = HF_AGENT_INFO_INIT;

    if (!client || hf_agent_info(client, &agent) < 0)
        return told_ns;
    return agent.ttl_max_ms * NS_PER_MS < asked_ns ? agent.ttl_max_ms * NS_PER_MS : asked_ns;
}

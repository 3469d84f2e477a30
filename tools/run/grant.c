#include "tools/run/grant.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/run/say.h"
#include "tools/run/timeline.h"

#define NS_PER_MS INT64_C(1000000)

int grant_ttl_ns(const struct acquire *acquire, hf_client *client, int64_t *ret_ttl_ns)
{
    struct hf_agent_info agent = HF_AGENT_INFO_INIT;
    int status;

    do
        status = hf_agent_info(client, &agent);
    while (status == HF_ENOAGENT && acquire_sleep(acquire, client));
    if (status < 0)
        return status;
    if (*agent.shadowed)
        say("%s: taking it with your own agent %s, whose nodes are private (--dev); for the host's "
            "agent give --agent %s",
            acquire->shown, agent.agent_name, agent.shadowed);
    *ret_ttl_ns =
        (acquire->wanted->ttl_ms ? acquire->wanted->ttl_ms : (int64_t)agent.ttl_ms) * NS_PER_MS;
    return HF_OK;
}

const char *grant_name(const struct run_options *wanted, const struct lease_group *leases, size_t i,
                       char ret_name[RUN_OPTIONS_NAME_SIZE])
{
    int slot = leases->count == 1 ? hf_slot_number(leases->lease[0]) : -1;

    return run_options_name(wanted, slot < 0 ? (unsigned)i : (unsigned)slot, ret_name);
}

size_t grant_first(const struct run_options *wanted)
{
    return wanted->mode == RUN_EXCLUSIVE ? HF_EXCLUSIVE_NAME : 0;
}

size_t grant_told(const struct run_options *wanted)
{
    return wanted->mode == RUN_EXCLUSIVE ? 1 : wanted->count;
}

int grant_names(struct acquire *acquire, struct lease_group *leases,
                char (**ret_each)[TEXT_NAME_SIZE])
{
    char name[RUN_OPTIONS_NAME_SIZE];
    char(*each)[TEXT_NAME_SIZE] = calloc(leases->count, sizeof(each[0]));

    if (!each)
        return HF_ENOMEM;
    for (size_t i = 0; i < leases->count; i++) {
        text_escape_str(each[i], sizeof(each[i]), grant_name(acquire->wanted, leases, i, name));
        leases->names[i] = each[i];
    }
    if (leases->count == 1)
        memcpy(acquire->shown, each[0], sizeof(acquire->shown));
    *ret_each = each;
    return HF_OK;
}

void grant_say(const struct acquire *acquire, const struct lease_group *leases)
{
    char span[TEXT_SPAN_SIZE];

    text_span(span, sizeof(span), (timeline_now_ns() - acquire->began_ns) / NS_PER_MS);
    for (size_t i = 0; i < grant_told(acquire->wanted); i++) {
        size_t lease = grant_first(acquire->wanted) + i;

        say("%s: acquired after %s, fence %" PRIu64, leases->names[lease], span,
            hf_fence(leases->lease[lease]));
    }
}

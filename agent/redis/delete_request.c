#include "agent/redis/key_deleter.h"

#include "agent/state/lease.h"
#include "shm/assert.h"

struct delete_request delete_request(const void *key, size_t key_len, const struct token *token,
                                     hf_dur attempt, hf_dur ttl, uint32_t nodes)
{
    hf_assert(nodes >> HF_NODES_MAX == 0 && key_len > 0, "nodes %x, key_len %zu", (unsigned)nodes,
              key_len);
    return (struct delete_request){.key = key,
                                   .key_len = key_len,
                                   .token = token,
                                   .nodes = nodes,
                                   .doubt_until = HF_TIME_PAST,
                                   .covered = HF_TIME_PAST,
                                   .attempt = attempt,
                                   .ttl = ttl};
}

struct delete_request delete_request_of(const struct lease *lease, uint32_t nodes)
{
    struct timing timing = lease_timing(lease);

    return delete_request(lease_key(lease), lease->key_len, &lease->token, timing.attempt,
                          timing.ttl, nodes);
}

void delete_request_doubt(struct delete_request *request, uint32_t nodes, hf_time until)
{
    hf_assert(nodes >> HF_NODES_MAX == 0, "nodes %x", (unsigned)nodes);
    request->in_doubt = nodes;
    request->doubt_until = until;
}

void delete_request_judge(struct delete_request *request, hf_time valid)
{
    request->covered = valid;
}

void delete_request_tell(struct delete_request *request, release_done_fn *done, void *arg)
{
    hf_assert(!request->done, "nodes %x", (unsigned)request->nodes);
    request->done = done;
    request->arg = arg;
}

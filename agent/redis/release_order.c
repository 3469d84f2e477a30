#include "agent/redis/release_order.h"

#include "agent/record/lease.h"
#include "shm/assert.h"

struct release_order release_order(const void *key, size_t key_len, const struct token *token,
                                   hf_dur attempt, hf_dur ttl, uint32_t nodes)
{
    hf_assert(nodes >> HF_NODES_MAX == 0 && key_len > 0, "nodes %x, key_len %zu", (unsigned)nodes,
              key_len);
    return (struct release_order){.key = key,
                                  .key_len = key_len,
                                  .token = token,
                                  .nodes = nodes,
                                  .doubt_until = HF_TIME_PAST,
                                  .covered = HF_TIME_PAST,
                                  .attempt = attempt,
                                  .ttl = ttl};
}

struct release_order release_order_of(const struct lease *lease, uint32_t nodes)
{
    struct timing timing = lease_timing(lease);

    return release_order(lease_key(lease), lease->key_len, &lease->token, timing.attempt,
                         timing.ttl, nodes);
}

void release_order_doubt(struct release_order *order, uint32_t nodes, hf_time until)
{
    hf_assert(nodes >> HF_NODES_MAX == 0, "nodes %x", (unsigned)nodes);
    order->in_doubt = nodes;
    order->doubt_until = until;
}

void release_order_judge(struct release_order *order, hf_time valid)
{
    order->covered = valid;
}

void release_order_tell(struct release_order *order, release_done_fn *done, void *arg)
{
    hf_assert(!order->done, "nodes %x", (unsigned)order->nodes);
    order->done = done;
    order->arg = arg;
}

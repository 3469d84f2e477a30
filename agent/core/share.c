#include "agent/core/share.h"

#include "agent/core/bucket.h"
#include "shm/assert.h"

unsigned share_of(const struct shares *s, uint32_t who)
{
    uint64_t mixed = (s->key ^ who) * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (unsigned)(mixed >> 32) % SHARES;
}

bool share_take(struct shares *s, unsigned share, unsigned burst, hf_dur each, hf_time now)
{
    hf_assert(share < SHARES && burst >= 1 && each.ns > 0, "share %u, burst %u, each %lld", share,
              burst, (long long)each.ns);
    return bucket_take(&s->used_to[share], each, burst, now);
}

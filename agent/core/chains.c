#include "agent/core/chains.h"

#include "shm/assert.h"

void chains_add(struct chains *c, uint32_t hash, uint32_t number)
{
    uint32_t *first = &c->first[hash & (c->buckets - 1)];

    hf_assert((c->buckets & (c->buckets - 1)) == 0, "buckets %u", (unsigned)c->buckets);
    hf_assert(*first != number + 1, "item %u is in its chain", (unsigned)number);
    *chains_link(c, number) = *first;
    *first = number + 1;
}

void chains_remove(struct chains *c, uint32_t hash, uint32_t number)
{
    uint32_t *at = &c->first[hash & (c->buckets - 1)];

    while (*at != number + 1) {
        hf_assert(*at, "item %u is not in its chain", (unsigned)number);
        at = chains_link(c, *at - 1);
    }
    *at = *chains_link(c, number);
    *chains_link(c, number) = 0;
}

#include "agent/core/rivals.h"

#include <string.h>

#include "shm/assert.h"

#define TAG_DIGITS 16

/* Not 0. */
static uint64_t rivals_tag_of(const char *id)
{
    uint64_t tag = 0;

    for (int i = 0; i < TAG_DIGITS; i++)
        tag = tag << 4 | (uint64_t)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
    return tag ? tag : 1;
}

uint32_t rivals_seen(struct rivals *r, uint32_t slot, uint32_t generation, int node, const char *id)
{
    uint64_t *words = r->words + rivals_words(slot % r->room, r->n), *tags = words + 1;
    uint64_t lease = (uint64_t)slot << 32 | generation;
    uint32_t nodes = 0;

    hf_assert(node >= 0 && node < r->n, "node %d of %d", node, r->n);
    if (words[0] != lease) {
        memset(tags, 0, (size_t)r->n * sizeof(*tags));
        words[0] = lease;
    }
    tags[node] = rivals_tag_of(id);
    for (int i = 0; i < r->n; i++)
        if (tags[i] == tags[node])
            nodes |= UINT32_C(1) << i;
    hf_assert(nodes >> node & 1, "nodes %x, node %d", (unsigned)nodes, node);
    return nodes;
}

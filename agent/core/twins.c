#include "agent/core/twins.h"

#include "shm/assert.h"

static uint32_t twins_bit(int node)
{
    return UINT32_C(1) << node;
}

void twins_pair(struct twins *t, int one, int other)
{
    hf_assert(one >= 0 && one < HF_NODES_MAX && other >= 0 && other < HF_NODES_MAX, "nodes %d, %d",
              one, other);
    hf_assert(one != other, "node %d", one);
    t->of[one] = (uint16_t)(t->of[one] | twins_bit(other));
    t->of[other] = (uint16_t)(t->of[other] | twins_bit(one));
}

/* A node that has twins among them counts, and they do not; or the other way about. */
int twins_count(const struct twins *t, uint32_t nodes)
{
    hf_assert(nodes >> HF_NODES_MAX == 0, "nodes %x", (unsigned)nodes);
    for (int i = 0; t && i < HF_NODES_MAX; i++) {
        uint32_t others = nodes & ~twins_bit(i);
        int with, without;

        if (!(nodes & twins_bit(i)) || !(t->of[i] & others))
            continue;
        with = 1 + twins_count(t, others & ~(uint32_t)t->of[i]);
        without = twins_count(t, others);
        return with > without ? with : without;
    }
    return __builtin_popcount(nodes);
}

hf_time twins_validity(const struct twins *t, const hf_time *d, int count, int q)
{
    hf_time best = HF_TIME_PAST;

    hf_assert(count >= 0 && count <= HF_NODES_MAX && q >= 1, "count %d, q %d", count, q);
    for (int i = 0; i < count; i++) {
        uint32_t as_late = 0;

        for (int k = 0; k < count; k++)
            if (hf_time_reached(d[k], d[i]))
                as_late |= twins_bit(k);
        if (hf_time_before(best, d[i]) && twins_count(t, as_late) >= q)
            best = d[i];
    }
    return best;
}

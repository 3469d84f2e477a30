#include "agent/core/validity.h"

#include "shm/assert.h"

hf_time validity_qth(const hf_time *d, int count, int q)
{
    hf_time sorted[HF_NODES_MAX]; /* largest first; insertion sort is fastest for so few */

    hf_assert(count >= 0 && count <= HF_NODES_MAX && q >= 1, "count %d, q %d", count, q);
    if (count < q)
        return HF_TIME_PAST;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && hf_time_before(sorted[at - 1], d[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = d[i];
    }
    return sorted[q - 1];
}

void validity_drop(hf_time *d, int count, uint32_t counting)
{
    for (int i = 0; i < count; i++)
        if (!(counting >> i & 1))
            d[i] = HF_TIME_PAST;
}

hf_time validity_latest(const hf_time *d, int count)
{
    return validity_qth(d, count, 1);
}

/* The sequence count that guards a slot or a node row: odd while its one writer is inside.
 *
 * The stores in between are releases and the loads acquires (shm/words.h), so no fence is needed.
 */
#ifndef HOLDFAST_SHM_SEQ_H
#define HOLDFAST_SHM_SEQ_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/assert.h"

/* Also right after a writer that was killed inside: the count is odd then, and stays so. */
static inline void hf_seq_enter(_Atomic uint32_t *seq)
{
    atomic_store_explicit(seq, atomic_load_explicit(seq, memory_order_relaxed) | 1,
                          memory_order_relaxed);
}

static inline void hf_seq_leave(_Atomic uint32_t *seq)
{
    hf_assert(atomic_load_explicit(seq, memory_order_relaxed) & 1, "seq %u",
              (unsigned)atomic_load_explicit(seq, memory_order_relaxed));
    atomic_store_explicit(seq, atomic_load_explicit(seq, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* True when no writer is inside; then copy, and check hf_seq_same(). The later half of `tries`
 * yields the CPU to a writer that lost it inside. */
static inline bool hf_seq_begin(const _Atomic uint32_t *seq, unsigned try, unsigned tries,
                                uint32_t *ret_seen)
{
    uint32_t seen = atomic_load_explicit(seq, memory_order_acquire);

    if (seen & 1) {
        if (try >= tries / 2)
            sched_yield();
        return false;
    }
    *ret_seen = seen;
    return true;
}

static inline bool hf_seq_same(const _Atomic uint32_t *seq, uint32_t seen)
{
    return atomic_load_explicit(seq, memory_order_relaxed) == seen;
}

#endif

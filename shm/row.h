/* A row: a struct of whole 32-bit words, copied word by word under its sequence count, the first
 * word. One writing thread per row. Private to shm/. */
#ifndef HOLDFAST_SHM_ROW_H
#define HOLDFAST_SHM_ROW_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/assert.h"

/* The sequence count that guards a slot or a node row: odd while its one writer is inside.
 *
 * The stores in between are releases and the loads acquires (shm/row.h), so no fence is needed.
 */

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

/* Copies between private memory and memory that another thread or process reads or writes
 * meanwhile.
 *
 * Each word is one atomic access, so nothing tears inside a word and no tool sees a data race.
 * Stores are releases and loads are acquires: under a sequence count that makes fences needless. A
 * reader that sees a word of a later edit also sees the odd count that was stored before it. On x86
 * both are plain moves.
 */

typedef uint64_t __attribute__((may_alias)) hf_word;

/* `shared` is 8-byte aligned, `size` a multiple of 8; the private side needs no alignment. */
static inline void hf_words_store(void *shared, const void *from, size_t size)
{
    hf_word *to = shared;
    const char *src = from;

    for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
        uint64_t word;

        memcpy(&word, src + i * sizeof(word), sizeof(word));
        __atomic_store_n(to + i, word, __ATOMIC_RELEASE);
    }
}

static inline void hf_words_load(void *to, const void *shared, size_t size)
{
    const hf_word *from = shared;
    char *dst = to;

    for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
        uint64_t word = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);

        memcpy(dst + i * sizeof(word), &word, sizeof(word));
    }
}

/* Up to the next multiple of a word. */
static inline size_t hf_words_round(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

typedef uint32_t __attribute__((may_alias)) hf_row_word;

#define HF_ROW_TRIES 64

/* Replaces all of `row` except its count; the count of `from` is ignored. */
static inline void hf_row_store(void *row, const void *from, size_t size)
{
    _Atomic uint32_t *seq = row;

    hf_assert(size % sizeof(hf_row_word) == 0, "size %zu", size);
    hf_seq_enter(seq);
    for (size_t i = 1; i < size / sizeof(hf_row_word); i++)
        __atomic_store_n((hf_row_word *)row + i, ((const hf_row_word *)from)[i], __ATOMIC_RELEASE);
    hf_seq_leave(seq);
}

/* A consistent copy, with its count; false: none could be had. */
static inline bool hf_row_load(void *to, const void *row, size_t size)
{
    const _Atomic uint32_t *seq = row;

    for (unsigned try = 0; try < HF_ROW_TRIES; try++) {
        uint32_t seen;

        if (!hf_seq_begin(seq, try, HF_ROW_TRIES, &seen))
            continue;
        for (size_t i = 1; i < size / sizeof(hf_row_word); i++)
            ((hf_row_word *)to)[i] =
                __atomic_load_n((const hf_row_word *)row + i, __ATOMIC_ACQUIRE);
        if (hf_seq_same(seq, seen)) {
            *(hf_row_word *)to = seen;
            return true;
        }
    }
    return false;
}

#endif

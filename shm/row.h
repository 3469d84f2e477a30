/* A row: a struct of whole 32-bit words, copied word by word under its sequence count, the first
 * word. One writing thread per row. Private to shm/. */
#ifndef HOLDFAST_SHM_ROW_H
#define HOLDFAST_SHM_ROW_H

#include <stddef.h>

#include "shm/seq.h"

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

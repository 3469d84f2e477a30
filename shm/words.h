/* Copies between private memory and memory that another thread or process reads or writes
 * meanwhile.
 *
 * Each word is one atomic access, so nothing tears inside a word and no tool sees a data race.
 * Stores are releases and loads are acquires: under a sequence count that makes fences needless. A
 * reader that sees a word of a later edit also sees the odd count that was stored before it. On x86
 * both are plain moves.
 */
#ifndef HOLDFAST_SHM_WORDS_H
#define HOLDFAST_SHM_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

#endif

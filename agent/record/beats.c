#include "agent/record/beats.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "shm/assert.h"
#include "shm/ring.h"

struct beats {
    const _Atomic uint32_t *words;
    atomic_uint references;
};

struct beats *beats_new(const _Atomic uint32_t *words)
{
    struct beats *beats = malloc(sizeof(*beats));

    if (!beats) {
        hf_beats_unmap(words);
        return NULL;
    }
    beats->words = words;
    atomic_init(&beats->references, 1);
    return beats;
}

struct beats *beats_hold(struct beats *beats)
{
    if (beats)
        atomic_fetch_add(&beats->references, 1);
    return beats;
}

void beats_drop(struct beats *beats)
{
    if (!beats || atomic_fetch_sub(&beats->references, 1) > 1)
        return;
    hf_beats_unmap(beats->words);
    free(beats);
}

uint32_t beats_count(const struct beats *beats, uint32_t word)
{
    hf_assert(word < HF_BEATS, "word %u", (unsigned)word);
    return beats ? atomic_load_explicit(&beats->words[word], memory_order_relaxed) : 0;
}

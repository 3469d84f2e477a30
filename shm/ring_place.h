/* Where an entry of a ring stands. Private to shm/. */
#ifndef HOLDFAST_SHM_RING_PLACE_H
#define HOLDFAST_SHM_RING_PLACE_H

#include "shm/ring.h"

_Static_assert((HF_RING_ENTRIES & (HF_RING_ENTRIES - 1)) == 0, "a power of two");
_Static_assert(sizeof(struct hf_requests_page) <= HF_RING_HEADER &&
                   sizeof(struct hf_completions_page) <= HF_RING_HEADER,
               "cursors stand before the entries");

/* `page` is the start of a ring's mapping; cursors run on and wrap at 2^32. */
static inline const void *hf_ring_place(const void *page, uint32_t cursor)
{
    return (const char *)page + HF_RING_HEADER +
           (size_t)(cursor & (HF_RING_ENTRIES - 1)) * HF_ENTRY_SIZE;
}

#endif

/* A completion as the agent gives it: put into the ring, and whoever sleeps is told. */
#ifndef HOLDFAST_TESTS_RING_POST_H
#define HOLDFAST_TESTS_RING_POST_H

#include "shm/ring.h"

static inline int ring_post(struct hf_ring_agent *ring, const struct hf_completion_entry *entry)
{
    int rc = hf_ring_put(ring, entry);

    if (rc == 0)
        hf_ring_signal(ring);
    return rc;
}

#endif

/* What the main thread tells the broker and the renewal thread of a reload (MSG_CONFIG).
 *
 * Who writes: main, before it posts the order; then only `taken`, by the threads. Who reads: the threads
 * that got it. The configuration is never changed. (!) A thread counts itself in `taken` when nothing of
 * it points into the configuration before any more: main then frees that one, and the order.
 */
#ifndef HOLDFAST_AGENT_RECORD_CONFIG_ORDER_H
#define HOLDFAST_AGENT_RECORD_CONFIG_ORDER_H

#include <stdatomic.h>

#include "shm/layout.h"
#include "shm/nstime.h"

struct config;

struct config_order {
    const struct config *config;  /* from now on; NULL: the reload was refused, nothing changes */
    char text[HF_EVENT_TEXT + 1]; /* what changes, or why it was refused */
    atomic_int taken;
};

static inline void config_order_taken(struct config_order *order)
{
    atomic_fetch_add_explicit(&order->taken, 1, memory_order_release);
}

#endif

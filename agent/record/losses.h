/* Leases that are lost, or released while they were LOSING: counted by their reason, and in the
 * log. */
#ifndef HOLDFAST_AGENT_RECORD_LOSSES_H
#define HOLDFAST_AGENT_RECORD_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/table.h"

/* Once for each lease: when it becomes LOSING, or LOST without LOSING. In the renewal thread, or while
 * the broker is made. */
void losses_count(struct hf_table *table, enum hf_loss_reason reason);

/* Whether holders, and who may ask them to stop, can cause it at will. */
bool losses_at_will(enum hf_loss_reason reason);

#endif

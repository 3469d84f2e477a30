/* Stable words for the numbers in the table, for people and for JSON. */
#ifndef HOLDFAST_TOOLS_OUTPUT_WORDS_H
#define HOLDFAST_TOOLS_OUTPUT_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "shm/node_words.h"
#include "shm/slot.h"

/* "held", "late", "losing", "lost", "ended"; "lapsed" for a lease whose validity is over without
 * being ended by the agent. */
const char *words_lease_state(const struct hf_slot_view *view, bool in_force);

/* Of the enum hf_node_tracking in a node's flags: how waiters hear of its changes. */
const char *words_tracking(uint32_t flags);
const char *words_tracking_sentence(uint32_t flags);
/* Of the flags that say how the node stands to the fleet's record: the word of the `nth` one, "" if it is not set, NULL
 * beyond the last. */
const char *words_fleet(uint32_t flags, unsigned nth);
/* "it has no record of the fleet, so its answers do not count"; "" for none. Returns `out`. */
const char *words_fleet_sentence(char *out, size_t size, uint32_t flags);
/* All reasons of a quarantine (enum hf_quarantine_reason, bits). Returns `out`. */
const char *words_quarantine_sentence(char *out, size_t size, uint32_t reasons);

#endif

/* Stable words for the numbers in the table, for people and for JSON. */
#ifndef HOLDFAST_TOOLS_OUTPUT_WORDS_H
#define HOLDFAST_TOOLS_OUTPUT_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "shm/slot.h"
#include "shm/wordings.h"

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

/* Short texts that several reading subcommands print. Not thread-safe (user names). */

#define FORMAT_USER_SIZE 256

/* Escaped name of a user, or the number of one without a name. Returns `out`. */
const char *format_user(char *out, size_t size, uint32_t uid);

/* "0.4ms", "12.3ms", "1.2s"; "-" for 0 or less. Returns `out`. */
const char *format_rtt(char *out, size_t size, int64_t ns);

/* A span with a sign: "+12ms", "-3.0s". Returns `out`. */
const char *format_offset(char *out, size_t size, int64_t us);

/* The reader of standard output went away: what is left to be written is no failure (shm/process.h). */
void format_forget(void);

#endif

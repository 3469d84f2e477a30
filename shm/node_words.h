/* Stable words for the numbers in a node's row: shared by agent and command. */
#ifndef HOLDFAST_SHM_NODE_WORDS_H
#define HOLDFAST_SHM_NODE_WORDS_H

#include <stdint.h>

#include "shm/layout.h"

#define HF_NODE_STATES        (HF_NODE_UNWRITABLE + 1)
#define HF_REFUSALS           (HF_REFUSED_REPLICATED + 1)
#define HF_QUARANTINE_REASONS 5 /* bits */

/* "connecting", "up", "quarantined", "down", "refused", "unwritable". "unknown": a later agent may know more than
 * this program. */
const char *hf_node_state_word(uint32_t state);
/* Of enum hf_node_refusal and enum hf_node_error; "" for none. */
const char *hf_refusal_word(uint32_t refusal);
const char *hf_node_error_word(uint32_t error);
/* Of a bit of enum hf_quarantine_reason; NULL beyond the last. */
const char *hf_quarantine_word(unsigned bit);

#endif

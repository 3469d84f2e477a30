/* The words and sentences for enum hf_loss_reason: shared by agent, library and command. */
#ifndef HOLDFAST_SHM_WORDINGS_H
#define HOLDFAST_SHM_WORDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

#define HF_LOSS_REASONS (HF_LOSS_AWAY + 1)

/* A stable word ("quorum", "asked"); "" for HF_LOSS_NONE, "unknown" for a later agent's. */
const char *hf_loss_word(uint32_t reason);

/* The same as a sentence without a full stop. */
const char *hf_loss_text(uint32_t reason);

/* The counter of a reason; false: it has none, as HF_LOSS_NONE. */
bool hf_loss_counter(uint32_t reason, enum hf_counter *ret_counter);

/* What the numbers in a node's row mean, said once: for the agent's log, the command, JSON and metrics. */

#define HF_NODE_STATES        (HF_NODE_UNWRITABLE + 1)
#define HF_QUARANTINE_REASONS 5 /* bits */
/* Of a quarantine that has no reason yet. */
#define HF_NODE_UNJUDGED "it will be judged once enough nodes answer"

/* Why a node does not vote (shm/node_whys.def). A later agent may know more than this program: the word is "unknown" then. */
struct hf_why {
    const char *word;     /* stable: for JSON and metrics */
    const char *sentence; /* of the node: "it is a replica"; "" of an error: the row has its text */
    const char *remedy;   /* what is to be done */
};

/* "connecting", "up", "quarantined", "down", "refused", "unwritable". */
const char *hf_node_state_word(uint32_t state);
/* Of enum hf_node_refusal and enum hf_node_error; their words are "" for none. */
const struct hf_why *hf_why_refused(uint32_t refusal);
const struct hf_why *hf_why_failed(uint32_t error);
/* Of enum hf_quarantine_reason, one bit. */
const struct hf_why *hf_why_quarantined(uint32_t reason);

#endif

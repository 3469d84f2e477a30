/* The words and sentences for enum hf_loss_reason: shared by agent, library and command. */
#ifndef HOLDFAST_SHM_LOSS_H
#define HOLDFAST_SHM_LOSS_H

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

#endif

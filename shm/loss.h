/* The words and sentences for enum hf_loss_reason: shared by agent, library and command. */
#ifndef HOLDFAST_SHM_LOSS_H
#define HOLDFAST_SHM_LOSS_H

#include <stdint.h>

/* A stable word ("quorum", "asked"); "" for HF_LOSS_NONE, "unknown" for a later agent's. */
const char *hf_loss_word(uint32_t reason);

/* The same as a sentence without a full stop. */
const char *hf_loss_text(uint32_t reason);

#endif

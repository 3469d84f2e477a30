/* A node row as 32-bit words, for copying it under its sequence count; word 0 is the count. Private
 * to shm/. */
#ifndef HOLDFAST_SHM_NODE_WORDS_H
#define HOLDFAST_SHM_NODE_WORDS_H

#include "shm/seq.h"
#include "shm/table.h"

typedef uint32_t __attribute__((may_alias)) hf_node_word;
#define HF_NODE_WORDS (sizeof(struct hf_node_row) / sizeof(hf_node_word))

_Static_assert(offsetof(struct hf_node_row, seq) == 0 &&
                   sizeof(((struct hf_node_row *)0)->seq) == sizeof(hf_node_word),
               "word 0 is the sequence count");

#endif

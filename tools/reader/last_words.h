/* The failed assertion by which the last agent of a table ended. One thread. */
#ifndef HOLDFAST_TOOLS_READER_LAST_WORDS_H
#define HOLDFAST_TOOLS_READER_LAST_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "shm/last_words.h"

#define LAST_WORDS_SIZE (4 * HF_LAST_WORDS + 128)

/* For people: "last ended by a failed assertion 3m12s ago (pid 123): ...". Returns `out`. */
const char *last_words_sentence(char *out, size_t size, const struct hf_last_words *words,
                                int64_t now_wall_ms);

#endif

/* Whether the agent is drained, in its table's header.
 *
 * Who writes: the agent; main while it starts, the broker thread from then on. Who reads: everybody. Ordering:
 * `drained_wall_ms` is stored last (release) and loaded first (acquire); a reader that finds it changed after it
 * has read the others begins anew. */
#ifndef HOLDFAST_SHM_TABLE_NOTES_H
#define HOLDFAST_SHM_TABLE_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/table.h"

struct hf_drained {
    bool stands;
    int64_t since_wall_ms; /* Unix time; 0: not known, nor who it was */
    uint32_t uid, pid;
};

void hf_drained_publish(struct hf_table *table, const struct hf_drained *drained);
/* Not drained in the table of an agent that knows of no drains: what stands there is an earlier agent's. */
void hf_drained_read(const struct hf_table *table, struct hf_drained *ret_drained);

/* What an agent reports when it ends by a failed assertion, in its table's header, where it outlives the agent.
 *
 * Who writes: the thread that fails, and a main thread at the end in order, which removes it. Who reads: everybody. Ordering: `words_wall_ms`
 * is stored last (release) and loaded first (acquire). A reader that finds it changed behind the text takes no words. */

struct hf_last_words {
    int64_t wall_ms; /* Unix time */
    uint32_t pid;    /* as the agent saw it */
    char text[HF_LAST_WORDS + 1];
};

/* Stores alone: for an agent that trusts nothing of its own any more. A longer text is cut. */
void hf_last_words_put(struct hf_table_header *header, int64_t wall_ms, const char *text);
void hf_last_words_clear(struct hf_table_header *header);
/* False: the agent's last end was no failed assertion. */
bool hf_last_words_read(const struct hf_table_header *header, struct hf_last_words *ret_words);

#endif

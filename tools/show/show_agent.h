/* The agent as JSON, for every document. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_AGENT_H
#define HOLDFAST_TOOLS_SHOW_SHOW_AGENT_H

#include "shm/last_words.h"
#include "tools/output/json.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"

/* null without words, whose `wall_ms` is 0 then. */
json_t *show_last_words_json(const struct hf_last_words *words);

/* The member "agent". */
void show_agent_json(struct json_out *out, const struct reader *reader, const struct life *life);

#endif

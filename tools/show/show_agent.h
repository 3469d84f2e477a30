/* The agent as JSON, for every document. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_AGENT_H
#define HOLDFAST_TOOLS_SHOW_SHOW_AGENT_H

#include "tools/output/json.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"

/* The member "agent". */
void show_agent_json(struct json_out *out, const struct reader *reader, const struct life *life);

#endif

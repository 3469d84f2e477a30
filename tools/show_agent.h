/* The agent itself as JSON, for every document. */
#ifndef HOLDFAST_TOOLS_SHOW_AGENT_H
#define HOLDFAST_TOOLS_SHOW_AGENT_H

#include "tools/json.h"
#include "tools/life.h"
#include "tools/reader.h"

/* The member "agent". */
void show_agent_json(struct json_out *out, const struct reader *reader, const struct life *life);

#endif

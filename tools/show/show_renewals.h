/* The recent renewals on each node, the newest first. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_RENEWALS_H
#define HOLDFAST_TOOLS_SHOW_SHOW_RENEWALS_H

#include "tools/output/json.h"
#include "tools/reader/reader.h"

/* At most `most` per node. */
void show_renewals(const struct reader *reader, uint32_t most);
json_t *show_renewals_json(const struct reader *reader, uint32_t node, uint32_t most);

#endif

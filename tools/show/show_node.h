/* Nodes for people and as JSON. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_NODE_H
#define HOLDFAST_TOOLS_SHOW_SHOW_NODE_H

#include <stdint.h>

#include "tools/output/json.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"

/* Without a living agent (`life`) these show what was last known of the nodes, as such. */

/* One line per node, with a heading. */
void show_node_list(const struct reader *reader, const struct life *life);

/* All details of each node. */
void show_node_list_long(const struct reader *reader, const struct life *life);

/* The array "nodes", each with its newest `renewals` renewals. */
void show_node_list_json(struct json_out *out, const struct reader *reader, const struct life *life,
                         uint32_t renewals);

/* The words of enum hf_quarantine_reason bits, as an array. */
json_t *show_node_quarantine_json(uint32_t reasons);

#endif

/* Printing events: a line for people, or a JSON object on a line. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_EVENT_H
#define HOLDFAST_TOOLS_SHOW_SHOW_EVENT_H

#include "shm/layout.h"
#include "tools/output/json.h"
#include "tools/reader/reader.h"

/* Reads the nodes' ids in advance: they are absent while the next agent starts. */
void show_event_learn(const struct reader *reader);

/* Whether the event is about the node that had that id then; after show_event_learn(). */
bool show_event_is_of(const struct reader *reader, const struct hf_event *event, const char *node);

void show_event(const struct reader *reader, const struct hf_event *event);
void show_event_json(const struct reader *reader, const struct hf_event *event);

/* `count` events were overwritten before they could be read. As a line of JSON, or on stderr. */
void show_event_overwritten(const char *subcommand, uint64_t count, bool json);

#endif

/* The events of an agent's table in their order, from where one stopped reading. One thread. */
#ifndef HOLDFAST_TOOLS_READER_EVENTS_H
#define HOLDFAST_TOOLS_READER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/history.h"

/* A copy of some events, in their order. Zeroed is an empty one; freed with events_free(). */
struct events {
    struct hf_event *items;
    size_t count, room;
};
void events_free(struct events *events);

struct events_cursor {
    uint64_t next[HF_EVENT_RINGS]; /* index to be read next */
    uint64_t overwritten;          /* events that were overwritten before they could be read */
};

/* All that is still there, or only what came after the event of that number. */
struct events_cursor events_from_oldest(const struct hf_table *table);
struct events_cursor events_after(const struct hf_table *table, uint64_t number);

/* Replaces `events` by what was written since; ends the program without memory. */
void events_read(const struct hf_table *table, struct events_cursor *cursor, struct events *events);

/* What is looked for; zeroed: everything. */
struct events_filter {
    const void *name; /* of a lease; NULL: any */
    size_t name_len;
    bool prefix;        /* `name` is the beginning of one */
    uint32_t name_hash; /* of the whole name */
    bool by_node;
    uint8_t node;
};
/* A name that is longer than an event keeps is known by its hash. */
bool events_match(const struct events_filter *filter, const struct hf_event *event);

#endif

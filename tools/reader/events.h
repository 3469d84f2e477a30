/* Reads the events of an agent's table in order, continuing where it stopped. One thread. */
#ifndef HOLDFAST_TOOLS_READER_EVENTS_H
#define HOLDFAST_TOOLS_READER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/history.h"

/* A copy of some events, in order. Zeroed it is empty; freed with events_free(). */
struct events {
    struct hf_event *items;
    size_t count, room;
};
void events_free(struct events *events);

struct events_cursor {
    uint64_t next[HF_EVENT_RINGS]; /* next index to read */
    uint64_t overwritten;          /* events that were overwritten before they could be read */
};

/* All events still kept, or only those after the event with that number. */
struct events_cursor events_from_oldest(const struct hf_table *table);
/* All as well, but what was overwritten before that Unix time is not counted as missing. */
struct events_cursor events_from_since(const struct hf_table *table, int64_t since_wall_ms);
struct events_cursor events_after(const struct hf_table *table, uint64_t number);

/* Replaces `events` by those written since; ends the program if memory runs out. */
void events_read(const struct hf_table *table, struct events_cursor *cursor, struct events *events);

/* A filter; zeroed: everything. */
struct events_filter {
    const void *name; /* of a lease; NULL: any */
    size_t name_len;
    bool prefix;           /* `name` is the beginning of one */
    uint32_t name_hash;    /* of the whole name */
    int64_t since_wall_ms; /* Unix time; 0: any */
};
/* A name longer than an event can keep is matched by its hash. */
bool events_match(const struct events_filter *filter, const struct hf_event *event);

#endif

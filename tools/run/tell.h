/* The lines of `holdfast hold` on standard output: one event each, JSON or words.
 *
 * Writing blocks for a file only, whose file system may hang. What a slow reader has not taken waits in memory, and when there
 * is no more room a line is dropped as a whole. So each line is whole, and no reader can delay the end of a hold. One thread. */
#ifndef HOLDFAST_TOOLS_RUN_TELL_H
#define HOLDFAST_TOOLS_RUN_TELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"

struct tell_event {
    const char *event;    /* "granted", ... */
    const char *name;     /* as bytes; NULL: none */
    const char *reason;   /* NULL: none */
    uint64_t fence;       /* 0: none */
    int64_t ttl_ms;       /* 0: none */
    int64_t remaining_ms; /* until `lost` is told if nothing is renewed; -1: not told */
    /* Of a wait: the place among the waiters of this host, 0 unknown, and who holds the lock, NULL unknown. */
    bool waiting;
    uint32_t place;
    const struct hf_holder *holder;
};

#define TELL_LINE_SIZE 8192 /* enough for any event */

/* The line with its '\n'. Returns its length. */
size_t tell_line(char out[TELL_LINE_SIZE], const struct tell_event *event, bool json);

struct tell {
    int fd;    /* -1: nobody reads, */
    int error; /* as this errno told */
    bool socket, json;
    size_t used;
    char pending[4 * TELL_LINE_SIZE];
};

/* Takes standard output. */
void tell_init(struct tell *tell, bool json);

void tell(struct tell *tell, const struct tell_event *event);

/* Writes what waits, as far as it is taken. */
void tell_flush(struct tell *tell);

/* Closes standard output. */
void tell_end(struct tell *tell);

#endif

/* The events that an agent still has: history, and what watch begins with. */
#ifndef HOLDFAST_TOOLS_SHOW_PAST_EVENTS_H
#define HOLDFAST_TOOLS_SHOW_PAST_EVENTS_H

#include "tools/reader/events.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

/* Prints those that pass the filter and are of `args->node`, only the newest `args->count`. Returns how many there are.
 * Spoils `events`. After show_event_learn(). */
size_t past_events_print(const struct reader *reader, const struct reader_args *args,
                         const struct events_filter *filter, struct events *events);

#endif

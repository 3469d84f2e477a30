#include "tools/show/past_events.h"

#include "tools/show/show_event.h"

size_t past_events_print(const struct reader *reader, const struct reader_args *args,
                         const struct events_filter *filter, struct events *events)
{
    size_t matches = 0, first;

    for (size_t i = 0; i < events->count; i++)
        if (events_match(filter, &events->items[i]) &&
            (!args->node || show_event_is_of(reader, &events->items[i], args->node)))
            events->items[matches++] = events->items[i];
    first = args->count && matches > args->count ? matches - args->count : 0;
    for (size_t i = first; i < matches; i++)
        (args->json ? show_event_json : show_event)(reader, &events->items[i]);
    return matches;
}

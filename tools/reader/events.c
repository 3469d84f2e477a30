#include "tools/reader/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/status.h"
#include "tools/common/args.h"

#define RING(i) ((enum hf_event_ring)(i))

void events_free(struct events *events)
{
    free(events->items);
    *events = (struct events){0};
}

struct events_cursor events_from_oldest(const struct hf_table *table)
{
    struct events_cursor cursor = {0};

    for (int i = 0; i < HF_EVENT_RINGS; i++)
        cursor.overwritten += cursor.next[i] = hf_events_oldest(table, RING(i));
    return cursor;
}

struct events_cursor events_from_since(const struct hf_table *table, int64_t since_wall_ms)
{
    struct events_cursor cursor = events_from_oldest(table);
    struct hf_event event;

    for (int i = 0; i < HF_EVENT_RINGS; i++)
        if (hf_event_read(table, RING(i), cursor.next[i], &event) == HF_OK &&
            event.wall_ms < since_wall_ms)
            cursor.overwritten -= cursor.next[i];
    return cursor;
}

struct events_cursor events_after(const struct hf_table *table, uint64_t number)
{
    struct events_cursor cursor = {0};
    struct hf_event event;

    for (int i = 0; i < HF_EVENT_RINGS; i++) {
        cursor.next[i] = hf_events_oldest(table, RING(i));
        while (hf_event_read(table, RING(i), cursor.next[i], &event) == HF_OK &&
               event.number <= number)
            cursor.next[i]++;
    }
    return cursor;
}

static struct hf_event *events_place(struct events *events)
{
    if (events->count == events->room) {
        size_t room = events->room ? 2 * events->room : 256;
        struct hf_event *items = realloc(events->items, room * sizeof(*items));

        if (!items) {
            fputs("holdfast: out of memory\n", stderr);
            exit(EXIT_FAILED);
        }
        events->items = items;
        events->room = room;
    }
    return &events->items[events->count];
}

static int events_by_number(const void *a, const void *b)
{
    const struct hf_event *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

void events_read(const struct hf_table *table, struct events_cursor *cursor, struct events *events)
{
    events->count = 0;
    for (int i = 0; i < HF_EVENT_RINGS; i++) {
        uint64_t until = hf_events_written(table, RING(i));
        uint64_t oldest = hf_events_oldest(table, RING(i));

        if (cursor->next[i] < oldest) {
            cursor->overwritten += oldest - cursor->next[i];
            cursor->next[i] = oldest;
        }
        for (; cursor->next[i] < until; cursor->next[i]++) {
            if (hf_event_read(table, RING(i), cursor->next[i], events_place(events)) == HF_OK)
                events->count++;
            else
                cursor->overwritten++;
        }
    }
    if (events->count)
        qsort(events->items, events->count, sizeof(*events->items), events_by_number);
}

static bool events_name_matches(const struct events_filter *filter, const struct hf_event *event)
{
    size_t kept = hf_event_text_kept(event);
    size_t len = filter->name_len < kept ? filter->name_len : kept;

    if ((event->generation == 0 && event->kind != HF_EVENT_FORCED &&
         event->kind != HF_EVENT_DENIED) ||
        memcmp(event->text, filter->name, len) != 0)
        return false;
    if (filter->prefix)
        return filter->name_len <= event->text_len;
    /* Events of an earlier table have hashes by another key. */
    return filter->name_len == event->text_len &&
           (filter->name_len <= kept || filter->name_hash == event->name_hash);
}

bool events_match(const struct events_filter *filter, const struct hf_event *event)
{
    return event->wall_ms >= filter->since_wall_ms &&
           (!filter->name || events_name_matches(filter, event));
}

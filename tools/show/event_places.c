#include "tools/show/event_places.h"

#include <stdio.h>
#include <string.h>

#include "shm/history.h"
#include "shm/status.h"

#define MARKS_MOST 256

static struct mark {
    uint64_t number; /* of the event, which rise */
    unsigned place;
    char id[HF_EVENT_TEXT + 1];
} marks[MARKS_MOST];
static size_t count;
static uint64_t known_from; /* numbers below are of lists that nothing tells any more */

static void places_take(const struct hf_event *event)
{
    if (event->kind != HF_EVENT_NODE_PLACE)
        return;
    if (count == MARKS_MOST) { /* the oldest ones go */
        known_from = marks[0].number + 1;
        memmove(&marks[0], &marks[1], (MARKS_MOST - 1) * sizeof(marks[0]));
        count--;
    }
    marks[count].number = event->number;
    marks[count].place = event->node;
    snprintf(marks[count].id, sizeof(marks[count].id), "%.*s", (int)hf_event_text_kept(event),
             (const char *)event->text);
    count++;
}

void event_places_learn(const struct hf_table *table)
{
    uint64_t oldest = hf_events_oldest(table, HF_EVENTS_NODES);
    struct hf_event event;

    count = 0;
    known_from = 0;
    for (uint64_t i = oldest; i < hf_events_written(table, HF_EVENTS_NODES); i++) {
        if (hf_event_read(table, HF_EVENTS_NODES, i, &event) != HF_OK)
            continue;
        if (oldest > 0 && known_from == 0)
            known_from = event.number;
        places_take(&event);
    }
    if (count == 0)
        known_from = 0; /* no list but this one is known of */
}

enum event_place event_places_id(uint64_t number, unsigned place, char *ret_id, size_t size)
{
    if (number < known_from)
        return PLACE_UNKNOWN;
    for (size_t i = 0; i < count; i++)
        if (marks[i].number >= number && marks[i].place == place) {
            snprintf(ret_id, size, "%s", marks[i].id);
            return PLACE_AS_THEN;
        }
    return PLACE_AS_NOW;
}

bool event_places_has(const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(marks[i].id, id) == 0)
            return true;
    return false;
}

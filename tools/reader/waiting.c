#include "tools/reader/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/status.h"
#include "tools/common/args.h"

static int waiting_by_name(const struct hf_waiter_row *x, const struct hf_waiter_row *y)
{
    size_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, len);

    return order ? order : x->name_len - y->name_len;
}

static int waiting_by_name_and_place(const void *a, const void *b)
{
    const struct hf_waiter_row *x = &((const struct waiting_one *)a)->row,
                               *y = &((const struct waiting_one *)b)->row;
    int order = waiting_by_name(x, y);

    if (order)
        return order;
    if (x->asked_ns != y->asked_ns)
        return x->asked_ns < y->asked_ns ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool waiting_passes(const struct hf_waiter_row *row, const void *prefix, size_t len,
                           bool whole)
{
    return (whole ? row->name_len == len : row->name_len >= len) &&
           memcmp(row->name, len ? prefix : "", len) == 0;
}

void waiting_read(const struct hf_table *table, const struct life *life, const void *prefix,
                  size_t prefix_len, bool whole, struct waiting *ret_waiting)
{
    uint32_t rows = hf_waiters_room(table);
    struct waiting waiting = {.known = life->verdict == LIFE_ALIVE || life->verdict == LIFE_HUNG};

    if (waiting.known) {
        waiting.all = hf_counter_read(table, HF_COUNTER_WAITERS);
        waiting.items = calloc(rows, sizeof(*waiting.items));
        if (!waiting.items) {
            fputs("holdfast: out of memory\n", stderr);
            exit(EXIT_FAILED);
        }
    }
    for (uint32_t i = 0; waiting.known && i < rows; i++) {
        struct hf_waiter_row *row = &waiting.items[waiting.count].row;

        if (hf_waiter_read(table, i, row) == HF_OK &&
            waiting_passes(row, prefix, prefix_len, whole))
            waiting.count++;
    }
    if (waiting.count)
        qsort(waiting.items, waiting.count, sizeof(*waiting.items), waiting_by_name_and_place);
    for (size_t i = 0; i < waiting.count; i++)
        waiting.items[i].place =
            i && waiting_by_name(&waiting.items[i].row, &waiting.items[i - 1].row) == 0
                ? waiting.items[i - 1].place + 1
                : 1;
    *ret_waiting = waiting;
}

void waiting_free(struct waiting *waiting)
{
    free(waiting->items);
    *waiting = (struct waiting){.known = false};
}

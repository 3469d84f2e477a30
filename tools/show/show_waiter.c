#include "tools/show/show_waiter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/text.h"
#include "tools/output/format.h"

#define NAME_WIDTH_MAX 48

static int64_t waiter_waits_ms(const struct hf_waiter_row *row)
{
    int64_t ms = hf_dur_ms(hf_time_since(reader_now(), (hf_time){row->since_ns}));

    return ms > 0 ? ms : 0;
}

static bool waiter_gives_up(const struct hf_waiter_row *row)
{
    return row->deadline_ns != INT64_MAX;
}

static int64_t waiter_gives_up_ms(const struct hf_waiter_row *row)
{
    int64_t ms = hf_dur_ms(hf_time_since((hf_time){row->deadline_ns}, reader_now()));

    return ms > 0 ? ms : 0;
}

static const char *waiter_name_of(char *out, size_t size, const struct hf_waiter_row *row)
{
    return text_escape(out, size, row->name, row->name_len);
}

static const char *waiter_command_of(char *out, size_t size, const struct hf_waiter_row *row)
{
    return *row->comm ? text_escape_str(out, size, row->comm) : "-";
}

static const char *waiter_until_of(char *out, size_t size, const struct hf_waiter_row *row)
{
    return waiter_gives_up(row) ? text_span(out, size, waiter_gives_up_ms(row)) : "never";
}

void show_waiter_list(const struct waiting *waiting, bool all)
{
    char name[TEXT_NAME_SIZE], user[FORMAT_USER_SIZE], waits[TEXT_SPAN_SIZE];
    char until[TEXT_SPAN_SIZE], command[4 * sizeof(((struct hf_waiter_row *)0)->comm)];
    int width = (int)strlen("WAITED FOR");

    if (!waiting->count)
        return;
    for (size_t i = 0; i < waiting->count; i++) {
        int len = text_columns(waiter_name_of(name, sizeof(name), &waiting->items[i].row));

        if (len > width)
            width = len < NAME_WIDTH_MAX ? len : NAME_WIDTH_MAX;
    }
    printf("\n%-*s  %-5s  %-7s  %-8s  %-6s  %-8s  %s\n", width, "WAITED FOR", "PLACE", "PID",
           "USER", "WAITS", "GIVES UP", "COMMAND");
    for (size_t i = 0; i < waiting->count; i++) {
        const struct hf_waiter_row *row = &waiting->items[i].row;

        waiter_name_of(name, sizeof(name), row);
        printf("%-*s  %-5" PRIu32 "  %-7" PRIu32 "  %-8s  %-6s  %-8s  %s\n",
               text_width(name, width), name, waiting->items[i].place, row->pid,
               format_user(user, sizeof(user), row->uid),
               text_span(waits, sizeof(waits), waiter_waits_ms(row)),
               waiter_until_of(until, sizeof(until), row),
               waiter_command_of(command, sizeof(command), row));
    }
    if (all && waiting->all > waiting->count)
        printf("... and %" PRIu64 " more wait\n", waiting->all - (uint64_t)waiting->count);
}

void show_waiter_of_lease(const struct waiting *waiting)
{
    char user[FORMAT_USER_SIZE], waits[TEXT_SPAN_SIZE], until[TEXT_SPAN_SIZE];
    char command[4 * sizeof(((struct hf_waiter_row *)0)->comm)];

    for (size_t i = 0; i < waiting->count; i++) {
        const struct hf_waiter_row *row = &waiting->items[i].row;

        printf("waits     %" PRIu32 ". pid %" PRIu32 " (user %s) command %s for %s",
               waiting->items[i].place, row->pid, format_user(user, sizeof(user), row->uid),
               waiter_command_of(command, sizeof(command), row),
               text_span(waits, sizeof(waits), waiter_waits_ms(row)));
        if (waiter_gives_up(row))
            printf(", gives up in %s", waiter_until_of(until, sizeof(until), row));
        putchar('\n');
    }
}

static json_t *waiter_json(const struct waiting_one *one)
{
    const struct hf_waiter_row *row = &one->row;
    char user[FORMAT_USER_SIZE];
    json_t *json = json_object();

    json_put_name(json, row->name, row->name_len);
    json_put(json, "place", json_integer(one->place));
    json_put(json, "pid", json_integer(row->pid));
    json_put(json, "uid", json_integer(row->uid));
    json_put(json, "user", json_text_str(format_user(user, sizeof(user), row->uid)));
    json_put(json, "command", json_word(row->comm));
    json_put(json, "waits_ms", json_integer(waiter_waits_ms(row)));
    json_put(json, "gives_up_ms",
             waiter_gives_up(row) ? json_integer(waiter_gives_up_ms(row)) : json_null());
    json_put(json, "ttl_ms", json_integer(row->ttl_ms));
    json_put(json, "run", json_boolean(row->flags & HF_WAITER_F_RUN));
    return json;
}

void show_waiter_json(struct json_out *out, const struct waiting *waiting)
{
    if (!waiting->known) {
        json_member(out, "waiters", json_null());
        return;
    }
    json_array_begin(out, "waiters");
    for (size_t i = 0; i < waiting->count; i++)
        json_element(out, waiter_json(&waiting->items[i]));
    json_array_end(out);
}

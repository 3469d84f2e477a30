#include "tools/show/show_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/wordings.h"
#include "tools/common/text.h"
#include "tools/output/words.h"

#define NAME_WIDTH_MAX 48

struct list {
    const struct reader *reader;
    struct json_out *out;
    uint32_t count;
    int width; /* of names */
};

/* What is computed from a lease for any output. */
struct facts {
    int64_t left_ms, held_ms;
};

static struct facts lease_facts_of(const struct hf_slot_view *view, bool in_force)
{
    hf_time now = reader_now();
    struct facts facts = {0};

    if (in_force)
        facts.left_ms = hf_dur_ms(hf_time_since(view->deadline, now));
    if (view->since.ns > 0)
        facts.held_ms = hf_dur_ms(hf_time_since(now, view->since));
    return facts;
}

/* --- many ---------------------------------------------------------------------------------------- */

static void lease_measure(const struct hf_slot_view *view, bool in_force, void *arg)
{
    struct list *list = arg;
    char name[TEXT_NAME_SIZE];
    int width = text_columns(text_escape(name, sizeof(name), view->name, view->name_len));

    (void)in_force;
    list->count++;
    if (width > list->width)
        list->width = width < NAME_WIDTH_MAX ? width : NAME_WIDTH_MAX;
}

static void lease_print_line(const struct hf_slot_view *view, bool in_force, void *arg)
{
    struct list *list = arg;
    struct facts facts = lease_facts_of(view, in_force);
    char name[TEXT_NAME_SIZE], user[FORMAT_USER_SIZE], note[4 * HF_NOTE_MAX + 1];
    char left[TEXT_SPAN_SIZE] = "-", held[TEXT_SPAN_SIZE] = "-", votes[32];

    if (in_force) {
        text_span(left, sizeof(left), facts.left_ms);
        text_span(held, sizeof(held), facts.held_ms);
    }
    text_escape(name, sizeof(name), view->name, view->name_len);
    snprintf(votes, sizeof(votes), "%" PRIu32 "/%" PRIu32, view->votes,
             list->reader->table.header->nodes);
    printf("%-*s  %-6s  %-19" PRIu64 "  %-6s  %-5s  %-7" PRIu32 "  %-8s  %-6s  %s\n",
           text_width(name, list->width), name, words_lease_state(view, in_force), view->fence,
           left, votes, view->pid, format_user(user, sizeof(user), view->uid), held,
           *view->note ? text_escape_str(note, sizeof(note), view->note) : "-");
    list->count++;
}

uint32_t show_lease_list(const struct reader *reader, const struct reader_filter *filter,
                         uint32_t *ret_unreadable)
{
    struct list list = {.reader = reader, .width = (int)strlen("NAME")};

    /* Walks twice instead of copying a million leases; a lease that comes in between may be wider. */
    reader_walk(&reader->table, filter, lease_measure, &list);
    printf("%-*s  %-6s  %-19s  %-6s  %-5s  %-7s  %-8s  %-6s  %s\n", list.width, "NAME", "STATE",
           "FENCE", "LEFT", "VOTES", "PID", "USER", "HELD", "NOTE");
    list.count = 0;
    *ret_unreadable = reader_walk(&reader->table, filter, lease_print_line, &list);
    return list.count;
}

static void lease_print_json(const struct hf_slot_view *view, bool in_force, void *arg)
{
    struct list *list = arg;

    json_element(list->out, show_lease_json(list->reader, view, in_force));
    list->count++;
}

uint32_t show_lease_list_json(struct json_out *out, const struct reader *reader,
                              const struct reader_filter *filter, uint32_t *ret_unreadable)
{
    struct list list = {.reader = reader, .out = out};

    json_array_begin(out, "leases");
    *ret_unreadable = reader_walk(&reader->table, filter, lease_print_json, &list);
    json_array_end(out);
    return list.count;
}

void show_lease_unreadable(const char *subcommand, uint32_t unreadable)
{
    if (unreadable)
        fprintf(stderr,
                "holdfast %s: %" PRIu32 " of the table's slots could not be read: the agent died "
                "while it wrote them, or the table is damaged\n",
                subcommand, unreadable);
}

/* --- one ----------------------------------------------------------------------------------------- */

json_t *show_lease_json(const struct reader *reader, const struct hf_slot_view *view, bool in_force)
{
    const struct hf_table_terms terms = hf_table_terms(&reader->table);
    struct facts facts = lease_facts_of(view, in_force);
    char user[FORMAT_USER_SIZE];
    json_t *lease = json_object();

    json_put_name(lease, view->name, view->name_len);
    json_put(lease, "state", json_string(words_lease_state(view, in_force)));
    json_put(lease, "held", json_boolean(in_force));
    json_put(lease, "fence", json_u64_text(view->fence));
    json_put(lease, "left_ms", json_integer(facts.left_ms));
    json_put(lease, "held_ms", json_integer(facts.held_ms));
    json_put(lease, "since", json_wall(view->since.ns > 0 ? reader_wall_of(view->since) : 0));
    json_put(lease, "ttl_ms", json_integer(view->ttl_ms));
    json_put(lease, "votes", json_integer(view->votes));
    json_put(lease, "nodes", json_integer(terms.nodes));
    json_put(lease, "quorum", json_integer(terms.quorum));
    json_put(lease, "pid", json_integer(view->pid));
    json_put(lease, "uid", json_integer(view->uid));
    json_put(lease, "user", json_text_str(format_user(user, sizeof(user), view->uid)));
    json_put(lease, "command", json_word(view->comm));
    json_put(lease, "note", json_word(view->note));
    json_put(lease, "reason", json_word(hf_loss_word(view->reason)));
    json_put(lease, "run", json_boolean(view->flags & HF_SLOT_F_JOB));
    json_put(lease, "readopted", json_boolean(view->flags & HF_SLOT_F_READOPTED));
    json_put(lease, "orphan", json_boolean(view->flags & HF_SLOT_F_ORPHAN));
    json_put(lease, "slot", json_integer(view->slot));
    json_put(lease, "generation", json_integer(view->generation));
    return lease;
}

static void lease_print_flags(const struct hf_slot_view *view)
{
    if (view->flags & HF_SLOT_F_JOB)
        puts("kind      run: released when the job's process tree is reaped");
    if (view->flags & HF_SLOT_F_READOPTED)
        puts("history   taken over from an earlier agent");
    if (view->flags & HF_SLOT_F_ORPHAN)
        puts("orphan    the holder is gone without a word, or out of the agent's sight: the lease "
             "is renewed no more, and lapses");
}

void show_lease(const struct reader *reader, const struct hf_slot_view *view, bool in_force)
{
    const struct hf_table_terms terms = hf_table_terms(&reader->table);
    struct facts facts = lease_facts_of(view, in_force);
    char text[TEXT_NAME_SIZE], user[FORMAT_USER_SIZE], wall[TEXT_SPAN_SIZE], span[TEXT_SPAN_SIZE];

    printf("name      %s\n", text_escape(text, sizeof(text), view->name, view->name_len));
    printf("state     %s", words_lease_state(view, in_force));
    printf(view->reason ? " (%s)\n" : "%s\n", hf_loss_text(view->reason));
    printf("fence     %" PRIu64 "\n", view->fence);
    if (in_force)
        printf("left      %s of %s, until %s\n", text_span(span, sizeof(span), facts.left_ms),
               text_span(user, sizeof(user), view->ttl_ms),
               text_wall(wall, sizeof(wall), reader_wall_of(view->deadline)));
    else
        printf("ttl       %s\n", text_span(span, sizeof(span), view->ttl_ms));
    printf("votes     %" PRIu32 " of %" PRIu32 " nodes, quorum %" PRIu32 "\n", view->votes,
           terms.nodes, terms.quorum);
    printf("holder    pid %" PRIu32 " (user %s)", view->pid,
           format_user(user, sizeof(user), view->uid));
    if (*view->comm)
        printf(" command %s", text_escape_str(text, sizeof(text), view->comm));
    if (view->since.ns > 0)
        printf("\nsince     %s (%s)", text_wall(wall, sizeof(wall), reader_wall_of(view->since)),
               text_span(span, sizeof(span), facts.held_ms));
    printf("\nnote      %s\n", *view->note ? text_escape_str(text, sizeof(text), view->note) : "-");
    lease_print_flags(view);
    printf("slot      %" PRIu32 ", generation %" PRIu32 "\n", view->slot, view->generation);
}

/* --- waiters ---------------------------------------------------------------------------------- */

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
    json_put(json, "run", json_boolean(row->flags & HF_WAITER_F_JOB));
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

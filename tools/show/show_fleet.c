#include "tools/show/show_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/output/words.h"
#include "tools/reader/fleet_told.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"

#define WORD_SIZE (4 * HF_NODE_TEXT_MAX + 1)
#define WIDTH_MAX 60

/* A uid means something on its own host only. */
static bool fleet_is_by_this_host(const struct fleet_told *told)
{
    struct hf_holder holder = {0};

    snprintf(holder.host, sizeof(holder.host), "%s", told->by_host);
    return conflict_is_here(&holder);
}

/* --- for people ---------------------------------------------------------------------------------- */

static const char *show_fleet_says(const struct fleet_told_node *node)
{
    static const struct {
        const char *word, *shown;
    } words[] = {
        {"unknown", "nothing yet"},
        {"none", "no record"},
        {"ours", "this record"},
        {"founding", "an incomplete record"},
        {"earlier", "an earlier record"},
        {"changing", "a change under way"},
        {"later", "a later record"},
        {"foreign", "another fleet's record"},
        {"unreadable", "an unreadable record"},
    };

    for (size_t i = 0; i < HF_LENGTH(words); i++)
        if (strcmp(node->says, words[i].word) == 0)
            return words[i].shown;
    return "?"; /* a word of a later agent */
}

static void fleet_print_by(const struct fleet_told *told)
{
    char wall[TEXT_INSTANT_SIZE], user[FORMAT_USER_SIZE], host[4 * sizeof(told->by_host)];

    if (told->since_wall_ms == 0)
        return;
    printf(", since %s by ", text_wall(wall, sizeof(wall), (int64_t)told->since_wall_ms));
    if (fleet_is_by_this_host(told))
        fputs(format_user(user, sizeof(user), (uint32_t)told->by_uid), stdout);
    else
        printf("uid %" PRIu64, told->by_uid);
    printf(" on %s", text_escape_str(host, sizeof(host), told->by_host));
}

static void fleet_print_record(const struct fleet_told *told)
{
    char name[WORD_SIZE], state[4 * TOLD_WORD_SIZE], digest[4 * TOLD_WORD_SIZE],
        span[TEXT_SPAN_SIZE];

    if (!told->known) {
        printf("fleet     none: this agent has no complete record of its fleet\n");
        return;
    }
    printf("fleet     %.*s version %" PRIu64 ", %s", TOLD_NAME_SHOWN,
           text_escape_str(name, sizeof(name), told->name), told->version,
           text_escape_str(state, sizeof(state), told->state));
    if (told->settles_ms)
        printf(" and settles in %s", text_span(span, sizeof(span), (int64_t)told->settles_ms));
    fleet_print_by(told);
    printf("\nrecord    %s: ttl_max %s, %d node%s, %d %s needed\n",
           text_escape_str(digest, sizeof(digest), told->digest),
           text_span(span, sizeof(span), (int64_t)told->ttl_max_ms), told->seat_count,
           told->seat_count == 1 ? "" : "s", fleet_told_quorum(told),
           fleet_told_quorum(told) == 1 ? "is" : "are");
}

struct widths {
    int id, seat;
};

static void fleet_widen(int *width, const char *text)
{
    char shown[WORD_SIZE];
    int length = (int)strlen(text_escape_str(shown, sizeof(shown), text));

    if (length > *width)
        *width = length < WIDTH_MAX ? length : WIDTH_MAX;
}

static struct widths fleet_widths_of(const struct fleet_told *told)
{
    struct widths widths = {.id = (int)strlen("NODE"), .seat = (int)strlen("ADDRESS")};

    for (int i = 0; i < told->count; i++) {
        fleet_widen(&widths.id, told->node[i].id);
        fleet_widen(&widths.seat, told->node[i].seat);
    }
    for (int i = 0; i < told->seat_count; i++) {
        fleet_widen(&widths.id, told->seat[i].id);
        fleet_widen(&widths.seat, told->seat[i].address);
    }
    return widths;
}

static void fleet_print_row(const struct widths *widths, const char *id, const char *seat,
                            const char *text, const char *counts)
{
    char shown_id[WORD_SIZE], shown_seat[WORD_SIZE];

    printf("%-*s  %-*s  %-22s  %s\n", widths->id, text_escape_str(shown_id, sizeof(shown_id), id),
           widths->seat, *seat ? text_escape_str(shown_seat, sizeof(shown_seat), seat) : "-", text,
           counts);
}

static void fleet_print_nodes(const struct fleet_told *told)
{
    struct widths widths = fleet_widths_of(told);

    if (told->count + told->seat_count == 0)
        return; /* the agent has only begun */
    putchar('\n');
    fleet_print_row(&widths, "NODE", "ADDRESS", "THIS NODE SAYS", "COUNTS");
    for (int i = 0; i < told->count; i++)
        fleet_print_row(&widths, told->node[i].id, told->node[i].seat,
                        show_fleet_says(&told->node[i]), told->node[i].counts ? "yes" : "no");
    for (int i = 0; i < told->seat_count; i++)
        if (!fleet_told_lists(told, told->seat[i].id))
            fleet_print_row(&widths, told->seat[i].id, told->seat[i].address, "not configured here",
                            "no");
}

/* While only those that stay count: who else there is. */
static void fleet_print_change(const struct fleet_told *told)
{
    char id[WORD_SIZE], address[WORD_SIZE];

    for (int i = 0; i < told->before_count; i++) {
        const struct fleet_told_seat *seat = &told->before[i];

        if (!fleet_told_has(told->seat, told->seat_count, seat))
            printf("leaves: %s at %s%s\n", text_escape_str(id, sizeof(id), seat->id),
                   text_escape_str(address, sizeof(address), seat->address),
                   seat->gone ? ", stopped for good by an operator's word" : "");
    }
    for (int i = 0; i < told->seat_count; i++) {
        const struct fleet_told_seat *seat = &told->seat[i];

        if (!fleet_told_has(told->before, told->before_count, seat))
            printf("new: %s at %s counts when the fleet has settled\n",
                   text_escape_str(id, sizeof(id), seat->id),
                   text_escape_str(address, sizeof(address), seat->address));
    }
}

static void fleet_print_remarks(const struct fleet_told *told)
{
    char text[4 * TOLD_TEXT_SIZE];

    if (fleet_told_narrow(told))
        fleet_print_change(told);
    for (int i = 0; i < told->count; i++)
        if (told->node[i].elsewhere)
            printf("%s\n", fleet_told_elsewhere(text, sizeof(text), &told->node[i]));
    for (int i = 0; i < told->misplaced_count; i++)
        printf("%s\n", text_escape_str(text, sizeof(text), told->misplaced[i]));
    if (*told->differs)
        printf("this host may take no locks: %s\n",
               text_escape_str(text, sizeof(text), told->differs));
    if (*told->waits)
        printf("waits: %s\n", text_escape_str(text, sizeof(text), told->waits));
}

void show_fleet(const struct fleet_told *told)
{
    fleet_print_record(told);
    fleet_print_nodes(told);
    fleet_print_remarks(told);
}

/* --- JSON ---------------------------------------------------------------------------------------- */

static json_t *fleet_seats_json(const struct fleet_told_seat *seats, int count, bool are_before)
{
    json_t *array = json_array();

    for (int i = 0; i < count; i++) {
        json_t *seat = json_object();

        json_put(seat, "id", json_text_str(seats[i].id));
        json_put(seat, "address", json_text_str(seats[i].address));
        if (are_before)
            json_put(seat, "gone", json_boolean(seats[i].gone));
        json_array_append_new(array, seat);
    }
    return array;
}

static json_t *fleet_by_json(const struct fleet_told *told)
{
    char user[FORMAT_USER_SIZE];
    json_t *by;

    if (told->since_wall_ms == 0)
        return json_null();
    by = json_object();
    json_put(by, "host", json_text_str(told->by_host));
    json_put(by, "uid", json_integer((json_int_t)told->by_uid));
    json_put(by, "user",
             fleet_is_by_this_host(told)
                 ? json_string(format_user(user, sizeof(user), (uint32_t)told->by_uid))
                 : json_null());
    return by;
}

static json_t *fleet_record_json(const struct fleet_told *told)
{
    json_t *record;

    if (!told->known)
        return json_null();
    record = json_object();
    json_put(record, "fleet", json_text_str(told->name));
    json_put(record, "digest", json_text_str(told->digest));
    json_put(record, "version", json_integer((json_int_t)told->version));
    json_put(record, "state", json_text_str(told->state));
    json_put(record, "settles_ms",
             told->settles_ms ? json_integer((json_int_t)told->settles_ms) : json_null());
    json_put(record, "since", json_wall((int64_t)told->since_wall_ms));
    json_put(record, "by", fleet_by_json(told));
    json_put(record, "ttl_max_ms", json_integer((json_int_t)told->ttl_max_ms));
    json_put(record, "quorum", json_integer(fleet_told_quorum(told)));
    json_put(record, "members", fleet_seats_json(told->seat, told->seat_count, false));
    json_put(record, "members_before", fleet_seats_json(told->before, told->before_count, true));
    return record;
}

static json_t *fleet_node_json(const struct fleet_told_node *node)
{
    json_t *json = json_object();

    json_put(json, "id", json_text_str(node->id));
    json_put(json, "address", json_word(node->seat));
    json_put(json, "configured", json_word(node->configured));
    json_put(json, "connected", json_word(node->connected));
    json_put(json, "says", json_word(node->says));
    json_put(json, "counts", json_boolean(node->counts));
    json_put(json, "elsewhere", json_boolean(node->elsewhere));
    return json;
}

void show_fleet_json(struct json_out *out, const struct fleet_told *told)
{
    json_member(out, "well", json_boolean(fleet_told_well(told)));
    json_member(out, "record", fleet_record_json(told));
    json_array_begin(out, "nodes");
    for (int i = 0; i < told->count; i++)
        json_element(out, fleet_node_json(&told->node[i]));
    json_array_end(out);
    json_array_begin(out, "misplaced");
    for (int i = 0; i < told->misplaced_count; i++)
        json_element(out, json_text_str(told->misplaced[i]));
    json_array_end(out);
    json_member(out, "waits", json_word(told->waits));
    json_member(out, "differs", json_word(told->differs));
}

/* --- holdfast fleet --------------------------------------------------------------------------- */

/* holdfast fleet: the fleet's record, and what each node and this host say of it. */

static void cmd_fleet_print_json(const struct place *place, const struct fleet_told *told)
{
    struct json_out out;

    json_begin(&out, stdout);
    json_member(&out, "agent_name", json_string(place->agent));
    show_fleet_json(&out, told);
    json_end(&out);
}

int cmd_fleet(int argc, char **argv)
{
    struct reader_args args;
    struct fleet_told told;
    struct place place;
    char why[512];
    int code = reader_args_parse(
        argc, argv, "j",
        "fleet [options]\n       holdfast fleet move|add|remove|ttl-max|mark-dead ... (see "
        "holdfast "
        "fleet "
        "move --help)",
        "Shows the fleet's record, which names the nodes and their addresses for all hosts, and\n"
        "what each node and this host say of it.\n"
        "Exit code: 0 this agent goes by a complete record, 3 it does not, or its configuration\n"
        "has addresses of nodes mixed up, 69 no agent, 77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = fleet_told_ask(args.agent, &place, &told, why, sizeof(why));
    if (code != EXIT_OK) {
        fprintf(stderr, "holdfast fleet: %s\n", why);
        return code;
    }
    if (args.json)
        cmd_fleet_print_json(&place, &told);
    else
        show_fleet(&told);
    return fleet_told_well(&told) ? EXIT_OK : EXIT_ATTENTION;
}

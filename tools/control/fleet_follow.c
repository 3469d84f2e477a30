#include "tools/control/control_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/reader/reader.h"

#define LOOK_EVERY hf_ms(200)
#define SAY_EVERY  hf_ms(5000)
/* The agent puts a change for five seconds, and drops it when no node took it. */
#define TAKEN_MOST hf_ms(8000)
#define AWAY_MOST  hf_ms(15000) /* the agent starts again by itself, for some hundred milliseconds */
#define MEET_MOST  hf_ms(5000)  /* a start by the settled record, until its nodes were met */

#define ID_SIZE    (4 * HF_NODE_TEXT_MAX + 1)

/* What one look at the fleet says of the change. */
enum course { WAITS_TO_BEGIN, ANOTHER_CAME, GOES_ON, IS_OVER, IS_PASSED, IS_GIVEN_UP };

struct state {
    const struct fleet_follow *follow;
    hf_time began, until, seen, said, over; /* over: HF_TIME_NEVER before it is */
    bool begun;                             /* it was seen */
    char words[4 * TOLD_TEXT_SIZE];
    struct fleet_told told;
};

/* --- what it is -------------------------------------------------------------------------------- */

static const struct fleet_told_seat *follow_member(const struct fleet_told_seat *seats, int count,
                                                   const char *id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, id) == 0)
            return &seats[i];
    return NULL;
}

static bool follow_is_back(const struct fleet_follow *f, const struct fleet_told *told)
{
    bool back = told->seat_count == f->back_count;

    for (int i = 0; back && i < f->back_count; i++)
        back = fleet_told_has(told->seat, told->seat_count, &f->back[i]);
    return back;
}

/* Whether a record of that version is what was asked for. */
static bool follow_is_ours(const struct fleet_follow *f, const struct fleet_told *told)
{
    const struct fleet_told_seat *now = follow_member(told->seat, told->seat_count, f->id),
                                 *before = follow_member(told->before, told->before_count, f->id);

    switch (f->verb) {
    case FLEET_MOVE:
        return before && now && strcmp(now->address, f->seat) == 0;
    case FLEET_ADD:
        return !before && now && strcmp(now->address, f->seat) == 0;
    case FLEET_REMOVE:
        return before && !now;
    case FLEET_TTL_MAX:
        return told->ttl_max_ms == f->ttl_max_ms;
    case FLEET_ABORT:
        return follow_is_back(f, told);
    case FLEET_MARK_DEAD:
    case FLEET_CONFIRM:
        break;
    }
    return true; /* whoever began it */
}

/* Whether the list is as the change leaves it. */
static bool follow_is_in(const struct fleet_follow *f, const struct fleet_told_seat *seats,
                         int count)
{
    const struct fleet_told_seat *seat = follow_member(seats, count, f->id);

    if (f->verb == FLEET_REMOVE)
        return !seat;
    return seat && strcmp(seat->address, f->seat) == 0;
}

static bool follow_changes_list(const struct fleet_follow *f)
{
    return f->verb == FLEET_MOVE || f->verb == FLEET_ADD || f->verb == FLEET_REMOVE;
}

/* The change has been made, though it was too short to be seen. */
static bool follow_has_been(const struct fleet_follow *f, const struct fleet_told *told)
{
    return follow_changes_list(f) && told->version == f->version + 1 &&
           follow_is_in(f, told->before, told->before_count);
}

/* A later version has undone it. */
static bool follow_is_undone(const struct fleet_follow *f, const struct fleet_told *told)
{
    if (f->verb == FLEET_TTL_MAX)
        return told->ttl_max_ms != f->ttl_max_ms;
    return follow_changes_list(f) && !follow_is_in(f, told->seat, told->seat_count);
}

/* The operator's word is in the record, or was not needed any more. */
static bool follow_is_marked_dead(const struct fleet_follow *f, const struct fleet_told *told)
{
    const struct fleet_told_seat *before = follow_member(told->before, told->before_count, f->id);

    return strcmp(told->state, "changing") != 0 || (before && before->gone);
}

/* A node has the record again, and counts by it; the agents give it to the others. */
static bool follow_is_confirmed(const struct fleet_told *told)
{
    for (int i = 0; i < told->count; i++)
        if (strcmp(told->node[i].says, "ours") == 0 && told->node[i].counts)
            return true;
    return false;
}

static bool follow_is_settled(const struct fleet_told *told)
{
    return strcmp(told->state, "complete") == 0 && told->settles_ms == 0;
}

static enum course follow_course_of(const struct state *s)
{
    const struct fleet_follow *f = s->follow;
    const struct fleet_told *told = &s->told;

    if (f->verb == FLEET_CONFIRM)
        return follow_is_confirmed(told) ? IS_OVER : WAITS_TO_BEGIN;
    if (told->version < f->version)
        return WAITS_TO_BEGIN;
    if (told->version > f->version)
        return !s->begun && !follow_has_been(f, told) ? ANOTHER_CAME
               : follow_is_undone(f, told)            ? IS_GIVEN_UP
                                                      : IS_PASSED;
    if (!follow_is_ours(f, told))
        return ANOTHER_CAME;
    if (f->verb == FLEET_MARK_DEAD && !follow_is_marked_dead(f, told))
        return WAITS_TO_BEGIN;
    return follow_is_settled(told) ? IS_OVER : GOES_ON;
}

/* The node that has a change by which the agent does not go; NULL: none was seen. */
static const struct fleet_told_node *follow_taker(const struct fleet_told *told)
{
    for (int i = 0; i < told->count; i++)
        if (strcmp(told->node[i].says, "changing") == 0 || strcmp(told->node[i].says, "later") == 0)
            return &told->node[i];
    return NULL;
}

/* --- words ------------------------------------------------------------------------------------- */

static int64_t follow_seconds_since_began(const struct state *s)
{
    return hf_dur_ms(hf_time_since(reader_now(), s->began)) / 1000;
}

/* Whether these are other words than the last ones, or those were some time ago. */
static bool follow_is_worth_saying(struct state *s, const char *words)
{
    if (strcmp(words, s->words) == 0 &&
        hf_time_before(reader_now(), hf_time_add(s->said, SAY_EVERY)))
        return false;
    snprintf(s->words, sizeof(s->words), "%s", words);
    s->said = reader_now();
    return true;
}

/* It has begun, and the agent cannot go on. */
static void follow_say_taken(struct state *s, const struct fleet_told_node *node)
{
    char words[sizeof(s->words)], id[ID_SIZE];

    text_escape_str(words, sizeof(words), s->told.waits);
    if (follow_is_worth_saying(s, words))
        printf("version %" PRIu64
               " stands here, and node %s has a change of the fleet; %s (after %" PRId64 " s)\n",
               s->told.version, text_escape_str(id, sizeof(id), node->id),
               *words ? words : "see holdfast nodes", follow_seconds_since_began(s));
}

static void follow_say_progress(struct state *s)
{
    char words[sizeof(s->words)];
    const struct fleet_told *told = &s->told;
    bool settles = strcmp(told->state, "complete") == 0;

    if (settles)
        snprintf(words, sizeof(words), "complete");
    else
        text_escape_str(words, sizeof(words),
                        *told->waits ? told->waits : "its nodes are told of it");
    if (!follow_is_worth_saying(s, words))
        return;
    if (settles)
        printf("version %" PRIu64 ": complete, and settles in %" PRIu64 " s (after %" PRId64
               " s)\n",
               told->version, told->settles_ms / 1000, follow_seconds_since_began(s));
    else
        printf("version %" PRIu64 ": changing; %s (after %" PRId64 " s)\n", told->version, words,
               follow_seconds_since_began(s));
}

/* The node that the change put there, while it gives no votes; NULL: it votes, or there is none. */
static const struct fleet_told_node *follow_mute_newcomer(const struct state *s)
{
    const struct fleet_follow *f = s->follow;

    for (int i = 0; (f->verb == FLEET_MOVE || f->verb == FLEET_ADD) && i < s->told.count; i++)
        if (strcmp(s->told.node[i].id, f->id) == 0 && s->told.node[i].mute)
            return &s->told.node[i];
    return NULL;
}

/* Right after the agent started by the settled record nobody knows yet. */
static bool follow_is_being_met(struct state *s)
{
    const struct fleet_told_node *node = follow_mute_newcomer(s);

    if (s->over.ns == HF_TIME_NEVER.ns)
        s->over = reader_now();
    return node && !node->votes_in_ms &&
           hf_time_before(reader_now(), hf_time_add(s->over, MEET_MOST));
}

static void follow_say_votes(const struct state *s)
{
    const struct fleet_told_node *node = follow_mute_newcomer(s);
    char span[TEXT_SPAN_SIZE];

    if (!node)
        return;
    if (node->votes_in_ms)
        printf(", and votes in %s", text_span(span, sizeof(span), (int64_t)node->votes_in_ms));
    else
        printf(", and does not vote yet (holdfast nodes)");
}

static void follow_say_over(const struct state *s)
{
    const struct fleet_follow *f = s->follow;
    char id[ID_SIZE], seat[ID_SIZE], span[TEXT_SPAN_SIZE];

    if (f->verb == FLEET_CONFIRM) {
        printf("the nodes that answer have version %" PRIu64
               " again, and vote when they are out of quarantine (holdfast nodes)\n",
               f->version);
        return;
    }
    text_escape_str(id, sizeof(id), f->id);
    printf("version %" PRIu64 " is complete and settled", f->version);
    switch (f->verb) {
    case FLEET_MOVE:
    case FLEET_ADD:
        printf(": node %s is at %s", id, text_escape_str(seat, sizeof(seat), f->seat));
        follow_say_votes(s);
        break;
    case FLEET_REMOVE:
        printf(": node %s has left the fleet", id);
        break;
    case FLEET_TTL_MAX:
        printf(": ttl_max is %s; write ttl_max = %" PRIu64
               "ms into the configuration file of every host, which goes by its file when it "
               "starts without a memory, as after a reboot\n",
               text_span(span, sizeof(span), (int64_t)f->ttl_max_ms), f->ttl_max_ms);
        return;
    case FLEET_ABORT:
        printf(": the fleet is as it was before the change that was given up");
        break;
    case FLEET_MARK_DEAD:
    case FLEET_CONFIRM:
        break;
    }
    if (f->verb == FLEET_ADD)
        printf("; write it into the configuration file of every host\n");
    else
        printf("; do not start the old server again with its old data, and do not give it to "
               "another fleet, before every host shows version %" PRIu64
               " (holdfast fleet) and has the fleet's nodes in its configuration file\n",
               f->version);
}

/* --- the steps --------------------------------------------------------------------------------- */

static int follow_not_taken(const struct state *s)
{
    char waits[sizeof(s->words)];

    text_escape_str(waits, sizeof(waits), s->told.waits);
    if (*waits)
        fprintf(stderr,
                "holdfast fleet: no node was seen to take the change: version %" PRIu64
                " stands here, and the agent waits: %s\n",
                s->told.version, waits);
    else
        fprintf(stderr,
                "holdfast fleet: no node was seen to take the change: version %" PRIu64
                " stands here; see holdfast nodes, and try again\n",
                s->told.version);
    return EXIT_BUSY;
}

static int follow_not_gone_by(const struct state *s, const struct fleet_told_node *node)
{
    char waits[sizeof(s->words)], id[ID_SIZE];

    text_escape_str(waits, sizeof(waits), s->told.waits);
    fprintf(stderr,
            "holdfast fleet: %s: node %s has a change of the fleet, and version %" PRIu64
            " stands here; what has begun goes on without this command: holdfast fleet\n",
            *waits ? waits : "see holdfast nodes", text_escape_str(id, sizeof(id), node->id),
            s->told.version);
    return EXIT_BUSY;
}

/* Neither this change nor another one is what the agent goes by. */
static int follow_wait_to_begin(struct state *s)
{
    const struct fleet_told_node *node = follow_taker(&s->told);
    bool late = hf_time_reached(reader_now(), hf_time_add(s->began, TAKEN_MOST));

    if (node && (late || *s->told.waits))
        follow_say_taken(s, node);
    if (!late || (node && !s->follow->no_wait))
        return -1;
    return node ? follow_not_gone_by(s, node) : follow_not_taken(s);
}

static int follow_another_came(const struct state *s)
{
    fprintf(stderr,
            "holdfast fleet: another operator's change came first, and this one is dropped: see "
            "holdfast fleet, and ask again when version %" PRIu64 " has settled\n",
            s->told.version);
    return EXIT_BUSY;
}

static int follow_given_up(const struct state *s)
{
    fprintf(stderr,
            "holdfast fleet: this change was given up, or changed back: version %" PRIu64
            " is there since; see holdfast fleet\n",
            s->told.version);
    return EXIT_BUSY;
}

/* An exit code; -1: go on. */
static int follow_take_course(struct state *s)
{
    const struct fleet_follow *f = s->follow;
    enum course course = follow_course_of(s);

    s->begun |= course == GOES_ON || course == IS_OVER;
    switch (course) {
    case WAITS_TO_BEGIN:
        return follow_wait_to_begin(s);
    case ANOTHER_CAME:
        return follow_another_came(s);
    case IS_GIVEN_UP:
        return follow_given_up(s);
    case IS_PASSED:
        printf("version %" PRIu64 " was complete, and version %" PRIu64 " is there since\n",
               f->version, s->told.version);
        return EXIT_OK;
    case IS_OVER:
        if (follow_is_being_met(s))
            return -1;
        follow_say_over(s);
        return EXIT_OK;
    case GOES_ON:
        break;
    }
    follow_say_progress(s);
    return f->no_wait ? EXIT_OK : -1;
}

static int follow_time_is_over(const struct state *s)
{
    char span[TEXT_SPAN_SIZE];

    fprintf(stderr,
            "holdfast fleet: the time (%s) is over; what has begun goes on without this command: "
            "holdfast fleet\n",
            text_span(span, sizeof(span), s->follow->timeout_ms));
    return EXIT_BUSY;
}

/* An exit code; -1: go on. */
static int follow_take_look(struct state *s, const struct place *place)
{
    char why[512];
    int code = fleet_told_ask_at(place, &s->told, why, sizeof(why));

    if (code == EXIT_OK && s->told.known) {
        s->seen = reader_now();
        return follow_take_course(s);
    }
    if (hf_time_before(reader_now(), hf_time_add(s->seen, AWAY_MOST)))
        return -1;
    fprintf(stderr, "holdfast fleet: %s; what has begun goes on by the agents of the other hosts\n",
            code == EXIT_OK ? "the agent knows no fleet any more" : why);
    return code == EXIT_OK ? EXIT_UNAVAILABLE : code;
}

int fleet_follow(const struct fleet_follow *f, const struct place *place)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY.ns};
    struct state s = {.follow = f, .until = HF_TIME_NEVER, .over = HF_TIME_NEVER};
    int code;

    s.began = s.seen = reader_now();
    if (f->timeout_ms >= 0)
        s.until = hf_time_add(s.began, hf_ms(f->timeout_ms));
    while ((code = follow_take_look(&s, place)) < 0) {
        if (hf_time_reached(reader_now(), s.until))
            return follow_time_is_over(&s);
        (void)nanosleep(&pause, NULL);
    }
    return code;
}

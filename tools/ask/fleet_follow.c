#include "tools/ask/fleet_follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/reader/reader.h"

#define LOOK_EVERY hf_ms(200)
#define SAY_EVERY  hf_ms(5000)
/* The agent puts a change for five seconds, and drops it when no node took it. */
#define TAKEN_MOST hf_ms(8000)
#define AWAY_MOST  hf_ms(15000) /* the agent starts again by itself, for some hundred milliseconds */

#define ID_SIZE    (4 * HF_NODE_TEXT_MAX + 1)

/* What one look at the fleet says of the change. */
enum course { WAITS_TO_BEGIN, ANOTHER_CAME, GOES_ON, IS_OVER, IS_PASSED };

struct state {
    const struct fleet_follow *follow;
    hf_time began, until, seen, said;
    bool begun; /* it was seen */
    char words[4 * TOLD_TEXT_SIZE];
    struct fleet_told told;
};

/* --- what it is -------------------------------------------------------------------------------- */

static const struct fleet_told_seat *member(const struct fleet_told_seat *seats, int count,
                                            const char *id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, id) == 0)
            return &seats[i];
    return NULL;
}

/* Whether a record of that version is what was asked for. */
static bool is_ours(const struct fleet_follow *f, const struct fleet_told *told)
{
    const struct fleet_told_seat *now = member(told->seat, told->seat_count, f->id),
                                 *before = member(told->before, told->before_count, f->id);

    switch (f->verb) {
    case FLEET_MOVE:
        return before && now && strcmp(now->address, f->seat) == 0;
    case FLEET_ADD:
        return !before && now && strcmp(now->address, f->seat) == 0;
    case FLEET_REMOVE:
        return before && !now;
    case FLEET_TTL_MAX:
        return told->ttl_max_ms == f->ttl_max_ms;
    case FLEET_RESUME:
        break;
    }
    return true; /* whoever began it */
}

/* The operator's word is in the record, or was not needed any more. */
static bool is_resumed(const struct fleet_follow *f, const struct fleet_told *told)
{
    const struct fleet_told_seat *before = member(told->before, told->before_count, f->id);

    return strcmp(told->state, "changing") != 0 || (before && before->gone);
}

static bool is_settled(const struct fleet_told *told)
{
    return strcmp(told->state, "complete") == 0 && told->settles_ms == 0;
}

static enum course course_of(const struct state *s)
{
    const struct fleet_follow *f = s->follow;
    const struct fleet_told *told = &s->told;

    if (told->version < f->version)
        return WAITS_TO_BEGIN;
    if (told->version > f->version)
        return s->begun ? IS_PASSED : ANOTHER_CAME;
    if (!is_ours(f, told))
        return ANOTHER_CAME;
    if (f->verb == FLEET_RESUME && !is_resumed(f, told))
        return WAITS_TO_BEGIN;
    return is_settled(told) ? IS_OVER : GOES_ON;
}

/* --- words ------------------------------------------------------------------------------------- */

static int64_t seconds_since_began(const struct state *s)
{
    return hf_dur_ms(hf_time_since(reader_now(), s->began)) / 1000;
}

/* When it is another one, and from time to time. */
static void say_progress(struct state *s)
{
    char words[sizeof(s->words)];
    const struct fleet_told *told = &s->told;
    bool settles = strcmp(told->state, "complete") == 0;

    if (settles)
        snprintf(words, sizeof(words), "complete");
    else
        text_escape_str(words, sizeof(words),
                        *told->waits ? told->waits : "its nodes are told of it");
    if (strcmp(words, s->words) == 0 &&
        hf_time_before(reader_now(), hf_time_add(s->said, SAY_EVERY)))
        return;
    memcpy(s->words, words, sizeof(words));
    s->said = reader_now();
    if (settles)
        printf("version %" PRIu64 ": complete, and settles in %" PRIu64 " s (after %" PRId64
               " s)\n",
               told->version, told->settles_ms / 1000, seconds_since_began(s));
    else
        printf("version %" PRIu64 ": changing; %s (after %" PRId64 " s)\n", told->version, words,
               seconds_since_began(s));
}

static void say_over(const struct state *s)
{
    const struct fleet_follow *f = s->follow;
    char id[ID_SIZE], seat[ID_SIZE], span[TEXT_SPAN_SIZE];

    text_escape_str(id, sizeof(id), f->id);
    printf("version %" PRIu64 " is complete and settled", f->version);
    switch (f->verb) {
    case FLEET_MOVE:
    case FLEET_ADD:
        printf(": node %s is at %s", id, text_escape_str(seat, sizeof(seat), f->seat));
        break;
    case FLEET_REMOVE:
        printf(": node %s has left the fleet", id);
        break;
    case FLEET_TTL_MAX:
        printf(": ttl_max is %s", text_span(span, sizeof(span), (int64_t)f->ttl_max_ms));
        break;
    case FLEET_RESUME:
        break;
    }
    if (f->verb == FLEET_ADD || f->verb == FLEET_TTL_MAX)
        putchar('\n');
    else
        printf("; do not start the old server again with its old data, and do not give it to "
               "another fleet, before every host shows version %" PRIu64 " (holdfast fleet)\n",
               f->version);
}

/* --- the steps --------------------------------------------------------------------------------- */

static int not_taken(const struct state *s)
{
    fprintf(stderr,
            "holdfast fleet: no node was seen to take the change: version %" PRIu64
            " stands here; see holdfast nodes, and try again\n",
            s->told.version);
    return EXIT_BUSY;
}

static int another_came(const struct state *s)
{
    fprintf(stderr,
            "holdfast fleet: another operator's change came first, and this one is dropped: see "
            "holdfast fleet, and ask again when version %" PRIu64 " has settled\n",
            s->told.version);
    return EXIT_BUSY;
}

/* An exit code; -1: go on. */
static int take_course(struct state *s)
{
    const struct fleet_follow *f = s->follow;
    enum course course = course_of(s);

    s->begun |= course == GOES_ON || course == IS_OVER;
    switch (course) {
    case WAITS_TO_BEGIN:
        if (hf_time_before(reader_now(), hf_time_add(s->began, TAKEN_MOST)))
            return -1;
        return not_taken(s);
    case ANOTHER_CAME:
        return another_came(s);
    case IS_PASSED:
        printf("version %" PRIu64 " was complete, and version %" PRIu64 " is there since\n",
               f->version, s->told.version);
        return EXIT_OK;
    case IS_OVER:
        say_over(s);
        return EXIT_OK;
    case GOES_ON:
        break;
    }
    say_progress(s);
    return f->no_wait ? EXIT_OK : -1;
}

static int time_is_over(const struct state *s)
{
    char span[TEXT_SPAN_SIZE];

    fprintf(stderr,
            "holdfast fleet: the time (%s) is over; what has begun goes on without this command: "
            "holdfast fleet\n",
            text_span(span, sizeof(span), s->follow->timeout_ms));
    return EXIT_BUSY;
}

/* An exit code; -1: go on. */
static int take_look(struct state *s, const struct place *place)
{
    char why[512];
    int code = fleet_told_ask_at(place, &s->told, why, sizeof(why));

    if (code == EXIT_OK && s->told.known) {
        s->seen = reader_now();
        return take_course(s);
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
    struct state s = {.follow = f, .until = HF_TIME_NEVER};
    int code;

    s.began = s.seen = reader_now();
    if (f->timeout_ms >= 0)
        s.until = hf_time_add(s.began, hf_ms(f->timeout_ms));
    while ((code = take_look(&s, place)) < 0) {
        if (hf_time_reached(reader_now(), s.until))
            return time_is_over(&s);
        (void)nanosleep(&pause, NULL);
    }
    return code;
}

/* Net. How a fleet changes: servers that keep records, and agents that each go by one from their start to their end. */
#include <stdio.h>
#include <string.h>

#include "agent/core/fleet.h"
#include "agent/core/fleet_change.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/unit/core_fixture.h"

#define SERVERS    8
#define AGENTS     3
#define STEPS_MOST 200 /* in a row; a mutant may have no end */
#define NONCE      "0123456789abcdef0123456789abcde%d"

/* At 10.0.0.<number>:6379. */
struct server {
    bool up;
    int nonce;
    char text[FLEET_TEXT_SIZE];
    size_t length;
    char digest[FLEET_DIGEST_LEN + 1];
};

struct one_agent {
    struct fleet fleet;
    struct fleet_record memory; /* DIR/fleet */
    hf_time from;
    bool knows;
    int starts;
    char keys[FLEET_ID_LEN + 1]; /* of its configuration; "": those of `memory` */
    uint32_t cut;                /* servers that it does not reach, bit per server */
};

struct world {
    hf_time now;
    struct server server[SERVERS];
    struct one_agent agent[AGENTS];
};

static struct world w;
static char why[512];

static void place_of(int server, char ret_place[HF_NODE_TEXT_MAX + 1])
{
    snprintf(ret_place, HF_NODE_TEXT_MAX + 1, "10.0.0.%d:6379", server);
}

static int server_at(const char *place)
{
    int number = -1;

    return sscanf(place, "10.0.0.%d:6379", &number) == 1 ? number : -1;
}

static void pass(int64_t ms)
{
    w.now = hf_time_add(w.now, hf_ms(ms));
}

static void write_record(int s, const struct fleet_record *record)
{
    w.server[s].length = fleet_record_text(record, w.server[s].text);
    fleet_record_digest(w.server[s].text, w.server[s].length, w.server[s].digest);
}

static void flush(int s)
{
    w.server[s].nonce++;
    w.server[s].length = 0;
    w.server[s].text[0] = w.server[s].digest[0] = '\0';
}

static const struct fleet_record *on(int s)
{
    static struct fleet_record r;

    assert_int_equal(fleet_record_read(w.server[s].text, w.server[s].length, &r), HF_OK);
    return &r;
}

/* Node i of the agent is connected to its seat. */
static int server_of(const struct one_agent *a, int i)
{
    int s = server_at(fleet_place(&a->fleet, i)->address);

    return s >= 0 && w.server[s].up && !(a->cut >> s & 1) ? s : -1;
}

static void hear(struct one_agent *a, int i)
{
    int s = server_of(a, i);
    char nonce[TRUST_NONCE_LEN + 1], place[HF_NODE_TEXT_MAX + 1];

    if (s < 0) {
        if (a->fleet.node[i].peer[0])
            fleet_on_down(&a->fleet, i);
        return;
    }
    if (!a->fleet.node[i].peer[0]) {
        place_of(s, place);
        fleet_on_up(&a->fleet, i, place);
        fleet_on_usable(&a->fleet, i, true, true);
    }
    snprintf(nonce, sizeof(nonce), NONCE, w.server[s].nonce);
    if (fleet_on_answer(&a->fleet, i, nonce, w.server[s].digest, w.now,
                        hf_time_add(w.now, hf_ns(100000))))
        fleet_on_record(&a->fleet, i, w.server[s].digest, w.server[s].text, w.server[s].length);
    pass(1);
}

static void hear_all(struct one_agent *a)
{
    for (int i = 0; i < a->fleet.n; i++)
        hear(a, i);
}

static void start(struct one_agent *a)
{
    const struct fleet_seat *list;
    struct fleet_record own = a->memory;
    hf_time settles = fleet_record_settles(&a->memory, a->from);

    if (a->keys[0])
        memcpy(own.keys, a->keys, sizeof(own.keys));
    own.count = fleet_record_list(&a->memory, &list);
    memmove(own.seat, list, (size_t)own.count * sizeof(*list));
    fleet_init(&a->fleet, &own, false, w.now);
    fleet_restore(&a->fleet, &a->memory, hf_time_reached(w.now, settles) ? HF_TIME_PAST : settles);
    a->starts++;
}

/* Takes one step; false: there is none. */
static bool step(struct one_agent *a)
{
    struct fleet_action action;
    char nonce[TRUST_NONCE_LEN + 1];
    int s;

    fleet_next(&a->fleet, w.now, 0, &action);
    if (action.step == FLEET_AGAIN) {
        hf_time shown = fleet_shown(&a->fleet);

        if (fleet_record_rank(&action.record, &a->memory) != 0)
            a->from = w.now;
        a->memory = action.record;
        start(a);
        fleet_restore_shown(&a->fleet, shown);
        hear_all(a);
        return true;
    }
    if (action.step != FLEET_PUT)
        return false;
    s = server_of(a, action.node);
    assert_true(s >= 0);
    snprintf(nonce, sizeof(nonce), NONCE, w.server[s].nonce);
    if (strcmp(action.nonce, nonce) == 0 && strcmp(action.digest, w.server[s].digest) == 0)
        write_record(s, &action.record);
    hear(a, action.node);
    return true;
}

static void go_on(struct one_agent *a)
{
    for (int steps = 0; step(a); steps++)
        if (steps > STEPS_MOST)
            fail_msg("no end of steps");
}

/* All agents ask all their nodes, some times. */
static void run(void)
{
    for (int turn = 0; turn < 6; turn++)
        for (int k = 0; k < AGENTS; k++) {
            hear_all(&w.agent[k]);
            go_on(&w.agent[k]);
        }
}

static void quarantine(void)
{
    pass(70 * 1000);
    run();
}

/* Servers 0 to n-1 are the fleet, as a, b, c, ... */
static int founded(int n)
{
    struct fleet_record r = {
        .version = 1, .state = FLEET_COMPLETE, .count = n, .ttl_max_ms = 60000};

    memset(&w, 0, sizeof(w));
    w.now = (hf_time){HF_NS_PER_SEC};
    memset(r.keys, 'e', FLEET_ID_LEN);
    for (int i = 0; i < n; i++) {
        r.seat[i].id[0] = (char)('a' + i);
        place_of(i, r.seat[i].address);
    }
    fleet_record_name(&r, r.fleet);
    for (int s = 0; s < SERVERS; s++)
        w.server[s].up = true;
    for (int i = 0; i < n; i++)
        write_record(i, &r);
    for (int k = 0; k < AGENTS; k++) {
        w.agent[k].memory = r;
        start(&w.agent[k]);
    }
    run();
    return n;
}

static int ask(int k, enum fleet_wish_kind kind, const char *id, int server, bool gone)
{
    struct fleet_wish wish = {.kind = kind, .gone = gone, .ttl_max_ms = 90000};

    snprintf(wish.id, sizeof(wish.id), "%s", id);
    place_of(server, wish.seat);
    why[0] = '\0';
    return fleet_change_begin(&w.agent[k].fleet, &wish, w.now, hf_ms(5000), why, sizeof(why));
}

static void assert_why(const char *part)
{
    if (!strstr(why, part))
        fail_msg("\"%s\" is not in \"%s\"", part, why);
}

/* Node i of an agent that found the server elsewhere than the record has it. */
static void meet(struct one_agent *a, int i, int s)
{
    char place[HF_NODE_TEXT_MAX + 1];

    place_of(s, place);
    fleet_on_up(&a->fleet, i, place);
    fleet_on_usable(&a->fleet, i, true, true);
    (void)fleet_on_answer(&a->fleet, i, "n", w.server[s].digest, w.now, w.now);
    fleet_on_record(&a->fleet, i, w.server[s].digest, w.server[s].text, w.server[s].length);
    fleet_note_told(&a->fleet, i);
}

static void assert_why_lacks(const char *part)
{
    if (strstr(why, part))
        fail_msg("\"%s\" is in \"%s\"", part, why);
}

/* When links had the time to be made. */
static void assert_waits(int k, const char *part)
{
    fleet_waits(&w.agent[k].fleet, hf_time_add(w.now, hf_ms(2000)), why, sizeof(why));
    assert_why(part);
}

static void assert_all_by(uint64_t version, enum fleet_state state)
{
    for (int k = 0; k < AGENTS; k++) {
        assert_int_equal(w.agent[k].memory.version, version);
        assert_int_equal(w.agent[k].memory.state, state);
    }
}

static int counting(int k)
{
    int count = 0;

    for (int i = 0; i < w.agent[k].fleet.n; i++)
        count += fleet_counts(&w.agent[k].fleet, i);
    return count;
}

/* --- a change --------------------------------------------------------------------------------- */

TEST(a_node_moves)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(on(1)->version, 2); /* the server that leaves was told */
    assert_int_equal(on(5)->version, 2); /* and the new one has it from the others */
    for (int k = 0; k < AGENTS; k++)
        assert_int_equal(counting(k), 2);
    assert_waits(1, "settles in");
    quarantine();
    for (int k = 0; k < AGENTS; k++) {
        assert_int_equal(counting(k), 3);
        assert_int_equal(w.agent[k].starts, 4); /* first, changing, complete, settled */
    }
    fleet_waits(&w.agent[1].fleet, w.now, why, sizeof(why));
    assert_string_equal(why, "");
    assert_int_equal(ask(2, FLEET_WISH_MOVE, "a", 6, false), HF_OK);
    run();
    quarantine();
    assert_all_by(3, FLEET_COMPLETE);
    assert_int_equal(on(6)->version, 3);
}

TEST(a_fleet_grows_and_shrinks)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_ADD, "d", 3, false), HF_OK);
    run();
    assert_int_equal(counting(1), 3);
    quarantine();
    assert_int_equal(counting(1), 4);
    assert_int_equal(ask(1, FLEET_WISH_ADD, "e", 4, false), HF_OK);
    run();
    quarantine();
    assert_all_by(3, FLEET_COMPLETE);
    assert_int_equal(counting(2), 5);
    assert_int_equal(ask(1, FLEET_WISH_REMOVE, "a", 0, false), HF_OK);
    run();
    assert_int_equal(counting(0), 4);
    quarantine();
    assert_int_equal(ask(1, FLEET_WISH_REMOVE, "c", 0, false), HF_OK);
    run();
    quarantine();
    assert_all_by(5, FLEET_COMPLETE);
    assert_int_equal(w.agent[0].memory.count, 3);
    assert_int_equal(counting(0), 3);
}

TEST(ttl_max_changes)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(counting(0), 3);
    pass(70 * 1000); /* of the larger one */
    run();
    assert_int_equal(w.agent[0].starts, 3);
    pass(30 * 1000);
    run();
    assert_int_equal(w.agent[0].starts, 4);
}

/* An agent that was away for two changes finds a record that names a list that it never went by. */
TEST(who_was_away_goes_by_the_latest)
{
    founded(3);
    w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    run();
    quarantine();
    assert_int_equal(ask(0, FLEET_WISH_ADD, "d", 3, false), HF_OK);
    run();
    quarantine();
    assert_int_equal(w.agent[2].memory.version, 1);
    w.agent[2].cut = 0;
    run();
    assert_all_by(3, FLEET_COMPLETE);
    assert_int_equal(counting(2), 3);
    quarantine();
    assert_int_equal(counting(2), 4);
}

/* --- what it waits for ------------------------------------------------------------------------ */

TEST(it_waits_for_all_that_stay)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    w.server[2].up = false;
    run();
    assert_all_by(2, FLEET_CHANGING);
    assert_int_equal(counting(0), 1);
    assert_waits(0, "let node c answer, or start an empty server at 10.0.0.2:6379");
    w.server[2].up = true;
    flush(2);
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

TEST(it_waits_for_the_server_that_leaves_or_the_operators_word)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    w.server[1].up = false;
    run();
    assert_all_by(2, FLEET_CHANGING);
    assert_waits(0, "holdfast fleet mark-dead b");
    assert_int_equal(ask(1, FLEET_WISH_GONE, "c", 0, false), HF_EINVAL);
    assert_why("node c still answers at 10.0.0.2:6379; stop that server for good");
    assert_int_equal(ask(1, FLEET_WISH_GONE, "x", 0, false), HF_EINVAL);
    assert_int_equal(ask(1, FLEET_WISH_GONE, "b", 0, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(on(0)->before[1].gone, false);
    quarantine();
    assert_int_equal(counting(0), 3);
}

TEST(a_dead_node_is_replaced)
{
    founded(3);
    w.server[0].up = false;
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 5, false), HF_EBUSY);
    assert_why("--old-server-dead");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_EBUSY);
    assert_why("let node a answer first");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 5, true), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    quarantine();
    assert_int_equal(counting(0), 3);
}

/* What cannot be told that it leaves has to be mended or stopped, though it answers. */
TEST(a_server_that_is_refused_is_no_server_that_is_away)
{
    struct fleet_record theirs;

    founded(3);
    theirs = *on(1);
    fleet_on_usable(&w.agent[0].fleet, 1, false, false); /* a replica, say */
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "b", 0, false), HF_EBUSY);
    assert_why("mend node b first (holdfast nodes says what is against it), or stop the server at "
               "10.0.0.1:6379 for good and say --old-server-dead b");
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "b", 0, true), HF_EBUSY);
    fleet_on_usable(&w.agent[0].fleet, 1, true, true);

    flush(1);
    hear(&w.agent[0], 1);
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "b", 0, false), HF_EBUSY);
    assert_why("wait until node b has the fleet's record again");

    memset(theirs.fleet, 'f', 40);
    write_record(1, &theirs);
    hear(&w.agent[0], 1);
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "b", 0, false), HF_EBUSY);
    assert_why("mend node b first (it has the record of another fleet)");
    assert_why("stop the server at 10.0.0.1:6379 for good and say --old-server-dead b");
    w.server[1].up = false;
    hear(&w.agent[0], 1);
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "b", 0, true), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

static void assert_stops_nobody(enum fleet_wish_kind kind, const char *part)
{
    assert_int_equal(ask(0, kind, "a", 5, false), HF_EBUSY);
    assert_why(part);
    if (strstr(why, "for good") || strstr(why, "--old-server-dead"))
        fail_msg("\"%s\" of a server that is well", why);
}

/* (!) Two operators at once: the one that is later stops no server that is well. */
TEST(a_server_that_has_the_other_operators_change_is_not_stopped)
{
    struct fleet_record theirs;

    founded(3);
    assert_int_equal(ask(1, FLEET_WISH_MOVE, "c", 6, false), HF_OK);
    (void)step(&w.agent[1]); /* on the first node */
    assert_int_equal(on(0)->version, 2);
    hear(&w.agent[0], 0);
    assert_stops_nobody(FLEET_WISH_MOVE, "another change of the fleet has begun");
    assert_stops_nobody(FLEET_WISH_REMOVE, "another change of the fleet has begun");

    founded(3); /* it is not read yet */
    theirs = *on(0);
    theirs.version++;
    write_record(0, &theirs);
    (void)fleet_on_answer(&w.agent[0].fleet, 0, w.agent[0].fleet.node[0].nonce, w.server[0].digest,
                          w.now, w.now);
    assert_stops_nobody(FLEET_WISH_MOVE, "another change of the fleet has begun");

    founded(3); /* by the record of the other change the agent starts again */
    start(&w.agent[0]);
    fleet_on_up(&w.agent[0].fleet, 0, "10.0.0.0:6379");
    assert_stops_nobody(FLEET_WISH_MOVE, "node a is being connected to");
}

TEST(a_server_that_answers_is_not_gone)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 5, true), HF_EBUSY);
    assert_why("stop the server first");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 5, false), HF_OK);
    (void)step(&w.agent[0]); /* put */
    (void)step(&w.agent[0]); /* and once more: on a majority */
    (void)step(&w.agent[0]); /* goes by it */
    assert_int_equal(w.agent[0].memory.state, FLEET_CHANGING);
    assert_int_equal(ask(0, FLEET_WISH_GONE, "a", 0, false), HF_EINVAL);
    assert_why("node a still answers at 10.0.0.0:6379; stop that server for good");
}

/* (!) A sight of the record from before the last one is no proof that all had it at one time. */
TEST(each_that_stays_is_asked_once_more)
{
    struct one_agent *a = &w.agent[0];
    struct fleet_action action;

    founded(3);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    (void)step(a);
    (void)step(a);
    (void)step(a);
    (void)step(a);
    for (int i = 0; i < 3; i++)
        assert_int_equal(on(i)->version, 2);
    fleet_next(&a->fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_WAIT);
    assert_int_equal(fleet_awaits(&a->fleet), 7);
    hear(a, 0);
    hear(a, 1);
    assert_int_equal(fleet_awaits(&a->fleet), 4);
    flush(2); /* what it said before is no more */
    hear(a, 2);
    fleet_next(&a->fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_WAIT);
}

/* (!) */
TEST(so_is_the_server_that_leaves)
{
    struct one_agent *a = &w.agent[0];
    struct fleet_action action;

    founded(3);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    (void)step(a);
    w.server[1].up = false;
    hear(a, 1);
    go_on(a);
    hear_all(a);
    hear_all(a);
    fleet_next(&a->fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_WAIT);
    w.server[1].up = true;
    hear(a, 1);
    (void)step(a);
    assert_int_equal(on(1)->version, 2);
    fleet_next(&a->fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_WAIT);
    hear(a, 0);
    hear(a, 2);
    fleet_next(&a->fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_WAIT);
    hear(a, 1);
    fleet_next(&a->fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_AGAIN);
    assert_int_equal(action.record.state, FLEET_COMPLETE);
}

/* --- servers that forget ---------------------------------------------------------------------- */

TEST(an_emptied_member_gets_the_record_of_the_change)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    (void)step(&w.agent[0]);
    flush(2);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(on(2)->version, 2);
}

TEST(the_first_member_forgets_the_change)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    (void)step(&w.agent[0]); /* put; this agent goes by it at its next step */
    flush(0);
    w.agent[0].cut = 0xff;
    run();
    w.agent[0].cut = 0;
    run();
    assert_true(w.agent[1].memory.version == w.agent[0].memory.version);
}

/* (!) Only a server that the change leads to shows it to an emptied one. */
TEST(a_server_that_leaves_shows_nothing)
{
    struct one_agent *a = &w.agent[0];

    founded(3);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    for (int i = 0; i < 4; i++)
        (void)step(a);
    assert_int_equal(on(1)->version, 2);
    w.server[0].up = false;
    flush(2);
    hear_all(a);
    go_on(a);
    hear_all(a);
    go_on(a);
    assert_int_equal(w.server[2].length, 0);
    w.server[0].up = true;
    hear_all(a);
    go_on(a);
    assert_int_equal(on(2)->version, 2);
}

/* All that stay forgot: the record is in memories only, and on a server that leaves. */
TEST(where_all_that_stay_forgot_it_is_put_again)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    for (int i = 0; i < 4; i++)
        (void)step(&w.agent[0]);
    assert_int_equal(on(1)->version, 2);
    flush(0);
    flush(2);
    hear_all(&w.agent[0]);
    fleet_on_down(&w.agent[0].fleet, 1); /* not before all are there */
    (void)step(&w.agent[0]);
    assert_int_equal(w.server[0].length, 0);
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

/* Of a server that is gone nothing is waited for then, either. */
TEST(where_all_forgot_it_is_put_again_without_who_is_gone)
{
    founded(3);
    w.server[1].up = false;
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, true), HF_OK);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    for (int i = 0; i < 3; i++)
        (void)step(&w.agent[0]);
    assert_int_equal(w.agent[0].memory.version, 2);
    flush(0);
    flush(2);
    w.server[2].up = false;
    hear_all(&w.agent[0]);
    assert_waits(0, "let node c answer, too");
    go_on(&w.agent[0]);
    assert_int_equal(w.server[0].length, 0);
    w.server[2].up = true;
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

/* A later record never gives way to an earlier one. */
TEST(nobody_goes_back)
{
    struct fleet_record first;

    founded(3);
    first = *on(0);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    run();
    write_record(0, &first); /* restored from a backup */
    w.server[0].nonce++;
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(on(0)->version, 2);
}

/* --- one at a time ---------------------------------------------------------------------------- */

TEST(of_two_operators_one_wins)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    assert_int_equal(ask(1, FLEET_WISH_MOVE, "c", 6, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    for (int k = 0; k < AGENTS; k++)
        assert_string_equal(w.agent[k].memory.seat[2].address, "10.0.0.2:6379");
}

/* The first member forgot the one, and was given the other. */
static void split(struct one_agent *a, enum fleet_wish_kind kind, const char *id)
{
    struct fleet_record r = a->memory;

    r.version = 2;
    r.state = FLEET_CHANGING;
    memcpy(r.before, r.seat, sizeof(r.before));
    r.before_count = r.count;
    r.ttl_max_before_ms = r.ttl_max_ms;
    if (kind == FLEET_WISH_ADD) {
        snprintf(r.seat[r.count].id, sizeof(r.seat[0].id), "%s", id);
        place_of(5, r.seat[r.count++].address);
    } else {
        r.ttl_max_ms = 90000;
    }
    a->memory = r;
    start(a);
}

TEST(two_changes_that_were_begun_at_once_are_told_as_such)
{
    founded(3);
    split(&w.agent[0], FLEET_WISH_ADD, "d");
    split(&w.agent[1], FLEET_WISH_TTL_MAX, "");
    write_record(1, &w.agent[1].memory);
    hear_all(&w.agent[0]);
    assert_true(fleet_is_foreign(&w.agent[0].fleet, 1, why, sizeof(why)));
    assert_why("two changes of the fleet were made at once");
}

TEST(the_next_one_waits_until_it_has_settled)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 6, false), HF_EBUSY);
    assert_why("begins");
    run();
    assert_int_equal(ask(1, FLEET_WISH_MOVE, "c", 6, false), HF_EBUSY);
    assert_why("settle");
    assert_int_equal(ask(1, FLEET_WISH_GONE, "b", 0, false), HF_EINVAL);
    assert_why("no change");
    quarantine();
    assert_int_equal(ask(1, FLEET_WISH_MOVE, "c", 6, false), HF_OK);
}

/* --- what is refused -------------------------------------------------------------------------- */

TEST(bad_wishes_are_refused)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "x", 5, false), HF_EINVAL);
    assert_why("no node has the id x");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 2, false), HF_EINVAL);
    assert_why("10.0.0.2:6379 is node c");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 0, false), HF_EINVAL);
    assert_int_equal(ask(0, FLEET_WISH_ADD, "a", 5, false), HF_EINVAL);
    assert_why("the fleet has a node a");
    assert_int_equal(ask(0, FLEET_WISH_ADD, "d", 1, false), HF_EINVAL);
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "d", 0, false), HF_EINVAL);
    w.agent[0].fleet.record.ttl_max_ms = 90000;
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_EINVAL);
    assert_why("already");
    for (int n = 1; n <= 2; n++) {
        founded(n);
        assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 5, false), HF_EINVAL);
        assert_why("drain");
    }
    founded(1);
    assert_int_equal(ask(0, FLEET_WISH_ADD, "b", 5, false), HF_EINVAL);
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "a", 5, false), HF_EINVAL);
    assert_why("one node at least");
}

TEST(a_member_in_quarantine_is_waited_for)
{
    founded(3);
    fleet_on_usable(&w.agent[0].fleet, 2, true, false);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "a", 5, false), HF_EBUSY);
    assert_why("votes again");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 5, false), HF_OK);
}

/* --- a change is given up --------------------------------------------------------------------- */

/* Agent 0 puts the change on a majority, and the last node is not told. */
static void begin_only(enum fleet_wish_kind kind, const char *id, int server)
{
    founded(3);
    w.agent[0].cut = 1 << 2;
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, kind, id, server, false), HF_OK);
    run();
    assert_int_equal(on(1)->version, 2);
    assert_int_equal(on(2)->version, 1);
    w.agent[0].cut = 0;
}

TEST(a_change_is_given_up)
{
    begin_only(FLEET_WISH_MOVE, "c", 5);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_OK);
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(3, FLEET_COMPLETE);
    for (int k = 0; k < AGENTS; k++) {
        assert_string_equal(w.agent[k].memory.seat[2].address, "10.0.0.2:6379");
        assert_int_equal(counting(k), 2);
    }
    assert_int_equal(on(2)->version, 3); /* it stays a member after all */
    quarantine();
    for (int k = 0; k < AGENTS; k++)
        assert_int_equal(counting(k), 3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 6, false), HF_OK);
}

/* (!) Votes of the new server may count by the change. */
TEST(the_new_server_is_told_that_a_change_is_given_up)
{
    begin_only(FLEET_WISH_MOVE, "c", 5);
    write_record(5, on(0)); /* it was told of the change */
    w.server[5].up = false;
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_OK);
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(3, FLEET_CHANGING);
    assert_waits(0, "mark-dead c");
    w.server[5].up = true;
    run();
    assert_all_by(3, FLEET_COMPLETE);
    assert_int_equal(on(5)->version, 3);
}

TEST(a_change_to_a_server_that_is_gone_is_given_up)
{
    begin_only(FLEET_WISH_MOVE, "c", 5);
    w.server[5].up = false;
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, true), HF_OK);
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(3, FLEET_COMPLETE);
}

TEST(a_change_is_given_up_though_a_member_is_gone)
{
    founded(5);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 1 << 1; /* the one that leaves is not told yet */
    w.server[4].up = false;
    run();
    assert_all_by(2, FLEET_CHANGING);
    assert_int_equal(ask(0, FLEET_WISH_GONE, "e", 0, false), HF_OK);
    run();
    assert_all_by(2, FLEET_CHANGING);
    assert_int_equal(fleet_record_gone_count(&w.agent[1].memory), 1);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_OK);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 0;
    run();
    assert_all_by(3, FLEET_COMPLETE);
    quarantine();
    assert_int_equal(counting(1), 4);
}

/* That would be the change again. */
TEST(the_way_back_is_not_given_up)
{
    founded(3);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    w.agent[0].cut = 1u << 2;
    run();
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_OK);
    run();
    assert_int_equal(w.agent[0].memory.version, 3);
    fleet_on_way_back(&w.agent[0].fleet, true);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_EINVAL);
    assert_why("version 3 of the fleet is the way back already");
    run();
    assert_int_equal(on(0)->version, 3);
}

TEST(a_new_ttl_max_is_given_up)
{
    begin_only(FLEET_WISH_TTL_MAX, "", 0);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_OK);
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(3, FLEET_COMPLETE);
    assert_int_equal(w.agent[1].memory.ttl_max_ms, 60000);
    /* (!) Somebody may have taken the change for settled, and granted by it. */
    assert_int_equal(fleet_record_ttl_longest_ms(&w.agent[1].memory, false), 90000);
    assert_int_equal(fleet_record_ttl_grant_ms(&w.agent[1].memory, false), 60000);
}

/* (!) Its first member has moved: the next change begins elsewhere than the one before, and neither would end. */
TEST(the_way_back_begins_where_a_member_stays)
{
    begin_only(FLEET_WISH_MOVE, "a", 5);
    w.agent[0].cut = 1 << 2; /* it cannot become complete */
    hear_all(&w.agent[0]);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_OK);
    for (int steps = 0; steps == 0 || step(&w.agent[0]); steps++) {
        assert_in_range(steps, 0, STEPS_MOST);
        hear_all(&w.agent[0]);
        if (on(0)->version == 3 || on(2)->version == 3)
            assert_int_equal(on(1)->version, 3);
    }
    assert_int_equal(w.agent[0].memory.version, 3);
}

TEST(only_what_is_under_way_is_given_up)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_EINVAL);
    assert_why("no change");
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    run();
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_EINVAL);
    assert_why("change the fleet back instead (holdfast fleet move) in 6");
    quarantine();
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_EINVAL);
    assert_why("version 2 is complete and settled");
}

TEST(a_ttl_max_by_mistake_says_how_long_it_stands_and_how_it_goes)
{
    struct fleet_wish day = {.kind = FLEET_WISH_TTL_MAX, .ttl_max_ms = 86400000};

    founded(3);
    assert_int_equal(
        fleet_change_begin(&w.agent[0].fleet, &day, w.now, hf_ms(5000), why, sizeof(why)), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_EINVAL);
    assert_why("(holdfast fleet ttl-max 60000ms) in 881");
    assert_why("until then keep the nodes up: one that restarts without its data gives no votes");
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_EBUSY);
    assert_why("wait 881");
    assert_why("keep the nodes up");
}

TEST(a_member_that_stays_may_be_gone)
{
    founded(3);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    w.server[2].up = false;
    w.agent[1].cut = w.agent[2].cut = 0;
    run();
    assert_all_by(2, FLEET_CHANGING);
    assert_waits(0, "mark-dead c");
    assert_int_equal(ask(0, FLEET_WISH_GONE, "c", 0, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    assert_int_equal(counting(1), 1); /* a; no lock is granted */
    quarantine();
    assert_int_equal(counting(1), 2); /* a and the new b */
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 6, true), HF_OK);
    run();
    quarantine();
    assert_int_equal(counting(2), 3);
}

/* (!) Else a majority of the list before would be told nothing. */
TEST(no_majority_may_be_gone)
{
    begin_only(FLEET_WISH_MOVE, "b", 5);
    w.server[1].up = w.server[2].up = false;
    w.agent[0].memory.before[1].gone = true;
    start(&w.agent[0]);
    hear_all(&w.agent[0]);
    assert_int_equal(ask(0, FLEET_WISH_GONE, "c", 0, false), HF_EINVAL);
    assert_why("start an empty server at 10.0.0.2:6379");
}

/* --- every node has forgotten ------------------------------------------------------------------- */

TEST(a_fleet_that_has_forgotten_is_confirmed)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_EINVAL);
    assert_why("leave it to the agents");
    for (int s = 0; s < 3; s++)
        flush(s);
    w.server[2].up = false;
    run();
    assert_int_equal(w.server[0].length, 0);
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_OK);
    run();
    assert_int_equal(on(0)->version, 1);
    assert_int_equal(on(1)->version, 1);
    assert_int_equal(counting(1), 2);
    w.server[2].up = true;
    run();
    assert_int_equal(counting(1), 3);
}

/* All answer, and what an agent remembers from before its start proves nothing. */
TEST(a_memory_is_confirmed)
{
    founded(3);
    for (int s = 0; s < 3; s++)
        flush(s);
    for (int k = 0; k < AGENTS; k++)
        start(&w.agent[k]);
    run();
    assert_int_equal(w.server[0].length, 0);
    assert_waits(0, "holdfast fleet confirm");
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_OK);
    run();
    for (int k = 0; k < AGENTS; k++)
        assert_int_equal(counting(k), 3);
}

/* A founder that ended half way left its record on the one, and the others are empty. */
TEST(a_founding_that_was_left_is_confirmed)
{
    struct fleet_record founding;

    founded(1);
    founding = *on(0);
    founding.state = FLEET_FOUNDING;
    flush(0);
    write_record(0, &founding);
    start(&w.agent[0]);
    hear_all(&w.agent[0]);
    go_on(&w.agent[0]);
    assert_int_equal(on(0)->state, FLEET_FOUNDING);
    assert_waits(0, "holdfast fleet confirm");
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_OK);
    run();
    assert_int_equal(on(0)->state, FLEET_COMPLETE);
}

TEST(a_later_record_is_not_confirmed_away)
{
    struct fleet_record first;

    founded(3);
    first = *on(0);
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_OK);
    run();
    assert_int_equal(on(2)->version, 2);
    flush(0);
    flush(1);
    w.agent[0].memory = first;
    start(&w.agent[0]);
    hear_all(&w.agent[0]);
    go_on(&w.agent[0]);
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_EINVAL);
    assert_why("later record of the fleet than version 1");
    assert_int_equal(w.server[0].length, 0);
}

/* Of a change that this agent itself began. */
TEST(where_a_later_record_is_seen_no_word_is_proposed)
{
    founded(3);
    w.agent[1].cut = w.agent[2].cut = 0xff;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    (void)step(&w.agent[0]);
    assert_int_equal(on(0)->version, 2);
    pass(200 * 1000);
    flush(1);
    flush(2);
    hear_all(&w.agent[0]);
    fleet_waits(&w.agent[0].fleet, w.now, why, sizeof(why));
    assert_why_lacks("confirm");
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_EINVAL);
    assert_why("later record");
}

/* The word is of this moment: what comes later is looked at anew. */
TEST(a_confirmation_does_not_last)
{
    founded(3);
    for (int s = 0; s < 3; s++)
        flush(s);
    w.server[2].up = false;
    hear_all(&w.agent[0]);
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_OK);
    pass(6000);
    run();
    assert_int_equal(w.server[0].length, 0);
}

TEST(less_than_a_majority_is_not_confirmed)
{
    founded(3);
    for (int s = 0; s < 3; s++)
        flush(s);
    w.server[1].up = w.server[2].up = false;
    run();
    assert_int_equal(ask(0, FLEET_WISH_CONFIRM, "", 0, false), HF_EINVAL);
    assert_why("1 of 3 answer");
}

/* --- a host without a memory ------------------------------------------------------------------ */

/* The configuration is of version 1. */
static void forget(struct one_agent *a, const struct fleet_record *configured)
{
    struct fleet_action action;

    fleet_init(&a->fleet, configured, false, w.now);
    for (int i = 0; i < configured->count; i++) {
        int s = server_at(configured->seat[i].address);
        char nonce[TRUST_NONCE_LEN + 1];

        if (!w.server[s].up)
            continue;
        fleet_on_up(&a->fleet, i, configured->seat[i].address);
        fleet_on_usable(&a->fleet, i, true, true);
        snprintf(nonce, sizeof(nonce), NONCE, w.server[s].nonce);
        if (fleet_on_answer(&a->fleet, i, nonce, w.server[s].digest, w.now, w.now))
            fleet_on_record(&a->fleet, i, w.server[s].digest, w.server[s].text, w.server[s].length);
    }
    pass(3000);
    memset(&a->memory, 0, sizeof(a->memory));
    fleet_next(&a->fleet, w.now, 0, &action);
    if (action.step != FLEET_AGAIN && action.step != FLEET_ADOPT)
        return;
    a->memory = action.record;
    a->from = w.now;
    start(a);
}

TEST(an_old_configuration_finds_the_latest_record)
{
    struct fleet_record first;

    founded(3);
    first = *on(0);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    run();
    quarantine();
    assert_int_equal(ask(0, FLEET_WISH_ADD, "d", 6, false), HF_OK);
    run();
    quarantine();
    assert_int_equal(on(1)->version, 2);
    forget(&w.agent[2], &first);
    assert_int_equal(w.agent[2].memory.version, 3);
    assert_int_equal(w.agent[2].memory.count, 4);
    run();
    assert_int_equal(counting(2), 3); /* not settled for this host */
}

/* --- key formats ------------------------------------------------------------------------------ */

/* The hosts' configurations have key formats whose hash is that digit over and over. */
static void configure(int k, char digit)
{
    memset(w.agent[k].keys, digit, FLEET_ID_LEN);
}

static void founded_with_keys(void)
{
    founded(3);
    for (int k = 0; k < AGENTS; k++)
        configure(k, 'e');
}

/* (!) Its nodes are well: nothing is to be waited for, and no server to be stopped. */
TEST(a_host_with_other_key_formats_counts_nothing_and_is_told_of_them)
{
    static const enum fleet_wish_kind kinds[] = {FLEET_WISH_MOVE, FLEET_WISH_ADD, FLEET_WISH_REMOVE,
                                                 FLEET_WISH_TTL_MAX};

    founded_with_keys();
    configure(1, 'f');
    start(&w.agent[1]);
    run();
    assert_int_equal(counting(0), 3);
    assert_int_equal(counting(1), 0); /* (!) it would take a lock by another key */
    for (size_t i = 0; i < HF_LENGTH(kinds); i++) {
        assert_int_equal(ask(1, kinds[i], kinds[i] == FLEET_WISH_ADD ? "g" : "a", 5, false),
                         HF_EINVAL);
        assert_why("key_format");
        assert_why_lacks("--old-server-dead");
        assert_why_lacks("counts");
    }
}

TEST(a_host_without_a_memory_and_with_other_key_formats_is_told_of_them)
{
    struct one_agent *a = &w.agent[2];
    struct fleet_record own;

    founded_with_keys();
    own = *on(0);
    memset(own.keys, 'f', FLEET_ID_LEN);
    assert_int_equal(ask(0, FLEET_WISH_ADD, "d", 5, false), HF_OK);
    w.agent[2].cut = ~0u;
    run();
    quarantine();
    assert_int_equal(on(0)->version, 2);
    fleet_init(&a->fleet, &own, false, w.now);
    a->cut = 0;
    for (int i = 0; i < 3; i++)
        meet(a, i, i);
    assert_true(fleet_is_foreign(&a->fleet, 0, why, sizeof(why)));
    assert_why("put the key_format, key_format_for and database of version 2");
    assert_why_lacks("list of");
    assert_waits(2, "put the key_format, key_format_for and database of version 2");
}

/* --- the fleet went on without this host ----------------------------------------------------------- */

/* b is server 5 and c server 6; the servers that were are stopped, and agent 2 was away. */
static struct fleet_record moved_twice(void)
{
    struct fleet_record first;

    founded(3);
    first = *on(0);
    w.agent[2].cut = ~0u;
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, false), HF_OK);
    run();
    quarantine();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 6, false), HF_OK);
    run();
    quarantine();
    w.server[1].up = w.server[2].up = false;
    w.agent[2].cut = 0;
    return first;
}

TEST(a_host_that_remembers_dead_servers_is_told_the_later_addresses)
{
    struct one_agent *a = &w.agent[2];

    (void)moved_twice();
    assert_int_equal(a->memory.version, 1);
    start(a);
    meet(a, 1, 5); /* by a configuration that has them */
    fleet_on_down(&a->fleet, 1);
    w.now = hf_time_add(w.now, hf_ms(3000));
    assert_waits(2, "b=10.0.0.5:6379, c=10.0.0.6:6379 and ttl_max 60000 ms");
    assert_why("remove the file fleet in its runtime directory");
    assert_why("version 3, which the configured address of node b told");
    run();
    assert_int_equal(a->memory.version,
                     1); /* (!) a is where it was, and tells it; but one moves nobody */
    assert_waits(2, "remove");
}

TEST(a_host_without_a_memory_is_told_the_addresses_that_a_node_tells)
{
    struct one_agent *a = &w.agent[2];
    struct fleet_record own = moved_twice();

    fleet_init(&a->fleet, &own, false, w.now);
    meet(a, 0, 0);
    assert_waits(2, "put b=10.0.0.5:6379, c=10.0.0.6:6379 into this host's configuration file");
    assert_why("or let node b, c answer");
    assert_why("version 3 of the fleet (");
}

/* --- one says what it likes --------------------------------------------------------------------- */

/* Of a fleet at servers 5, 6 and 7, of which nobody asked for anything. */
static struct fleet_record lie(uint64_t version, enum fleet_state state, bool before, bool some)
{
    struct fleet_record r = w.agent[0].memory;

    r.version = version;
    r.state = state;
    memcpy(r.before, r.seat, sizeof(r.before));
    r.before_count = r.count;
    r.ttl_max_before_ms = r.ttl_max_ms;
    for (int i = some ? 2 : 0; i < r.count; i++)
        place_of(5 + i, r.seat[i].address);
    if (before)
        memcpy(r.before, r.seat, sizeof(r.before));
    return r;
}

TEST(what_one_member_says_moves_nobody)
{
    static const enum fleet_state states[] = {FLEET_CHANGING, FLEET_COMPLETE};

    for (int kind = 0; kind < 16; kind++) {
        int liar = kind % 3;
        struct fleet_record r;

        founded(3);
        r = lie(kind & 8 ? 9 : 2, states[kind & 1], kind & 2, kind & 4);
        write_record(liar, &r);
        run();
        quarantine();
        assert_all_by(1, FLEET_COMPLETE);
        for (int s = 0; s < 3; s++)
            assert_int_equal(on(s)->version, s == liar ? r.version : 1);
        for (int k = 0; k < AGENTS; k++)
            assert_int_equal(counting(k), 2);
        assert_waits(1, "and most nodes do not");
        flush(liar); /* as it is said */
        run();
        assert_int_equal(counting(0), 3);
    }
}

TEST(one_server_at_two_nodes_moves_nobody)
{
    struct fleet_record r;

    founded(3);
    r = lie(2, FLEET_CHANGING, false, true);
    write_record(0, &r);
    write_record(2, &r);
    for (int k = 0; k < AGENTS; k++) {
        fleet_on_server(&w.agent[k].fleet, 0, "0123456789012345678901234567890123456789", w.now);
        fleet_on_server(&w.agent[k].fleet, 2, "0123456789012345678901234567890123456789", w.now);
    }
    run();
    assert_all_by(1, FLEET_COMPLETE);
    for (int k = 0; k < AGENTS; k++)
        fleet_on_server(&w.agent[k].fleet, 2, "9999999999999999999999999999999999999999", w.now);
    run();
    assert_int_not_equal(w.agent[0].memory.version, 1);
}

TEST(what_two_of_three_say_must_be_what_a_change_makes)
{
    struct fleet_record r;

    founded(3);
    r = lie(2, FLEET_COMPLETE, false, false); /* none stays */
    write_record(0, &r);
    write_record(1, &r);
    run();
    assert_all_by(1, FLEET_COMPLETE);
    founded(3);
    r = lie(2, FLEET_CHANGING, true, true); /* its members before are not ours */
    write_record(0, &r);
    write_record(1, &r);
    run();
    assert_all_by(1, FLEET_COMPLETE);
    founded(3);
    r = lie(2, FLEET_CHANGING, false, true);
    memset(r.keys, 'a', FLEET_ID_LEN);
    write_record(0, &r);
    write_record(1, &r);
    run();
    assert_all_by(1, FLEET_COMPLETE);
    memset(r.keys, 'e', FLEET_ID_LEN);
    write_record(0, &r);
    write_record(1, &r);
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

/* (!) The end of a change that one member makes up is not proven by another one that was told of the way back. */
TEST(a_way_back_proves_no_complete_record)
{
    struct fleet_record next, back;

    founded(3);
    next = lie(2, FLEET_CHANGING, false, true);
    back = next;
    back.version = 3;
    memcpy(back.seat, next.before, sizeof(back.seat));
    memcpy(back.before, next.seat, sizeof(back.before));
    write_record(1, &back);
    fleet_record_complete(&next);
    write_record(0, &next);
    run();
    assert_all_by(1, FLEET_COMPLETE);
}

/* (!) Two texts of one digest: what counts is what they say. */
TEST(records_of_one_digest_are_not_one_record)
{
    struct fleet_record r, other;

    founded(3);
    r = lie(2, FLEET_CHANGING, false, true);
    other = lie(2, FLEET_CHANGING, false, false);
    write_record(1, &r);
    run();
    w.agent[0].fleet.node[0].record = other;
    memcpy(w.agent[0].fleet.node[0].digest, w.agent[0].fleet.node[1].digest, FLEET_DIGEST_LEN + 1);
    memcpy(w.agent[0].fleet.node[0].read, w.agent[0].fleet.node[1].digest, FLEET_DIGEST_LEN + 1);
    go_on(&w.agent[0]);
    assert_int_equal(w.agent[0].memory.version, 1);
}

/* Its agent died with the change on one node only: nobody carries that on but who is asked for it. */
TEST(a_change_on_one_node_is_carried_on_by_whom_is_asked_for_the_same)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 5, false), HF_OK);
    (void)step(&w.agent[0]);
    start(&w.agent[0]);
    run();
    quarantine();
    assert_all_by(1, FLEET_COMPLETE);
    assert_int_equal(on(0)->version, 2);
    assert_waits(1, "give the same command again");
    assert_int_equal(ask(1, FLEET_WISH_MOVE, "c", 6, false), HF_EBUSY);
    assert_int_equal(ask(1, FLEET_WISH_MOVE, "c", 5, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
    quarantine();
    assert_int_equal(counting(2), 3);
}

/* (!) The record before is nowhere any more: who forgot it meanwhile is given the change, as another member shows it. */
TEST(a_change_on_one_node_goes_on_where_another_one_forgot)
{
    founded(3);
    w.server[1].up = false;
    run();
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 1 << 2;
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, true), HF_EBUSY);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 0;
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "b", 5, true), HF_OK);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 1 << 2;
    run();
    assert_all_by(1, FLEET_COMPLETE);
    flush(2);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 0;
    run();
    assert_all_by(2, FLEET_COMPLETE);
    quarantine();
    assert_int_equal(counting(1), 3);
}

/* The agent that was asked has no hurry: what it has begun it carries on. */
TEST(a_change_goes_on_when_its_other_nodes_answer_again)
{
    founded(3);
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 5, false), HF_OK);
    (void)step(&w.agent[0]);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 0x6;
    run();
    pass(60000);
    run();
    assert_all_by(1, FLEET_COMPLETE);
    for (int k = 0; k < AGENTS; k++)
        w.agent[k].cut = 0;
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

/* Each of its servers shows another record, the one by which it left; each is shown by the one behind it, too. */
TEST(a_host_follows_a_fleet_whose_servers_left_one_by_one)
{
    founded(3);
    w.agent[2].cut = ~0u;
    run();
    for (int i = 2; i >= 0; i--) {
        char id[] = {(char)('a' + i), '\0'};

        assert_int_equal(ask(0, FLEET_WISH_MOVE, id, 5 + i, false), HF_OK);
        run();
        quarantine();
    }
    assert_int_equal(on(0)->version, 4);
    assert_int_equal(on(1)->version, 3);
    assert_int_equal(on(2)->version, 2);
    assert_int_equal(w.agent[2].memory.version, 1);
    w.agent[2].cut = 0;
    run();
    quarantine();
    assert_all_by(4, FLEET_COMPLETE);
    assert_int_equal(counting(2), 3);
}

/* The one that stays has the complete record, the one that leaves was told that another one is gone. */
TEST(a_host_that_was_away_goes_on_though_a_member_is_gone)
{
    founded(3);
    w.agent[2].cut = ~0u;
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "c", 5, false), HF_OK);
    w.agent[0].cut = w.agent[1].cut = 1 << 1;
    run();
    w.server[1].up = false;
    assert_int_equal(ask(0, FLEET_WISH_GONE, "b", 0, false), HF_OK);
    run();
    assert_int_equal(on(0)->state, FLEET_COMPLETE);
    assert_int_equal(on(2)->state, FLEET_CHANGING);
    w.agent[2].cut = 0;
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

/* It has but its configuration, and no memory. */
TEST(one_node_leads_no_new_host_away)
{
    struct fleet_record first, r;

    for (int complete = 0; complete < 2; complete++) {
        founded(3);
        first = *on(0);
        r = lie(7, complete ? FLEET_COMPLETE : FLEET_CHANGING, complete, false);
        write_record(1, &r);
        forget(&w.agent[2], &first);
        assert_int_equal(w.agent[2].memory.version, 1);
        run();
        assert_all_by(1, FLEET_COMPLETE);
        assert_int_equal(on(0)->version, 1);
    }
}

TEST(one_node_of_the_right_servers_leads_no_new_host_where_another_one_has_a_record)
{
    struct fleet_record first, r;

    founded(3);
    first = *on(0);
    r = lie(7, FLEET_COMPLETE, false, false);
    memcpy(r.seat, first.seat, sizeof(r.seat));
    memcpy(r.before, first.seat, sizeof(r.before));
    write_record(1, &r);
    flush(2);
    forget(&w.agent[2], &first);
    assert_false(w.agent[2].fleet.known);
    flush(0);
    forget(&w.agent[2], &first);
    assert_int_equal(w.agent[2].memory.version, 7); /* nobody has another one */
}

/* --- more than one is down --------------------------------------------------------------------- */

TEST(of_two_that_are_down_neither_is_replaced_before_a_server_is_where_one_was)
{
    founded(5);
    w.server[3].up = w.server[4].up = false;
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "d", 6, true), HF_EBUSY);
    assert_why("start an empty server at 10.0.0.4:6379");
    assert_int_equal(ask(0, FLEET_WISH_REMOVE, "e", 0, true), HF_EBUSY);
    assert_why("start an empty server at 10.0.0.3:6379");
    w.server[4].up = true;
    flush(4);
    run();
    assert_int_equal(ask(0, FLEET_WISH_MOVE, "d", 6, true), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

TEST(one_that_is_down_is_to_be_replaced_first)
{
    founded(3);
    w.server[2].up = false;
    run();
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_EBUSY);
    assert_why("holdfast fleet move c=ADDRESS --old-server-dead");
}

/* What goes on begins on the first one that is not gone, and that one is dead. */
TEST(of_a_change_whose_first_two_die_only_a_server_where_one_was_is_of_help)
{
    founded(5);
    w.server[4].up = false;
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_OK);
    run();
    assert_all_by(2, FLEET_CHANGING);
    for (int s = 0; s < 2; s++) {
        w.server[s].up = false;
        flush(s);
    }
    run();
    for (int k = 0; k < AGENTS; k++)
        start(&w.agent[k]); /* none was seen to have it */
    run();
    assert_waits(0, "start an empty server at 10.0.0.0:6379");
    assert_why_lacks("--old-server-dead");
    pass(2000);
    assert_int_equal(ask(0, FLEET_WISH_GONE, "a", 0, false), HF_EBUSY);
    assert_why("start an empty server at 10.0.0.1:6379");
    assert_int_equal(ask(0, FLEET_WISH_ABORT, "", 0, false), HF_EBUSY);
    assert_why("start an empty server at 10.0.0.0:6379");
    w.server[0].up = w.server[4].up = true;
    run();
    assert_int_equal(ask(0, FLEET_WISH_GONE, "b", 0, false), HF_OK);
    run();
    assert_all_by(2, FLEET_COMPLETE);
}

/* Links are made anew at each step of a change. */
TEST(of_a_server_that_has_not_been_met_yet_nobody_says_that_it_is_gone)
{
    founded(3);
    w.server[2].up = false;
    assert_int_equal(ask(0, FLEET_WISH_TTL_MAX, "", 0, false), HF_OK);
    run();
    start(&w.agent[1]);
    fleet_waits(&w.agent[1].fleet, w.now, why, sizeof(why));
    assert_string_equal(why, "");
    hear_all(&w.agent[1]);
    (void)fleet_on_answer(&w.agent[1].fleet, 0, "another", "", w.now, w.now);
    fleet_on_usable(&w.agent[1].fleet, 0, false, false);
    assert_waits(1, "correct what holdfast nodes says of node a");
    assert_why_lacks("--old-server-dead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_moves),
        cmocka_unit_test(a_change_is_given_up),
        cmocka_unit_test(the_new_server_is_told_that_a_change_is_given_up),
        cmocka_unit_test(a_change_to_a_server_that_is_gone_is_given_up),
        cmocka_unit_test(a_change_is_given_up_though_a_member_is_gone),
        cmocka_unit_test(the_way_back_is_not_given_up),
        cmocka_unit_test(a_new_ttl_max_is_given_up),
        cmocka_unit_test(the_way_back_begins_where_a_member_stays),
        cmocka_unit_test(only_what_is_under_way_is_given_up),
        cmocka_unit_test(a_ttl_max_by_mistake_says_how_long_it_stands_and_how_it_goes),
        cmocka_unit_test(a_member_that_stays_may_be_gone),
        cmocka_unit_test(no_majority_may_be_gone),
        cmocka_unit_test(a_fleet_that_has_forgotten_is_confirmed),
        cmocka_unit_test(a_memory_is_confirmed),
        cmocka_unit_test(a_founding_that_was_left_is_confirmed),
        cmocka_unit_test(a_later_record_is_not_confirmed_away),
        cmocka_unit_test(where_a_later_record_is_seen_no_word_is_proposed),
        cmocka_unit_test(a_confirmation_does_not_last),
        cmocka_unit_test(less_than_a_majority_is_not_confirmed),
        cmocka_unit_test(a_fleet_grows_and_shrinks),
        cmocka_unit_test(ttl_max_changes),
        cmocka_unit_test(who_was_away_goes_by_the_latest),
        cmocka_unit_test(it_waits_for_all_that_stay),
        cmocka_unit_test(it_waits_for_the_server_that_leaves_or_the_operators_word),
        cmocka_unit_test(a_dead_node_is_replaced),
        cmocka_unit_test(a_server_that_is_refused_is_no_server_that_is_away),
        cmocka_unit_test(a_server_that_has_the_other_operators_change_is_not_stopped),
        cmocka_unit_test(a_server_that_answers_is_not_gone),
        cmocka_unit_test(each_that_stays_is_asked_once_more),
        cmocka_unit_test(so_is_the_server_that_leaves),
        cmocka_unit_test(an_emptied_member_gets_the_record_of_the_change),
        cmocka_unit_test(the_first_member_forgets_the_change),
        cmocka_unit_test(a_server_that_leaves_shows_nothing),
        cmocka_unit_test(where_all_that_stay_forgot_it_is_put_again),
        cmocka_unit_test(where_all_forgot_it_is_put_again_without_who_is_gone),
        cmocka_unit_test(nobody_goes_back),
        cmocka_unit_test(of_two_operators_one_wins),
        cmocka_unit_test(two_changes_that_were_begun_at_once_are_told_as_such),
        cmocka_unit_test(the_next_one_waits_until_it_has_settled),
        cmocka_unit_test(bad_wishes_are_refused),
        cmocka_unit_test(a_member_in_quarantine_is_waited_for),
        cmocka_unit_test(an_old_configuration_finds_the_latest_record),
        cmocka_unit_test(a_host_that_remembers_dead_servers_is_told_the_later_addresses),
        cmocka_unit_test(a_host_without_a_memory_is_told_the_addresses_that_a_node_tells),
        cmocka_unit_test(a_host_with_other_key_formats_counts_nothing_and_is_told_of_them),
        cmocka_unit_test(a_host_without_a_memory_and_with_other_key_formats_is_told_of_them),
        cmocka_unit_test(of_two_that_are_down_neither_is_replaced_before_a_server_is_where_one_was),
        cmocka_unit_test(one_that_is_down_is_to_be_replaced_first),
        cmocka_unit_test(of_a_change_whose_first_two_die_only_a_server_where_one_was_is_of_help),
        cmocka_unit_test(of_a_server_that_has_not_been_met_yet_nobody_says_that_it_is_gone),
        cmocka_unit_test(what_one_member_says_moves_nobody),
        cmocka_unit_test(one_server_at_two_nodes_moves_nobody),
        cmocka_unit_test(what_two_of_three_say_must_be_what_a_change_makes),
        cmocka_unit_test(records_of_one_digest_are_not_one_record),
        cmocka_unit_test(a_way_back_proves_no_complete_record),
        cmocka_unit_test(a_change_on_one_node_is_carried_on_by_whom_is_asked_for_the_same),
        cmocka_unit_test(a_change_on_one_node_goes_on_where_another_one_forgot),
        cmocka_unit_test(a_change_goes_on_when_its_other_nodes_answer_again),
        cmocka_unit_test(a_host_follows_a_fleet_whose_servers_left_one_by_one),
        cmocka_unit_test(a_host_that_was_away_goes_on_though_a_member_is_gone),
        cmocka_unit_test(one_node_leads_no_new_host_away),
        cmocka_unit_test(
            one_node_of_the_right_servers_leads_no_new_host_where_another_one_has_a_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

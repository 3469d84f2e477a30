/* Net. What an agent makes of what its nodes say of the fleet's record. */
#include <stdio.h>
#include <string.h>

#include "agent/core/fleet.h"
#include "agent/core/fleet_change.h"
#include "shm/status.h"
#include "tests/unit/core_fixture.h"

#define N     3
#define NONCE "0123456789abcdef0123456789abcdef"

/* Nodes as they are, and one agent's view of them. */
struct world {
    struct fleet fleet;
    hf_time now;
    struct {
        char text[FLEET_TEXT_SIZE];
        size_t length;
        char digest[FLEET_DIGEST_LEN + 1];
    } node[N];
    char order[64]; /* of the nodes that were written to, with the state */
};

static const char *const ids[N] = {"a", "b", "c"};
static const char *const places[N] = {"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"};

static struct fleet_record own_record(void)
{
    struct fleet_record own = {.count = N, .ttl_max_ms = 60000};

    for (int i = 0; i < N; i++)
        strcpy(own.seat[i].id, ids[i]);
    memset(own.keys, 'e', FLEET_ID_LEN);
    return own;
}

static struct fleet_record record_of(const char *const seats[N], enum fleet_state state)
{
    struct fleet_record record = own_record();

    record.version = 1;
    record.state = state;
    for (int i = 0; i < N; i++)
        strcpy(record.seat[i].address, seats[i]);
    fleet_record_name(&record, record.fleet);
    return record;
}

static void write_record(struct world *w, int i, const struct fleet_record *record)
{
    w->node[i].length = fleet_record_text(record, w->node[i].text);
    fleet_record_digest(w->node[i].text, w->node[i].length, w->node[i].digest);
}

static void wipe(struct world *w, int i)
{
    w->node[i].text[0] = w->node[i].digest[0] = '\0';
    w->node[i].length = 0;
}

static void begin(struct world *w, bool anew)
{
    struct fleet_record own = own_record();

    memset(w, 0, sizeof(*w));
    w->now = (hf_time){HF_NS_PER_SEC};
    fleet_init(&w->fleet, &own, anew, w->now);
}

static void up(struct world *w, int i)
{
    fleet_on_up(&w->fleet, i, places[i]);
    fleet_on_usable(&w->fleet, i, true, true);
}

/* The node answers a question that was asked at `sent`. */
static void hear(struct world *w, int i, hf_time sent)
{
    if (fleet_on_answer(&w->fleet, i, NONCE, w->node[i].digest, sent, w->now))
        fleet_on_record(&w->fleet, i, w->node[i].digest, w->node[i].text, w->node[i].length);
}

static void pass(struct world *w, int64_t ms)
{
    w->now = hf_time_add(w->now, hf_ms(ms));
}

static void ask_all(struct world *w)
{
    for (int i = 0; i < N; i++)
        if (w->fleet.node[i].there)
            hear(w, i, w->now);
    pass(w, 1);
}

/* Takes steps until there are none. Returns how many records were put. */
static int go_on(struct world *w)
{
    struct fleet_action action;
    int puts = 0;

    for (int steps = 0; steps < 100; steps++) {
        fleet_next(&w->fleet, w->now, 0, &action);
        if (action.step == FLEET_WAIT)
            return puts;
        if (action.step == FLEET_ADOPT) {
            fleet_adopt(&w->fleet, &action.record);
            continue;
        }
        assert_string_equal(action.digest, w->node[action.node].digest);
        write_record(w, action.node, &action.record);
        strncat(w->order, ids[action.node], sizeof(w->order) - strlen(w->order) - 1);
        strncat(w->order, action.record.state == FLEET_COMPLETE ? "! " : " ",
                sizeof(w->order) - strlen(w->order) - 1);
        puts++;
        fleet_on_put(&w->fleet, action.node, false, true);
        hear(w, action.node, w->now);
        pass(w, 1);
    }
    fail_msg("no end of steps");
    return puts;
}

static void all_up(struct world *w)
{
    for (int i = 0; i < N; i++)
        up(w, i);
    ask_all(w);
}

static void founded(struct world *w)
{
    begin(w, false);
    all_up(w);
    (void)go_on(w);
    w->order[0] = '\0';
    ask_all(w);
    assert_true(w->fleet.known);
}

static void assert_waits(const struct world *w, const char *part)
{
    char text[FLEET_WAITS_SIZE];

    fleet_waits(&w->fleet, w->now, text, sizeof(text));
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* --- founding --------------------------------------------------------------------------------- */

static void complete_comes_after_all_have_the_founding_record(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    all_up(&w);
    (void)go_on(&w);
    assert_string_equal(w.order, "a b c a! b! c! ");
    for (int i = 0; i < N; i++)
        assert_true(fleet_counts(&w.fleet, i));
}

static void nothing_counts_before_it_is_founded(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    all_up(&w);
    for (int i = 0; i < N; i++)
        assert_false(fleet_counts(&w.fleet, i));
}

static void a_missing_node_stops_the_founding(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    up(&w, 0);
    up(&w, 1);
    ask_all(&w);
    pass(&w, 5000);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    assert_waits(&w, "let node c answer");
}

static void a_node_that_is_not_usable_stops_the_founding(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    all_up(&w);
    fleet_on_usable(&w.fleet, 1, false, false);
    assert_int_equal(go_on(&w), 0);
}

static void a_node_that_may_have_forgotten_stops_the_founding(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    all_up(&w);
    fleet_on_usable(&w.fleet, 1, true, false);
    assert_int_equal(go_on(&w), 0);
    fleet_on_usable(&w.fleet, 1, true, true);
    assert_true(go_on(&w) > 0);
}

static void a_founding_that_somebody_left_is_carried_on(void **state)
{
    struct fleet_record founding = record_of(places, FLEET_FOUNDING);
    struct world w;

    (void)state;
    begin(&w, false);
    write_record(&w, 0, &founding);
    all_up(&w);
    (void)go_on(&w);
    assert_string_equal(w.order, "b c a! b! c! ");
}

static void a_founding_that_ended_half_way_is_carried_on(void **state)
{
    struct fleet_record founding = record_of(places, FLEET_FOUNDING),
                        complete = record_of(places, FLEET_COMPLETE);
    struct world w;

    (void)state;
    begin(&w, false);
    write_record(&w, 0, &complete);
    write_record(&w, 1, &founding);
    write_record(&w, 2, &founding);
    all_up(&w);
    (void)go_on(&w);
    ask_all(&w);
    (void)go_on(&w);
    assert_string_equal(w.order, "b! c! ");
}

static void the_founding_of_other_addresses_is_not_touched(void **state)
{
    static const char *const others[N] = {"10.0.0.1:6379", "10.0.0.2:6379", "10.9.9.9:6379"};
    struct fleet_record theirs = record_of(others, FLEET_FOUNDING);
    struct world w;

    (void)state;
    begin(&w, false);
    write_record(&w, 0, &theirs);
    all_up(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    pass(&w, 5000);
    assert_waits(&w, "same addresses");
}

/* --- adoption --------------------------------------------------------------------------------- */

static void a_quorum_of_one_record_is_gone_by_at_once(void **state)
{
    struct fleet_record theirs = record_of(places, FLEET_COMPLETE);
    struct world w;

    (void)state;
    begin(&w, false);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &theirs);
    up(&w, 0);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    up(&w, 1);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_true(w.fleet.known);
}

static void one_record_alone_is_gone_by_when_all_nodes_are_there(void **state)
{
    struct fleet_record theirs = record_of(places, FLEET_COMPLETE);
    struct world w;

    (void)state;
    begin(&w, false);
    write_record(&w, 1, &theirs);
    up(&w, 0);
    up(&w, 1);
    ask_all(&w);
    (void)go_on(&w);
    pass(&w, 2500);
    ask_all(&w);
    (void)go_on(&w);
    assert_false(w.fleet.known); /* (!) the third one may have a later one */
    up(&w, 2);
    ask_all(&w);
    (void)go_on(&w);
    assert_true(w.fleet.known);
}

/* What a majority says is gone by, where one node has the record, the other one forgot, and the configuration names the seat of the
 * third. */
static bool is_gone_by_without_the_third(const struct fleet_record *record, const char *configured)
{
    struct world w;

    begin(&w, false);
    write_record(&w, 1, record);
    fleet_on_configured(&w.fleet, 2, configured);
    fleet_on_down(&w.fleet, 2);
    up(&w, 0);
    up(&w, 1);
    ask_all(&w);
    (void)go_on(&w);
    assert_false(w.fleet.known); /* the third one may just be slow */
    pass(&w, 2500);
    ask_all(&w);
    (void)go_on(&w);
    return w.fleet.known;
}

static void
one_record_is_gone_by_with_a_majority_where_the_configuration_names_the_others(void **state)
{
    struct fleet_record theirs = record_of(places, FLEET_COMPLETE), later = theirs;

    (void)state;
    assert_true(is_gone_by_without_the_third(&theirs, places[2]));
    assert_false(is_gone_by_without_the_third(&theirs, ""));
    assert_false(is_gone_by_without_the_third(&theirs, "10.9.9.9:6379"));
    later.version =
        2; /* an agent of a fleet that changed knows more than this host's configuration */
    later.before_count = N;
    later.ttl_max_before_ms = later.ttl_max_ms;
    memcpy(later.before, later.seat, sizeof(later.before));
    assert_false(is_gone_by_without_the_third(&later, places[2]));
}

/* Before this fleet was founded, or while its nodes are away: the others of the host's nodes have no record. */
static void one_node_of_another_fleet_leads_nobody_there(void **state)
{
    static const char *const others[N] = {"10.8.0.1:6379", "10.0.0.2:6379", "10.9.9.9:6379"};
    struct fleet_record theirs = record_of(others, FLEET_COMPLETE);
    struct world w;

    (void)state;
    begin(&w, false);
    write_record(&w, 1, &theirs);
    up(&w, 1);
    pass(&w, 5000);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    all_up(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    assert_waits(&w, "correct the addresses of the other nodes: node b is of a fleet");
    write_record(&w, 0, &theirs);
    ask_all(&w);
    (void)go_on(&w);
    assert_true(w.fleet.known);
}

static void of_two_fleets_with_as_many_nodes_none_is_gone_by(void **state)
{
    static const char *const others[N] = {"10.8.0.1:6379", "10.0.0.2:6379", "10.9.9.9:6379"};
    struct fleet_record ours = record_of(places, FLEET_COMPLETE),
                        theirs = record_of(others, FLEET_COMPLETE);
    struct world w;

    (void)state;
    begin(&w, false);
    write_record(&w, 0, &ours);
    write_record(&w, 1, &theirs);
    up(&w, 0);
    up(&w, 1);
    ask_all(&w);
    pass(&w, 5000);
    ask_all(&w);
    (void)go_on(&w);
    assert_false(w.fleet.known);
    assert_waits(&w, "correct the addresses");
}

static void a_record_of_other_ids_is_not_gone_by(void **state)
{
    struct fleet_record theirs = record_of(places, FLEET_COMPLETE);
    struct world w;
    char text[256];

    (void)state;
    strcpy(theirs.seat[2].id, "d");
    begin(&w, false);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &theirs);
    all_up(&w);
    pass(&w, 5000);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    assert_true(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
}

static void another_ttl_max_is_told_and_the_record_counts(void **state)
{
    struct fleet_record theirs = record_of(places, FLEET_COMPLETE);
    struct world w;
    char text[256];

    (void)state;
    theirs.ttl_max_ms = 30000;
    begin(&w, false);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &theirs);
    all_up(&w);
    (void)go_on(&w);
    ask_all(&w);
    assert_true(fleet_counts(&w.fleet, 0));
    assert_true(fleet_differs(&w.fleet, text, sizeof(text)));
    assert_non_null(strstr(text, "30000"));
}

static void a_fleet_is_not_begun_while_a_node_takes_no_record(void **state)
{
    struct fleet_action action;
    struct world w;

    (void)state;
    begin(&w, false);
    all_up(&w);
    fleet_next(&w.fleet, w.now, 1u << 2, &action);
    assert_int_equal(action.step, FLEET_WAIT);
    fleet_next(&w.fleet, w.now, 0, &action);
    assert_int_equal(action.step, FLEET_PUT);
    assert_int_equal(action.node, 0);
    write_record(&w, 0, &action.record);
    hear(&w, 0, w.now);
    fleet_next(&w.fleet, w.now, 1u << 2, &action); /* begun, it goes on as far as it can */
    assert_int_equal(action.step, FLEET_PUT);
    assert_int_equal(action.node, 1);
}

/* --- a fleet that is known -------------------------------------------------------------------- */

static void a_majority_with_a_record_of_a_later_format_is_told_with_the_remedy(void **state)
{
    static const char later[] = "holdfast-fleet 9\nwhatever\n";
    struct world w;

    (void)state;
    founded(&w);
    for (int i = 0; i < 2; i++) {
        assert_waits(&w, "");
        w.node[i].length = sizeof(later) - 1;
        memcpy(w.node[i].text, later, sizeof(later));
        fleet_record_digest(w.node[i].text, w.node[i].length, w.node[i].digest);
        ask_all(&w);
        assert_false(fleet_counts(&w.fleet, i));
    }
    assert_waits(&w, "upgrade this host");
    assert_waits(&w, "on 2 of its 3 nodes");
    w.order[0] = '\0';
    assert_int_equal(go_on(&w), 0);
    assert_string_equal(w.order, "");
}

static void another_server_than_the_seat_does_not_count(void **state)
{
    struct world w;

    (void)state;
    founded(&w);
    fleet_on_down(&w.fleet, 1);
    fleet_on_up(&w.fleet, 1, "10.7.7.7:6379"); /* a clone, with the record and all */
    fleet_on_usable(&w.fleet, 1, true, true);
    ask_all(&w);
    assert_false(fleet_is_seated(&w.fleet, 1));
    assert_false(fleet_counts(&w.fleet, 1));
    assert_true(fleet_counts(&w.fleet, 0));
}

/* The configuration led to a server with our record, and the seat leads this host to another one: its own loopback, or
 * a network with the same addresses. */
static void who_is_at_the_seat_of_a_server_that_was_left_is_that_server(void **state)
{
    struct world w;
    char text[256];

    (void)state;
    founded(&w);
    fleet_on_leave(&w.fleet, 1);
    fleet_on_down(&w.fleet, 1);
    up(&w, 1);
    wipe(&w, 1);
    (void)fleet_on_answer(&w.fleet, 1, "fedcba9876543210fedcba9876543210", "", w.now, w.now);
    assert_true(fleet_is_foreign(&w.fleet, 1, text, sizeof(text)));
    assert_non_null(strstr(text, "fleet_address=10.0.0.2:6379"));
    write_record(&w, 1, &w.fleet.record);
    hear(&w, 1, w.now); /* the server that was left */
    assert_false(fleet_is_foreign(&w.fleet, 1, text, sizeof(text)));
    assert_true(fleet_counts(&w.fleet, 1));
}

/* This host's configuration file has the addresses of two nodes the other way round. */
static void nodes_whose_addresses_are_swapped_are_told_with_their_lines(void **state)
{
    static const char *const nonces[] = {"00000000000000000000000000000000",
                                         "11111111111111111111111111111111"};
    char text[512];
    struct world w;

    (void)state;
    founded(&w);
    for (int i = 0; i < 2; i++) {
        fleet_on_written(&w.fleet, i, "/etc/h.conf", 3 + i);
        fleet_on_down(&w.fleet, i);
        fleet_on_up(&w.fleet, i, fleet_place(&w.fleet, !i)->address);
        (void)fleet_on_answer(&w.fleet, i, nonces[!i], w.fleet.digest, w.now, w.now);
        fleet_on_leave(&w.fleet, i);
        fleet_on_down(&w.fleet, i);
    }
    for (int i = 0; i < 2; i++) {
        up(&w, i);
        hear(&w, i, w.now);
        assert_int_equal(fleet_misplaced(&w.fleet, i), !i);
        assert_true(fleet_is_foreign(&w.fleet, i, text, sizeof(text)));
        assert_non_null(strstr(text, "the addresses of nodes a and b the other way round (lines 3 "
                                     "and 4 of /etc/h.conf); write a=10.0.0.1:6379 and "
                                     "b=10.0.0.2:6379 there, and restart the agent"));
        assert_null(strstr(text, "fleet_address="));
    }
    assert_int_equal(fleet_misplaced(&w.fleet, 2), -1);
    for (int i = 0; i < 2; i++) /* corrected */
        fleet_on_reload(&w.fleet, i, fleet_place(&w.fleet, i)->address);
    assert_int_equal(fleet_misplaced(&w.fleet, 0), -1);
    assert_false(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
}

/* It would have too few servers for good. */
static void nodes_that_are_one_server_found_nothing(void **state)
{
    struct world w;

    (void)state;
    begin(&w, false);
    for (int i = 0; i < N; i++)
        up(&w, i);
    fleet_on_server(&w.fleet, 0, "0123456789012345678901234567890123456789", w.now);
    fleet_on_server(&w.fleet, 2, "0123456789012345678901234567890123456789", w.now);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    fleet_on_server(&w.fleet, 2, "9999999999999999999999999999999999999999", w.now);
    ask_all(&w);
    assert_true(go_on(&w) > 0);
}

/* A host saw its clock step in between, and gave it another nonce. */
static void a_server_that_was_left_is_known_by_its_run_id(void **state)
{
    static const char nonce[] = "fedcba9876543210fedcba9876543210";
    struct world w;
    char text[256];

    (void)state;
    founded(&w);
    fleet_on_server(&w.fleet, 1, "0123456789012345678901234567890123456789", w.now);
    fleet_on_leave(&w.fleet, 1);
    fleet_on_down(&w.fleet, 1);
    up(&w, 1);
    fleet_on_server(&w.fleet, 1, "9999999999999999999999999999999999999999", w.now);
    (void)fleet_on_answer(&w.fleet, 1, nonce, "", w.now, w.now);
    assert_true(fleet_is_foreign(&w.fleet, 1, text, sizeof(text)));
    fleet_on_server(&w.fleet, 1, "0123456789012345678901234567890123456789", w.now);
    assert_false(fleet_is_stranger(&w.fleet, 1));
    assert_false(fleet_is_foreign(&w.fleet, 1, text, sizeof(text)));
}

/* Once it was seen at the seat, it may be restarted there like any other node. */
static void a_server_that_was_left_and_found_again_may_forget(void **state)
{
    struct world w;
    char text[256];

    (void)state;
    founded(&w);
    fleet_on_server(&w.fleet, 1, "0123456789012345678901234567890123456789", w.now);
    fleet_on_leave(&w.fleet, 1);
    fleet_on_down(&w.fleet, 1);
    up(&w, 1);
    fleet_on_server(&w.fleet, 1, "0123456789012345678901234567890123456789", w.now);
    hear(&w, 1, w.now);
    for (int i = 0; i < N; i++)
        hear(&w, i, w.now);
    pass(&w, 1);
    hear(&w, 0, w.now);
    fleet_settle_doubts(&w.fleet, w.now);
    assert_true(fleet_counts(&w.fleet, 1));
    fleet_on_down(&w.fleet, 1);
    up(&w, 1);
    wipe(&w, 1);
    fleet_on_server(&w.fleet, 1, "9999999999999999999999999999999999999999", w.now);
    (void)fleet_on_answer(&w.fleet, 1, "fedcba9876543210fedcba9876543210", "", w.now, w.now);
    assert_false(fleet_is_foreign(&w.fleet, 1, text, sizeof(text)));
}

static void an_empty_node_gets_the_record_only_from_what_was_read_since(void **state)
{
    struct world w;
    hf_time before;

    (void)state;
    founded(&w);
    before = w.now;
    pass(&w, 10);
    wipe(&w, 1);
    hear(&w, 1, w.now);
    assert_false(fleet_counts(&w.fleet, 1));
    pass(&w, 10);
    hear(&w, 0, before); /* asked for before the empty node was seen */
    assert_int_equal(go_on(&w), 0);
    pass(&w, 10);
    hear(&w, 0, w.now);
    assert_int_equal(go_on(&w), 1);
    assert_string_equal(w.order, "b! ");
    assert_true(fleet_counts(&w.fleet, 1));
}

static void where_all_forgot_it_is_founded_again_with_all(void **state)
{
    struct world w;

    (void)state;
    founded(&w);
    for (int i = 0; i < N; i++)
        wipe(&w, i);
    fleet_on_down(&w.fleet, 2);
    ask_all(&w);
    pass(&w, 5000);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_waits(&w, "let node c answer");
    up(&w, 2);
    for (int i = 0; i < N; i++)
        fleet_on_usable(&w.fleet, i, true, false); /* in quarantine: it has a memory */
    ask_all(&w);
    (void)go_on(&w);
    ask_all(&w);
    (void)go_on(&w);
    assert_string_equal(w.order, "a! b! c! ");
    for (int i = 0; i < N; i++)
        assert_true(fleet_counts(&w.fleet, i));
}

/* All nodes are empty, and in the record of this agent's memory ttl_max is 60 s. */
static int given_from_memory(struct world *w, hf_time shown)
{
    struct fleet_record record = record_of(places, FLEET_COMPLETE);

    begin(w, false);
    w->now = hf_time_add(w->now, hf_ms(1000000));
    fleet_restore(&w->fleet, &record, HF_TIME_PAST);
    fleet_restore_shown(&w->fleet, shown);
    all_up(w);
    return go_on(w);
}

/* (!) While this host was away the fleet may have changed, and leases may be longer than its record says. */
static void a_memory_alone_founds_nothing_again(void **state)
{
    struct world w;
    hf_time now;

    (void)state;
    assert_int_equal(given_from_memory(&w, HF_TIME_PAST), 0);
    assert_waits(&w, "version 1 of this host may not be the latest one; on the host with");
    pass(&w, 200000); /* nor does it in time */
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    now = hf_time_sub(w.now, hf_ms(200003));
    assert_int_equal(given_from_memory(&w, hf_time_sub(now, hf_ms(62000))), 0);
    assert_true(given_from_memory(&w, hf_time_sub(now, hf_ms(60000))) > 0);
}

/* What it had between two answers it may have forgotten again. */
static void a_node_that_forgot_once_more_is_empty_since_then(void **state)
{
    struct world w;

    (void)state;
    founded(&w);
    for (int i = 0; i < N; i++)
        wipe(&w, i);
    ask_all(&w);
    fleet_on_usable(&w.fleet, 2, false, false);
    pass(&w, 100000);
    for (int i = 0; i < N; i++)
        (void)fleet_on_answer(&w.fleet, i, "another", "", w.now, w.now);
    fleet_on_usable(&w.fleet, 2, true, true);
    assert_int_equal(go_on(&w), 0);
}

/* (!) What a server shows is later than what is remembered, whatever most have. */
static void nothing_is_founded_again_where_a_later_record_is_seen(void **state)
{
    struct fleet_record first = record_of(places, FLEET_COMPLETE), later = first;
    struct world w;

    (void)state;
    later.version = 2;
    later.before_count = N;
    later.ttl_max_before_ms = first.ttl_max_ms;
    later.ttl_max_ms = 90000;
    memcpy(later.before, first.seat, sizeof(later.before));
    begin(&w, false);
    fleet_restore(&w.fleet, &first, HF_TIME_PAST);
    fleet_restore_shown(&w.fleet, w.now);
    write_record(&w, 2, &later);
    all_up(&w);
    assert_int_equal(go_on(&w), 0);
    assert_waits(&w, "node c has version 2");
    w.fleet.confirmed_until = HF_TIME_NEVER;
    assert_int_equal(go_on(&w), 0);
}

static void another_fleets_node_is_refused_by_itself(void **state)
{
    static const char *const others[N] = {"10.8.0.1:6379", "10.8.0.2:6379", "10.0.0.3:6379"};
    struct fleet_record theirs = record_of(others, FLEET_COMPLETE);
    struct world w;
    char text[256];

    (void)state;
    founded(&w);
    write_record(&w, 2, &theirs);
    ask_all(&w);
    assert_true(fleet_is_foreign(&w.fleet, 2, text, sizeof(text)));
    assert_non_null(strstr(text, "another fleet"));
    assert_int_equal(go_on(&w), 0);
    assert_false(fleet_counts(&w.fleet, 2));
    assert_true(fleet_counts(&w.fleet, 0) && fleet_counts(&w.fleet, 1));
    assert_false(fleet_differs(&w.fleet, text, sizeof(text)));
}

static void what_an_earlier_agent_went_by_stays(void **state)
{
    static const char *const others[N] = {"10.8.0.1:6379", "10.8.0.2:6379", "10.8.0.3:6379"};
    struct fleet_record ours = record_of(places, FLEET_COMPLETE),
                        theirs = record_of(others, FLEET_COMPLETE);
    char digest[FLEET_DIGEST_LEN + 1];
    struct world w;

    (void)state;
    begin(&w, false);
    fleet_restore(&w.fleet, &ours, HF_TIME_PAST);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &theirs);
    all_up(&w);
    pass(&w, 5000);
    ask_all(&w);
    fleet_record_own_digest(&ours, digest);
    assert_int_equal(go_on(&w), 0);
    assert_string_equal(w.fleet.digest, digest); /* a majority does not overrule it */
    for (int i = 0; i < N; i++)
        assert_false(fleet_counts(&w.fleet, i));
}

static void what_a_connection_said_ends_with_it(void **state)
{
    struct world w;

    (void)state;
    founded(&w);
    fleet_on_down(&w.fleet, 0);
    up(&w, 0);
    assert_false(fleet_counts(&w.fleet, 0));
    ask_all(&w);
    assert_true(fleet_counts(&w.fleet, 0));
}

static void where_a_majority_showed_ours_no_later_one_had_one(void **state)
{
    struct world w;
    hf_time first, second;

    (void)state;
    begin(&w, false);
    assert_int_equal(fleet_shown(&w.fleet).ns, HF_TIME_PAST.ns);
    founded(&w);
    first = w.now;
    ask_all(&w);
    assert_int_equal(fleet_shown(&w.fleet).ns, first.ns);
    second = w.now;
    hear(&w, 1, second);
    assert_int_equal(fleet_shown(&w.fleet).ns, first.ns);
    hear(&w, 1, first); /* an answer that was overtaken */
    hear(&w, 2, second);
    assert_int_equal(fleet_shown(&w.fleet).ns, second.ns);
    pass(&w, 10);
    for (int i = 0; i < N; i++)
        wipe(&w, i);
    ask_all(&w);
    fleet_on_down(&w.fleet, 2);
    assert_int_equal(fleet_shown(&w.fleet).ns, second.ns);
}

/* --- servers that came back ---------------------------------------------------------------------- */

/* Which are known by their runs, "a1" and so on. */
static void connect(struct world *w, int i, int run)
{
    char run_id[8];

    snprintf(run_id, sizeof(run_id), "%s%d", ids[i], run);
    fleet_on_down(&w->fleet, i);
    up(w, i);
    fleet_on_server(&w->fleet, i, run_id, w->now);
    hear(w, i, w->now);
    pass(w, 1);
}

static void known_by_their_runs(struct world *w)
{
    begin(w, false);
    for (int i = 0; i < N; i++)
        connect(w, i, 1);
    (void)go_on(w);
    ask_all(w);
    fleet_settle_doubts(&w->fleet, w->now);
    (void)go_on(w);
    ask_all(w);
    w->order[0] = '\0';
}

static int counting(struct world *w)
{
    int count = 0;

    fleet_settle_doubts(&w->fleet, w->now);
    for (int i = 0; i < N; i++)
        count += fleet_counts(&w->fleet, i);
    return count;
}

static struct fleet_record with_a_longer_ttl_max(void)
{
    struct fleet_record first = record_of(places, FLEET_COMPLETE), later = first;

    later.version = 2;
    later.before_count = N;
    later.ttl_max_before_ms = first.ttl_max_ms;
    later.ttl_max_ms = 90000;
    memcpy(later.before, first.seat, sizeof(later.before));
    return later;
}

/* (!) It may have an earlier record again; who stayed up says that there is no later one. */
static void what_came_back_counts_once_another_one_has_shown_the_record(void **state)
{
    struct world w;

    (void)state;
    known_by_their_runs(&w);
    assert_int_equal(counting(&w), N);
    connect(&w, 1, 2);
    assert_int_equal(counting(&w), 2);
    assert_false(fleet_counts(&w.fleet, 1));
    assert_int_equal(fleet_awaits(&w.fleet), 1 << 0 | 1 << 2);
    hear(&w, 0, w.fleet.node[1].doubted); /* asked when it came: it proves nothing */
    assert_int_equal(counting(&w), 2);
    hear(&w, 0, w.now);
    assert_int_equal(counting(&w), N);
    assert_int_equal(go_on(&w), 1); /* which others see by its mark */
    assert_string_equal(w.order, "b! ");
    connect(&w, 1, 2); /* the same one */
    assert_int_equal(counting(&w), N);
}

/* (!) One after the other: who has been shown to have the latest proves it for the next. */
static void all_come_back_one_after_the_other(void **state)
{
    struct world w;

    (void)state;
    known_by_their_runs(&w);
    pass(&w, 500000);
    for (int i = 0; i < N; i++) {
        connect(&w, i, 2);
        ask_all(&w);
        assert_int_equal(counting(&w), N);
        pass(&w, 500000);
    }
}

/* (!) This host slept, the fleet changed, and all nodes came back with what they had before. */
static void what_all_came_back_with_counts_for_no_host_that_slept(void **state)
{
    const struct fleet_wish confirm = {.kind = FLEET_WISH_CONFIRM};
    char why[256];
    struct world w;

    (void)state;
    known_by_their_runs(&w);
    pass(&w, 50000);
    for (int i = 0; i < N; i++)
        connect(&w, i, 2);
    assert_int_equal(counting(&w), N); /* nothing can have settled meanwhile */
    (void)go_on(&w);
    ask_all(&w);
    pass(&w, 63000);
    for (int i = 0; i < N; i++)
        connect(&w, i, 3);
    assert_int_equal(counting(&w), 0);
    pass(&w, 500000);
    ask_all(&w);
    assert_int_equal(counting(&w), 0);
    assert_int_equal(go_on(&w), 0);
    assert_waits(
        &w,
        "perhaps with an earlier record, and version 1 of this host may not be the latest one; on");
    assert_int_equal(fleet_change_begin(&w.fleet, &confirm, w.now, hf_ms(5000), why, sizeof(why)),
                     HF_OK);
    assert_int_equal(counting(&w), N);
    w.order[0] = '\0';
    assert_int_equal(go_on(&w), N);
    assert_string_equal(w.order, "a! b! c! ");
}

/* The host that was awake, or where an operator confirmed it, has marked them. */
static void what_another_host_is_sure_of_counts(void **state)
{
    struct world w;

    (void)state;
    known_by_their_runs(&w);
    pass(&w, 500000);
    for (int i = 0; i < N; i++)
        connect(&w, i, 2);
    for (int i = 0; i < N; i++)
        fleet_on_sure(&w.fleet, i,
                      i ? "b1" : ""); /* of the run before: it came back with the data */
    assert_int_equal(counting(&w), 0);
    fleet_on_sure(&w.fleet, 1, "b2");
    assert_int_equal(counting(&w), 1);
    ask_all(&w);
    assert_int_equal(counting(&w), N);
}

/* (!) One that stayed up has a later record: by what the others came back with two majorities would have no server in common. */
static void nothing_counts_beside_a_later_record_on_what_came_back(void **state)
{
    const struct fleet_wish confirm = {.kind = FLEET_WISH_CONFIRM};
    struct fleet_record later = with_a_longer_ttl_max();
    struct world w;
    char why[256];

    (void)state;
    known_by_their_runs(&w);
    pass(&w, 10000); /* even within the quarantine */
    write_record(&w, 2, &later);
    hear(&w, 2, w.now);
    connect(&w, 0, 2);
    connect(&w, 1, 2);
    pass(&w, 500000);
    ask_all(&w);
    assert_int_equal(counting(&w), 0);
    assert_waits(&w, "node c has version 2 of the fleet, and too few others");
    assert_int_equal(fleet_change_begin(&w.fleet, &confirm, w.now, hf_ms(5000), why, sizeof(why)),
                     HF_EINVAL);
}

/* A host without a memory: the fleet's record is what most have, once they are out of quarantine. */
static void without_a_memory_the_quarantine_ends_the_doubt(void **state)
{
    struct fleet_record record = record_of(places, FLEET_COMPLETE), later = with_a_longer_ttl_max();
    struct world w;

    (void)state;
    begin(&w, false);
    for (int i = 0; i < N; i++) {
        write_record(&w, i, &record);
        connect(&w, i, 1);
        fleet_on_young(&w.fleet, i);
        fleet_on_usable(&w.fleet, i, true, false);
    }
    (void)go_on(&w);
    assert_true(w.fleet.known);
    assert_int_equal(counting(&w), 0);
    write_record(&w, 2, &later);
    ask_all(&w);
    fleet_on_usable(&w.fleet, 0, true, true);
    fleet_on_usable(&w.fleet, 1, true, true);
    assert_int_equal(counting(&w), 0); /* (!) not beside a later one */
    write_record(&w, 2, &record);
    ask_all(&w);
    assert_int_equal(counting(&w), N);
}

/* The next agent of this boot knows whom this one was sure of, and when. */
static void remember(struct world *w, hf_time shown)
{
    struct fleet_record record = record_of(places, FLEET_COMPLETE);

    begin(w, false);
    pass(w, 500000);
    fleet_restore(&w->fleet, &record, HF_TIME_PAST);
    for (int i = 0; i < N; i++) {
        write_record(w, i, &record);
        fleet_on_remembered(&w->fleet, i, i == 0 ? "a1" : i == 1 ? "b1" : "", shown);
    }
}

static void who_was_sure_is_known_to_the_next_agent(void **state)
{
    struct world w;

    (void)state;
    remember(&w, HF_TIME_PAST);
    connect(&w, 1, 2);
    connect(&w, 2, 2);
    assert_int_equal(counting(&w), 0);
    connect(&w, 0, 1);
    assert_int_equal(counting(&w), N);
    remember(&w, (hf_time){450 * HF_NS_PER_SEC});
    connect(&w, 1, 2);
    assert_int_equal(counting(&w), 0);
    connect(&w, 2, 2);
    assert_int_equal(counting(&w), 2); /* it was the latest just before */
}

/* Of version 2, to which b has come from elsewhere; with the version 1 that was before. */
static struct fleet_record moved(struct fleet_record *ret_first)
{
    static const char *const old[N] = {"10.0.0.1:6379", "10.9.9.9:6379", "10.0.0.3:6379"};
    struct fleet_record first = record_of(old, FLEET_COMPLETE), second = first;

    second.version = 2;
    second.before_count = N;
    second.ttl_max_before_ms = second.ttl_max_ms;
    memcpy(second.before, first.seat, sizeof(second.before));
    strcpy(second.seat[1].address, places[1]);
    *ret_first = first;
    return second;
}

/* (!) --reset-fleet over the first list has its name, and version 1 again: a host that was away remembers more than there is. */
static void a_fleet_that_was_founded_anew_is_not_made_what_it_was(void **state)
{
    struct fleet_record first, second = moved(&first);
    struct world w;
    char text[256];

    (void)state;
    begin(&w, false);
    fleet_restore(&w.fleet, &second, HF_TIME_PAST);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &first);
    all_up(&w);
    for (int i = 0; i < N; i++)
        fleet_on_since(&w.fleet, i, 1700000100000, 1700000000000);
    assert_int_equal(go_on(&w), 0);
    assert_true(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
    assert_non_null(strstr(text, "start this agent with --reset-fleet, too"));
    fleet_on_down(&w.fleet, 1); /* it may have the same */
    wipe(&w, 2);
    up(&w, 1);
    hear(&w, 2, w.now);
    assert_true(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
    wipe(&w, 1);
    hear(&w, 1, w.now); /* it has not: whoever was emptied says nothing of a founding */
    assert_false(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
    for (int i = 1; i < N; i++)
        write_record(&w, i, &first);
    ask_all(&w);
    for (int i = 0; i < N; i++)
        fleet_on_since(&w.fleet, i, 1700000100000, 1700000000000);
    assert_int_equal(go_on(&w), 0);
    /* Where most have ours, one that has an earlier one was away, or was restored; whatever its clock says. */
    write_record(&w, 0, &second);
    write_record(&w, 1, &second);
    ask_all(&w);
    assert_false(fleet_is_foreign(&w.fleet, 2, text, sizeof(text)));
    assert_int_equal(go_on(&w), 1);
    assert_string_equal(w.order, "c! ");
}

/* Clocks of hosts differ: while it is under way a node with the version before is none that was founded anew. */
static void a_change_goes_on_whatever_a_founders_clock_said(void **state)
{
    struct fleet_record first, second = moved(&first);
    struct world w;

    (void)state;
    second.state = FLEET_CHANGING;
    begin(&w, false);
    fleet_restore(&w.fleet, &second, HF_TIME_NEVER);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &first);
    all_up(&w);
    for (int i = 0; i < N; i++) {
        fleet_on_since(&w.fleet, i, 1700000100000, 1700000000000);
        assert_false(fleet_is_refounded(&w.fleet, i));
    }
}

static void nodes_that_were_restored_are_brought_up_to_date(void **state)
{
    struct fleet_record first, second = moved(&first);
    struct world w;

    (void)state;
    begin(&w, false);
    fleet_restore(&w.fleet, &second, HF_TIME_PAST);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &first);
    all_up(&w);
    for (int i = 0; i < N; i++)
        fleet_on_since(&w.fleet, i, 1699999999999, 1700000000000);
    (void)go_on(&w);
    assert_string_equal(w.order, "a! b! c! ");
}

/* --- --reset-fleet ------------------------------------------------------------------------------- */

static void anew_the_record_of_other_servers_is_to_be_replaced(void **state)
{
    static const char *const others[N] = {"10.0.0.1:6379", "10.0.0.2:6379", "10.9.9.9:6379"};
    struct fleet_record theirs = record_of(others, FLEET_COMPLETE);
    struct world w;
    char text[256];

    (void)state;
    begin(&w, true);
    for (int i = 0; i < 2; i++)
        write_record(&w, i, &theirs);
    all_up(&w);
    pass(&w, 5000);
    ask_all(&w);
    assert_int_equal(go_on(&w), 0);
    assert_false(w.fleet.known);
    assert_true(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
    assert_false(fleet_is_foreign(&w.fleet, 2, text, sizeof(text)));
    fleet_on_usable(&w.fleet, 0, false, false); /* it is refused: that changes no judgement */
    assert_true(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
    assert_true(fleet_is_foreign(&w.fleet, 1, text, sizeof(text)));
    fleet_on_down(&w.fleet, 2); /* which servers these are is not known then */
    assert_false(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
}

static void anew_a_record_of_these_servers_is_gone_by(void **state)
{
    struct fleet_record theirs = record_of(places, FLEET_COMPLETE);
    struct world w;
    char text[256];

    (void)state;
    begin(&w, true);
    for (int i = 0; i < N; i++)
        write_record(&w, i, &theirs);
    all_up(&w);
    assert_false(fleet_is_foreign(&w.fleet, 0, text, sizeof(text)));
    (void)go_on(&w);
    assert_true(w.fleet.known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_comes_after_all_have_the_founding_record),
        cmocka_unit_test(nothing_counts_before_it_is_founded),
        cmocka_unit_test(a_missing_node_stops_the_founding),
        cmocka_unit_test(a_node_that_is_not_usable_stops_the_founding),
        cmocka_unit_test(a_node_that_may_have_forgotten_stops_the_founding),
        cmocka_unit_test(a_founding_that_somebody_left_is_carried_on),
        cmocka_unit_test(a_founding_that_ended_half_way_is_carried_on),
        cmocka_unit_test(the_founding_of_other_addresses_is_not_touched),
        cmocka_unit_test(a_quorum_of_one_record_is_gone_by_at_once),
        cmocka_unit_test(one_record_alone_is_gone_by_when_all_nodes_are_there),
        cmocka_unit_test(
            one_record_is_gone_by_with_a_majority_where_the_configuration_names_the_others),
        cmocka_unit_test(one_node_of_another_fleet_leads_nobody_there),
        cmocka_unit_test(of_two_fleets_with_as_many_nodes_none_is_gone_by),
        cmocka_unit_test(a_record_of_other_ids_is_not_gone_by),
        cmocka_unit_test(another_ttl_max_is_told_and_the_record_counts),
        cmocka_unit_test(a_fleet_is_not_begun_while_a_node_takes_no_record),
        cmocka_unit_test(a_majority_with_a_record_of_a_later_format_is_told_with_the_remedy),
        cmocka_unit_test(another_server_than_the_seat_does_not_count),
        cmocka_unit_test(who_is_at_the_seat_of_a_server_that_was_left_is_that_server),
        cmocka_unit_test(nodes_whose_addresses_are_swapped_are_told_with_their_lines),
        cmocka_unit_test(nodes_that_are_one_server_found_nothing),
        cmocka_unit_test(a_server_that_was_left_is_known_by_its_run_id),
        cmocka_unit_test(a_server_that_was_left_and_found_again_may_forget),
        cmocka_unit_test(an_empty_node_gets_the_record_only_from_what_was_read_since),
        cmocka_unit_test(where_all_forgot_it_is_founded_again_with_all),
        cmocka_unit_test(what_came_back_counts_once_another_one_has_shown_the_record),
        cmocka_unit_test(all_come_back_one_after_the_other),
        cmocka_unit_test(what_all_came_back_with_counts_for_no_host_that_slept),
        cmocka_unit_test(what_another_host_is_sure_of_counts),
        cmocka_unit_test(nothing_counts_beside_a_later_record_on_what_came_back),
        cmocka_unit_test(without_a_memory_the_quarantine_ends_the_doubt),
        cmocka_unit_test(who_was_sure_is_known_to_the_next_agent),
        cmocka_unit_test(a_memory_alone_founds_nothing_again),
        cmocka_unit_test(a_node_that_forgot_once_more_is_empty_since_then),
        cmocka_unit_test(nothing_is_founded_again_where_a_later_record_is_seen),
        cmocka_unit_test(another_fleets_node_is_refused_by_itself),
        cmocka_unit_test(what_an_earlier_agent_went_by_stays),
        cmocka_unit_test(what_a_connection_said_ends_with_it),
        cmocka_unit_test(where_a_majority_showed_ours_no_later_one_had_one),
        cmocka_unit_test(a_fleet_that_was_founded_anew_is_not_made_what_it_was),
        cmocka_unit_test(a_change_goes_on_whatever_a_founders_clock_said),
        cmocka_unit_test(nodes_that_were_restored_are_brought_up_to_date),
        cmocka_unit_test(anew_the_record_of_other_servers_is_to_be_replaced),
        cmocka_unit_test(anew_a_record_of_these_servers_is_gone_by),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

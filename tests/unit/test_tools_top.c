/* tools/top/top_internal.h: what a frame of the live view looks like, at any size and whatever the names are. */
#include "reader_fixture.h"

#include "shm/history.h"
#include "shm/waiters.h"
#include "tools/top/top_internal.h"

#define WALL_MS INT64_C(1795521600000) /* 2026-11-24T12:00:00Z */

static struct top_lease leases[TOP_LEASES_MOST];
static struct top_waiter waiters[HF_WAITERS_SHOWN];

static void set_name(uint8_t *name, size_t *ret_len, const char *text)
{
    *ret_len = strlen(text);
    memcpy(name, text, *ret_len);
}

static struct top_lease lease_of(const char *name, enum hf_slot_state state, int64_t left_ms)
{
    struct top_lease lease = {.state = state,
                              .votes = state == HF_SLOT_HELD ? 3 : 1,
                              .pid = 4121,
                              .left_ms = left_ms,
                              .ttl_ms = 30000,
                              .held_ms = 192000,
                              .user = "postgres",
                              .note = "nightly"};

    set_name(lease.name, &lease.name_len, name);
    return lease;
}

static struct top_model model_of(size_t lease_count, size_t waiter_count)
{
    struct top_model m = {
        .agent = "default",
        .host = "host7",
        .version = "0.1.0",
        .verdict = LIFE_ALIVE,
        .pid = 812,
        .up_ms = INT64_C(99) * 3600 * 1000,
        .wall_ms = WALL_MS,
        .beat_ms = {26, 1, 45},
        .terms = {.nodes = 3, .quorum = 2, .ttl_ms = 30000},
        .voting = 2,
        .node_count = 3,
        .counts = {.leases = (uint32_t)lease_count},
        .waiting = waiter_count,
        .clients = 7,
        .grants = 120,
        .grants_10s = 42,
        .margin_ppm = 640000,
        .waiters_known = true,
        .node = {{.id = "a", .state = "up", .votes = true, .rtt_ns = 260000, .answered_ms = 12},
                 {.id = "b", .state = "up", .votes = true, .rtt_ns = 2600000, .answered_ms = 340},
                 {.id = "c", .state = "down", .why = "connection refused", .answered_ms = 65000}},
        .lease = leases,
        .lease_count = lease_count < TOP_LEASES_MOST ? lease_count : TOP_LEASES_MOST,
        .lease_total = lease_count,
        .waiter = waiters,
        .waiter_count = waiter_count < HF_WAITERS_SHOWN ? waiter_count : HF_WAITERS_SHOWN,
    };

    for (size_t i = 0; i < m.lease_count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "app/%zu", i);
        leases[i] = lease_of(name, HF_SLOT_HELD, 29000);
    }
    for (size_t i = 0; i < m.waiter_count; i++) {
        waiters[i] = (struct top_waiter){.place = (uint32_t)i + 1,
                                         .pid = (uint32_t)(5000 + i),
                                         .waits_ms = 12900,
                                         .gives_up_ms = i % 2 ? 60000 : -1,
                                         .user = "anna",
                                         .command = "pg_dump"};
        set_name(waiters[i].name, &waiters[i].name_len, "db/migrate");
    }
    return m;
}

/* Three leases in three states, a waiter, a loss. */
static struct top_model some(void)
{
    struct top_model m = model_of(3, 1);

    leases[0] = lease_of("db/migrate", HF_SLOT_LOSING, 8000);
    leases[1] = lease_of("app/leader-election-of-the-west", HF_SLOT_LATE, 14000);
    leases[2] = lease_of("cron", HF_SLOT_HELD, 29000);
    m.counts.late = m.counts.losing = 1;
    m.losses = 1;
    m.loss_count = 1;
    m.loss[0] = (struct top_loss){
        .state = "lost", .wall_ms = WALL_MS - 60000, .why = "too few nodes renewed it"};
    set_name(m.loss[0].name, &m.loss[0].name_len, "old");
    return m;
}

/* To be freed. */
static char *drawn(const struct top_model *m, struct top_style style)
{
    struct top_canvas canvas = {.text = NULL};
    char *text;

    top_frame_draw(&canvas, &style, m);
    text = strndup(canvas.text, canvas.length);
    top_canvas_free(&canvas);
    return text;
}

static void assert_frame(const struct top_model *m, struct top_style style, const char *expected)
{
    char *text = drawn(m, style);

    if (strcmp(text, expected) != 0)
        fail_msg("drawn:\n%s\nexpected:\n%s", text, expected);
    free(text);
}

static void nodes_of_a_dead_agent_are_not_told_as_present(void **state)
{
    struct top_model m = some();
    char *text;

    (void)state;
    m.verdict = LIFE_DEAD;
    snprintf(m.when, sizeof(m.when), "4.0s ago");
    text = drawn(&m, (struct top_style){.width = 80});
    assert_non_null(strstr(text, "2 of 3 nodes voted 4.0s ago, quorum 2"));
    assert_non_null(strstr(text, "waiters -, clients -"));
    free(text);
}

static void a_frame_of_80_columns(void **state)
{
    struct top_model m = some();

    (void)state;
    assert_frame(
        &m, (struct top_style){.width = 80},
        "default on host7: alive, pid 812, version 0.1.0, up 4d3h    2026-11-24T12:00:00Z\n"
        "leases 3 (1 late, 1 losing), waiters 1, clients 7, grants 120 (4.2/s), lost 1\n"
        "2 of 3 nodes vote, quorum 2, ttl 30.0s; margin 64% of T; main 26ms, broker 1ms\n"
        "\n"
        "NODE  STATE       RTT  LATENCY     ANSWERED  WHY\n"
        "a     up       0.26ms  #.........      12ms  -\n"
        "b     up       2.60ms  ##########     340ms  -\n"
        "c     down          -  ..........      1m5s  connection refused\n"
        "\n"
        "NAME                            STATE     LEFT  VALIDITY          VOTES  PID\n"
        "db/migrate                      losing    8.0s  ####............  1/3    4121\n"
        "app/leader-election-of-the-...  late     14.0s  #######.........  1/3    4121\n"
        "cron                            held     29.0s  ###############.  3/3    4121\n"
        "\n"
        "WAITED FOR  PLACE  PID      USER       WAITS  GIVES UP  COMMAND\n"
        "db/migrate      1  5000     anna       12.9s     never  pg_dump\n"
        "\n"
        "LOST  AT                    STATE     WHY\n"
        "old   2026-11-24T11:59:00Z  lost      too few nodes renewed it\n");
}

static void a_frame_of_40_columns(void **state)
{
    struct top_model m = some();

    (void)state;
    assert_frame(&m, (struct top_style){.width = 40},
                 "default on host7: alive, up 4d3h\n"
                 "leases 3 (1 late, 1 losing), lost 1\n"
                 "2 of 3 nodes vote, quorum 2, ttl 30.0s\n"
                 "\n"
                 "NODE  STATE       RTT  ANSWERED\n"
                 "a     up       0.26ms      12ms\n"
                 "b     up       2.60ms     340ms\n"
                 "c     down          -      1m5s\n"
                 "\n"
                 "NAME            STATE     LEFT  VALIDITY\n"
                 "db/migrate      losing    8.0s  ##......\n"
                 "app/leader-...  late     14.0s  ####....\n"
                 "cron            held     29.0s  ########\n"
                 "\n"
                 "WAITED FOR  PLACE  PID       WAITS\n"
                 "db/migrate      1  5000      12.9s\n"
                 "\n"
                 "LOST  STATE     WHY\n"
                 "old   lost      too few nodes renewed it\n");
}

static void a_frame_of_200_columns_with_block_characters(void **state)
{
    struct top_model m = some();

    (void)state;
    assert_frame(&m, (struct top_style){.width = 200, .unicode = true},
                 "default on host7: alive, pid 812, version 0.1.0, up 4d3h                         "
                 "                                                                                 "
                 "                  2026-11-24T12:00:00Z\n"
                 "leases 3 (1 late, 1 losing), waiters 1, clients 7, grants 120 (4.2/s), lost 1\n"
                 "2 of 3 nodes vote, quorum 2, ttl 30.0s; margin 64% of T; main 26ms, broker 1ms, "
                 "renewal 45ms\n"
                 "\n"
                 "NODE  STATE       RTT  LATENCY     ANSWERED  WHY\n"
                 "a     up       0.26ms  █·········      12ms  -\n"
                 "b     up       2.60ms  ██████████     340ms  -\n"
                 "c     down          -  ··········      1m5s  connection refused\n"
                 "\n"
                 "NAME                             STATE     LEFT  VALIDITY                  VOTES "
                 " PID      USER        HELD  NOTE\n"
                 "db/migrate                       losing    8.0s  ██████▍·················  1/3   "
                 " 4121     postgres   3m12s  nightly\n"
                 "app/leader-election-of-the-west  late     14.0s  ███████████▎············  1/3   "
                 " 4121     postgres   3m12s  nightly\n"
                 "cron                             held     29.0s  ███████████████████████▎  3/3   "
                 " 4121     postgres   3m12s  nightly\n"
                 "\n"
                 "WAITED FOR  PLACE  PID      USER       WAITS  GIVES UP  COMMAND\n"
                 "db/migrate      1  5000     anna       12.9s     never  pg_dump\n"
                 "\n"
                 "LOST  AT                    STATE     WHY\n"
                 "old   2026-11-24T11:59:00Z  lost      too few nodes renewed it\n");
}

static void an_agent_that_hangs_with_nothing_held(void **state)
{
    struct top_model m = model_of(0, 0);

    (void)state;
    m.verdict = LIFE_HUNG;
    m.drained = true;
    m.beat_ms[1] = 12300;
    strcpy(m.when, "12.3s ago");
    m.grants_10s = m.margin_ppm = -1;
    strcpy(
        m.sentence,
        "agent default is not answering: its broker thread gave its last sign of life 12.3s ago");
    assert_frame(
        &m, (struct top_style){.width = 80},
        "default on host7: hung, pid 812, version 0.1.0, drained     2026-11-24T12:00:00Z\n"
        "leases 0, waiters -, clients -, grants 120, lost 0\n"
        "2 of 3 nodes voted 12.3s ago, quorum 2, ttl 30.0s; main 26ms, broker 12.3s\n"
        "agent default is not answering: its broker thread gave its last sign of life 12.\n"
        "3s ago\n"
        "\n"
        "NODE  STATE       RTT  LATENCY     ANSWERED  WHY\n"
        "a     up       0.26ms  #.........      12ms  -\n"
        "b     up       2.60ms  ##########     340ms  -\n"
        "c     down          -  ..........      1m5s  connection refused\n"
        "\n"
        "NAME  STATE     LEFT  VALIDITY          VOTES  PID      USER        HELD  NOTE\n"
        "none is held\n");
}

static void of_ten_thousand_the_screen_shows_what_it_has_room_for(void **state)
{
    struct top_model m = model_of(10000, 700);

    (void)state;
    assert_frame(&m, (struct top_style){.width = 60, .height = 24},
                 "default on host7: alive, pid 812, version 0.1.0, up 4d3h\n"
                 "leases 10000, waiters 700, clients 7, grants 120 (4.2/s)\n"
                 "2 of 3 nodes vote, quorum 2, ttl 30.0s; margin 64% of T\n"
                 "\n"
                 "NODE  STATE       RTT  LATENCY     ANSWERED  WHY\n"
                 "a     up       0.26ms  #.........      12ms  -\n"
                 "b     up       2.60ms  ##########     340ms  -\n"
                 "c     down          -  ..........      1m5s  connection r...\n"
                 "\n"
                 "NAME   STATE     LEFT  VALIDITY          PID      USER\n"
                 "app/0  held     29.0s  ###############.  4121     postgres\n"
                 "app/1  held     29.0s  ###############.  4121     postgres\n"
                 "app/2  held     29.0s  ###############.  4121     postgres\n"
                 "app/3  held     29.0s  ###############.  4121     postgres\n"
                 "app/4  held     29.0s  ###############.  4121     postgres\n"
                 "app/5  held     29.0s  ###############.  4121     postgres\n"
                 "... and 9994 more: holdfast list\n"
                 "\n"
                 "WAITED FOR  PLACE  PID      USER       WAITS  GIVES UP\n"
                 "db/migrate      1  5000     anna       12.9s     never\n"
                 "db/migrate      2  5001     anna       12.9s      1m0s\n"
                 "db/migrate      3  5002     anna       12.9s     never\n"
                 "db/migrate      4  5003     anna       12.9s      1m0s\n"
                 "... and 696 more\n");
}

/* What a terminal may get: printable ASCII, ends of lines, the characters of bars, and sequences for colours. */
static int columns_of(const char *line, size_t length, bool colour)
{
    int columns = 0;

    for (size_t i = 0; i < length;) {
        unsigned char byte = (unsigned char)line[i];

        if (byte == 0x1b) {
            size_t digits = strspn(line + i + 2, "0123456789");

            assert_true(colour && line[i + 1] == '[' && line[i + 2 + digits] == 'm');
            i += digits + 3;
            continue;
        }
        if (byte == 0xc2) {
            assert_int_equal((unsigned char)line[i + 1], 0xb7);
            i += 2;
        } else if (byte == 0xe2) {
            assert_int_equal((unsigned char)line[i + 1], 0x96);
            assert_in_range((unsigned char)line[i + 2], 0x88, 0x8f);
            i += 3;
        } else {
            assert_in_range(byte, ' ', '~');
            i++;
        }
        columns++;
    }
    return columns;
}

static void assert_bounded(const struct top_model *m, struct top_style style)
{
    char *text = drawn(m, style), *line = text;
    int lines = 0;

    for (char *end; (end = strchr(line, '\n')); line = end + 1, lines++)
        if (columns_of(line, (size_t)(end - line), style.colour) > style.width)
            fail_msg("wider than %d: %.*s", style.width, (int)(end - line), line);
    assert_int_equal(*line, 0);
    if (style.height && lines > style.height)
        fail_msg("%d lines of %d:\n%s", lines, style.height, text);
    free(text);
}

static void no_size_is_exceeded(void **state)
{
    static const size_t counts[] = {0, 1, 3, 40, 10000};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct top_model m = model_of(counts[i], counts[i]);

        m.loss_count = counts[i] < TOP_LOSSES_MOST ? counts[i] : TOP_LOSSES_MOST;
        for (size_t k = 0; k < m.loss_count; k++)
            m.loss[k].state = "losing";
        for (int width = 1; width <= 210; width += width < 90 ? 1 : 40)
            for (int height = 0; height <= 50; height += height < 30 ? 1 : 7)
                assert_bounded(&m, (struct top_style){.width = width,
                                                      .height = height,
                                                      .colour = width % 2,
                                                      .unicode = width % 3});
    }
}

static void no_byte_of_a_name_reaches_the_terminal(void **state)
{
    struct top_model m = model_of(256, 256);

    (void)state;
    for (size_t i = 0; i < 256; i++) {
        static const char utf8[] = "\xc3\xbc\xe2\x82\xac\xf0\x9f\x94\x92\x1b[2J\x1b]0;x\x07\n\r\t";

        m.lease[i].name_len = m.waiter[i].name_len = 4 + sizeof(utf8) - 1;
        memset(m.lease[i].name, (int)i, 4);
        memcpy(m.lease[i].name + 4, utf8, sizeof(utf8) - 1);
        memcpy(m.waiter[i].name, m.lease[i].name, m.lease[i].name_len);
    }
    memset(m.lease[7].name, 0xff, HF_NAME_MAX);
    m.lease[7].name_len = HF_NAME_MAX;
    /* Not even what ought to be escaped already. */
    strcpy(m.lease[8].note, "\x1b[31m");
    strcpy(m.node[1].why, "\x9b"
                          "2J");
    for (int width = 10; width <= 300; width += 29)
        assert_bounded(&m, (struct top_style){.width = width, .unicode = true});
}

static void colours_are_there_only_if_they_are_wanted(void **state)
{
    struct top_model m = some();
    char *plain = drawn(&m, (struct top_style){.width = 80}),
         *coloured = drawn(&m, (struct top_style){.width = 80, .colour = true});

    (void)state;
    assert_null(strchr(plain, 0x1b));
    assert_has(coloured, "\x1b[31mlosing\x1b[0m");
    assert_has(coloured, "\x1b[33mlate\x1b[0m");
    assert_has(coloured, "\x1b[32mheld\x1b[0m");
    free(plain);
    free(coloured);
}

static void bars_are_as_long_as_what_is_left(void **state)
{
    static const struct {
        double part;
        const char *ascii, *unicode;
    } rows[] = {
        {0, "....", "\u00b7\u00b7\u00b7\u00b7"},   {0.001, "#...", "\u258f\u00b7\u00b7\u00b7"},
        {0.5, "##..", "\u2588\u2588\u00b7\u00b7"}, {0.65, "###.", "\u2588\u2588\u258b\u00b7"},
        {1, "####", "\u2588\u2588\u2588\u2588"},   {7, "####", "\u2588\u2588\u2588\u2588"},
        {-1, "....", "\u00b7\u00b7\u00b7\u00b7"},  {0.0 / 0.0, "....", "\u00b7\u00b7\u00b7\u00b7"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int unicode = 0; unicode < 2; unicode++) {
            const struct top_style style = {.width = 4, .unicode = unicode};
            struct top_canvas canvas = {.text = NULL};
            const char *expected = unicode ? rows[i].unicode : rows[i].ascii;

            top_canvas_begin(&canvas, &style);
            top_canvas_bar(&canvas, TONE_GOOD, rows[i].part, 9);
            if (canvas.length != strlen(expected) ||
                memcmp(canvas.text, expected, canvas.length) != 0)
                fail_msg("%g: %.*s", rows[i].part, (int)canvas.length, canvas.text);
            top_canvas_free(&canvas);
        }
}

/* --- the model -------------------------------------------------------------------------------- */

static void put_loss(struct hf_table *table, enum hf_event_kind kind, uint32_t generation,
                     enum hf_loss_reason reason)
{
    struct hf_event event = {.kind = kind,
                             .node = HF_EVENT_NO_NODE,
                             .reason = reason,
                             .slot = 1,
                             .generation = generation,
                             .wall_ms = 1000 + generation};

    hf_event_name(table, &event, "lost", 4);
    hf_event_put(table, HF_EVENTS_LOSSES, &event);
}

static void the_model_has_the_urgent_first_and_each_loss_once(void **state)
{
    struct reader reader = fixture_reader(16);
    const struct reader_name all = {.len = 0}, some_of = {.bytes = "b", .len = 1};
    struct top_model m = {.pid = 0};
    struct hf_text_pool *pool;

    (void)state;
    assert_int_equal(hf_text_pool_create(&reader.table, &pool), 0);
    hf_history_begin(&reader.table);
    fixture_beat(&reader.table, 0);
    fixture_lease(&reader.table, pool, 0, (struct fixture_lease){.name = "b", .left_ms = 29000});
    fixture_lease(&reader.table, pool, 1, (struct fixture_lease){.name = "a", .left_ms = 29000});
    fixture_lease(&reader.table, pool, 2,
                  (struct fixture_lease){.name = "z", .left_ms = 8000, .state = HF_SLOT_LOSING});
    fixture_lease(&reader.table, pool, 3,
                  (struct fixture_lease){.name = "y", .left_ms = 14000, .state = HF_SLOT_LATE});
    fixture_lease(&reader.table, pool, 4, (struct fixture_lease){.name = "over", .left_ms = -5});
    atomic_store(&reader.table.header->slots_used, 5);
    put_loss(&reader.table, HF_EVENT_LOSING, 1, HF_LOSS_QUORUM);
    put_loss(&reader.table, HF_EVENT_LOST, 1, HF_LOSS_QUORUM);
    put_loss(&reader.table, HF_EVENT_LOSING, 2, HF_LOSS_ASKED);
    put_loss(&reader.table, HF_EVENT_LOSING, 3, HF_LOSS_FOREIGN);
    top_model_take(&m, &reader, &all);
    assert_int_equal(m.lease_count, 4);
    assert_int_equal(m.lease_total, 4);
    assert_memory_equal(m.lease[0].name, "z", 1);
    assert_memory_equal(m.lease[1].name, "y", 1);
    assert_memory_equal(m.lease[2].name, "a", 1);
    assert_memory_equal(m.lease[3].name, "b", 1);
    assert_int_equal(m.loss_count, 2);
    assert_string_equal(m.loss[0].state, "released");
    assert_string_equal(m.loss[1].state, "lost");
    assert_int_equal(m.grants_10s, -1);
    top_model_take(&m, &reader, &some_of);
    assert_int_equal(m.lease_count, 1);
    assert_int_equal(m.lease_total, 1);
    assert_true(m.grants_10s >= 0);
    top_model_free(&m);
    hf_text_pool_destroy(pool);
    reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_of_80_columns),
        cmocka_unit_test(nodes_of_a_dead_agent_are_not_told_as_present),
        cmocka_unit_test(a_frame_of_40_columns),
        cmocka_unit_test(a_frame_of_200_columns_with_block_characters),
        cmocka_unit_test(an_agent_that_hangs_with_nothing_held),
        cmocka_unit_test(of_ten_thousand_the_screen_shows_what_it_has_room_for),
        cmocka_unit_test(no_size_is_exceeded),
        cmocka_unit_test(no_byte_of_a_name_reaches_the_terminal),
        cmocka_unit_test(colours_are_there_only_if_they_are_wanted),
        cmocka_unit_test(bars_are_as_long_as_what_is_left),
        cmocka_unit_test(the_model_has_the_urgent_first_and_each_loss_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

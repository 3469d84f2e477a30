/* The lines of `holdfast hold`: their form, and that writing them never blocks. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/run/tell.h"

static void expect(const struct tell_event *event, const char *json, const char *words)
{
    char line[TELL_LINE_SIZE];

    assert_int_equal(tell_line(line, event, true), strlen(json) + 1);
    line[strlen(line) - 1] = '\0';
    assert_string_equal(line, json);
    assert_int_equal(tell_line(line, event, false), strlen(words) + 1);
    line[strlen(line) - 1] = '\0';
    assert_string_equal(line, words);
}

static void each_event_has_its_members(void **state)
{
    const struct hf_holder holder = {
        .fence = 7, .pid = 4, .uid = 70, .host = "host7", .command = "pg_dump", .pttl_ms = -2};

    (void)state;
    expect(&(struct tell_event){.event = "granted",
                                .name = "a b",
                                .fence = 18446744073709551615U,
                                .ttl_ms = 30000,
                                .remaining_ms = 26000},
           "{\"event\":\"granted\",\"name\":\"a "
           "b\",\"fence\":\"18446744073709551615\",\"ttl_ms\":30000,"
           "\"remaining_ms\":26000}",
           "granted 18446744073709551615 a b: 26.0s left");
    expect(&(struct tell_event){.event = "losing", .name = "a", .reason = "why", .remaining_ms = 0},
           "{\"event\":\"losing\",\"name\":\"a\",\"reason\":\"why\",\"remaining_ms\":0}",
           "losing a: why; 0ms left");
    expect(&(struct tell_event){.event = "released", .remaining_ms = -1},
           "{\"event\":\"released\"}", "released");
    expect(&(struct tell_event){.event = "waiting",
                                .name = "a",
                                .reason = "held by another",
                                .remaining_ms = -1,
                                .waiting = true,
                                .place = 2,
                                .holder = &holder},
           "{\"event\":\"waiting\",\"name\":\"a\",\"reason\":\"held by "
           "another\",\"place\":2,\"holder\":{"
           "\"fence\":\"7\",\"host\":\"host7\",\"pid\":4,\"uid\":70,\"command\":\"pg_dump\","
           "\"note\":null,"
           "\"since\":null}}",
           "waiting a: held by another");
    expect(&(struct tell_event){.event = "waiting",
                                .name = "a",
                                .reason = "n1 is down",
                                .remaining_ms = -1,
                                .waiting = true},
           "{\"event\":\"waiting\",\"name\":\"a\",\"reason\":\"n1 is down\",\"place\":null,"
           "\"holder\":null}",
           "waiting a: n1 is down");
}

static void no_byte_of_a_name_breaks_a_line(void **state)
{
    (void)state;
    expect(
        &(struct tell_event){.event = "late",
                             .name = "q\"b\\n\n\x7f\xc3\xa9\xc2\x9b\xf3\xa0\x81\x81",
                             .remaining_ms = -1},
        "{\"event\":\"late\",\"name\":\"q\\\"b\\\\n\\u000a\\u007f\xc3\xa9\\u009b\\udb40\\udc41\"}",
        "late q\"b\\\\n\\n\\x7f\\xc3\\xa9\\xc2\\x9b\\xf3\\xa0\\x81\\x81");
    expect(&(struct tell_event){.event = "late", .name = "\xff", .remaining_ms = -1},
           "{\"event\":\"late\",\"name\":\"\\\\xff\",\"name_hex\":\"ff\"}", "late \\xff");
}

static void the_longest_name_fits(void **state)
{
    char name[256], line[TELL_LINE_SIZE];
    struct hf_holder holder = {.pid = 1};

    (void)state;
    memset(name, 1, sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memset(holder.note, 1, sizeof(holder.note) - 1);
    memset(holder.host, 1, sizeof(holder.host) - 1);
    assert_true(tell_line(line,
                          &(struct tell_event){.event = "waiting",
                                               .name = name,
                                               .reason = name,
                                               .remaining_ms = -1,
                                               .waiting = true,
                                               .holder = &holder},
                          true) < TELL_LINE_SIZE - 1);
    assert_string_equal(line + strlen(line) - 3, "}}\n");
}

/* Standard output as a pipe; gives its other end. */
static int pipe_as_stdout(int *ret_saved)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    *ret_saved = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    return ends[0];
}

static void give_back_stdout(int saved)
{
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

/* Whole lines, or none of them. */
static void a_full_pipe_blocks_nothing_and_tears_no_line(void **state)
{
    static struct tell out;
    static char text[1 << 20];
    int saved, from = pipe_as_stdout(&saved);
    struct tell_event event = {.event = "held", .name = "x", .remaining_ms = -1};
    size_t used = 0;
    ssize_t got;

    (void)state;
    fcntl(from, F_SETPIPE_SZ, 4096);
    fcntl(from, F_SETFL, O_NONBLOCK);
    tell_init(&out, true);
    for (int i = 0; i < 5000; i++)
        tell(&out, &event);
    assert_true(out.used > 0);
    do {
        tell_flush(&out);
        got = read(from, text + used, sizeof(text) - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    give_back_stdout(saved);
    close(from);
    assert_true(used > 4096);
    for (const char *at = text; at < text + used;
         at += strlen("{\"event\":\"held\",\"name\":\"x\"}\n"))
        assert_memory_equal(at, "{\"event\":\"held\",\"name\":\"x\"}\n", 28);
}

static void a_reader_that_is_gone_is_no_error(void **state)
{
    static struct tell out;
    int saved, from = pipe_as_stdout(&saved);

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    tell_init(&out, true);
    close(from);
    tell(&out, &(struct tell_event){.event = "held", .name = "x", .remaining_ms = -1});
    tell(&out, &(struct tell_event){.event = "held", .name = "x", .remaining_ms = -1});
    give_back_stdout(saved);
    assert_int_equal(out.fd, -1);
    assert_int_equal(out.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_has_its_members),
        cmocka_unit_test(no_byte_of_a_name_breaks_a_line),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(a_full_pipe_blocks_nothing_and_tears_no_line),
        cmocka_unit_test(a_reader_that_is_gone_is_no_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

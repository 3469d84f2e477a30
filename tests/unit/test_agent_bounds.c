/* agent/redis/bounds.h: answers of every size and shape that a peer can send. */
#include "core_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <malloc.h>

#include "agent/redis/bounds.h"

#define PIECE 16384

static struct bounds bounds;
static redisReader *reader;

static int set_up(void **state)
{
    (void)state;
    bounds = (struct bounds){.may = NULL};
    reader = redisReaderCreate();
    bounds_guard(&bounds, reader, BOUNDS_LINK);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    redisReaderFree(reader);
    return 0;
}

/* As a connection reads: until the reader fails, or keeps too much. False: it was refused. */
static bool takes(const char *bytes, size_t length)
{
    void *answer = NULL;

    assert_int_equal(redisReaderFeed(reader, bytes, length), REDIS_OK);
    while (redisReaderGetReply(reader, &answer) == REDIS_OK && answer)
        freeReplyObject(answer);
    return !reader->err && bounds_hold(&bounds, reader);
}

/* What is in use while it goes on and on, at most. */
static void is_refused_in_time(const char *head, const char *again)
{
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, most = 0;
    char piece[PIECE + 64];
    size_t length = 0, fed = 0;

    while (length + strlen(again) <= PIECE)
        length += (size_t)sprintf(piece + length, "%s", again);
    if (takes(head, strlen(head)))
        for (; fed < 20 * BOUNDS_LINK && takes(piece, length); fed += length) {
            size_t now = mallinfo2().uordblks + mallinfo2().hblkhd;

            most = now - before > most ? now - before : most;
        }
    assert_true(bounds.beyond);
    assert_in_range(fed, 0, BOUNDS_LINK);
    assert_in_range(most, 0, 2 * BOUNDS_LINK + PIECE); /* the answer, and what is read of it */
    assert_non_null(strstr(bounds_text(&bounds), "longer than 1 MiB"));
}

TEST(an_endless_string_is_refused)
{
    is_refused_in_time("$1000000000000\r\n", "aaaaaaaaaaaaaaaa");
}

/* Whose end is looked for with each byte. */
static void line_is_refused(const char *head, char letter)
{
    size_t fed = 0;

    assert_true(takes(head, strlen(head)));
    while (fed <= 2 * BOUNDS_LINE && takes(&letter, 1))
        fed++;
    assert_true(bounds.beyond);
    assert_in_range(fed, BOUNDS_LINE - 64, BOUNDS_LINE + 64);
    assert_non_null(strstr(bounds_text(&bounds), "longer than 16 KiB"));
}

TEST(an_endless_line_is_refused)
{
    line_is_refused("+", 'a');
}

TEST(an_endless_error_is_refused)
{
    line_is_refused("-ERR ", 'a');
}

TEST(an_endless_number_is_refused)
{
    line_is_refused(":", '1');
}

TEST(an_endless_length_within_an_array_is_refused)
{
    line_is_refused("*2\r\n:1\r\n$", '1');
}

TEST(an_endless_array_is_refused)
{
    is_refused_in_time("*100000\r\n", "$-1\r\n");
}

TEST(an_array_of_any_length_is_refused_at_once)
{
    is_refused_in_time("*1000000000\r\n", ":1\r\n");
}

TEST(arrays_within_arrays_are_refused)
{
    is_refused_in_time("*30000\r\n*30000\r\n", "*2\r\n$-1\r\n:7\r\n");
}

TEST(many_answers_are_fine)
{
    char word[600];

    snprintf(word, sizeof(word), "*2\r\n$500\r\n%0500d\r\n:7\r\n", 0);
    for (int i = 0; i < 10000; i++)
        assert_true(takes(word, strlen(word)));
}

TEST(an_answer_of_200_kib_is_fine)
{
    static char text[200 * 1024 + 32];

    snprintf(text, sizeof(text), "$%d\r\n%0*d\r\n", 200 * 1024, 200 * 1024, 0);
    assert_true(takes(text, strlen(text)));
}

static bool refuses(void *owner, const redisReadTask *task)
{
    (void)task;
    return !owner;
}

TEST(the_owner_may_refuse)
{
    bounds.may = refuses;
    bounds.owner = &bounds;
    assert_false(takes(":1\r\n", 4));
    assert_false(bounds.beyond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_endless_string_is_refused, set_up, clean_up),
        cmocka_unit_test_setup_teardown(an_endless_line_is_refused, set_up, clean_up),
        cmocka_unit_test_setup_teardown(an_endless_error_is_refused, set_up, clean_up),
        cmocka_unit_test_setup_teardown(an_endless_number_is_refused, set_up, clean_up),
        cmocka_unit_test_setup_teardown(an_endless_length_within_an_array_is_refused, set_up,
                                        clean_up),
        cmocka_unit_test_setup_teardown(an_endless_array_is_refused, set_up, clean_up),
        cmocka_unit_test_setup_teardown(an_array_of_any_length_is_refused_at_once, set_up,
                                        clean_up),
        cmocka_unit_test_setup_teardown(arrays_within_arrays_are_refused, set_up, clean_up),
        cmocka_unit_test_setup_teardown(many_answers_are_fine, set_up, clean_up),
        cmocka_unit_test_setup_teardown(an_answer_of_200_kib_is_fine, set_up, clean_up),
        cmocka_unit_test_setup_teardown(the_owner_may_refuse, set_up, clean_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

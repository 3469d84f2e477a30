/* agent/redis/command.h beside hiredis' own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "agent/redis/command.h"
#include "agent/base/token.h"
#include "shm/compiler.h"
#include "shm/text.h"

#define TEST(name) static void name(void **state HF_UNUSED)

static char *format(int argc, const char **argv, const size_t *lengths, int *ret_length)
{
    size_t room = command_room(argc, argv, lengths);
    char *command = malloc(room);

    assert_non_null(command);
    *ret_length = (int)command_write(command, argc, argv, lengths);
    assert_true((size_t)*ret_length <= room);
    return command;
}

static void check(int argc, const char **argv, const size_t *lengths)
{
    int length;
    char *theirs, *ours = format(argc, argv, lengths, &length);

    assert_int_equal(length, redisFormatCommandArgv(&theirs, argc, argv, lengths));
    assert_memory_equal(ours, theirs, (size_t)length);
    free(ours);
    redisFreeCommand(theirs);
}

TEST(words_of_every_length)
{
    static char bytes[1200];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        const char *argv[] = {"SET", bytes, bytes + length};
        size_t lengths[] = {3, length, sizeof(bytes) - length};

        check(3, argv, lengths);
    }
}

TEST(texts)
{
    const char *argv[] = {"CLIENT", "", "CACHING"};

    check(3, argv, NULL);
}

TEST(many_words)
{
    static const char *argv[1500];
    static size_t lengths[1500];

    for (int i = 0; i < 1500; i++) {
        argv[i] = "renewed";
        lengths[i] = (size_t)i % 8;
    }
    for (int argc = 1; argc <= 1500; argc += 7)
        check(argc, argv, lengths);
}

TEST(tokens_leave_in_hex)
{
    for (unsigned seed = 0; seed < 1000; seed++) {
        struct token token;
        char text[TOKEN_LEN + 1], *ours, *theirs;
        const char *mine[] = {"SET", "key", (const char *)token.bytes, "1"};
        const char *plain[] = {"SET", "key", text, "1"};
        const size_t lengths[] = {3, 3, COMMAND_TOKEN, 1};
        int length;

        for (unsigned i = 0; i < TOKEN_BYTES; i++)
            token.bytes[i] = (uint8_t)(seed < 256 ? seed : seed * (i + 1) * 2654435761u >> 24);
        hf_hex_text(token.bytes, sizeof(token.bytes), text);
        ours = format(4, mine, lengths, &length);
        assert_int_equal(length, redisFormatCommandArgv(&theirs, 4, plain, NULL));
        assert_memory_equal(ours, theirs, (size_t)length);
        free(ours);
        redisFreeCommand(theirs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_every_length),
        cmocka_unit_test(texts),
        cmocka_unit_test(many_words),
        cmocka_unit_test(tokens_leave_in_hex),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

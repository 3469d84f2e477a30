#include "agent/redis/command.h"

#include <string.h>

#include "agent/base/token.h"

#define HEAD_MAX 24 /* bytes of a mark, a number and the end of the line */

static char *command_put_head(char *at, char mark, size_t number)
{
    char digits[HEAD_MAX];
    int n = 0;

    *at++ = mark;
    if (number >= 10 && number < 100) { /* a token, most keys */
        *at++ = (char)('0' + number / 10);
        *at++ = (char)('0' + number % 10);
    } else {
        do
            digits[n++] = (char)('0' + number % 10);
        while (number /= 10);
        while (n > 0)
            *at++ = digits[--n];
    }
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static size_t command_length_of(const char **argv, const size_t *lengths, int i)
{
    if (!lengths)
        return strlen(argv[i]);
    return lengths[i] == COMMAND_TOKEN ? TOKEN_LEN : lengths[i];
}

size_t command_room(int argc, const char **argv, const size_t *lengths)
{
    size_t room = HEAD_MAX * ((size_t)argc + 1);

    for (int i = 0; i < argc; i++)
        room += command_length_of(argv, lengths, i) + 2;
    return room;
}

size_t command_write(char *ret_command, int argc, const char **argv, const size_t *lengths)
{
    char *at = command_put_head(ret_command, '*', (size_t)argc);

    for (int i = 0; i < argc; i++) {
        size_t length = command_length_of(argv, lengths, i);

        at = command_put_head(at, '$', length);
        if (lengths && lengths[i] == COMMAND_TOKEN)
            token_text((const struct token *)(const void *)argv[i], at);
        else
            memcpy(at, argv[i], length);
        at += length;
        *at++ = '\r';
        *at++ = '\n';
    }
    return (size_t)(at - ret_command);
}

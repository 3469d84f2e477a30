/* A command as Redis reads it (RESP). Any thread. */
#ifndef HOLDFAST_AGENT_REDIS_COMMAND_H
#define HOLDFAST_AGENT_REDIS_COMMAND_H

#include <stddef.h>
#include <stdint.h>

/* In place of a length: the argument is a struct token, and is sent in hex. */
#define COMMAND_TOKEN SIZE_MAX

/* Bytes that command_write() needs at most; `lengths` NULL: argv are texts. */
size_t command_room(int argc, const char **argv, const size_t *lengths);
/* Many times faster than redisFormatCommandArgv(), which prints each length by sprintf(). `ret_command` has
 * command_room() bytes and is aligned for any type. Returns the length; there is no NUL. */
size_t command_write(char *ret_command, int argc, const char **argv, const size_t *lengths);

#endif

/* A command as Redis reads it (RESP). Any thread. */
#ifndef HOLDFAST_AGENT_REDIS_COMMAND_H
#define HOLDFAST_AGENT_REDIS_COMMAND_H

#include <stddef.h>
#include <stdint.h>

/* In place of a length: the argument is a struct token, and is sent in hex. */
#define COMMAND_TOKEN SIZE_MAX

/* Many times faster than redisFormatCommandArgv(), which prints each length by sprintf(). `lengths`
 * NULL: argv are texts. Returns the length of `ret_command`, for free(); HF_ENOMEM. */
int command_format(char **ret_command, int argc, const char **argv, const size_t *lengths);

#endif

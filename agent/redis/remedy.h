/* What is to be done about a server that refuses what an agent asks of it, in words that go before the server's own. Pure. */
#ifndef HOLDFAST_AGENT_REDIS_REMEDY_H
#define HOLDFAST_AGENT_REDIS_REMEDY_H

#include <stdbool.h>

#define REMEDY_SIZE 80 /* as of the table's rows of nodes */

/* `command` was refused with `text`, the server's error; nothing of it is repeated. `named`: it has said which Redis it
 * is. "": the server's own words say it all. Returns ret_text. */
const char *remedy_of(const char *command, const char *text, bool named,
                      char ret_text[REMEDY_SIZE]);
/* INFO was answered by this, and not as a Redis that keeps keys does. Returns static words. */
const char *remedy_of_info(const char *info);

#endif

/* What the agent's user on a node needs of its ACL: asked for one by one, by commands that change nothing, to name what is
 * missing. Pure. holdfastd(8) has it as one line, which a test compares with this table. (What a user of this host may do is
 * agent/core/rules.h.) */
#ifndef HOLDFAST_AGENT_REDIS_ACL_H
#define HOLDFAST_AGENT_REDIS_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACL_WORDS 6  /* of a command, at most */
#define ACL_TEXT  80 /* bytes of acl_text(), with NUL */

struct acl_lack {   /* zeroed: nothing is missing */
    uint32_t lacks; /* bit per command */
    bool keys;      /* it may not have the keys */
};

/* The commands, from 0: returns the number of words, 0 behind the last. */
int acl_ask(int which, const char *ret_argv[ACL_WORDS]);
/* Takes down the error that a node answered to command `which`; other errors than of the ACL say that it is allowed. */
void acl_note(struct acl_lack *lack, int which, const char *error);
/* Whether locks can be taken. Without the others, agents do less well: they poll, and do not know whether a node's
 * writes survive it. */
bool acl_suffices(const struct acl_lack *lack);
static inline bool acl_is_complete(const struct acl_lack *lack)
{
    return lack->lacks == 0 && !lack->keys;
}
/* "+hset +time ~*", as ACL SETUSER takes them. Returns `ret_text`. */
const char *acl_text(const struct acl_lack *lack, char ret_text[ACL_TEXT]);

/* What is to be done about a server that refuses what an agent asks of it, in words that go before the server's own. Pure. */

#define REMEDY_SIZE 80 /* as of the table's rows of nodes */

/* `command` was refused with `text`, the server's error; nothing of it is repeated. `named`: it has said which Redis it
 * is. "": the server's own words say it all. Returns ret_text. */
const char *remedy_of(const char *command, const char *text, bool named,
                      char ret_text[REMEDY_SIZE]);
/* INFO was answered by this, and not as a Redis that keeps keys does. Returns static words. */
const char *remedy_of_info(const char *info);

#endif

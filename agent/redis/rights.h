/* The rights that the agent's user needs on a node: asked for one by one, by commands that change nothing, to name
 * those that are missing. Pure. holdfastd(8) has them as one line, which a test compares with this table. */
#ifndef HOLDFAST_AGENT_REDIS_RIGHTS_H
#define HOLDFAST_AGENT_REDIS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIGHTS_WORDS 6  /* of a command, at most */
#define RIGHTS_TEXT  80 /* bytes of rights_text(), with NUL */

struct rights {     /* zeroed: nothing is missing */
    uint32_t lacks; /* bit per right */
    bool keys;      /* it may not have the keys */
};

/* The commands, from 0: returns the number of words, 0 behind the last. */
int rights_ask(int which, const char *ret_argv[RIGHTS_WORDS]);
/* Takes down the error that a node answered to command `which`; other errors than of rights say that it is allowed. */
void rights_note(struct rights *rights, int which, const char *error);
/* Whether locks can be taken. Without the others, agents do less well: they poll, and do not know whether a node's
 * writes survive it. */
bool rights_suffice(const struct rights *rights);
static inline bool rights_complete(const struct rights *rights)
{
    return rights->lacks == 0 && !rights->keys;
}
/* "+hset +time ~*", as ACL SETUSER takes them. Returns `ret_text`. */
const char *rights_text(const struct rights *rights, char ret_text[RIGHTS_TEXT]);

#endif

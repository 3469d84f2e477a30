/* The text in a fence record that says who set the fence: "FENCE\nPID\nUID\nSINCE\nHOST\nCOMMAND\nNOTE", numbers in
 * decimal, SINCE in milliseconds of Unix time. It begins with the fence, so that it is not taken for that of a later
 * holder whose agent has left it as it was. A newline in host or command is shown as '?'; the note may have some. Pure. */
#ifndef HOLDFAST_AGENT_REDIS_HOLDER_TEXT_H
#define HOLDFAST_AGENT_REDIS_HOLDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/nstime.h"
#include "shm/wire.h"

struct link_holder { /* what other hosts are told of who holds a lock */
    const char *host, *command,
        *note; /* NUL-terminated; longer ones than hf_wire_holder's are cut */
    uint32_t pid, uid;
    hf_wall since;
};

#define HOLDER_TEXT_MAX 320

/* `fence`: its node part. Returns the length; there is no NUL. */
size_t holder_text_write(const struct link_holder *holder, uint64_t fence,
                         char ret_text[HOLDER_TEXT_MAX]);
/* Sets pid, uid, since and texts. What is missing, or no number, stays as it is; all of it where the text is not of this
 * fence. */
void holder_text_read(const char *text, size_t length, uint64_t fence,
                      struct hf_wire_holder *holder);

#endif

/* What a peer can make hiredis keep: an answer that is not all there yet, and the values of one that is being made.
 *
 * (!) hiredis has no bound of its own. It keeps an endless string or line until it ends, makes room for as many elements
 * as a peer announces, and makes 64 bytes of a value that takes 4 on the wire. Every reader of the agent has a guard.
 */
#ifndef HOLDFAST_AGENT_REDIS_BOUNDS_H
#define HOLDFAST_AGENT_REDIS_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#define BOUNDS_LINK    (1024 * 1024) /* bytes, for a connection with commands */
#define BOUNDS_NOTICES (64 * 1024)   /* ...for one with notices */
#define BOUNDS_LINE                                                                                \
    (16 * 1024) /* a status, an error, a number: Redis' own are shorter than 1 KiB */

/* Belongs to the reader, and lives as long. */
struct bounds {
    redisReplyObjectFunctions functions;
    const redisReplyObjectFunctions *hiredis;
    size_t most;
    size_t made;    /* of the answer that is being read */
    bool beyond;    /* the peer went beyond them, */
    bool long_line; /* with a line */
    /* Whether a value may be made at all; NULL: yes. */
    bool (*may)(void *owner, const redisReadTask *task);
    void *owner;
};

/* Before the first byte is read. A value beyond the bounds ends the reader with an error. */
void bounds_guard(struct bounds *bounds, redisReader *reader, size_t most);
/* After bytes were fed and answers were taken: whether the rest that waits for its end is within the bounds. */
bool bounds_hold(struct bounds *bounds, const redisReader *reader);
/* Bytes that wait to be sent, in hiredis' output buffer; NULL is fine. */
size_t bounds_output(const char *buffer);
/* For people. */
const char *bounds_text(const struct bounds *bounds);

#endif

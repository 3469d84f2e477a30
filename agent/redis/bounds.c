#include "agent/redis/bounds.h"

#include <string.h>

#include <hiredis/sds.h>

/* hiredis' buffers double as they grow, so what they hold is bounded by half. */
#define HELD(most) ((most) / 2)
#define OVERHEAD   16 /* of malloc() */

static bool bounds_may_make(const redisReadTask *task, size_t bytes)
{
    struct bounds *b = task->privdata;

    if (b->may && !b->may(b->owner, task))
        return false;
    if (!task->parent)
        b->made = 0;
    b->made += bytes + sizeof(redisReply) + OVERHEAD;
    b->beyond |= b->made > b->most;
    return !b->beyond;
}

static const redisReplyObjectFunctions *bounds_hiredis_of(const redisReadTask *task)
{
    return ((const struct bounds *)task->privdata)->hiredis;
}

static void *bounds_make_string(const redisReadTask *task, char *text, size_t length)
{
    return bounds_may_make(task, length + OVERHEAD)
               ? bounds_hiredis_of(task)->createString(task, text, length)
               : NULL;
}

/* createArray's second parameter. */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *bounds_make_array(const redisReadTask *task, element_count elements)
{
    const struct bounds *b = task->privdata;
    size_t count = elements > 0 ? (size_t)elements : 0;

    /* Divided, since the product may not fit. */
    count = count < b->most / sizeof(void *) ? count : b->most / sizeof(void *);
    return bounds_may_make(task, count * sizeof(void *))
               ? bounds_hiredis_of(task)->createArray(task, elements)
               : NULL;
}

static void *bounds_make_integer(const redisReadTask *task, long long number)
{
    return bounds_may_make(task, 0) ? bounds_hiredis_of(task)->createInteger(task, number) : NULL;
}

static void *bounds_make_nil(const redisReadTask *task)
{
    return bounds_may_make(task, 0) ? bounds_hiredis_of(task)->createNil(task) : NULL;
}

#if HIREDIS_MAJOR >= 1
static void *bounds_make_double(const redisReadTask *task, double number, char *text, size_t length)
{
    return bounds_may_make(task, length + OVERHEAD)
               ? bounds_hiredis_of(task)->createDouble(task, number, text, length)
               : NULL;
}

static void *bounds_make_bool(const redisReadTask *task, int value)
{
    return bounds_may_make(task, 0) ? bounds_hiredis_of(task)->createBool(task, value) : NULL;
}
#endif

void bounds_guard(struct bounds *b, redisReader *reader, size_t most)
{
    b->hiredis = reader->fn;
    b->functions = *reader->fn;
    b->functions.createString = bounds_make_string;
    b->functions.createArray = bounds_make_array;
    b->functions.createInteger = bounds_make_integer;
    b->functions.createNil = bounds_make_nil;
#if HIREDIS_MAJOR >= 1
    b->functions.createDouble = bounds_make_double;
    b->functions.createBool = bounds_make_bool;
#endif
    b->most = most;
    b->made = 0;
    b->beyond = false;
    b->long_line = false;
    reader->fn = &b->functions;
    reader->privdata = b;
}

/* (!) hiredis looks for the end of a line from its beginning, with each byte that comes. */
static bool bounds_line_is_long(const redisReader *reader)
{
    return reader->len - reader->pos > BOUNDS_LINE &&
           !memmem(reader->buf + reader->pos, BOUNDS_LINE, "\r\n", 2);
}

bool bounds_hold(struct bounds *b, const redisReader *reader)
{
    b->long_line = !b->beyond && bounds_line_is_long(reader);
    b->beyond |= b->long_line;
    b->beyond |= reader->len > HELD(b->most);
    return !b->beyond;
}

size_t bounds_output(const char *buffer)
{
    return buffer ? sdslen((sds)buffer) : 0;
}

const char *bounds_text(const struct bounds *b)
{
    if (b->long_line)
        return "a line of an answer is longer than 16 KiB; see what listens there";
    return b->most == BOUNDS_NOTICES ? "a notice is longer than 64 KiB; see what listens there"
                                     : "an answer is longer than 1 MiB; see what listens there";
}

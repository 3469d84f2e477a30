#include "agent/redis/holder_text.h"

#include <string.h>

#include "shm/text.h"

#define LINE(member) (sizeof(((struct hf_wire_holder *)NULL)->member) - 1)

_Static_assert(HOLDER_TEXT_MAX >= 21 + 11 + 11 + 21 + LINE(host) + 1 + LINE(comm) + 1 + LINE(note),
               "room");

static char *holder_text_put_number(char *at, int64_t number)
{
    char room[HF_DECIMAL_MAX];
    const char *text = hf_decimal_write(room, sizeof(room), number < 0 ? 0 : number);
    size_t length = (size_t)(room + sizeof(room) - text);

    memcpy(at, text, length);
    at += length;
    *at++ = '\n';
    return at;
}

static char *holder_text_put_text(char *at, const char *text, size_t most)
{
    size_t length = text ? strnlen(text, most) : 0;

    if (length > 0)
        memcpy(at, text, length);
    return at + length;
}

static char *holder_text_put_line(char *at, const char *text, size_t most)
{
    char *end = holder_text_put_text(at, text, most);

    for (; at < end; at++)
        if (*at == '\n')
            *at = '?';
    *end++ = '\n';
    return end;
}

size_t holder_text_write(const struct link_holder *holder, uint64_t fence,
                         char ret_text[HOLDER_TEXT_MAX])
{
    char *at = holder_text_put_number(ret_text, (int64_t)fence);

    at = holder_text_put_number(at, holder->pid);
    at = holder_text_put_number(at, holder->uid);
    at = holder_text_put_number(at, holder->since.ms);
    at = holder_text_put_line(at, holder->host, LINE(host));
    at = holder_text_put_line(at, holder->command, LINE(comm));
    at = holder_text_put_text(at, holder->note, LINE(note));
    return (size_t)(at - ret_text);
}

/* What is left to be read. */
struct rest {
    const char *at;
    size_t length;
};

/* Takes a line off; the last one ends without a newline. */
static struct rest holder_text_take_line(struct rest *rest)
{
    const char *end = rest->length ? memchr(rest->at, '\n', rest->length) : NULL;
    struct rest line = {rest->at, end ? (size_t)(end - rest->at) : rest->length};
    size_t used = line.length + (end != NULL);

    rest->at += used;
    rest->length -= used;
    return line;
}

static bool holder_text_take_number(struct rest *rest, uint64_t most, uint64_t *ret_number)
{
    struct rest line = holder_text_take_line(rest);

    return hf_decimal_read(line.at, line.length, most, ret_number);
}

static void holder_text_get_text(struct rest text, char *to, size_t size)
{
    size_t length = text.length ? strnlen(text.at, text.length) : 0;

    if (length >= size)
        length = size - 1;
    if (length > 0)
        memcpy(to, text.at, length);
    to[length] = '\0';
}

void holder_text_read(const char *text, size_t length, uint64_t fence,
                      struct hf_wire_holder *holder)
{
    struct rest rest = {text, length};
    uint64_t number;

    if (!holder_text_take_number(&rest, INT64_MAX, &number) || number != fence)
        return;
    if (holder_text_take_number(&rest, INT32_MAX, &number) && number > 0)
        holder->pid = (uint32_t)number;
    if (holder_text_take_number(&rest, UINT32_MAX, &number))
        holder->uid = (uint32_t)number;
    if (holder_text_take_number(&rest, INT64_MAX, &number))
        holder->since_wall_ms = (int64_t)number;
    holder_text_get_text(holder_text_take_line(&rest), holder->host, sizeof(holder->host));
    holder_text_get_text(holder_text_take_line(&rest), holder->comm, sizeof(holder->comm));
    holder_text_get_text(rest, holder->note, sizeof(holder->note));
}

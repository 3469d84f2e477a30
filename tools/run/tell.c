#include "tools/run/tell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/text.h"
#include "shm/text.h"

/* --- a line ----------------------------------------------------------------------------------- */

struct line {
    char *out;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    size_t room = TELL_LINE_SIZE - line->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line->out + line->used, room, format, args);
    va_end(args);
    if (n > 0)
        line->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* A JSON string: UTF-8 as it is, other bytes escaped as for people. */
static void tell_add_string(struct line *line, const char *bytes)
{
    char escaped[TEXT_NAME_SIZE];
    const char *text = hf_utf8_valid(bytes, strlen(bytes))
                           ? bytes
                           : text_escape_ascii_str(escaped, sizeof(escaped), bytes);

    add(line, "\"");
    while (*text) {
        char character[TEXT_JSON_SIZE];
        size_t step = text_json_next(character, text, strlen(text));

        add(line, *text == '"' || *text == '\\' ? "\\%s" : "%s", character);
        text += step;
    }
    add(line, "\"");
}

static void tell_add_member(struct line *line, const char *key, const char *text)
{
    add(line, ",\"%s\":", key);
    if (text && *text)
        tell_add_string(line, text);
    else
        add(line, "null");
}

static void tell_add_name(struct line *line, const char *name)
{
    tell_add_member(line, "name", name);
    if (hf_utf8_valid(name, strlen(name)))
        return;
    add(line, ",\"name_hex\":\"");
    for (; *name; name++)
        add(line, "%02x", (unsigned)(unsigned char)*name);
    add(line, "\"");
}

/* With the members of `show --json`. */
static void tell_add_holder(struct line *line, const struct hf_holder *holder)
{
    char since[TEXT_INSTANT_SIZE] = "";
    bool known = holder->host[0] || holder->pid;

    if (holder->since_wall_ms > 0)
        text_wall(since, sizeof(since), holder->since_wall_ms);
    add(line, ",\"holder\":{\"fence\":");
    if (holder->fence)
        add(line, "\"%" PRIu64 "\"", holder->fence);
    else
        add(line, "null");
    tell_add_member(line, "host", holder->host);
    if (known)
        add(line, ",\"pid\":%" PRIu32 ",\"uid\":%" PRIu32, holder->pid, holder->uid);
    else
        add(line, ",\"pid\":null,\"uid\":null");
    tell_add_member(line, "command", holder->command);
    tell_add_member(line, "note", holder->note);
    tell_add_member(line, "since", since);
    add(line, "}");
}

static void tell_add_json(struct line *line, const struct tell_event *event)
{
    add(line, "{\"event\":\"%s\"", event->event);
    if (event->name)
        tell_add_name(line, event->name);
    if (event->fence)
        add(line, ",\"fence\":\"%" PRIu64 "\"", event->fence);
    if (event->ttl_ms)
        add(line, ",\"ttl_ms\":%" PRId64, event->ttl_ms);
    if (event->reason)
        tell_add_member(line, "reason", event->reason);
    if (event->remaining_ms >= 0)
        add(line, ",\"remaining_ms\":%" PRId64, event->remaining_ms);
    if (event->waiting && event->place)
        add(line, ",\"place\":%" PRIu32, event->place);
    else if (event->waiting)
        add(line, ",\"place\":null");
    if (event->waiting && event->holder)
        tell_add_holder(line, event->holder);
    else if (event->waiting)
        add(line, ",\"holder\":null");
    add(line, "}\n");
}

/* The event, the fence if it has one, the name, and the rest for people. */
static void tell_add_words(struct line *line, const struct tell_event *event)
{
    char shown[TEXT_NAME_SIZE], span[TEXT_SPAN_SIZE];

    add(line, "%s", event->event);
    if (event->fence)
        add(line, " %" PRIu64, event->fence);
    if (event->name)
        add(line, " %s", text_escape_str(shown, sizeof(shown), event->name));
    if (event->reason && *event->reason)
        add(line, ": %s", event->reason);
    if (event->remaining_ms >= 0)
        add(line, "%s%s left", event->reason && *event->reason ? "; " : ": ",
            text_span(span, sizeof(span), event->remaining_ms));
    add(line, "\n");
}

size_t tell_line(char out[TELL_LINE_SIZE], const struct tell_event *event, bool json)
{
    struct line line = {.out = out};

    if (json)
        tell_add_json(&line, event);
    else
        tell_add_words(&line, event);
    return line.used;
}

/* --- standard output -------------------------------------------------------------------------- */

/* As with stderr (tools/run/say.c), O_NONBLOCK is for a descriptor of our own. It takes the place of standard output, so that the
 * reader sees the end when we go. */
void tell_init(struct tell *tell, bool json)
{
    struct stat st;
    int fd;

    tell->fd = STDOUT_FILENO;
    tell->json = json;
    tell->used = 0;
    tell->socket = false;
    if (fstat(STDOUT_FILENO, &st) < 0)
        return;
    tell->socket = S_ISSOCK(st.st_mode);
    if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return;
    if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return; /* a closed one (shm/process.h): opened anew it would take everything */
    fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    dup2(fd, STDOUT_FILENO);
    close(fd);
}

/* Where the descriptor could not be made non-blocking: a pipe that is writable takes PIPE_BUF bytes at once. */
static bool tell_writable(const struct tell *tell)
{
    struct pollfd fd = {.fd = tell->fd, .events = POLLOUT};

    return poll(&fd, 1, 0) == 1;
}

void tell_flush(struct tell *tell)
{
    while (tell->used && tell->fd >= 0 && tell_writable(tell)) {
        size_t most = tell->used < PIPE_BUF ? tell->used : PIPE_BUF;
        ssize_t written = tell->socket
                              ? send(tell->fd, tell->pending, most, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : write(tell->fd, tell->pending, most);

        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (written <= 0) {
            tell->error = written < 0 ? errno : EIO;
            tell->fd = -1;
            tell->used = 0;
            return;
        }
        tell->used -= (size_t)written;
        memmove(tell->pending, tell->pending + written, tell->used);
    }
}

void tell(struct tell *tell, const struct tell_event *event)
{
    char line[TELL_LINE_SIZE];
    size_t length = tell_line(line, event, tell->json);

    if (tell->fd < 0)
        return;
    if (length <= sizeof(tell->pending) - tell->used) {
        memcpy(tell->pending + tell->used, line, length);
        tell->used += length;
    }
    tell_flush(tell);
}

void tell_end(struct tell *tell)
{
    tell->fd = -1;
    tell->used = 0;
    close(STDOUT_FILENO);
}

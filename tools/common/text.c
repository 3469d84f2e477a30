#include "tools/common/text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "shm/text.h"

static bool has_utf8;

void text_use_terminal(void)
{
    has_utf8 = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) && setlocale(LC_CTYPE, "") &&
               strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* The length of a character that a terminal may be given, else 0. */
static size_t text_plain_character(const void *bytes, size_t len)
{
    uint32_t character;
    size_t length = hf_utf8_next(bytes, len, &character);

    return length > 1 && hf_utf8_plain(character) && wcwidth((wchar_t)character) > 0 ? length : 0;
}

static const char *text_escape_as(char *out, size_t size, const void *bytes, size_t len, bool utf8)
{
    const unsigned char *in = bytes;
    size_t used = 0, taken;

    if (size == 0)
        return out;
    for (size_t i = 0; i < len; i += taken) {
        char piece[HF_ESCAPE_SIZE];
        size_t length = taken = utf8 ? text_plain_character(in + i, len - i) : 0;

        if (taken) {
            memcpy(piece, in + i, taken);
        } else {
            length = hf_escape_byte(in[i], piece);
            taken = 1;
        }
        if (used + length >= size)
            break;
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return out;
}

const char *text_escape(char *out, size_t size, const void *bytes, size_t len)
{
    return text_escape_as(out, size, bytes, len, has_utf8);
}

const char *text_escape_ascii(char *out, size_t size, const void *bytes, size_t len)
{
    return text_escape_as(out, size, bytes, len, false);
}

size_t text_json_next(char out[TEXT_JSON_SIZE], const char *bytes, size_t len)
{
    uint32_t character;
    size_t step = hf_utf8_next(bytes, len, &character);

    if (step == 1 ? character >= ' ' && character != 0x7f : hf_utf8_plain(character))
        snprintf(out, TEXT_JSON_SIZE, "%.*s", (int)step, bytes);
    else if (character < 0x10000)
        snprintf(out, TEXT_JSON_SIZE, "\\u%04" PRIx32, character);
    else
        snprintf(out, TEXT_JSON_SIZE, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (character >> 10),
                 0xdc00 + (character & 0x3ff));
    return step;
}

int text_columns(const char *text)
{
    size_t len = strlen(text), length;
    uint32_t character;
    int columns = 0;

    for (; len > 0; text += length, len -= length) {
        length = hf_utf8_next(text, len, &character);
        if (length > 1) {
            int width = wcwidth((wchar_t)character);

            columns += width > 0 ? width : 1;
        } else {
            columns++;
            length = 1;
        }
    }
    return columns;
}

int text_width(const char *text, int columns)
{
    return columns + (int)strlen(text) - text_columns(text);
}

const char *text_escape_str(char *out, size_t size, const char *string)
{
    return text_escape(out, size, string, strlen(string));
}

const char *text_escape_ascii_str(char *out, size_t size, const char *string)
{
    return text_escape_ascii(out, size, string, strlen(string));
}

const char *text_span(char *out, size_t size, int64_t ms)
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t left = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    uint64_t s = left / 1000, m = s / 60, h = m / 60, d = h / 24;

    if (left < 1000)
        snprintf(out, size, "%s%" PRIu64 "ms", sign, left);
    else if (s < 60)
        snprintf(out, size, "%s%" PRIu64 ".%" PRIu64 "s", sign, s, left % 1000 / 100);
    else if (m < 60)
        snprintf(out, size, "%s%" PRIu64 "m%" PRIu64 "s", sign, m, s % 60);
    else if (h < 24)
        snprintf(out, size, "%s%" PRIu64 "h%" PRIu64 "m", sign, h, m % 60);
    else
        snprintf(out, size, "%s%" PRIu64 "d%" PRIu64 "h", sign, d, h % 24);
    return out;
}

const char *text_wall(char *out, size_t size, int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, size, "?");
    return out;
}

const char *text_instant(char *out, size_t size, int64_t wall_ms)
{
    char seconds[TEXT_SPAN_SIZE];

    text_wall(seconds, sizeof(seconds), wall_ms);
    seconds[strcspn(seconds, "Z")] = '\0';
    snprintf(out, size, "%s.%03dZ", seconds, (int)(wall_ms % 1000));
    return out;
}

/* --- the last run of a job that runs once in a period ----------------------------------------- */

const char *once_run_end(int end)
{
    switch (end) {
    case HF_ONCE_EXITED:
        return "exited";
    case HF_ONCE_KILLED:
        return "killed";
    case HF_ONCE_LOST:
        return "lost";
    default:
        return "unknown";
    }
}

static const char *text_run_ended(char *out, size_t size, const struct hf_once_info *info)
{
    switch (info->end) {
    case HF_ONCE_EXITED:
        snprintf(out, size, "ended with %d", info->code);
        break;
    case HF_ONCE_KILLED:
        snprintf(out, size, "ended by signal %d", info->code);
        break;
    case HF_ONCE_LOST:
        snprintf(out, size, "stopped because its lock was lost");
        break;
    default:
        snprintf(out, size, "its end is not known; it may still run");
    }
    return out;
}

const char *once_run(char *out, size_t size, const struct hf_once_info *info)
{
    char at[TEXT_INSTANT_SIZE], host[4 * sizeof(info->by.host) + 1], end[64];

    snprintf(out, size, "started %s on %s (pid %" PRIu32 ", user %" PRIu32 "), %s",
             text_instant(at, sizeof(at), info->started_wall_ms),
             *info->by.host ? text_escape_str(host, sizeof(host), info->by.host)
                            : "an unknown host",
             info->by.pid, info->by.uid, text_run_ended(end, sizeof(end), info));
    return out;
}

/* --- the line that names the holder ----------------------------------------------------------- */

/* Text that grows to the end of a buffer. */
struct line {
    char *out;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;
    int n;

    if (line->used >= line->size)
        return;
    va_start(args, format);
    n = vsnprintf(line->out + line->used, line->size - line->used, format, args);
    va_end(args);
    if (n > 0)
        line->used += (size_t)n;
}

bool conflict_is_here(const struct hf_holder *holder)
{
    char name[sizeof(holder->host)];

    if (gethostname(name, sizeof(name)) < 0)
        return false;
    name[sizeof(name) - 1] = '\0'; /* cut, like the agent's */
    return name[0] && strcmp(name, holder->host) == 0;
}

/* The same uid may be another user on another host. */
static void conflict_add_user(struct line *line, const struct hf_holder *holder)
{
    const struct passwd *entry = conflict_is_here(holder) ? getpwuid(holder->uid) : NULL;
    char shown[256];

    if (entry)
        add(line, " (user %s)", text_escape_str(shown, sizeof(shown), entry->pw_name));
    else
        add(line, " (uid %" PRIu32 ")", holder->uid);
}

const char *conflict_line(char *out, size_t size, const char *name, const struct hf_holder *holder,
                          int64_t now_wall_ms)
{
    struct line line = {out, size, 0};
    char shown[TEXT_NAME_SIZE], span[TEXT_SPAN_SIZE];
    bool known = holder && (holder->host[0] || holder->pid);

    add(&line, "%s is held by ", text_escape_str(shown, sizeof(shown), name));
    if (known) {
        add(&line, "%s",
            holder->host[0] ? text_escape_str(shown, sizeof(shown), holder->host) : "this host");
        if (holder->pid) {
            add(&line, " pid %" PRIu32, holder->pid);
            conflict_add_user(&line, holder);
        }
        if (holder->command[0])
            add(&line, " command %s", text_escape_str(shown, sizeof(shown), holder->command));
    } else {
        add(&line, "another that left no record");
    }
    if (holder && holder->since_wall_ms > 0) {
        add(&line, " since %s", text_wall(shown, sizeof(shown), holder->since_wall_ms));
        if (now_wall_ms >= holder->since_wall_ms)
            add(&line, " (%s)", text_span(span, sizeof(span), now_wall_ms - holder->since_wall_ms));
    }
    if (holder && holder->fence)
        add(&line, ", fence %" PRIu64, holder->fence);
    if (holder && holder->note[0])
        add(&line, ", note %s", text_escape_str(shown, sizeof(shown), holder->note));
    if (holder && holder->pttl_ms == -1)
        add(&line, ", and its key never expires");
    else if (holder && !known && holder->pttl_ms >= 0) /* an agent's is renewed */
        add(&line, ", and its key has %s left unless that is renewed",
            text_span(span, sizeof(span), holder->pttl_ms));
    return out;
}

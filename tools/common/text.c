#include "tools/common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shm/escape.h"

const char *text_escape(char *out, size_t size, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t used = 0;

    if (size == 0)
        return out;
    for (size_t i = 0; i < len; i++) {
        char piece[HF_ESCAPE_SIZE];
        size_t length = hf_escape_byte(in[i], piece);

        if (used + length >= size)
            break;
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return out;
}

const char *text_escape_str(char *out, size_t size, const char *string)
{
    return text_escape(out, size, string, strlen(string));
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

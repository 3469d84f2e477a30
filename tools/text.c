#include "tools/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *text_escape(char *out, size_t size, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t used = 0;

    if (size == 0)
        return out;
    for (size_t i = 0; i < len; i++) {
        char piece[5];

        switch (in[i]) {
        case '\\':
            strcpy(piece, "\\\\");
            break;
        case '\n':
            strcpy(piece, "\\n");
            break;
        case '\r':
            strcpy(piece, "\\r");
            break;
        case '\t':
            strcpy(piece, "\\t");
            break;
        default:
            if (in[i] >= 0x20 && in[i] < 0x7f)
                snprintf(piece, sizeof(piece), "%c", in[i]);
            else
                snprintf(piece, sizeof(piece), "\\x%02x", in[i]);
        }
        if (used + strlen(piece) >= size)
            break;
        used += (size_t)sprintf(out + used, "%s", piece);
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

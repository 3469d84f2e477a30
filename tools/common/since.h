/* "Since when?" as people write it: a span back from now, or a time. Pure but for the time zone of localtime(3). */
#ifndef HOLDFAST_TOOLS_COMMON_SINCE_H
#define HOLDFAST_TOOLS_COMMON_SINCE_H

#include <stdint.h>

/* What may be written, for messages: "give 10m, ...". */
#define SINCE_FORMS                                                                                \
    "10m, 2h or 1d for so long ago, or a time: 09:30, 2026-11-24, '2026-11-24 09:30:00', or in "   \
    "UTC 2026-11-24T09:30:00Z"

enum since_verdict {
    SINCE_OK,
    SINCE_NONSENSE, /* neither a span nor a time; a day or a minute that does not exist */
    SINCE_FUTURE,   /* later than now */
};

/* A span as of args_duration_ms(); YYYY-MM-DD, which is its midnight; HH:MM[:SS[.fff]] of today; both with a space or a 'T' in
 * between. With a 'Z' behind it it is UTC, else local time. `ret_wall_ms` (Unix time) is written only for SINCE_OK. */
enum since_verdict since_read(const char *text, int64_t now_wall_ms, int64_t *ret_wall_ms);

/* The time of day, for people only: decisions use CLOCK_BOOTTIME. */

/* Unix time in milliseconds. */
int64_t wall_now_ms(void);

#endif

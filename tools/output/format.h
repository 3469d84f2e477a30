/* Short texts that several reading subcommands print. Not thread-safe (user names). */
#ifndef HOLDFAST_TOOLS_OUTPUT_FORMAT_H
#define HOLDFAST_TOOLS_OUTPUT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define FORMAT_USER_SIZE 256

/* Escaped name of a user, or the number of one without a name. Returns `out`. */
const char *format_user(char *out, size_t size, uint32_t uid);

/* "0.4ms", "12.3ms", "1.2s"; "-" for 0 or less. Returns `out`. */
const char *format_rtt(char *out, size_t size, int64_t ns);

/* A span with a sign: "+12ms", "-3.0s". Returns `out`. */
const char *format_offset(char *out, size_t size, int64_t us);

/* The reader of standard output went away: what is left to be written is no failure (shm/streams.h). */
void format_forget(void);

#endif

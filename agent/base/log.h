/* One line per event on stderr: "holdfastd: LEVEL: text", behind the time in UTC or, where stderr is the journal's, a priority. Never blocks a lease thread: lines that would block are
 * dropped and counted. Any thread. Tokens and passwords never come here. What is not plain text in a line
 * is escaped, as log_name() has it, so a line is one line; a backslash stays as it is. A line of more than 1024 bytes is cut. */
#ifndef HOLDFAST_AGENT_BASE_LOG_H
#define HOLDFAST_AGENT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/compiler.h"
#include "shm/nstime.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_init(enum log_level most);
void log_set_level(enum log_level most);

/* Before the threads of leases: starts one that writes, if stderr is a file, or another user's pipe or terminal. From then on no other thread
 * waits for either. */
void log_begin_thread(void);

/* Waits until all lines are written, for half a second at most; done at exit(), too. */
void log_flush(void);

void log_write(enum log_level level, const char *format, ...) HF_PRINTF(2, 3);

/* A line without a level, printed whatever log_init() was told: scripts wait for it ("holdfastd:
 * ready: ..." behind the time). */
void log_say(const char *format, ...) HF_PRINTF(1, 2);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* A lock's name for people: printable ASCII and plain characters of UTF-8 as they are, other bytes as
 * hf_escape_byte() has them; cut with "..." to fit. Returns `buffer`. */
const char *log_name(const void *name, size_t name_len, char *buffer, size_t buffer_size);

/* For log lines that may come in floods. Within a second at most `most` lines of one kind are
 * logged, then one that says that more are left out. The first line of a later second is preceded
 * by how many were. One thread per limit. Inline: tests that replace log_write() need it, too. */

#define LOG_LIMIT 10 /* for lines that clients or nodes can cause at will */

struct log_limit { /* zeroed before first use */
    hf_time until; /* end of the second that is counted */
    unsigned lines;
};

static inline bool log_allows(struct log_limit *limit, unsigned most, hf_time now)
{
    if (hf_time_reached(now, limit->until)) {
        if (limit->lines > most)
            log_warn("%u more lines like the last of these were left out", limit->lines - most);
        *limit = (struct log_limit){.until = hf_time_add(now, hf_ns(HF_NS_PER_SEC))};
    }
    if (++limit->lines == most + 1)
        log_warn("more lines like these are left out within this second");
    return limit->lines <= most;
}

#endif

#include "tools/common/conflict.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/text.h"

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

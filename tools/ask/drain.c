#include "tools/ask/drain.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/output/format.h"

void drain_held_add(struct drain_held *held, const struct hf_slot_view *view)
{
    if (held->kept < DRAIN_KEPT)
        held->view[held->kept++] = *view;
    held->count++;
}

const char *drain_count(char *out, size_t size, uint32_t count)
{
    if (count == 0)
        snprintf(out, size, "no lock is held");
    else
        snprintf(out, size, "%" PRIu32 " %s still held", count,
                 count == 1 ? "lock is" : "locks are");
    return out;
}

const char *drain_names(char *out, size_t size, const struct drain_held *held)
{
    char name[TEXT_NAME_SIZE];
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < held->kept && used < size; i++)
        used += (size_t)snprintf(
            out + used, size - used, "%s%s", i ? ", " : "",
            text_escape(name, sizeof(name), held->view[i].name, held->view[i].name_len));
    if (held->count > held->kept && used < size)
        snprintf(out + used, size - used, " and %" PRIu32 " more", held->count - held->kept);
    return out;
}

const char *drain_by(char *out, size_t size, int64_t since_wall_ms, uint32_t uid, uint32_t pid,
                     int64_t now_wall_ms)
{
    char user[FORMAT_USER_SIZE], wall[TEXT_SPAN_SIZE], span[TEXT_SPAN_SIZE];

    out[0] = '\0';
    if (since_wall_ms)
        snprintf(out, size, " since %s (%s) by user %s (pid %" PRIu32 ")",
                 text_wall(wall, sizeof(wall), since_wall_ms),
                 text_span(span, sizeof(span), now_wall_ms - since_wall_ms),
                 format_user(user, sizeof(user), uid), pid);
    return out;
}

#include "tools/run/wait_line.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/common/text.h"
#include "tools/common/wall.h"
#include "tools/run/say.h"

#define LONG_MS 3000 /* who waits no longer has read the line before */

const char *wait_line_text(char out[WAIT_LINE_SIZE], const struct wait_line *line, const char *name,
                           int64_t waited_ms, int64_t most_ms, int64_t now_wall_ms)
{
    char waited[TEXT_SPAN_SIZE], most[TEXT_SPAN_SIZE + 8] = "", place[32] = "";
    char conflict[CONFLICT_SIZE], span[TEXT_SPAN_SIZE], shown[TEXT_NAME_SIZE];
    bool busy = line->last.reason == HF_EBUSY;

    text_span(waited, sizeof(waited), waited_ms / 1000 * 1000);
    if (most_ms > 0)
        snprintf(most, sizeof(most), " of %s", text_span(span, sizeof(span), most_ms));
    if (busy && line->last.place)
        snprintf(place, sizeof(place), ", place %" PRIu32, line->last.place);
    if (busy)
        conflict_line(conflict, sizeof(conflict), name, &line->last.holder, now_wall_ms);
    else
        snprintf(conflict, sizeof(conflict), "%s: %s", text_escape_str(shown, sizeof(shown), name),
                 line->last.text[0] ? line->last.text : hf_strerror(line->last.reason));
    snprintf(out, WAIT_LINE_SIZE, "waiting for %s%s%s: %s", waited, most, place, conflict);
    return out;
}

bool wait_line_show(const struct wait_line *line, const char *name, int64_t waited_ms,
                    int64_t most_ms)
{
    char text[WAIT_LINE_SIZE];

    if (!line->last.reason || !say_can_rewrite())
        return false;
    if (waited_ms >= LONG_MS)
        say_rewrite("%s", wait_line_text(text, line, name, waited_ms, most_ms, wall_now_ms()));
    return true;
}

#include "tools/reader/last_words.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/common/text.h"

const char *last_words_sentence(char *out, size_t size, const struct hf_last_words *words,
                                int64_t now_wall_ms)
{
    int64_t age_ms = now_wall_ms > words->wall_ms ? now_wall_ms - words->wall_ms : 0;
    char text[4 * HF_LAST_WORDS + 1], span[TEXT_SPAN_SIZE];

    snprintf(out, size, "last ended by a failed assertion %s ago (pid %" PRIu32 "): %s",
             text_span(span, sizeof(span), age_ms), words->pid,
             text_escape_str(text, sizeof(text), words->text));
    return out;
}

#include "agent/process/fleet_request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/timing.h"
#include "shm/escape.h"
#include "shm/status.h"

#define WORDS_MOST   4
#define REQUEST_MOST 2048
#define DIGITS_MOST  15 /* of milliseconds: no overflow */

/* The words of a line, which is spoilt. -1: too many, or an empty one. */
static int split(char *line, char *ret_words[WORDS_MOST])
{
    int count = 0;

    for (char *word; (word = strsep(&line, " "));) {
        if (count == WORDS_MOST || !*word)
            return -1;
        ret_words[count++] = word;
    }
    return count;
}

static bool read_text(const char *word, char ret_text[HF_NODE_TEXT_MAX + 1])
{
    return hf_word_read(word, ret_text, HF_NODE_TEXT_MAX + 1) && *ret_text;
}

static bool read_ms(const char *word, int64_t *ret_ms)
{
    size_t length = strlen(word);

    if (length == 0 || length > DIGITS_MOST || strspn(word, "0123456789") != length)
        return false;
    *ret_ms = strtoll(word, NULL, 10);
    return true;
}

/* Behind what must be there: nothing, or `gone`. */
static bool read_gone(char *const *words, int count, bool *ret_gone)
{
    *ret_gone = count == 1 && strcmp(words[0], "gone") == 0;
    return count == 0 || *ret_gone;
}

static bool read_words(char *const *words, int count, struct fleet_wish *w)
{
    const char *kind = words[0];

    if (strcmp(kind, "move") == 0) {
        w->kind = FLEET_WISH_MOVE;
        return count >= 3 && read_text(words[1], w->id) && read_text(words[2], w->seat) &&
               read_gone(&words[3], count - 3, &w->gone);
    }
    if (strcmp(kind, "add") == 0) {
        w->kind = FLEET_WISH_ADD;
        return count == 3 && read_text(words[1], w->id) && read_text(words[2], w->seat);
    }
    if (strcmp(kind, "remove") == 0) {
        w->kind = FLEET_WISH_REMOVE;
        return count >= 2 && read_text(words[1], w->id) &&
               read_gone(&words[2], count - 2, &w->gone);
    }
    if (strcmp(kind, "ttl-max") == 0) {
        w->kind = FLEET_WISH_TTL_MAX;
        return count == 2 && read_ms(words[1], &w->ttl_max_ms);
    }
    if (strcmp(kind, "abort") == 0) {
        w->kind = FLEET_WISH_ABORT;
        return read_gone(&words[1], count - 1, &w->gone);
    }
    if (strcmp(kind, "confirm") == 0) {
        w->kind = FLEET_WISH_CONFIRM;
        return count == 1;
    }
    w->kind = FLEET_WISH_GONE;
    return strcmp(kind, "gone") == 0 && count == 2 && read_text(words[1], w->id);
}

int fleet_request_read(const char *request, struct fleet_wish *ret_wish)
{
    struct fleet_wish wish = {.gone = false};
    char line[REQUEST_MOST], *words[WORDS_MOST];
    int count;

    snprintf(line, sizeof(line), "%s", request + strlen(FLEET_REQUEST));
    count = split(line, words);
    if (count < 1 || !read_words(words, count, &wish))
        return HF_EINVAL;
    *ret_wish = wish;
    return HF_OK;
}

void fleet_request_begun(const struct fleet_record *record, const char *seat, FILE *out)
{
    char word[HF_WORD_SIZE(HF_NODE_TEXT_MAX)];
    int64_t longest = fleet_record_ttl_longest_ms(record, false);

    fprintf(out, "begun %" PRIu64 " %" PRId64 " %d %s\n", record->version,
            hf_dur_ms(timing_quarantine(hf_ms(longest))), record->count,
            hf_word(word, sizeof(word), seat));
}

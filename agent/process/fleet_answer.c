#include "agent/process/fleet_answer.h"

#include <inttypes.h>
#include <string.h>

#include "shm/escape.h"
#include "shm/status.h"

/* --- words --------------------------------------------------------------------------------------- */

static const char *answer_state_word(enum fleet_state state)
{
    static const char *const words[] = {[FLEET_FOUNDING] = "founding",
                                        [FLEET_CHANGING] = "changing",
                                        [FLEET_COMPLETE] = "complete"};

    return words[state];
}

static const char *answer_says_word(enum fleet_word word)
{
    static const char *const words[] = {
        [FLEET_WORD_UNKNOWN] = "unknown",
        [FLEET_WORD_NONE] = "none",
        [FLEET_WORD_OURS] = "ours",
        [FLEET_WORD_FOUNDING] = "founding",
        [FLEET_WORD_EARLIER] = "earlier",
        [FLEET_WORD_CHANGING] = "changing",
        [FLEET_WORD_LATER] = "later",
        [FLEET_WORD_FOREIGN] = "foreign",
        [FLEET_WORD_UNREADABLE] = "unreadable",
    };

    return words[word];
}

static const char *answer_yes(bool it_is)
{
    return it_is ? "yes" : "no";
}

/* `before`: what stands before it, a space or " name=". */
static void answer_put_word(FILE *out, const char *before, const char *text)
{
    char word[HF_WORD_SIZE(HF_NODE_TEXT_MAX)];

    fprintf(out, "%s%s", before, hf_word(word, sizeof(word), text));
}

static void answer_put_text(FILE *out, const char *key, const char *text)
{
    if (!*text)
        return;
    fprintf(out, "%s ", key);
    for (; *text; text++) {
        char piece[HF_ESCAPE_SIZE];

        (void)hf_escape_byte((unsigned char)*text, piece);
        fputs(piece, out);
    }
    fputc('\n', out);
}

/* --- the lines ----------------------------------------------------------------------------------- */

static void answer_put_seats(FILE *out, const char *key, const struct fleet_seat *seats, int count)
{
    for (int i = 0; i < count; i++) {
        fputs(key, out);
        answer_put_word(out, " ", seats[i].id);
        answer_put_word(out, " ", seats[i].address);
        fputs(seats[i].gone ? " gone\n" : "\n", out);
    }
}

/* Until this agent goes by it as settled; 0: it does, or it is not complete. When the time has come, the agent starts
 * again before it does. */
static int64_t answer_settles_ms(const struct fleet_shown *shown, hf_time now)
{
    if (shown->record.state != FLEET_COMPLETE || shown->settles.ns == HF_TIME_PAST.ns)
        return 0;
    if (hf_time_reached(now, shown->settles))
        return 1;
    return hf_dur_ms(hf_time_since(shown->settles, now)) + 1;
}

static void answer_put_record(FILE *out, const struct fleet_shown *shown, hf_time now)
{
    int64_t settles = answer_settles_ms(shown, now);
    const struct fleet_record *r = &shown->record;

    fprintf(out, "name %s\ndigest %s\nversion %" PRIu64 "\nstate %s\nttl_max_ms %" PRId64 "\n",
            r->fleet, shown->digest, r->version, answer_state_word(r->state), r->ttl_max_ms);
    if (shown->file_ttl_max_ms)
        fprintf(out, "file_ttl_max_ms %" PRId64 "\n", shown->file_ttl_max_ms);
    if (shown->told_version)
        fprintf(out, "told_version %" PRIu64 "\n", shown->told_version);
    if (settles)
        fprintf(out, "settles_ms %" PRId64 "\n", settles);
    answer_put_seats(out, "seat", r->seat, r->count);
    answer_put_seats(out, "before", r->before, r->before_count);
    if (*shown->by_host && shown->since_wall_ms) {
        answer_put_word(out, "by ", shown->by_host);
        fprintf(out, " %" PRIu32 " %" PRId64 "\n", shown->by_uid, shown->since_wall_ms);
    }
}

/* 0: nobody knows. */
static int64_t answer_votes_in_ms(hf_time votes, hf_time now)
{
    if (votes.ns == HF_TIME_NEVER.ns)
        return 0;
    return hf_time_before(now, votes) ? hf_dur_ms(hf_time_since(votes, now)) + 1 : 1;
}

static void answer_put_node(FILE *out, const struct fleet_shown_node *node, hf_time now)
{
    answer_put_word(out, "node ", node->id);
    fprintf(out, " says=%s counts=%s elsewhere=%s", answer_says_word(node->word),
            answer_yes(node->counts), answer_yes(fleet_shown_elsewhere(node)));
    answer_put_word(out, " seat=", node->seat);
    answer_put_word(out, " configured=", node->configured);
    answer_put_word(out, " connected=", node->peer);
    if (node->link[0])
        answer_put_word(out, " link=", node->link);
    if (node->mute)
        fprintf(out, " votes_in=%" PRId64, answer_votes_in_ms(node->votes, now));
    fputc('\n', out);
}

/* Of two nodes it is said once. */
static bool answer_is_said(const struct fleet_shown *shown, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(shown->node[k].misplaced, shown->node[i].misplaced) == 0)
            return true;
    return false;
}

void fleet_answer(const struct fleet_shown *shown, hf_time now, FILE *out)
{
    fprintf(out, "fleet 1\nknown %s\n", answer_yes(shown->known));
    if (shown->known)
        answer_put_record(out, shown, now);
    for (int i = 0; i < shown->count; i++)
        answer_put_node(out, &shown->node[i], now);
    for (int i = 0; i < shown->count; i++)
        if (!answer_is_said(shown, i))
            answer_put_text(out, "misplaced", shown->node[i].misplaced);
    answer_put_text(out, "waits", shown->waits);
    answer_put_text(out, "differs", shown->differs);
    fputs("end\n", out);
}

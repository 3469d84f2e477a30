#include "agent/process/fleet_answer.h"

#include <inttypes.h>
#include <string.h>

#include "shm/escape.h"
#include "shm/status.h"

/* --- words --------------------------------------------------------------------------------------- */

static const char *state_word(enum fleet_state state)
{
    static const char *const words[] = {[FLEET_FOUNDING] = "founding",
                                        [FLEET_CHANGING] = "changing",
                                        [FLEET_COMPLETE] = "complete"};

    return words[state];
}

static const char *says_word(enum fleet_word word)
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

static const char *yes(bool it_is)
{
    return it_is ? "yes" : "no";
}

/* `before`: what stands before it, a space or " name=". */
static void put_word(FILE *out, const char *before, const char *text)
{
    char word[HF_WORD_SIZE(HF_NODE_TEXT_MAX)];

    fprintf(out, "%s%s", before, hf_word(word, sizeof(word), text));
}

static void put_text(FILE *out, const char *key, const char *text)
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

static void put_seats(FILE *out, const char *key, const struct fleet_seat *seats, int count)
{
    for (int i = 0; i < count; i++) {
        fputs(key, out);
        put_word(out, " ", seats[i].id);
        put_word(out, " ", seats[i].address);
        fputs(seats[i].gone ? " gone\n" : "\n", out);
    }
}

/* Until this agent goes by it as settled; 0: it does, or it is not complete. When the time has come, the agent starts
 * again before it does. */
static int64_t settles_ms(const struct fleet_shown *shown, hf_time now)
{
    if (shown->record.state != FLEET_COMPLETE || shown->settles.ns == HF_TIME_PAST.ns)
        return 0;
    if (hf_time_reached(now, shown->settles))
        return 1;
    return hf_dur_ms(hf_time_since(shown->settles, now)) + 1;
}

static void put_record(FILE *out, const struct fleet_shown *shown, hf_time now)
{
    int64_t settles = settles_ms(shown, now);
    const struct fleet_record *r = &shown->record;

    fprintf(out, "name %s\ndigest %s\nversion %" PRIu64 "\nstate %s\nttl_max_ms %" PRId64 "\n",
            r->fleet, shown->digest, r->version, state_word(r->state), r->ttl_max_ms);
    if (shown->file_ttl_max_ms)
        fprintf(out, "file_ttl_max_ms %" PRId64 "\n", shown->file_ttl_max_ms);
    if (shown->told_version)
        fprintf(out, "told_version %" PRIu64 "\n", shown->told_version);
    if (settles)
        fprintf(out, "settles_ms %" PRId64 "\n", settles);
    put_seats(out, "seat", r->seat, r->count);
    put_seats(out, "before", r->before, r->before_count);
    if (*shown->by_host && shown->since_wall_ms) {
        put_word(out, "by ", shown->by_host);
        fprintf(out, " %" PRIu32 " %" PRId64 "\n", shown->by_uid, shown->since_wall_ms);
    }
}

/* 0: nobody knows. */
static int64_t votes_in_ms(hf_time votes, hf_time now)
{
    if (votes.ns == HF_TIME_NEVER.ns)
        return 0;
    return hf_time_before(now, votes) ? hf_dur_ms(hf_time_since(votes, now)) + 1 : 1;
}

static void put_node(FILE *out, const struct fleet_shown_node *node, hf_time now)
{
    put_word(out, "node ", node->id);
    fprintf(out, " says=%s counts=%s elsewhere=%s", says_word(node->word), yes(node->counts),
            yes(fleet_shown_elsewhere(node)));
    put_word(out, " seat=", node->seat);
    put_word(out, " configured=", node->configured);
    put_word(out, " connected=", node->peer);
    if (node->link[0])
        put_word(out, " link=", node->link);
    if (node->mute)
        fprintf(out, " votes_in=%" PRId64, votes_in_ms(node->votes, now));
    fputc('\n', out);
}

/* Of two nodes it is said once. */
static bool is_said(const struct fleet_shown *shown, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(shown->node[k].misplaced, shown->node[i].misplaced) == 0)
            return true;
    return false;
}

void fleet_answer(const struct fleet_shown *shown, hf_time now, FILE *out)
{
    fprintf(out, "fleet 1\nknown %s\n", yes(shown->known));
    if (shown->known)
        put_record(out, shown, now);
    for (int i = 0; i < shown->count; i++)
        put_node(out, &shown->node[i], now);
    for (int i = 0; i < shown->count; i++)
        if (!is_said(shown, i))
            put_text(out, "misplaced", shown->node[i].misplaced);
    put_text(out, "waits", shown->waits);
    put_text(out, "differs", shown->differs);
    fputs("end\n", out);
}

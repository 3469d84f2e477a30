#include "tools/show/show_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/history.h"
#include "tools/common/text.h"
#include "tools/output/words.h"

/* --- recent renewals -------------------------------------------------------------------------- */

static size_t show_renewals_read(const struct reader *reader, uint32_t node, uint32_t most,
                                 struct hf_renewal ret_renewals[HF_RENEWALS_KEPT])
{
    return hf_renewals_read(&reader->table, node, ret_renewals,
                            most < HF_RENEWALS_KEPT ? most : HF_RENEWALS_KEPT);
}

/* "answered", else the class of the error. */
static const char *show_outcome_word(const struct hf_renewal *renewal)
{
    return renewal->outcome ? hf_why_failed(renewal->outcome)->word : "answered";
}

/* "3 of 4 keys, 1 missing". */
static void show_renewals_keys(const struct hf_renewal *renewal)
{
    if (renewal->outcome)
        printf("%u keys", renewal->keys);
    else
        printf("%u of %u keys", renewal->hit, renewal->keys);
    if (renewal->missing)
        printf(", %u missing", renewal->missing);
    if (renewal->foreign)
        printf(", %u another's", renewal->foreign);
    puts(renewal->flags & HF_RENEWAL_F_HEAL ? ", written again" : "");
}

static void show_renewals_node(const struct reader *reader, uint32_t node, const char *id,
                               uint32_t most)
{
    struct hf_renewal renewals[HF_RENEWALS_KEPT];
    size_t count = show_renewals_read(reader, node, most, renewals);
    char shown[4 * HF_NODE_TEXT_MAX + 1], at[TEXT_INSTANT_SIZE], span[TEXT_SPAN_SIZE];

    printf("%s\n", text_escape_str(shown, sizeof(shown), *id ? id : "?"));
    if (count == 0)
        puts("  none yet");
    for (size_t i = 0; i < count; i++) {
        const struct hf_renewal *r = &renewals[i];

        printf("  %s  %-8s  %s%s  ",
               text_instant(at, sizeof(at), reader_wall_of((hf_time){r->at_ns})),
               format_rtt(span, sizeof(span), (int64_t)r->latency_us * HF_NS_PER_US),
               show_outcome_word(r), r->flags & HF_RENEWAL_F_LATE ? " too late" : "");
        show_renewals_keys(r);
    }
}

void show_renewals(const struct reader *reader, uint32_t most)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);

    for (uint32_t node = 0; node < count; node++)
        if (*rows[node].id)
            show_renewals_node(reader, node, rows[node].id, most);
}

static json_t *show_renewal_json(const struct hf_renewal *renewal)
{
    json_t *object = json_object();

    json_put(object, "at", json_instant(reader_wall_of((hf_time){renewal->at_ns})));
    json_put(object, "at_ns", json_u64_text((uint64_t)renewal->at_ns));
    json_put(object, "latency_us", json_integer(renewal->latency_us));
    json_put(object, "outcome", json_string(show_outcome_word(renewal)));
    json_put(object, "late", json_boolean(renewal->flags & HF_RENEWAL_F_LATE));
    json_put(object, "heal", json_boolean(renewal->flags & HF_RENEWAL_F_HEAL));
    json_put(object, "keys", json_integer(renewal->keys));
    json_put(object, "hit", json_integer(renewal->hit));
    json_put(object, "missing", json_integer(renewal->missing));
    json_put(object, "foreign", json_integer(renewal->foreign));
    return object;
}

static json_t *show_renewals_json(const struct reader *reader, uint32_t node, uint32_t most)
{
    struct hf_renewal renewals[HF_RENEWALS_KEPT];
    size_t count = show_renewals_read(reader, node, most, renewals);
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, show_renewal_json(&renewals[i]));
    return array;
}

/* --- nodes ------------------------------------------------------------------------------------ */

#define ID_WIDTH_MAX 40
#define WHY_SIZE     2048

/* All rows, since a sentence may name another node. */
struct shown {
    const struct life *life;
    const struct hf_node_row *rows;
    uint32_t count;
};

/* The time left of the quarantine; 0: not in one, or its end is not known. */
static int64_t node_quarantine_left_ms(const struct hf_node_row *row)
{
    int64_t left = hf_dur_ms(hf_time_since((hf_time){row->quarantine_until_ns}, reader_now()));

    return row->quarantine_until_ns > 0 && left > 0 ? left : 0;
}

static int64_t node_unwritable_ms(const struct hf_node_row *row)
{
    int64_t ms = hf_dur_ms(hf_time_since(reader_now(), (hf_time){row->unwritable_since_ns}));

    return ms > 0 ? ms : 0;
}

/* "refuses writes for 3.2s: oom: OOM command not allowed ..."; "" if it takes them. */
static const char *node_unwritable(char *out, size_t size, const struct hf_node_row *row)
{
    char span[TEXT_SPAN_SIZE], error[4 * sizeof(row->error)];

    out[0] = '\0';
    if (row->unwritable_since_ns > 0)
        snprintf(out, size, "refuses writes for %s: %s: %s",
                 text_span(span, sizeof(span), node_unwritable_ms(row)),
                 hf_why_failed(row->error_class)->word,
                 text_escape_str(error, sizeof(error), row->error));
    return out;
}

/* Of a node that votes: whose word that is by, and what its server does not let agents do. */
static void node_note_on_voter(char *out, size_t size, const struct hf_node_row *row)
{
    bool polled =
        (row->flags & HF_NODE_F_TRACKING) >> HF_NODE_F_TRACKING_SHIFT == HF_TRACKING_REFUSED;
    const char *notes[] = {
        row->flags & HF_NODE_F_DEV             ? "a private node (--dev)"
        : row->flags & HF_NODE_F_ASSUMED_FRESH ? "the operator vouches for it (--assume-fresh)"
                                               : "",
        polled ? words_tracking_sentence(row->flags) : "",
    };
    size_t used = 0;

    for (size_t i = 0; i < HF_LENGTH(notes) && used < size; i++)
        if (*notes[i])
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "; " : "", notes[i]);
}

/* Of nodes whose addresses are mixed up in this host's configuration: which these are. */
static void node_misplaced(char *out, size_t size, const struct shown *s)
{
    char id[4 * sizeof(s->rows[0].id)];
    uint32_t total = 0, said = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < s->count; i++)
        total += s->rows[i].refused == HF_REFUSED_MISPLACED;
    if (total < 2) {
        snprintf(out, size, "%s", hf_why_refused(HF_REFUSED_MISPLACED)->sentence);
        return;
    }
    used = (size_t)snprintf(out, size, "this host's configuration has the addresses of ");
    for (uint32_t i = 0; i < s->count && used < size; i++)
        if (s->rows[i].refused == HF_REFUSED_MISPLACED) {
            used += (size_t)snprintf(out + used, size - used, "%s%s",
                                     said == 0           ? ""
                                     : said == total - 1 ? " and "
                                                         : ", ",
                                     text_escape_str(id, sizeof(id), s->rows[i].id));
            said++;
        }
    if (used < size)
        snprintf(out + used, size - used, " %s; holdfast doctor names the lines",
                 total == 2 ? "the other way round" : "mixed up");
}

/* Why a node does not vote by its state, or a note on one that does. */
static const char *node_why_by_state(char *out, size_t size, const struct hf_node_row *row,
                                     const struct shown *s)
{
    char reasons[256], span[TEXT_SPAN_SIZE], error[4 * sizeof(row->error)], writes[WHY_SIZE / 2];
    int64_t left = life_is_present(s->life) ? node_quarantine_left_ms(row) : 0;

    out[0] = '\0';
    switch (row->state) {
    case HF_NODE_UNWRITABLE:
        node_unwritable(out, size, row);
        break;
    case HF_NODE_QUARANTINED:
        words_quarantine_sentence(reasons, sizeof(reasons), row->quarantine_reason);
        node_unwritable(writes, sizeof(writes), row);
        snprintf(out, size, "%s%s%s%s%.*s", reasons, left ? ", votes again in " : "",
                 left ? text_span(span, sizeof(span), left) : "", *writes ? "; " : "",
                 (int)sizeof(writes) / 2, writes);
        break;
    case HF_NODE_REFUSED:
        if (row->refused == HF_REFUSED_MISPLACED)
            node_misplaced(out, size, s);
        else
            snprintf(out, size, "%s", hf_why_refused(row->refused)->sentence);
        break;
    case HF_NODE_UP:
        if (row->refused)
            snprintf(out, size, "%s", hf_why_refused(row->refused)->sentence);
        else
            node_note_on_voter(out, size, row);
        break;
    default:
        snprintf(out, size, "%s", text_escape_str(error, sizeof(error), row->error));
    }
    return out;
}

/* The same, and how it stands to the fleet's record. */
static const char *node_why(char *out, size_t size, const struct hf_node_row *row,
                            const struct shown *s)
{
    char fleet[WHY_SIZE / 4], rest[WHY_SIZE / 2];

    /* Where it is the whole reason, it is said once. */
    words_fleet_sentence(fleet, sizeof(fleet),
                         row->refused == HF_REFUSED_MISPLACED
                             ? row->flags & ~(uint32_t)HF_NODE_F_ELSEWHERE
                             : row->flags);
    node_why_by_state(rest, sizeof(rest), row, s);
    snprintf(out, size, "%s%s%s", fleet, *fleet && *rest ? "; " : "", rest);
    return out;
}

/* "was up", when the agent gave its last sign of life. */
static const char *node_state_of(char *out, size_t size, const struct hf_node_row *row,
                                 const struct life *life)
{
    snprintf(out, size, "%s%s", life_is_present(life) ? "" : "was ",
             hf_node_state_word(row->state));
    return out;
}

/* Why it does not vote; before it when that was known, unless it is known now. "-": nothing. */
static const char *node_note_of(char *out, size_t size, const struct hf_node_row *row,
                                const struct shown *s)
{
    char because[WHY_SIZE], when[TEXT_SPAN_SIZE + 8] = "";

    if (!life_is_present(s->life))
        life_when(when, sizeof(when), s->life);
    node_why(because, sizeof(because), row, s);
    snprintf(out, size, "%s%s%s", when, *when && *because ? ": " : "", because);
    if (!*out)
        snprintf(out, size, "-");
    return out;
}

static const char *node_id_of(char *out, size_t size, const struct hf_node_row *row)
{
    return text_escape_str(out, size, *row->id ? row->id : "?");
}

void show_node_list(const struct reader *reader, const struct life *life)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);
    const struct shown s = {life, rows, count};
    char id[4 * sizeof(rows[0].id)], rtt[TEXT_SPAN_SIZE], note[2 * WHY_SIZE], state[32];
    int width = (int)strlen("NODE"), states = life_is_present(life) ? 11 : 15;

    for (uint32_t i = 0; i < count; i++) {
        int len = (int)strlen(node_id_of(id, sizeof(id), &rows[i]));

        if (len > width)
            width = len < ID_WIDTH_MAX ? len : ID_WIDTH_MAX;
    }
    printf("%-*s  %-*s  %-8s  %s\n", width, "NODE", states, "STATE", "RTT", "WHY");
    for (uint32_t i = 0; i < count; i++)
        printf("%-*s  %-*s  %-8s  %s\n", width, node_id_of(id, sizeof(id), &rows[i]), states,
               node_state_of(state, sizeof(state), &rows[i], life),
               format_rtt(rtt, sizeof(rtt), rows[i].rtt_ns),
               node_note_of(note, sizeof(note), &rows[i], &s));
}

static void node_print_flags(const struct hf_node_row *row)
{
    if (row->flags & HF_NODE_F_DEV)
        puts("  flags     private (--dev)");
    else if (row->flags & HF_NODE_F_ASSUMED_FRESH)
        puts("  flags     assumed fresh");
}

static void node_print_long(const struct hf_node_row *row, const struct shown *s)
{
    char text[2 * WHY_SIZE], span[TEXT_SPAN_SIZE];

    printf("%s\n", node_id_of(text, sizeof(text), row));
    printf("  address   %s\n", text_escape_str(text, sizeof(text), row->address));
    printf("  state     %s", node_state_of(text, sizeof(text), row, s->life));
    if (!life_is_present(s->life))
        printf(" %s", life_when(text, sizeof(text), s->life));
    printf(*node_why(text, sizeof(text), row, s) ? ": %s\n" : "%s\n", text);
    if (*row->version)
        printf("  server    version %s", text_escape_str(text, sizeof(text), row->version));
    if (*row->version && *row->run_id)
        printf(", run_id %s", text_escape_str(text, sizeof(text), row->run_id));
    if (*row->version)
        putchar('\n');
    if (row->last_reply_ns > 0) {
        int64_t age_ms = hf_dur_ms(hf_time_since(reader_now(), (hf_time){row->last_reply_ns}));

        printf("  reply     %s ago, rtt %s\n",
               text_span(span, sizeof(span), age_ms > 0 ? age_ms : 0),
               format_rtt(text, sizeof(text), row->rtt_ns));
        printf("  clock     %s of this host's; steps of up to %s may go unseen\n",
               format_offset(text, sizeof(text), row->clock_offset_us),
               format_rtt(span, sizeof(span), row->unseen_step_ns));
    }
    node_print_flags(row);
    printf("  waiting   %s\n", words_tracking_sentence(row->flags));
    printf("  counts    replies %" PRIu64 ", timeouts %" PRIu64 ", errors %" PRIu64
           ", reconnects %" PRIu64 ", clock steps %" PRIu64 "\n",
           row->replies, row->timeouts, row->errors, row->reconnects, row->clock_steps);
    if (row->error_class != HF_NODE_ERR_NONE || *row->error)
        printf("  error     %s: %s\n", hf_why_failed(row->error_class)->word,
               text_escape_str(text, sizeof(text), row->error));
}

void show_node_list_long(const struct reader *reader, const struct life *life)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);
    const struct shown s = {life, rows, count};

    for (uint32_t i = 0; i < count; i++)
        node_print_long(&rows[i], &s);
}

json_t *show_node_quarantine_json(uint32_t reasons)
{
    json_t *array = json_array();

    for (unsigned bit = 0; bit < HF_QUARANTINE_REASONS; bit++)
        if (reasons & 1u << bit)
            json_array_append_new(array, json_string(hf_why_quarantined(1u << bit)->word));
    return array;
}

static json_t *node_fleet_json(uint32_t flags)
{
    json_t *array = json_array();
    const char *word;

    for (unsigned i = 0; (word = words_fleet(flags, i)); i++)
        if (*word)
            json_array_append_new(array, json_string(word));
    return array;
}

static json_t *node_json(const struct hf_node_row *row, const struct life *life)
{
    bool present = life_is_present(life);
    json_t *node = json_object();
    int64_t age_ms = hf_dur_ms(hf_time_since(reader_now(), (hf_time){row->last_reply_ns}));

    json_put(node, "id", json_text_str(row->id));
    json_put(node, "address", json_text_str(row->address));
    json_put(node, "state", json_string(present ? hf_node_state_word(row->state) : "unknown"));
    json_put(node, "votes", json_boolean(present && reader_node_votes(row)));
    json_put(node, "last_state", json_string(hf_node_state_word(row->state)));
    json_put(node, "last_votes", json_boolean(reader_node_votes(row)));
    json_put(node, "fleet_faults", node_fleet_json(row->flags));
    json_put(node, "refusal", json_word(hf_why_refused(row->refused)->word));
    json_put(node, "quarantine_reasons", show_node_quarantine_json(row->quarantine_reason));
    json_put(node, "quarantine_left_ms", json_integer(present ? node_quarantine_left_ms(row) : 0));
    json_put(node, "rtt_us", json_integer(row->rtt_ns / HF_NS_PER_US));
    json_put(node, "last_reply_age_ms",
             row->last_reply_ns > 0 ? json_integer(age_ms) : json_null());
    json_put(node, "clock_offset_us", json_integer(row->clock_offset_us));
    json_put(node, "unseen_step_us",
             row->unseen_step_ns > 0 ? json_integer(row->unseen_step_ns / HF_NS_PER_US)
                                     : json_null());
    json_put(node, "version", json_word(row->version));
    json_put(node, "run_id", json_word(row->run_id));
    json_put(node, "assumed_fresh", json_boolean(row->flags & HF_NODE_F_ASSUMED_FRESH));
    json_put(node, "dev", json_boolean(row->flags & HF_NODE_F_DEV));
    json_put(node, "tracking", json_string(words_tracking(row->flags)));
    json_put(node, "replies", json_integer((json_int_t)row->replies));
    json_put(node, "timeouts", json_integer((json_int_t)row->timeouts));
    json_put(node, "errors", json_integer((json_int_t)row->errors));
    json_put(node, "reconnects", json_integer((json_int_t)row->reconnects));
    json_put(node, "clock_steps", json_integer((json_int_t)row->clock_steps));
    json_put(node, "unwritable_ms",
             row->unwritable_since_ns > 0 ? json_integer(node_unwritable_ms(row)) : json_null());
    json_put(node, "error_class", json_word(hf_why_failed(row->error_class)->word));
    json_put(node, "error", json_word(row->error));
    return node;
}

void show_node_list_json(struct json_out *out, const struct reader *reader, const struct life *life,
                         uint32_t renewals)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);

    json_array_begin(out, "nodes");
    for (uint32_t i = 0; i < count; i++) {
        json_t *node = node_json(&rows[i], life);

        if (renewals)
            json_put(node, "renewals", show_renewals_json(reader, i, renewals));
        json_element(out, node);
    }
    json_array_end(out);
}

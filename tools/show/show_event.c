#include "tools/show/show_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/history.h"
#include "shm/status.h"
#include "shm/wordings.h"
#include "tools/common/text.h"
#include "tools/output/words.h"

/* --- places of nodes -------------------------------------------------------------------------- */

#define MARKS_MOST 256

static struct mark {
    uint64_t number; /* of the event, which rise */
    unsigned place;
    char id[HF_EVENT_TEXT + 1];
} marks[MARKS_MOST];
static size_t mark_count;
static uint64_t known_from; /* numbers below are of lists that nothing tells any more */

static void places_take(const struct hf_event *event)
{
    if (event->kind != HF_EVENT_NODE_PLACE)
        return;
    if (mark_count == MARKS_MOST) { /* the oldest ones go */
        known_from = marks[0].number + 1;
        memmove(&marks[0], &marks[1], (MARKS_MOST - 1) * sizeof(marks[0]));
        mark_count--;
    }
    marks[mark_count].number = event->number;
    marks[mark_count].place = event->node;
    snprintf(marks[mark_count].id, sizeof(marks[mark_count].id), "%.*s",
             (int)hf_event_text_kept(event), (const char *)event->text);
    mark_count++;
}

/* Of all such events that are kept. */
static void event_places_learn(const struct hf_table *table)
{
    uint64_t oldest = hf_events_oldest(table, HF_EVENTS_NODES);
    struct hf_event event;

    mark_count = 0;
    known_from = 0;
    for (uint64_t i = oldest; i < hf_events_written(table, HF_EVENTS_NODES); i++) {
        if (hf_event_read(table, HF_EVENTS_NODES, i, &event) != HF_OK)
            continue;
        if (oldest > 0 && known_from == 0)
            known_from = event.number;
        places_take(&event);
    }
    if (mark_count == 0)
        known_from = 0; /* no list but this one is known of */
}

/* Who was at that place when the event of that number was written. PLACE_AS_THEN: in `ret_id`, a string. PLACE_UNKNOWN: what
 * told it has been overwritten. */
static enum event_place event_places_id(uint64_t number, unsigned place, char *ret_id, size_t size)
{
    if (number < known_from)
        return PLACE_UNKNOWN;
    for (size_t i = 0; i < mark_count; i++)
        if (marks[i].number >= number && marks[i].place == place) {
            snprintf(ret_id, size, "%s", marks[i].id);
            return PLACE_AS_THEN;
        }
    return PLACE_AS_NOW;
}

bool event_places_has(const char *id)
{
    for (size_t i = 0; i < mark_count; i++)
        if (strcmp(marks[i].id, id) == 0)
            return true;
    return false;
}

/* --- events ----------------------------------------------------------------------------------- */

#define DETAIL_SIZE 1024
#define NODES_SIZE  (HF_NODES_MAX * (4 * HF_NODE_TEXT_MAX + 2))

static const char *const words[] = {
    [HF_EVENT_GRANTED] = "granted",
    [HF_EVENT_READOPTED] = "readopted",
    [HF_EVENT_VOTE_VOID] = "vote_void",
    [HF_EVENT_VOTE] = "vote",
    [HF_EVENT_HEALED] = "healed",
    [HF_EVENT_LATE] = "late",
    [HF_EVENT_ON_TIME] = "on_time",
    [HF_EVENT_LOSING] = "losing",
    [HF_EVENT_JOB_STOPPED] = "job_stopped",
    [HF_EVENT_JOB_KILLED] = "job_killed",
    [HF_EVENT_ABANDONED] = "abandoned",
    [HF_EVENT_LOST] = "lost",
    [HF_EVENT_RELEASED] = "released",
    [HF_EVENT_FORCED] = "forced",
    [HF_EVENT_DENIED] = "denied",
    [HF_EVENT_FOUND_LOST] = "found_lost",
    [HF_EVENT_SKIPPED] = "skipped",
    [HF_EVENT_AGENT_STARTED] = "agent_started",
    [HF_EVENT_AGENT_ENDING] = "agent_ending",
    [HF_EVENT_AGENT_AWAY] = "agent_away",
    [HF_EVENT_RELOADED] = "reloaded",
    [HF_EVENT_RELOAD_REFUSED] = "reload_refused",
    [HF_EVENT_DRAINED] = "drained",
    [HF_EVENT_UNDRAINED] = "undrained",
    [HF_EVENT_FLEET] = "fleet",
    [HF_EVENT_NODE_UP] = "node_up",
    [HF_EVENT_NODE_DOWN] = "node_down",
    [HF_EVENT_NODE_REFUSED] = "node_refused",
    [HF_EVENT_NODE_ACCEPTED] = "node_accepted",
    [HF_EVENT_NODE_RESTARTED] = "node_restarted",
    [HF_EVENT_NODE_FORGOT] = "node_forgot",
    [HF_EVENT_NODE_STEPPED] = "node_stepped",
    [HF_EVENT_QUARANTINE] = "quarantine",
    [HF_EVENT_QUARANTINE_OVER] = "quarantine_over",
    [HF_EVENT_NODE_UNWRITABLE] = "node_unwritable",
    [HF_EVENT_NODE_WRITABLE] = "node_writable",
    [HF_EVENT_NODE_PLACE] = "node_place",
};

/* The stable word of an enum hf_event_kind; "unknown" for a later agent's. */
static const char *event_word_of(uint32_t kind)
{
    return kind < HF_LENGTH(words) && words[kind] ? words[kind] : "unknown";
}

static const char *event_right_word(int64_t right)
{
    return right == 1 ? "take" : right == 2 ? "see" : right == 4 ? "force" : "use";
}

static bool event_of_lease(const struct hf_event *event)
{
    return event->generation != 0 || event->kind == HF_EVENT_FORCED ||
           event->kind == HF_EVENT_DENIED;
}

static bool event_of_node(const struct hf_event *event)
{
    return event->node != HF_EVENT_NO_NODE;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* The id in the node's row, or that of the event's time; "#2" if it never had one, or it is not known any more. A starting
 * agent empties the rows. */
static char ids[HF_NODES_MAX][HF_NODE_TEXT_MAX + 1]; /* as last seen, since the list is this one */

static const char *event_raw_id(char *out, size_t size, const struct reader *reader, unsigned node,
                                uint64_t number)
{
    enum event_place place = event_places_id(number, node, out, size);
    struct hf_node_row row;

    if (place == PLACE_AS_THEN)
        return out;

    if (node < HF_NODES_MAX && hf_node_read(&reader->table, node, &row) == HF_OK && *row.id)
        memcpy(ids[node], row.id, sizeof(row.id));
    if (node < HF_NODES_MAX && *ids[node] && place == PLACE_AS_NOW)
        snprintf(out, size, "%s", ids[node]);
    else
        snprintf(out, size, "#%u", node + 1);
    return out;
}

void show_event_learn(const struct reader *reader)
{
    char id[HF_NODE_TEXT_MAX + 1];

    event_places_learn(&reader->table);
    memset(ids, 0, sizeof(ids));
    for (unsigned node = 0; node < hf_table_nodes(&reader->table); node++)
        event_raw_id(id, sizeof(id), reader, node, UINT64_MAX);
}

static const char *event_id_of(char *out, size_t size, const struct reader *reader,
                               const struct hf_event *event, unsigned node)
{
    char id[HF_NODE_TEXT_MAX + 1];

    return text_escape_str(out, size, event_raw_id(id, sizeof(id), reader, node, event->number));
}

bool show_event_is_of(const struct reader *reader, const struct hf_event *event, const char *node)
{
    char id[HF_NODE_TEXT_MAX + 1];

    return event_of_node(event) &&
           strcmp(event_raw_id(id, sizeof(id), reader, event->node, event->number), node) == 0;
}

/* A damaged table may have more nodes than there are bits. */
static bool event_votes(const struct hf_event *event, unsigned node)
{
    return node < HF_NODES_MAX && event->voting >> node & 1;
}

static int event_vote_count(const struct hf_event *event)
{
    return __builtin_popcount(event->voting);
}

/* "n1, n3": the nodes whose votes did not stand. */
static const char *event_without_vote(char *out, size_t size, const struct reader *reader,
                                      const struct hf_event *event)
{
    size_t used = 0;
    char id[4 * HF_NODE_TEXT_MAX + 1];

    out[0] = '\0';
    for (unsigned node = 0; node < event->nodes && used < size; node++)
        if (!event_votes(event, node))
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                     event_id_of(id, sizeof(id), reader, event, node));
    return out;
}

/* --- a line for people ------------------------------------------------------------------------ */

static int64_t event_left_ms(const struct hf_event *event, int64_t valid_ns)
{
    return hf_dur_ms(hf_time_since((hf_time){valid_ns}, (hf_time){event->at_ns}));
}

/* "2 of 3 votes, 12.3s left". */
static const char *event_standing(char *out, size_t size, const struct reader *reader,
                                  const struct hf_event *event)
{
    char span[TEXT_SPAN_SIZE], missing[NODES_SIZE];
    int count = event_vote_count(event);
    int64_t left = event_left_ms(event, event->valid_ns);
    size_t used = (size_t)snprintf(out, size, "%d of %d votes", count, event->nodes);

    if (count < event->nodes && used < size)
        used += (size_t)snprintf(out + used, size - used, " (not %s)",
                                 event_without_vote(missing, sizeof(missing), reader, event));
    if (used < size && event->valid_ns && left > 0)
        snprintf(out + used, size - used, ", %s left", text_span(span, sizeof(span), left));
    else if (used < size && event->valid_ns)
        snprintf(out + used, size - used, ", its validity was over %s before",
                 text_span(span, sizeof(span), -left));
    return out;
}

static const char *event_void_sentence(uint32_t reason)
{
    switch (reason) {
    case HF_LOSS_FOREIGN:
        return "another holder's key is on";
    case HF_LOSS_FORCED:
        return "it was forced out on";
    case HF_LOSS_MISSING:
        return "its key is gone from";
    case HF_LOSS_CLOCK:
        return "the clock stepped on";
    default:
        return "its vote is void on";
    }
}

/* "; user 0 (pid 123) asked" */
static const char *event_asker(char *out, size_t size, const struct hf_event *event)
{
    out[0] = '\0';
    if (event->by_pid)
        snprintf(out, size, " (user %" PRIu32 ", pid %" PRIu32 ")", event->by_uid, event->by_pid);
    return out;
}

/* The reason of the release. */
static const char *event_released_by(const struct hf_event *event)
{
    return event->reason == HF_LOSS_NONE ? "its holder released it" : hf_loss_text(event->reason);
}

static const char *show_event_handed_over(const struct hf_event *event, const char *sentence)
{
    return event->flags & HF_EVENT_F_HANDED_OVER ? sentence : "";
}

static void event_detail_of_lease(char *out, size_t size, const struct reader *reader,
                                  const struct hf_event *event)
{
    char span[TEXT_SPAN_SIZE], id[4 * HF_NODE_TEXT_MAX + 1], rest[NODES_SIZE], by[64];
    const char *loss = hf_loss_text(event->reason);

    id[0] = '\0';
    if (event_of_node(event))
        event_id_of(id, sizeof(id), reader, event, event->node);
    event_standing(rest, sizeof(rest), reader, event);
    switch (event->kind) {
    case HF_EVENT_GRANTED:
        snprintf(out, size, "fence %" PRIu64 ", pid %" PRIu32 ", waited %s%s, %s", event->fence,
                 event->pid, text_span(span, sizeof(span), event->value),
                 show_event_handed_over(event, ", handed over"), rest);
        break;
    case HF_EVENT_READOPTED:
        snprintf(out, size, "fence %" PRIu64 ", pid %" PRIu32 ", %s", event->fence, event->pid,
                 rest);
        break;
    case HF_EVENT_VOTE_VOID:
        snprintf(out, size, "%s %s; %s", event_void_sentence(event->reason), id, rest);
        break;
    case HF_EVENT_VOTE:
        snprintf(out, size, "%s counts again; %s", id, rest);
        break;
    case HF_EVENT_HEALED:
        snprintf(out, size, "written again on %s; %s", id, rest);
        break;
    case HF_EVENT_LATE:
    case HF_EVENT_LOSING:
        snprintf(out, size, "%s%s%s%s%s; %s", loss, *id ? " (" : "", id, *id ? ")" : "",
                 event_asker(by, sizeof(by), event), rest);
        break;
    case HF_EVENT_LOST:
        snprintf(out, size, "%s%s%s%s; %s; held for %s, fence %" PRIu64 ", pid %" PRIu32, loss,
                 *id ? " (" : "", id, *id ? ")" : "", rest,
                 text_span(span, sizeof(span), event->value), event->fence, event->pid);
        break;
    case HF_EVENT_RELEASED:
        snprintf(out, size, "held for %s, fence %" PRIu64 ", pid %" PRIu32 "; %s%s%s",
                 text_span(span, sizeof(span), event->value), event->fence, event->pid,
                 event_released_by(event), event_asker(by, sizeof(by), event),
                 show_event_handed_over(event, "; handed over on this host"));
        break;
    case HF_EVENT_FORCED:
        snprintf(out, size,
                 "the hold with fence %" PRIu64 " on %" PRId64 " of %u nodes, by user %" PRIu32
                 " (pid %" PRIu32 ")",
                 event->fence, event->value, event->nodes, event->uid, event->pid);
        break;
    case HF_EVENT_SKIPPED:
        snprintf(out, size,
                 "not run: a run that was started %s before counts for this period; pid %" PRIu32,
                 text_span(span, sizeof(span), event->value), event->pid);
        break;
    case HF_EVENT_FOUND_LOST:
        snprintf(out, size,
                 "its release found that it had been lost before: %s; fence %" PRIu64
                 ", pid %" PRIu32,
                 loss, event->fence, event->pid);
        break;
    case HF_EVENT_DENIED:
        snprintf(out, size, "user %" PRIu32 " (pid %" PRIu32 ") may not %s it", event->uid,
                 event->pid, event_right_word(event->value));
        break;
    case HF_EVENT_JOB_STOPPED:
        snprintf(out, size, "its guardian stops the job; %s", rest);
        break;
    case HF_EVENT_JOB_KILLED:
        snprintf(out, size, "its guardian kills the job; %s", rest);
        break;
    case HF_EVENT_ABANDONED:
        snprintf(out, size,
                 "the holder is gone without a word, or out of the agent's sight: the lease is "
                 "renewed no more; %s",
                 rest);
        break;
    default:
        snprintf(out, size, "%s", rest);
    }
}

static const char *event_fleet_step(uint32_t step)
{
    switch (step) {
    case HF_FLEET_CHANGING:
        return "is on its way (changing)";
    case HF_FLEET_COMPLETE:
        return "is complete";
    case HF_FLEET_SETTLED:
        return "has settled";
    default:
        return "is gone by";
    }
}

static void event_detail_of_fleet(char *out, size_t size, const struct hf_event *event,
                                  const char *host)
{
    const char *step = event_fleet_step(event->reason);

    if (*host && event->reason == HF_FLEET_CHANGING)
        snprintf(out, size, "version %" PRId64 " %s, by user %" PRIu32 " on %s", event->value, step,
                 event->uid, host);
    else
        snprintf(out, size, "version %" PRId64 " %s", event->value, step);
}

static void event_detail_of_other(char *out, size_t size, const struct hf_event *event)
{
    char text[4 * HF_EVENT_TEXT + 1], span[TEXT_SPAN_SIZE], reasons[256];

    text_escape(text, sizeof(text), event->text, hf_event_text_kept(event));
    switch (event->kind) {
    case HF_EVENT_AGENT_STARTED:
        snprintf(out, size, "version %s, pid %" PRIu32 "%s", text, event->pid,
                 event->value ? ", after an earlier one" : "");
        break;
    case HF_EVENT_AGENT_AWAY:
        snprintf(out, size, "for %s it was stopped, suspended or without CPU, and renewed nothing",
                 text_span(span, sizeof(span), event->value));
        break;
    case HF_EVENT_AGENT_ENDING:
        snprintf(out, size, "pid %" PRIu32, event->pid);
        break;
    case HF_EVENT_DRAINED:
    case HF_EVENT_UNDRAINED:
        snprintf(out, size, "by user %" PRIu32 " (pid %" PRIu32 ")", event->uid, event->pid);
        break;
    case HF_EVENT_FLEET:
        event_detail_of_fleet(out, size, event, text);
        break;
    case HF_EVENT_NODE_UP:
        snprintf(out, size, "version %s", text);
        break;
    case HF_EVENT_NODE_DOWN:
    case HF_EVENT_NODE_UNWRITABLE:
        snprintf(out, size, "%s: %s", hf_why_failed(event->reason)->word, text);
        break;
    case HF_EVENT_NODE_REFUSED:
        snprintf(out, size, "%s%s%s", hf_why_refused(event->reason)->sentence, *text ? ": " : "",
                 text);
        break;
    case HF_EVENT_NODE_RESTARTED:
        snprintf(out, size, "run_id %s", text);
        break;
    case HF_EVENT_NODE_PLACE:
        snprintf(out, size, "node %u of the list until here", event->node + 1u);
        break;
    case HF_EVENT_NODE_FORGOT:
        snprintf(out, size, "%s", hf_why_quarantined(HF_QUARANTINE_SENTINEL)->sentence);
        break;
    case HF_EVENT_NODE_STEPPED:
        snprintf(out, size, "%s%s%s", hf_why_quarantined(HF_QUARANTINE_CLOCK)->sentence,
                 event->value ? " by " : "",
                 event->value ? format_offset(span, sizeof(span), event->value) : "");
        break;
    case HF_EVENT_QUARANTINE:
        snprintf(out, size, "%s; no votes for %s",
                 words_quarantine_sentence(reasons, sizeof(reasons), event->reason),
                 text_span(span, sizeof(span), event_left_ms(event, event->valid_ns)));
        break;
    default:
        snprintf(out, size, "%s", text);
    }
}

void show_event(const struct reader *reader, const struct hf_event *event)
{
    char at[TEXT_INSTANT_SIZE], subject[TEXT_NAME_SIZE] = "-";
    char detail[DETAIL_SIZE + NODES_SIZE] = "";

    if (event_of_lease(event)) {
        text_escape(subject, sizeof(subject), event->text, hf_event_text_kept(event));
        if (event->text_len > HF_EVENT_TEXT)
            memcpy(subject + strlen(subject), "...", sizeof("..."));
        event_detail_of_lease(detail, sizeof(detail), reader, event);
    } else {
        if (event_of_node(event))
            event_id_of(subject, sizeof(subject), reader, event, event->node);
        event_detail_of_other(detail, sizeof(detail), event);
    }
    printf("%s  %-15s  %s%s%s\n", text_instant(at, sizeof(at), event->wall_ms),
           event_word_of(event->kind), subject, *detail ? "  " : "", detail);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *event_instant(int64_t ns)
{
    return ns ? json_u64_text((uint64_t)ns) : json_null();
}

static json_t *event_node_id(const struct reader *reader, const struct hf_event *event,
                             unsigned node)
{
    char id[HF_NODE_TEXT_MAX + 1];

    return json_text_str(event_raw_id(id, sizeof(id), reader, node, event->number));
}

static json_t *event_voting_json(const struct reader *reader, const struct hf_event *event)
{
    json_t *array = json_array();

    for (unsigned node = 0; node < event->nodes; node++)
        if (event_votes(event, node))
            json_array_append_new(array, event_node_id(reader, event, node));
    return array;
}

static const char *event_reason_word(const struct hf_event *event)
{
    if (event->kind == HF_EVENT_NODE_DOWN || event->kind == HF_EVENT_NODE_UNWRITABLE)
        return hf_why_failed(event->reason)->word;
    if (event->kind == HF_EVENT_NODE_REFUSED)
        return hf_why_refused(event->reason)->word;
    return event_of_lease(event) ? hf_loss_word(event->reason) : "";
}

static void event_put_lease(json_t *line, const struct reader *reader, const struct hf_event *event)
{
    int64_t left = event_left_ms(event, event->valid_ns);

    json_put_name(line, event->text, hf_event_text_kept(event));
    if (event->text_len > HF_EVENT_TEXT)
        json_put(line, "name_cut", json_true());
    json_put(line, "fence", json_u64_text(event->fence));
    json_put(line, "slot", json_integer(event->slot));
    json_put(line, "generation", json_integer(event->generation));
    json_put(line, "pid", json_integer(event->pid));
    json_put(line, "uid", json_integer(event->uid));
    json_put(line, "run", json_boolean(event->flags & HF_EVENT_F_JOB));
    json_put(line, "votes", json_integer(event_vote_count(event)));
    json_put(line, "nodes", json_integer(event->nodes));
    json_put(line, "voting", event_voting_json(reader, event));
    json_put(line, "valid_before_ns", event_instant(event->valid_before_ns));
    json_put(line, "valid_ns", event_instant(event->valid_ns));
    json_put(line, "left_ms", event->valid_ns ? json_integer(left > 0 ? left : 0) : json_null());
    if (event->kind == HF_EVENT_GRANTED)
        json_put(line, "waited_ms", json_integer(event->value));
    if (event->kind == HF_EVENT_LOST || event->kind == HF_EVENT_RELEASED ||
        event->kind == HF_EVENT_FOUND_LOST)
        json_put(line, "held_ms", json_integer(event->value));
    if (event->reason == HF_LOSS_ASKED && event->kind != HF_EVENT_VOTE_VOID) {
        json_put(line, "by_pid", event->by_pid ? json_integer(event->by_pid) : json_null());
        json_put(line, "by_uid", event->by_pid ? json_integer(event->by_uid) : json_null());
    }
    if (event->kind == HF_EVENT_FORCED)
        json_put(line, "forced", json_integer(event->value));
    if (event->kind == HF_EVENT_SKIPPED)
        json_put(line, "run_before_ms", json_integer(event->value));
    if (event->kind == HF_EVENT_DENIED)
        json_put(line, "right", json_string(event_right_word(event->value)));
    if (event->kind == HF_EVENT_GRANTED || event->kind == HF_EVENT_RELEASED)
        json_put(line, "handed_over", json_boolean(event->flags & HF_EVENT_F_HANDED_OVER));
}

static const char *event_fleet_step_word(uint32_t step)
{
    switch (step) {
    case HF_FLEET_CHANGING:
        return "changing";
    case HF_FLEET_COMPLETE:
        return "complete";
    case HF_FLEET_SETTLED:
        return "settled";
    default:
        return "";
    }
}

static void event_put_other(json_t *line, const struct hf_event *event)
{
    size_t len = hf_event_text_kept(event);

    json_put(line, "text", len ? json_text(event->text, len) : json_null());
    if (event->kind == HF_EVENT_AGENT_STARTED || event->kind == HF_EVENT_AGENT_ENDING)
        json_put(line, "pid", json_integer(event->pid));
    if (event->kind == HF_EVENT_DRAINED || event->kind == HF_EVENT_UNDRAINED) {
        json_put(line, "pid", json_integer(event->pid));
        json_put(line, "uid", json_integer(event->uid));
    }
    if (event->kind == HF_EVENT_FLEET) {
        json_put(line, "version", json_integer(event->value));
        json_put(line, "step", json_word(event_fleet_step_word(event->reason)));
        json_put(line, "uid", len ? json_integer(event->uid) : json_null());
    }
    if (event->kind == HF_EVENT_AGENT_STARTED)
        json_put(line, "warm", json_boolean(event->value));
    if (event->kind == HF_EVENT_AGENT_AWAY)
        json_put(line, "away_ms", json_integer(event->value));
    if (event->kind == HF_EVENT_NODE_STEPPED)
        json_put(line, "step_us", event->value ? json_integer(event->value) : json_null());
    if (event->kind == HF_EVENT_QUARANTINE) {
        json_put(line, "quarantine_reasons", show_node_quarantine_json(event->reason));
        json_put(line, "left_ms", json_integer(event_left_ms(event, event->valid_ns)));
    }
}

void show_event_json(const struct reader *reader, const struct hf_event *event)
{
    json_t *line = json_object();

    json_put(line, "event", json_string(event_word_of(event->kind)));
    json_put(line, "number", json_integer((json_int_t)event->number));
    json_put(line, "at", json_instant(event->wall_ms));
    json_put(line, "at_ns", json_u64_text((uint64_t)event->at_ns));
    json_put(line, "node",
             event_of_node(event) ? event_node_id(reader, event, event->node) : json_null());
    json_put(line, "reason", json_word(event_reason_word(event)));
    if (event_of_lease(event))
        event_put_lease(line, reader, event);
    else
        event_put_other(line, event);
    json_line(line);
}

void show_event_overwritten(const char *subcommand, uint64_t count, bool json)
{
    if (count == 0)
        return;
    if (json) {
        json_t *line = json_object();

        json_put(line, "event", json_string("overwritten"));
        json_put(line, "count", json_integer((json_int_t)count));
        json_line(line);
    } else {
        fflush(stdout);
        fprintf(stderr, "holdfast %s: %" PRIu64 " older events are overwritten\n", subcommand,
                count);
    }
}

/* doctor: the nodes. */
#include "tools/doctor/doctor_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "tools/common/text.h"
#include "tools/output/words.h"

#define OFFSET_MOST_US (1000 * 1000)

static void nodes_look_at_count(struct doctor *doctor, const struct reader *reader,
                                const struct life *life, uint32_t voting)
{
    const struct hf_table_terms terms = hf_table_terms(&reader->table);
    uint32_t nodes = terms.nodes, quorum = terms.quorum;
    char when[TEXT_SPAN_SIZE + 8];

    if (nodes < 3)
        doctor_report(doctor, FINDING_WARN, "nodes.count", "use three nodes or five",
                      "with %" PRIu32 " node%s no node may fail", nodes, nodes == 1 ? "" : "s");
    else if (nodes % 2 == 0)
        doctor_report(doctor, FINDING_WARN, "nodes.count",
                      "add a node or take one away (holdfast fleet add, holdfast fleet remove)",
                      "%" PRIu32 " nodes survive no more failures than %" PRIu32 " do", nodes,
                      nodes - 1);
    else
        doctor_report(doctor, FINDING_OK, "nodes.count", NULL,
                      "%" PRIu32 " nodes: %" PRIu32 " may fail", nodes, nodes - quorum);
    if (!life_is_present(life))
        doctor_report(doctor, FINDING_NOTE, "nodes.quorum", NULL,
                      "how many nodes may vote is unknown, as the agent is %s; %s it was %" PRIu32
                      " of %" PRIu32 ", and %" PRIu32 " are needed",
                      life_verdict_name(life->verdict), life_when(when, sizeof(when), life), voting,
                      nodes, quorum);
    else if (voting < quorum)
        doctor_report(doctor, FINDING_FAIL, "nodes.quorum",
                      "see to the nodes named below; leases that are held are renewed as long as "
                      "a majority answers",
                      "%" PRIu32 " of %" PRIu32 " nodes may vote and %" PRIu32
                      " are needed: no new lock can be had",
                      voting, nodes, quorum);
    else
        doctor_report(doctor, FINDING_OK, "nodes.quorum", NULL,
                      "%" PRIu32 " of %" PRIu32 " nodes may vote, %" PRIu32 " are needed", voting,
                      nodes, quorum);
}

/* The agent names the rights that are missing as ACL SETUSER takes them, once it has asked for each. */
static const char *nodes_remedy_for(const struct hf_node_row *row, char *text, size_t size)
{
    static const char lacks[] = "its user lacks ";
    const char *which = strstr(row->error, lacks);

    if (row->error_class != HF_NODE_ERR_PERM || !which || strstr(which, " more"))
        return hf_why_failed(row->error_class)->remedy;
    snprintf(text, size, "on that server: ACL SETUSER %s%s", "USER ", which + strlen(lacks));
    return text;
}

static void nodes_look_at_state(struct doctor *doctor, const struct hf_node_row *row,
                                const char *id)
{
    int64_t left_ms = hf_dur_ms(hf_time_since((hf_time){row->quarantine_until_ns}, reader_now()));
    char text[512], remedy[160], span[TEXT_SPAN_SIZE];

    switch (row->state) {
    case HF_NODE_UP:
        if (!reader_node_votes(row)) {
            doctor_report(doctor, FINDING_WARN, "node.state",
                          "see holdfast fleet: it says what is waited for", "%s is up, but %s", id,
                          words_fleet_sentence(text, sizeof(text), row->flags));
            break;
        }
        doctor_report(doctor, FINDING_OK, "node.state", NULL, "%s is up, rtt %s", id,
                      format_rtt(span, sizeof(span), row->rtt_ns));
        break;
    case HF_NODE_QUARANTINED:
        words_quarantine_sentence(text, sizeof(text), row->quarantine_reason);
        doctor_report(doctor, FINDING_WARN, "node.state",
                      hf_why_quarantined(row->quarantine_reason & HF_QUARANTINE_MEDIAN
                                             ? HF_QUARANTINE_MEDIAN
                                             : HF_QUARANTINE_AGE)
                          ->remedy,
                      "%s is in quarantine for %s more: %s", id,
                      text_span(span, sizeof(span), left_ms > 0 ? left_ms : 0), text);
        break;
    case HF_NODE_UNWRITABLE:
        doctor_report(doctor, FINDING_FAIL, "node.state",
                      nodes_remedy_for(row, remedy, sizeof(remedy)),
                      "%s refuses writes, so no lock can be had there: %s", id,
                      text_escape_str(text, sizeof(text), row->error));
        break;
    case HF_NODE_REFUSED:
        doctor_report(doctor, FINDING_FAIL, "node.state", hf_why_refused(row->refused)->remedy,
                      "%s is refused: %s", id, hf_why_refused(row->refused)->sentence);
        break;
    default:
        doctor_report(doctor, FINDING_WARN, "node.state",
                      nodes_remedy_for(row, remedy, sizeof(remedy)), "%s is %s%s%s", id,
                      hf_node_state_word(row->state), *row->error ? ": " : "",
                      text_escape_str(text, sizeof(text), row->error));
    }
}

/* No remedy: the state may be another one by now. */
static void nodes_look_at_last_state(struct doctor *doctor, const struct hf_node_row *row,
                                     const char *id, const struct life *life)
{
    char when[TEXT_SPAN_SIZE + 8];

    doctor_report(doctor, FINDING_NOTE, "node.state", NULL, "%s was %s %s; its state is unknown",
                  id, hf_node_state_word(row->state), life_when(when, sizeof(when), life));
}

struct ahead {
    const char *says, *check, *prefix, *what, *loss;
};

/* For a double-quoted word of redis-cli. (!) Names are other users' words, and people paste into a shell: nothing that one expands. */
static void nodes_quote_key(const char *escaped, char *ret_text, size_t size)
{
    size_t used = 0;

    for (; *escaped && used + sizeof("\\x00") <= size; escaped++)
        if (strchr("$`!\"", *escaped))
            used += (size_t)snprintf(ret_text + used, size - used, "\\x%02x", (unsigned)*escaped);
        else
            ret_text[used++] = *escaped;
    ret_text[used] = '\0';
}

/* Agents tell only of a record that no majority shares, so neither fences fall nor a run is forgotten when it goes. Where the
 * key does not fit into the row it is not whole. */
static void nodes_look_at_ahead(struct doctor *doctor, const struct hf_node_row *row,
                                const char *id, const struct ahead *ahead)
{
    const char *key = row->error + strlen(ahead->says);
    bool whole = strlen(row->error) < sizeof(row->error) - 1;
    char escaped[4 * sizeof(row->error)], quoted[4 * sizeof(escaped)], remedy[sizeof(quoted) + 160];

    if (row->state != HF_NODE_UP || strncmp(row->error, ahead->says, strlen(ahead->says)) != 0)
        return;
    text_escape_ascii_str(escaped, sizeof(escaped), key);
    nodes_quote_key(escaped, quoted, sizeof(quoted));
    snprintf(remedy, sizeof(remedy),
             "in redis-cli on that server: DEL \"%s%s%s\"; if it comes again, that server lies: "
             "holdfast fleet move",
             ahead->prefix, quoted, whole ? "" : "...");
    doctor_report(doctor, FINDING_WARN, ahead->check, remedy,
                  "%s has %s %s that agents do not believe, far ahead of the nodes' clocks: "
                  "%s %s",
                  id, ahead->what, escaped, id, ahead->loss);
}

static void nodes_look_at_records(struct doctor *doctor, const struct hf_node_row *row,
                                  const char *id)
{
    static const struct ahead fence = {HF_NODE_FENCE_AHEAD, "node.fence",
                                       "holdfast:fence:", "a fence for",
                                       "gives no votes for that lock"};
    static const struct ahead once = {HF_NODE_ONCE_AHEAD, "node.once", "holdfast:once:", "a run of",
                                      "has no vote on when that job ran"};

    nodes_look_at_ahead(doctor, row, id, &fence);
    nodes_look_at_ahead(doctor, row, id, &once);
}

static void nodes_look_at_releases(struct doctor *doctor, const struct hf_node_row *row,
                                   const char *id)
{
    const char *error = row->error + strlen(HF_NODE_RELEASE_REFUSED);
    char text[4 * sizeof(row->error)], remedy[160];
    bool known = row->error_class != HF_NODE_ERR_OTHER && row->error_class != HF_NODE_ERR_PROTOCOL;

    if (row->state != HF_NODE_UP ||
        strncmp(row->error, HF_NODE_RELEASE_REFUSED, strlen(HF_NODE_RELEASE_REFUSED)) != 0)
        return;
    doctor_report(doctor, FINDING_WARN, "node.releases",
                  known ? nodes_remedy_for(row, remedy, sizeof(remedy))
                        : "see that server's log; if this goes on: holdfast fleet move",
                  "%s refuses releases, so keys of released locks stay there until their time is "
                  "over: %s",
                  id, text_escape_str(text, sizeof(text), error));
}

static void nodes_look_at_clock(struct doctor *doctor, const struct hf_node_row *row,
                                const char *id)
{
    char offset[TEXT_SPAN_SIZE];

    if (row->clock_steps)
        doctor_report(doctor, FINDING_WARN, "node.clock",
                      "make its time service slew and never step (chrony: no makestep after the "
                      "first updates)",
                      "the clock of %s has stepped %" PRIu64 " time%s since the agent's start", id,
                      row->clock_steps, row->clock_steps == 1 ? "" : "s");
    if (row->last_reply_ns > 0 && llabs(row->clock_offset_us) > OFFSET_MOST_US)
        doctor_report(doctor, FINDING_WARN, "node.clock",
                      "synchronise that server's clock and this host's (NTP), slewing",
                      "the clock of %s is %s of this host's", id,
                      format_offset(offset, sizeof(offset), row->clock_offset_us));
}

static void nodes_look_at_notices(struct doctor *doctor, const struct hf_node_row *row,
                                  const char *id)
{
    if ((row->flags & HF_NODE_F_TRACKING) >> HF_NODE_F_TRACKING_SHIFT == HF_TRACKING_REFUSED)
        doctor_report(
            doctor, FINDING_WARN, "node.notices",
            "on that server: ACL SETUSER USER &__redis__:invalidate +subscribe +ping "
            "+client|id +client|tracking +client|caching; the agent's log has the reason",
            "%s does not tell of changes of keys: who waits for another host's lock polls", id);
}

/* A vote allows for 1 % of T and 2 ms: a node's clock may be wrong by that much. */
static void nodes_look_at_distance(struct doctor *doctor, const struct hf_node_row *row,
                                   const char *id, uint32_t ttl_ms)
{
    const int64_t ms = HF_NS_PER_MS;
    int64_t allowed = ttl_ms * ms / 100 + 2 * ms, above = row->unseen_step_ns - 2 * ms;
    char remedy[160];

    if (row->unseen_step_ns <= allowed)
        return;
    /* A thirtieth more, since the time between two looks grows with T. */
    snprintf(remedy, sizeof(remedy),
             "use a TTL of %" PRId64 " s at least (ttl in holdfast.conf), or a nearer node",
             above * 100 / 29 * 30 / HF_NS_PER_SEC + 1);
    doctor_report(doctor, FINDING_WARN, "node.far", remedy,
                  "%s is far: its round trip hides steps of its clock of up to %" PRId64
                  " ms, and a TTL of %.3g s allows for %" PRId64 " ms",
                  id, row->unseen_step_ns / ms, (double)ttl_ms / 1000, allowed / ms);
}

/* Nobody can know which of the two lies, if one does. */
static void nodes_look_for_twins(struct doctor *doctor, const struct hf_node_row *rows,
                                 uint32_t node)
{
    char id[4 * sizeof(rows->id)], other[sizeof(id)];
    char address[4 * sizeof(rows->address)], of_other[sizeof(address)];

    for (uint32_t i = 0; i < node; i++)
        if (rows[node].refused == HF_REFUSED_DUPLICATE && *rows[node].run_id &&
            strcmp(rows[i].run_id, rows[node].run_id) == 0)
            doctor_report(doctor, FINDING_FAIL, "node.twins",
                          hf_why_refused(HF_REFUSED_DUPLICATE)->remedy,
                          "%s (%s) says that it is the same server as %s (%s); both have one vote "
                          "together",
                          text_escape_str(id, sizeof(id), rows[node].id),
                          text_escape_str(address, sizeof(address), rows[node].address),
                          text_escape_str(other, sizeof(other), rows[i].id),
                          text_escape_str(of_other, sizeof(of_other), rows[i].address));
}

void doctor_nodes_look(struct doctor *doctor, const struct reader *reader, const struct life *life)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);
    char id[4 * sizeof(rows[0].id)];

    nodes_look_at_count(doctor, reader, life, reader_nodes_voting(rows, count));
    for (uint32_t i = 0; i < count; i++) {
        if (!*rows[i].id)
            continue; /* not written yet */
        text_escape_str(id, sizeof(id), rows[i].id);
        if (!life_is_present(life)) {
            nodes_look_at_last_state(doctor, &rows[i], id, life);
            continue;
        }
        nodes_look_at_state(doctor, &rows[i], id);
        nodes_look_at_notices(doctor, &rows[i], id);
        nodes_look_at_clock(doctor, &rows[i], id);
        nodes_look_at_records(doctor, &rows[i], id);
        nodes_look_at_releases(doctor, &rows[i], id);
        nodes_look_at_distance(doctor, &rows[i], id, reader->table.header->ttl_ms);
        nodes_look_for_twins(doctor, rows, i);
    }
}

/* --- the clock -------------------------------------------------------------------------------- */

/* doctor: how this host's clock is kept. Read only: modes = 0. */

#define PPM INT64_C(1000000)
/* A lease's validity allows for rates that differ by 1 % (agent/core/timing.h): half for the holder's
 * host, half for a node. 0.99 T on a clock that is 0.5 % slow ends before T on one that is 0.5 % fast. */
#define RATE_MOST (5 * PPM / 1000)

/* How much faster the kernel lets the clock run than its oscillator, in ppm. Correcting a good
 * oscillator takes a few hundred. */
static int64_t doctor_rate_ppm(const struct timex *timex)
{
    return (int64_t)timex->tick * sysconf(_SC_CLK_TCK) - PPM + timex->freq / 65536;
}

void doctor_clock_look(struct doctor *doctor)
{
    struct timex timex = {.modes = 0};
    int state = adjtimex(&timex);
    int64_t ppm;

    if (state < 0) {
        doctor_report(doctor, FINDING_NOTE, "host.clock", NULL,
                      "how this host's clock is kept cannot be read: %s", strerror(errno));
        return;
    }
    ppm = doctor_rate_ppm(&timex);
    /* CLOCK_BOOTTIME, by which leases end, is slewed along. */
    if (llabs(ppm) > RATE_MOST)
        doctor_report(
            doctor, FINDING_WARN, "host.clock",
            "let the time service slew more slowly, here and on the nodes' hosts (chrony: "
            "maxslewrate 4500)",
            "this host's clock is being slewed by %.2f %%; locks allow for 0.5 %% on each "
            "host",
            (double)ppm * 100 / PPM);
    else
        doctor_report(doctor, FINDING_OK, "host.clock", NULL,
                      "this host's clock runs at its own rate and %+lld ppm", (long long)ppm);
    if (state == TIME_ERROR || timex.status & STA_UNSYNC)
        doctor_report(doctor, FINDING_NOTE, "host.clock", NULL,
                      "no time service keeps this host's clock, as far as the kernel knows; locks "
                      "need none, but once a majority of the nodes has forgotten its fences, new "
                      "ones are higher only if clocks agree");
}

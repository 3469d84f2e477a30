#include "agent/process/fleet_wishes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/core/timing.h"
#include "agent/process/host.h"
#include "agent/state/mailbox.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "shm/text.h"

enum stage {
    IDLE,
    LOOKING, /* the thread is at it */
    ASKING,  /* `order` is on its way to the broker */
};

enum owner { THREAD, DONE, LEFT };

/* The thread's until DONE, main's from then on. Who comes second frees it. */
struct job {
    _Atomic int owner;
    struct fleet_probe probe;
};

struct fleet_wishes {
    struct agent *agent;
    enum stage stage;
    uint64_t number, over; /* of the one that runs or was the last, and of the last that is over */
    struct job *job;
    struct fleet_order order;
    char line[1024];
};

/* --- its thread -------------------------------------------------------------------------------- */

static void wishes_job_free(struct job *job)
{
    if (!job)
        return;
    explicit_bzero(job, sizeof(*job)); /* passwords */
    free(job);
}

static void *wishes_thread_main(void *arg)
{
    struct job *job = arg;

    (void)pthread_setname_np(pthread_self(), "hf-fleet");
    fleet_probe(&job->probe);
    if (atomic_exchange(&job->owner, DONE) == LEFT)
        wishes_job_free(job);
    return NULL;
}

/* --- what this host itself knows --------------------------------------------------------------- */

struct longest {
    int64_t most_ms;
    char name[4 * HF_NAME_MAX + 1];
    uint32_t ttl_ms;
};

static void wishes_see_lease(const struct lease *lease, void *arg)
{
    struct longest *l = arg;
    uint32_t state = atomic_load_explicit(&lease->state, memory_order_relaxed);

    if (state > HF_SLOT_LOSING || (int64_t)lease->ttl_ms <= l->most_ms ||
        lease->ttl_ms <= l->ttl_ms)
        return;
    l->ttl_ms = lease->ttl_ms;
    (void)log_name(lease_name(lease), lease->name_len, l->name, sizeof(l->name));
}

/* (!) A lease of a longer TTL than the fleet's largest would outlive the quarantines. */
static bool wishes_judge_ttl_max(const struct fleet_wishes *w, const struct config *config,
                                 int64_t most_ms, char *ret_why, size_t size)
{
    struct longest longest = {.most_ms = most_ms};

    if ((int64_t)config->ttl_ms > most_ms) {
        snprintf(ret_why, size,
                 "ttl is %" PRIu32 " ms here; set ttl to %" PRId64
                 " ms or less on every host first (holdfast reload)",
                 config->ttl_ms, most_ms);
        return false;
    }
    (void)lease_table_walk(w->agent->leases, wishes_see_lease, &longest);
    if (longest.ttl_ms == 0)
        return true;
    snprintf(ret_why, size,
             "the lease of %.200s on this host has a TTL of %" PRIu32
             " ms; wait until it is released, or choose a longer ttl_max",
             longest.name, longest.ttl_ms);
    return false;
}

/* (!) Of nodes at their seats only: a file that is ahead of the fleet leads to the server that is to be a node. */
static void wishes_copy_servers(const struct agent *agent, struct fleet_probe *probe)
{
    struct hf_node_row row;

    for (int i = 0; i < probe->config.node_count; i++)
        if (strcmp(probe->shown.node[i].peer, probe->shown.node[i].seat) == 0 &&
            hf_node_read(&agent->table, (uint32_t)i, &row) == HF_OK)
            snprintf(probe->run_id[i], sizeof(probe->run_id[i]), "%s", row.run_id);
}

static int wishes_begin(struct fleet_wishes *w, const struct fleet_wish *wish,
                        const struct config *config)
{
    struct job *job = calloc(1, sizeof(*job));

    if (!job)
        return HF_ENOMEM;
    job->probe.wish = *wish;
    job->probe.config = *config;
    fleet_board_look(&w->agent->fleet_board, &job->probe.shown);
    wishes_copy_servers(w->agent, &job->probe);
    if (thread_start_helper(wishes_thread_main, job) < 0) {
        wishes_job_free(job);
        return HF_ENOMEM;
    }
    w->job = job;
    w->stage = LOOKING;
    return HF_OK;
}

/* --- the steps --------------------------------------------------------------------------------- */

static void wishes_end(struct fleet_wishes *w)
{
    hf_assert(w->stage != IDLE && w->over < w->number, "stage %d, number %llu, over %llu",
              (int)w->stage, (unsigned long long)w->number, (unsigned long long)w->over);
    w->stage = IDLE;
    w->over = w->number;
}

/* It may quote any bytes. */
static void wishes_refused(struct fleet_wishes *w, const char *why, bool later)
{
    char shown[sizeof(w->line) / 2];

    (void)log_name(why, strlen(why), shown, sizeof(shown));
    snprintf(w->line, sizeof(w->line), "error: %s%s\n", later ? "later: " : "", shown);
    log_info("a change of the fleet is refused: %s", shown);
    wishes_end(w);
}

static void wishes_ask_broker(struct fleet_wishes *w, const struct fleet_wish *wish)
{
    struct message *m = message_new(MSG_FLEET_CHANGE);

    w->order = (struct fleet_order){.wish = *wish};
    m->change = &w->order;
    w->stage = ASKING;
    mailbox_post(&w->agent->to_broker, m);
}

static void wishes_take_probe(struct fleet_wishes *w)
{
    struct job *job = w->job;

    hf_assert(job && w->stage == LOOKING, "stage %d", (int)w->stage);
    w->job = NULL;
    if (job->probe.good)
        wishes_ask_broker(w, &job->probe.wish);
    else
        wishes_refused(w, job->probe.why, false);
    wishes_job_free(job);
}

static void wishes_take_answer(struct fleet_wishes *w)
{
    const struct fleet_order *order = &w->order;
    FILE *out;

    if (order->rc < 0) {
        wishes_refused(w, order->why, order->rc == HF_EBUSY);
        return;
    }
    memset(w->line, 0, sizeof(w->line));
    out = fmemopen(w->line, sizeof(w->line), "w");
    if (out) {
        fleet_request_begun(&order->record, order->wish.seat, out);
        (void)fclose(out);
    }
    log_info("version %" PRIu64 " of the fleet is begun by an operator", order->record.version);
    wishes_end(w);
}

void fleet_wishes_turn(struct fleet_wishes *w)
{
    if (w->stage == LOOKING && atomic_load(&w->job->owner) == DONE)
        wishes_take_probe(w);
    else if (w->stage == ASKING && atomic_load_explicit(&w->order.taken, memory_order_acquire))
        wishes_take_answer(w);
}

void fleet_wishes_end(struct fleet_wishes *w)
{
    fleet_wishes_turn(w);
    if (w->stage != IDLE)
        wishes_refused(w, "the agent ends or starts again: try again in some seconds", true);
}

/* --- the door ---------------------------------------------------------------------------------- */

int fleet_wishes_create(struct agent *agent, struct fleet_wishes **ret_wishes)
{
    struct fleet_wishes *w = calloc(1, sizeof(*w));

    if (!w)
        return HF_ENOMEM;
    w->agent = agent;
    *ret_wishes = w;
    return HF_OK;
}

void fleet_wishes_destroy(struct fleet_wishes *w)
{
    if (!w)
        return;
    if (w->job && atomic_exchange(&w->job->owner, LEFT) == DONE)
        wishes_job_free(w->job);
    free(w);
}

static bool wishes_may_ask(const struct fleet_wishes *w, const struct fleet_wish *wish,
                           const struct config *config, char *ret_why, size_t size)
{
    if (w->stage != IDLE)
        snprintf(ret_why, size,
                 "later: another change is being asked for; try again in some seconds");
    else if (config->ephemeral)
        snprintf(ret_why, size,
                 "--dev agents have no fleet to change; start an agent without --dev");
    else if (wish->kind == FLEET_WISH_TTL_MAX)
        return wishes_judge_ttl_max(w, config, wish->ttl_max_ms, ret_why, size);
    else
        return true;
    return false;
}

uint64_t fleet_wishes_ask(struct fleet_wishes *w, const char *request, uint32_t uid,
                          const struct config *config, char *ret_why, size_t size)
{
    struct fleet_wish wish;

    if (fleet_request_read(request, &wish) < 0) {
        snprintf(ret_why, size,
                 "the requests are: fleet-change move ID ADDRESS [gone], add ID ADDRESS, remove ID "
                 "[gone], ttl-max MS, gone ID, abort [gone], confirm");
        return 0;
    }
    wish.uid = uid;
    if (!wishes_may_ask(w, &wish, config, ret_why, size))
        return 0;
    if (wishes_begin(w, &wish, config) < 0) {
        snprintf(ret_why, size, "later: no memory");
        return 0;
    }
    return ++w->number;
}

bool fleet_wishes_over(const struct fleet_wishes *w, uint64_t number, const char **ret_line)
{
    if (w->over < number)
        return false;
    *ret_line = w->line;
    return true;
}

/* --- answers ---------------------------------------------------------------------------------- */

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

/* --- requests --------------------------------------------------------------------------------- */

#define WORDS_MOST   4
#define REQUEST_MOST 2048
#define DIGITS_MOST  15 /* of milliseconds: no overflow */

/* The words of a line, which is spoilt. -1: too many, or an empty one. */
static int request_split(char *line, char *ret_words[WORDS_MOST])
{
    int count = 0;

    for (char *word; (word = strsep(&line, " "));) {
        if (count == WORDS_MOST || !*word)
            return -1;
        ret_words[count++] = word;
    }
    return count;
}

static bool request_read_text(const char *word, char ret_text[HF_NODE_TEXT_MAX + 1])
{
    return hf_word_read(word, ret_text, HF_NODE_TEXT_MAX + 1) && *ret_text;
}

static bool request_read_ms(const char *word, int64_t *ret_ms)
{
    size_t length = strlen(word);

    if (length == 0 || length > DIGITS_MOST || strspn(word, "0123456789") != length)
        return false;
    *ret_ms = strtoll(word, NULL, 10);
    return true;
}

static const struct form {
    const char *word;
    enum fleet_wish_kind kind;
    const char *operands; /* i: an id, a: an address, t: a time, g: "gone", which may be left out */
} forms[] = {
    {"move", FLEET_WISH_MOVE, "iag"},    {"add", FLEET_WISH_ADD, "ia"},
    {"remove", FLEET_WISH_REMOVE, "ig"}, {"ttl-max", FLEET_WISH_TTL_MAX, "t"},
    {"abort", FLEET_WISH_ABORT, "g"},    {"gone", FLEET_WISH_GONE, "i"},
    {"confirm", FLEET_WISH_CONFIRM, ""},
};

static bool request_read_operand(char kind, const char *word, struct fleet_wish *w)
{
    switch (kind) {
    case 'i':
        return request_read_text(word, w->id);
    case 'a':
        return request_read_text(word, w->seat);
    case 't':
        return request_read_ms(word, &w->ttl_max_ms);
    case 'g':
        return w->gone = strcmp(word, "gone") == 0;
    }
    return false;
}

static bool request_read_words(char *const *words, int count, struct fleet_wish *w)
{
    for (const struct form *form = forms; form < forms + HF_LENGTH(forms); form++) {
        const char *operand = form->operands;

        if (strcmp(words[0], form->word) != 0)
            continue;
        w->kind = form->kind;
        for (int i = 1; i < count; i++)
            if (!request_read_operand(*operand++, words[i], w))
                return false;
        return !*operand || *operand == 'g';
    }
    return false;
}

int fleet_request_read(const char *request, struct fleet_wish *ret_wish)
{
    struct fleet_wish wish = {.gone = false};
    char line[REQUEST_MOST], *words[WORDS_MOST];
    int count;

    snprintf(line, sizeof(line), "%s", request + strlen(FLEET_REQUEST));
    count = request_split(line, words);
    if (count < 1 || !request_read_words(words, count, &wish))
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

#include "agent/core/node_trust.h"

#include <stdio.h>
#include <string.h>

#include "shm/assert.h"
#include "shm/text.h"

#define MEDIAN_OFF_US INT64_C(1000000)  /* a node's clock may be this far off the median */
#define FAR_APART_US  INT64_C(60000000) /* two clocks of which our own decides */
#define DRIFT_DIVISOR 100               /* a known clock interval widens by 1 % */

void trust_init(struct node_trust *t, hf_dur quarantine, bool fresh_word)
{
    *t = (struct node_trust){
        .fresh_word = fresh_word,
        .word_run_id = fresh_word,
        .word_age = fresh_word,
        .word_stands = fresh_word,
        .sentinel_read = HF_TIME_PAST,
        .first_contact = HF_TIME_PAST,
        .facts_read = HF_TIME_PAST,
        .until = HF_TIME_PAST,
        .quarantine = quarantine,
        .shown = HF_TIME_PAST,
    };
}

void trust_take_word_back(struct node_trust *t)
{
    t->fresh_word = t->word_run_id = t->word_age = t->word_stands = false;
}

bool trust_has_word(struct node_trust *t, hf_time started, hf_time now)
{
    if (!t->contacted && hf_time_reached(now, hf_time_add(started, t->quarantine)))
        trust_take_word_back(t);
    return t->fresh_word;
}

/* --- quarantine ------------------------------------------------------------------------------- */

static void trust_quarantine_from(struct node_trust *t, enum hf_quarantine_reason reason,
                                  hf_time from)
{
    hf_assert(t->quarantine.ns > 0, "reason %d", (int)reason);
    hf_assert(reason != 0, "reasons %x", (unsigned)t->reasons);
    t->reasons |= (uint32_t)reason;
    t->word_stands = false;
    t->until = hf_time_max(t->until, hf_time_add(from, t->quarantine));
}

static void trust_quarantine_end(struct node_trust *t)
{
    t->reasons = 0;
    t->until = HF_TIME_PAST;
}

static bool trust_in_quarantine(const struct node_trust *t, hf_time now)
{
    return hf_time_before(now, t->until);
}

/* A quarantine may be over before the shell's tick comes by: its reasons count no more. */
static void trust_quarantine_settle(struct node_trust *t, hf_time now)
{
    hf_assert(!t->clock_known || t->low_us <= t->high_us, "low %lld, high %lld",
              (long long)t->low_us, (long long)t->high_us);
    if (!trust_in_quarantine(t, now))
        trust_quarantine_end(t);
}

/* --- an earlier agent's knowledge ------------------------------------------------------------- */

/* No agent looked for so long that the node's age tells whatever it forgot meanwhile. */
static bool trust_is_of_long_ago(const struct node_trust *t, hf_dur quarantine, hf_time now)
{
    return !trust_in_quarantine(t, now) &&
           hf_time_reached(now, hf_time_add(t->sampled, quarantine));
}

static void trust_restore_clock(struct node_trust *t, const struct node_trust *before)
{
    t->clock_known = before->clock_known;
    t->low_us = before->low_us;
    t->high_us = before->high_us;
    t->sampled = before->sampled;
    t->steps = before->steps;
    memcpy(t->nonce, before->nonce,
           sizeof(t->nonce)); /* a step since then is traced under this nonce */
    memcpy(t->step_nonce, before->step_nonce, sizeof(t->step_nonce));
    memcpy(t->trace, before->trace, sizeof(t->trace));
}

static void trust_restore_all(struct node_trust *t, const struct node_trust *before)
{
    struct node_trust fresh = *t;

    *t = *before;
    t->quarantine = fresh.quarantine;
    t->fresh_word = fresh.fresh_word;
    t->word_run_id = fresh.word_run_id;
    t->word_age = fresh.word_age;
    t->word_stands = fresh.word_stands;
    t->step_shown = false;
}

/* A quarantine that is over is of before then, and so is what the node's first contact found. */
static bool trust_is_known_by_then(const struct node_trust *t, hf_time shown, hf_time now)
{
    return hf_time_reached(hf_time_add(shown, t->quarantine), now) &&
           hf_time_reached(shown, t->first_contact);
}

/* (!) Times ahead of now are of another clock, and so is all else in the record: a clock interval "as of tomorrow" would
 * never be corrected. An interval whose ends are the other way round is no agent's. */
static bool trust_is_of_this_clock(const struct node_trust *t, hf_time now)
{
    return (!t->clock_known || t->low_us <= t->high_us) && hf_time_reached(now, t->sampled) &&
           hf_time_reached(now, t->facts_read) && hf_time_reached(now, t->sentinel_read) &&
           hf_time_reached(now, t->first_contact) && hf_time_reached(now, t->shown);
}

void trust_restore(struct node_trust *t, const struct node_trust *before, hf_time shown,
                   hf_time now)
{
    const hf_dur longer = hf_ns(t->quarantine.ns - before->quarantine.ns);
    bool short_lived = longer.ns > 0 && !trust_is_known_by_then(before, shown, now);

    if (!trust_is_of_this_clock(before, now))
        return;
    if (short_lived || trust_is_of_long_ago(before, t->quarantine, now))
        trust_restore_clock(t, before);
    else
        trust_restore_all(t, before);
    if (longer.ns > 0 && trust_in_quarantine(before, now) &&
        hf_time_before(hf_time_add(shown, before->quarantine), before->until)) {
        t->reasons = before->reasons;
        t->until = hf_time_add(before->until, longer);
    }
}

/* --- connection: facts and refusals ----------------------------------------------------------- */

static enum hf_node_refusal trust_standing_refusal(const struct node_trust *t)
{
    return t->refused ? t->refusal : HF_REFUSED_NOT;
}

unsigned trust_refuse(struct node_trust *t, enum hf_node_refusal refusal)
{
    bool changed = trust_standing_refusal(t) != refusal;

    t->refusal = refusal;
    t->refused = refusal != HF_REFUSED_NOT;
    hf_assert((unsigned)refusal <= HF_REFUSED_MISPLACED, "refusal %d", (int)refusal);
    return changed ? TRUST_REFUSED : TRUST_NOTHING;
}

/* What INFO says against a node; a refusal that INFO says nothing about stays. */
static enum hf_node_refusal trust_refusal_by_facts(const struct node_trust *t,
                                                   const struct node_facts *facts, unsigned allowed)
{
    enum hf_node_refusal standing = trust_standing_refusal(t);

    if (facts->replica)
        return HF_REFUSED_REPLICA;
    if (facts->cluster)
        return HF_REFUSED_CLUSTER;
    if (facts->replicated && !(allowed & TRUST_ALLOW_REPLICAS))
        return HF_REFUSED_REPLICATED;
    if (facts->evicts && !(allowed & TRUST_ALLOW_EVICTION))
        return HF_REFUSED_EVICTION;
    if (standing == HF_REFUSED_FLEET || standing == HF_REFUSED_MISPLACED)
        return standing;
    return HF_REFUSED_NOT;
}

/* A node whose keys were, or may have been, another server's. */
static bool trust_had_foreign_keys(enum hf_node_refusal refusal)
{
    return refusal == HF_REFUSED_REPLICA || refusal == HF_REFUSED_CLUSTER;
}

static void trust_on_restart(struct node_trust *t, hf_time now)
{
    const uint32_t covered = HF_QUARANTINE_AGE | HF_QUARANTINE_RUN_ID;

    if (t->word_run_id) {
        /* The word covers what an earlier agent held against the node, too. */
        if ((t->reasons & ~covered) == 0)
            trust_quarantine_end(t);
    } else {
        trust_quarantine_from(t, HF_QUARANTINE_RUN_ID, now);
    }
}

unsigned trust_on_facts(struct node_trust *t, const struct node_facts *facts, unsigned allowed,
                        hf_time now)
{
    enum hf_node_refusal before = trust_standing_refusal(t);
    enum hf_node_refusal refusal = trust_refusal_by_facts(t, facts, allowed);
    unsigned events = trust_refuse(t, refusal);

    trust_quarantine_settle(t, now);
    if (trust_had_foreign_keys(before) && !trust_had_foreign_keys(refusal))
        trust_quarantine_from(t, HF_QUARANTINE_SENTINEL, now);
    if (t->contacted && strcmp(t->facts.run_id, facts->run_id) != 0) {
        events |= TRUST_RESTARTED;
        trust_on_restart(t, now);
    }
    if (!t->judged)
        events |= TRUST_FIRST;
    t->contacted = true;
    t->word_run_id = false;
    t->facts = *facts;
    t->facts_read = now;
    return events;
}

/* --- sentinel --------------------------------------------------------------------------------- */

static bool trust_same_nonce(const char *a, const char *b)
{
    return strncmp(a, b, TRUST_NONCE_LEN) == 0;
}

/* Whether this is our own replacement of the nonce that we knew: the node did not forget. */
static bool trust_is_trace(const struct node_trust *t, const char *nonce)
{
    return t->trace[0] && trust_same_nonce(nonce, t->trace) &&
           trust_same_nonce(t->nonce, t->step_nonce);
}

static void node_trust_owe_trace(struct node_trust *t, const char *nonce)
{
    if (trust_same_nonce(t->step_nonce, nonce))
        return;
    *stpncpy(t->step_nonce, nonce, TRUST_NONCE_LEN) = '\0';
    t->trace[0] = '\0';
}

/* (!) A step that shows with another nonce than before already has its trace: somebody else saw it
 * first, or the node forgot. Only our own trace may be older than this step, from when no answer
 * had told of the step yet. */
static void trust_note_step(struct node_trust *t, const char *nonce, bool same, bool traced)
{
    bool stepped = t->step_shown;

    t->step_shown = false;
    if (stepped && (same || traced))
        node_trust_owe_trace(t, nonce);
    else if (traced || (!same && !trust_same_nonce(nonce, t->step_nonce)))
        node_trust_owe_trace(t, "");
}

/* `absent`: there was no sentinel when the command ran, even if the command made one. */
static unsigned trust_see_nonce(struct node_trust *t, const char *nonce, bool absent, hf_time now)
{
    bool first = !t->nonce_seen;
    bool same = !first && trust_same_nonce(t->nonce, nonce);
    bool traced = trust_is_trace(t, nonce);
    bool excused = !t->nonce_had && t->word_age;
    unsigned events = TRUST_NOTHING;

    trust_quarantine_settle(t, now);
    trust_note_step(t, nonce, trust_same_nonce(t->nonce, nonce), traced);
    if (first)
        t->first_contact = now;
    if (!same && !traced && (!first || absent)) {
        t->mark++;
        if (!excused) {
            trust_quarantine_from(t, HF_QUARANTINE_SENTINEL, now);
            events = TRUST_FORGOT;
        }
    }
    t->nonce_seen = true;
    t->nonce_had = t->nonce_had || nonce[0] != '\0';
    if (!same)
        *stpncpy(t->nonce, nonce, TRUST_NONCE_LEN) = '\0';
    return events;
}

unsigned trust_on_nonce(struct node_trust *t, const char *nonce, hf_time now)
{
    return trust_see_nonce(t, nonce, nonce[0] == '\0', now);
}

unsigned trust_on_sentinel(struct node_trust *t, const struct node_sentinel *s, bool created_now,
                           hf_time now)
{
    bool absent = !s->present || created_now;
    unsigned events;

    /* The very first command made this sentinel, and its answer told the nonce before: the sentinel
     * was absent all the same. */
    if (created_now && !t->sentinel.present && t->mark == 0)
        t->nonce_seen = t->nonce_had = false;
    events = trust_see_nonce(t, s->present ? s->nonce : "", absent, now);
    t->sentinel = *s;
    t->sentinel_read = now;
    return events;
}

void trust_owe_trace(struct node_trust *t, const char *nonce)
{
    if (nonce[0])
        node_trust_owe_trace(t, nonce);
}

void trust_choose_trace(struct node_trust *t, const char *nonce)
{
    hf_assert(nonce[0] != '\0', "mark %u", (unsigned)t->mark);
    *stpncpy(t->trace, nonce, TRUST_NONCE_LEN) = '\0';
}

void trust_on_traced(struct node_trust *t)
{
    node_trust_owe_trace(t, "");
}

void trust_on_own_trace(struct node_trust *t, const char *nonce)
{
    *stpncpy(t->nonce, nonce, TRUST_NONCE_LEN) = '\0';
    t->nonce_seen = t->nonce_had = true;
    t->step_shown = false;
    node_trust_owe_trace(t, "");
}

/* The whole sentinel behind the last seen nonce is known. */
static bool trust_is_validated(const struct node_trust *t)
{
    return t->sentinel.present && t->nonce_seen && trust_same_nonce(t->sentinel.nonce, t->nonce);
}

/* --- clock ------------------------------------------------------------------------------------ */

static int64_t trust_us_floor(int64_t ns)
{
    return ns / HF_NS_PER_US - (ns % HF_NS_PER_US < 0);
}

static int64_t trust_us_ceil(int64_t ns)
{
    return -trust_us_floor(-ns);
}

/* No number that a node tells makes the arithmetic overflow. */
static int64_t trust_sane_us(int64_t us)
{
    const int64_t most = INT64_MAX / 8;

    return us < -most ? -most : us > most ? most : us;
}

static int64_t trust_drift_between_us(hf_time a, hf_time b)
{
    hf_dur apart = hf_time_since(a, b);

    return trust_us_ceil((apart.ns < 0 ? -apart.ns : apart.ns) / DRIFT_DIVISOR);
}

/* By how much each end of the known interval may be off at the instant `at`. */
static int64_t trust_drift_us(const struct node_trust *t, hf_time at)
{
    return trust_drift_between_us(at, t->sampled);
}

unsigned trust_on_time(struct node_trust *t, hf_nodetime node_time, hf_time sent, hf_time received)
{
    /* TIME counts whole microseconds: the clock was anywhere in [us, us + 1]. It may have been read
     * right after `sent`, and the clocks drifted apart until `received`, the instant that the
     * interval is for. The lower end has room for that. */
    int64_t us = trust_sane_us(node_time.us);
    int64_t low_us = us - trust_us_ceil(received.ns);
    int64_t high_us = us + 1 - trust_us_floor(sent.ns) + trust_drift_between_us(received, sent);
    unsigned events = TRUST_NOTHING;

    trust_quarantine_settle(t, received);
    if (t->clock_known) {
        int64_t off_us = trust_drift_us(t, received);
        int64_t known_low_us = t->low_us - off_us, known_high_us = t->high_us + off_us;

        if (low_us > known_high_us || high_us < known_low_us) {
            t->steps++;
            t->step_shown = true;
            trust_quarantine_from(t, HF_QUARANTINE_CLOCK, received);
            events = TRUST_STEPPED;
        } else {
            low_us = low_us > known_low_us ? low_us : known_low_us;
            high_us = high_us < known_high_us ? high_us : known_high_us;
        }
        t->sampled = hf_time_max(t->sampled, received);
    } else {
        t->sampled = received;
    }
    hf_assert(low_us <= high_us, "low %lld, high %lld", (long long)low_us, (long long)high_us);
    t->clock_known = true;
    t->low_us = low_us;
    t->high_us = high_us;
    return events;
}

bool trust_node_time(const struct node_trust *t, hf_time at, hf_nodetime *ret_low,
                     hf_nodetime *ret_high)
{
    if (!t->clock_known)
        return false;
    ret_low->us = trust_us_floor(at.ns) + t->low_us - trust_drift_us(t, at);
    ret_high->us = trust_us_ceil(at.ns) + t->high_us + trust_drift_us(t, at);
    return true;
}

static int64_t trust_middle_us(const struct node_trust *t)
{
    return t->low_us + (t->high_us - t->low_us) / 2;
}

/* Drift widens both ends of an interval alike: its middle stays. */
int trust_median(const struct node_trust *const *nodes, int n, hf_wall wall, hf_time now,
                 int64_t *ret_median_us)
{
    int64_t sorted_us[HF_NODES_MAX], low_us, high_us;
    int known = 0;

    hf_assert(n >= 0 && n <= HF_NODES_MAX, "n %d", n);
    for (int i = 0; i < n; i++) {
        int at = known;
        if (!nodes[i] || !nodes[i]->clock_known)
            continue;
        for (; at > 0 && sorted_us[at - 1] > trust_middle_us(nodes[i]); at--)
            sorted_us[at] = sorted_us[at - 1];
        sorted_us[at] = trust_middle_us(nodes[i]);
        known++;
    }
    if (known == 0)
        return 0;
    low_us = sorted_us[(known - 1) / 2];
    high_us = sorted_us[known / 2];
    *ret_median_us = low_us;
    if (high_us - low_us >= FAR_APART_US)
        if (wall.ms > (low_us + (high_us - low_us) / 2 + trust_us_floor(now.ns)) / 1000)
            *ret_median_us = high_us;
    return known;
}

uint32_t trust_near(const struct node_trust *const *nodes, int n, int64_t median_us, hf_dur most,
                    int *ret_farthest, int64_t *ret_ahead_us)
{
    uint32_t near = 0;
    int64_t farthest_us = -1;

    for (int i = 0; i < n; i++) {
        int64_t ahead_us, off_us;

        if (!nodes[i] || !nodes[i]->clock_known)
            continue;
        ahead_us = trust_middle_us(nodes[i]) - median_us;
        off_us = ahead_us < 0 ? -ahead_us : ahead_us;
        if (off_us <= most.ns / HF_NS_PER_US)
            near |= UINT32_C(1) << i;
        if (off_us > farthest_us) {
            farthest_us = off_us;
            *ret_farthest = i;
            *ret_ahead_us = ahead_us;
        }
    }
    return near;
}

/* --- judgement -------------------------------------------------------------------------------- */

/* The other thread need not tell of a restart: our own connection ended with that server, and INFO
 * comes first on the next one, with all that may excuse the node. */
void trust_on_told(struct node_trust *t, unsigned events, hf_time now)
{
    trust_quarantine_settle(t, now);
    if ((events & TRUST_FORGOT) && !(t->reasons & HF_QUARANTINE_SENTINEL))
        trust_quarantine_from(t, HF_QUARANTINE_SENTINEL, now);
    if ((events & TRUST_STEPPED) && !(t->reasons & HF_QUARANTINE_CLOCK))
        trust_quarantine_from(t, HF_QUARANTINE_CLOCK, now);
}

/* Whether `to` lies more than `least` after `from`, all in one unit, also for numbers that a node made
 * up. */
static bool trust_exceeds(int64_t to, int64_t from, int64_t least)
{
    int64_t age;

    return !__builtin_sub_overflow(to, from, &age) && age > least;
}

/* (!) The sentinel's ages by the node's clock and by a wall clock agree unless the node's clock
 * stepped since the sentinel was made. Such a step ended keys, too, and no agent need have seen
 * it. */
static bool trust_ages_agree(const struct node_trust *t, hf_wall wall, hf_time now)
{
    int64_t node_us = trust_us_floor(now.ns) + trust_middle_us(t), by_node_us, by_wall_ms,
            by_wall_us, apart_us;

    return !__builtin_sub_overflow(node_us, t->sentinel.created.us, &by_node_us) &&
           !__builtin_sub_overflow(wall.ms, t->sentinel.created_wall.ms, &by_wall_ms) &&
           !__builtin_mul_overflow(by_wall_ms, INT64_C(1000), &by_wall_us) &&
           !__builtin_sub_overflow(by_node_us, by_wall_us, &apart_us) &&
           apart_us <= MEDIAN_OFF_US && apart_us >= -MEDIAN_OFF_US;
}

/* Uptime and both ages of the sentinel exceed `least`: whatever the node forgot, it was before that. With the quarantine: no lease is
 * from before. */
static bool trust_is_older(const struct node_trust *t, hf_dur least, hf_wall wall, hf_time now)
{
    int64_t least_us = trust_us_ceil(least.ns), least_ms = (least_us + 999) / 1000;
    hf_dur up = hf_ns(t->facts.uptime.ns + hf_time_since(now, t->facts_read).ns);
    hf_nodetime low, high;

    return trust_node_time(t, now, &low, &high) && up.ns > least.ns &&
           trust_exceeds(low.us, t->sentinel.created.us, least_us) &&
           trust_exceeds(wall.ms, t->sentinel.created_wall.ms, least_ms) &&
           trust_ages_agree(t, wall, now);
}

void trust_judge(struct node_trust *t, int64_t median_us, hf_wall wall, hf_time now)
{
    int64_t off_us = trust_middle_us(t) - median_us;

    if (t->judged || !t->contacted || !t->clock_known || !trust_is_validated(t))
        return;
    trust_quarantine_settle(t, now);
    if (!t->word_age && !trust_is_older(t, t->quarantine, wall, now))
        trust_quarantine_from(t, HF_QUARANTINE_AGE, t->first_contact);
    if (off_us > MEDIAN_OFF_US || off_us < -MEDIAN_OFF_US)
        trust_quarantine_from(t, HF_QUARANTINE_MEDIAN, t->first_contact);
    trust_quarantine_settle(t, now);
    t->judged = true;
    t->word_age = false;
}

void trust_tick(struct node_trust *t, hf_wall wall, hf_time now)
{
    trust_quarantine_settle(t, now);
    if (t->reasons == HF_QUARANTINE_AGE && trust_is_older(t, t->quarantine, wall, now))
        trust_quarantine_end(t);
}

bool trust_remembers(const struct node_trust *t, hf_dur span, hf_wall wall, hf_time now)
{
    return t->word_stands ||
           (t->contacted && trust_is_validated(t) && trust_is_older(t, span, wall, now));
}

bool trust_may_vote(const struct node_trust *t, hf_time now)
{
    return t->contacted && t->judged && !t->refused && trust_is_validated(t) &&
           !trust_in_quarantine(t, now);
}

hf_time trust_until(const struct node_trust *t, hf_time now)
{
    hf_time until = t->until;

    if (!t->contacted || t->refused)
        return HF_TIME_NEVER;
    if (!t->judged && !t->word_age && t->nonce_seen)
        until = hf_time_max(until, hf_time_add(t->first_contact, t->quarantine));
    if (hf_time_before(now, until))
        return until;
    return trust_may_vote(t, now) ? HF_TIME_PAST : HF_TIME_NEVER;
}

/* --- whether the node takes writes ------------------------------------------------------------ */

/* (!) A missing right on one name's key says nothing about the node: otherwise a program could pick
 * a name and have the node shown as broken. */
static bool writes_is_refusal(enum hf_node_error error, const char *text, bool of_probe)
{
    switch (error) {
    case HF_NODE_ERR_PERM:
        return !strstr(text, " key");
    case HF_NODE_ERR_OOM:
    case HF_NODE_ERR_MISCONF:
    case HF_NODE_ERR_READONLY:
    case HF_NODE_ERR_NOREPLICAS:
        return true;
    default:
        return of_probe; /* it concerns no name */
    }
}

/* Whether a write that the node took proves that it takes others: rights are given for each
 * command. */
static bool writes_is_of_all_writes(enum hf_node_error error)
{
    return error != HF_NODE_ERR_PERM;
}

enum hf_node_error writes_refused(const struct node_writes *w)
{
    return w->locks != HF_NODE_ERR_NONE ? w->locks : w->probe;
}

static void writes_hear(struct node_writes *w, enum hf_node_error *own, enum hf_node_error *other,
                        enum hf_node_error error, const char *text, hf_time now)
{
    if (error == HF_NODE_ERR_NONE) {
        *own = HF_NODE_ERR_NONE;
        if (writes_is_of_all_writes(*other))
            *other = HF_NODE_ERR_NONE;
    } else if (writes_is_refusal(error, text, own == &w->probe)) {
        if (writes_refused(w) == HF_NODE_ERR_NONE)
            w->since = now;
        *own = error;
        /* After these words the text says which script it was, and where. */
        snprintf(w->text, sizeof(w->text), "%.*s",
                 (int)(strstr(text, " script: ") ? strstr(text, " script: ") - text
                                                 : (long)strlen(text)),
                 text);
        hf_text_cut(w->text, sizeof(w->text));
    }
}

void writes_on_lock(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now)
{
    writes_hear(w, &w->locks, &w->probe, error, text, now);
}

void writes_on_probe(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now)
{
    writes_hear(w, &w->probe, &w->locks, error, text, now);
}

void writes_reset(struct node_writes *w)
{
    *w = (struct node_writes){.locks = HF_NODE_ERR_NONE};
}

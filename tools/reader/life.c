#include "tools/reader/life.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/process.h"
#include "tools/common/text.h"
#include "tools/reader/exposition.h"
#include "tools/reader/reader.h"

#define LOOK_AGAIN_MS 300
/* The clock is read after the signs of life, so an agent's is never ahead of it; a clock may be put right a little. */
#define AHEAD_MOST_NS HF_NS_PER_SEC

/* An agent records its start within this time of its process's start. */
#define STARTS_WITHIN_NS (60 * HF_NS_PER_SEC)

static int64_t life_beat_of(const struct hf_table *table, int thread)
{
    const struct hf_table_header *header = table->header;
    const _Atomic int64_t *const beats[LIFE_THREADS] = {
        [LIFE_MAIN] = &header->main_beat_ns,
        [LIFE_BROKER] = &header->broker_beat_ns,
        [LIFE_RENEWAL] = &header->renewal_beat_ns,
    };

    return atomic_load_explicit(beats[thread], memory_order_acquire);
}

struct beats {
    int64_t at_ns[LIFE_THREADS], last_ns, now_ns; /* `at_ns` 0: none */
};

static struct beats life_beats_of(const struct hf_table *table)
{
    struct beats beats = {.last_ns = 0};

    for (int i = 0; i < LIFE_THREADS; i++)
        beats.at_ns[i] = life_beat_of(table, i);
    beats.now_ns = reader_now().ns;
    for (int i = 0; i < LIFE_THREADS; i++) {
        if (beats.at_ns[i] > beats.now_ns + AHEAD_MOST_NS)
            beats.at_ns[i] = 0; /* no agent wrote it */
        if (beats.at_ns[i] > beats.last_ns)
            beats.last_ns = beats.at_ns[i];
    }
    return beats;
}

/* The state of the pid in /proc; `ret_doubt`: whether another process of this PID namespace may
 * have that pid. */
static enum life_process life_look_at_process(pid_t pid, int64_t started_ns, int64_t last_beat_ns,
                                              bool *ret_doubt)
{
    struct process process;

    *ret_doubt = true;
    if (pid <= 0 || process_read(pid, &process) < 0 || process.state == 'Z' || process.state == 'X')
        return LIFE_PROCESS_GONE;
    if (process.start_ns > last_beat_ns + PROCESS_START_SLACK_NS)
        return LIFE_PROCESS_GONE; /* the pid was reused */
    *ret_doubt = process.start_ns < started_ns - STARTS_WITHIN_NS;
    return process.state == 'T' || process.state == 't' ? LIFE_PROCESS_STOPPED : LIFE_PROCESS_RUNS;
}

static enum life_process life_process_of(const struct hf_table *table, pid_t pid,
                                         int64_t last_beat_ns, bool *ret_doubt)
{
    const struct hf_table_header *header = table->header;

    *ret_doubt = true;
    if (!process_pids_are_of(header->pidns_inode))
        return LIFE_PROCESS_GONE;
    return life_look_at_process(pid,
                                atomic_load_explicit(&header->started_ns, memory_order_acquire),
                                last_beat_ns, ret_doubt);
}

static int64_t life_age_ms(int64_t now_ns, int64_t at_ns)
{
    if (at_ns <= 0)
        return -1;
    return at_ns < now_ns ? (now_ns - at_ns) / HF_NS_PER_MS : 0;
}

enum life_verdict life_verdict_of(const struct life *life, enum hf_table_state state)
{
    if (life->process == LIFE_PROCESS_GONE)
        return state == HF_TABLE_STOPPED ? LIFE_ENDED : LIFE_DEAD;
    if (life->process == LIFE_PROCESS_STOPPED)
        return LIFE_HUNG;
    for (int i = 0; i < LIFE_THREADS; i++)
        if (life->age_ms[i] > LIFE_SILENCE_MS)
            return state == HF_TABLE_STOPPED ? LIFE_ENDED : LIFE_HUNG;
    return state == HF_TABLE_STOPPED ? LIFE_ENDED : LIFE_ALIVE;
}

bool life_look(const struct hf_table *table, int64_t before_ns, struct life *ret_life)
{
    const struct hf_table_header *header = table->header;
    const struct beats beats = life_beats_of(table);
    struct life life = {
        .pid = (pid_t)atomic_load_explicit(&header->pid, memory_order_acquire),
        .last_ms = life_age_ms(beats.now_ns, beats.last_ns),
        .up_ms = life_age_ms(beats.now_ns,
                             atomic_load_explicit(&header->started_ns, memory_order_acquire)),
        .beat_ns = beats.last_ns,
    };
    bool doubt, open;

    life.process = life_process_of(table, life.pid, beats.last_ns, &doubt);
    open = (doubt || life.process == LIFE_PROCESS_STOPPED) && life.last_ms >= 0 &&
           life.last_ms <= LIFE_SILENCE_MS;
    /* Continued signs of life prove a living agent, whatever /proc shows for its pid here. */
    if (open && before_ns && beats.last_ns != before_ns)
        life.process = doubt ? LIFE_PROCESS_UNSEEN : LIFE_PROCESS_RUNS;
    for (int i = 0; i < LIFE_THREADS; i++)
        life.age_ms[i] = life_age_ms(beats.now_ns, beats.at_ns[i]);
    life.verdict = life_verdict_of(
        &life, (enum hf_table_state)atomic_load_explicit(&header->state, memory_order_acquire));
    *ret_life = life;
    return open;
}

void life_wait(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_MS * HF_NS_PER_MS};

    nanosleep(&pause, NULL);
}

void life_judge(const struct hf_table *table, struct life *ret_life)
{
    if (!life_look(table, 0, ret_life))
        return;
    life_wait();
    (void)life_look(table, ret_life->beat_ns, ret_life);
}

const char *life_thread_name(int thread)
{
    static const char *const names[LIFE_THREADS] = {"main", "broker", "renewal"};

    return names[thread];
}

const char *life_verdict_name(enum life_verdict verdict)
{
    static const char *const names[] = {HF_AGENT_ALIVE, HF_AGENT_HUNG, HF_AGENT_DEAD,
                                        HF_AGENT_ENDED};

    return names[verdict];
}

const char *life_process_name(enum life_process process)
{
    static const char *const names[] = {"running", "stopped", "gone", "unseen"};

    return names[process];
}

/* The thread that is silent for longest. */
static int life_oldest(const struct life *life)
{
    int thread = 0;

    for (int i = 1; i < LIFE_THREADS; i++)
        if (life->age_ms[i] > life->age_ms[thread])
            thread = i;
    return thread;
}

bool life_is_present(const struct life *life)
{
    return life->verdict == LIFE_ALIVE;
}

const char *life_when(char *out, size_t size, const struct life *life)
{
    int64_t age = life->age_ms[life_oldest(life)];
    char span[TEXT_SPAN_SIZE];

    snprintf(out, size, "%s%s", age < 0 ? "never" : text_span(span, sizeof(span), age),
             age < 0 ? "" : " ago");
    return out;
}

const char *life_sentence(char *out, size_t size, const char *agent, const struct life *life)
{
    char span[TEXT_SPAN_SIZE] = "never";
    int thread = life_oldest(life);

    if (life->last_ms >= 0)
        text_span(span, sizeof(span), life->last_ms);
    out[0] = '\0';
    if (life->verdict == LIFE_ENDED)
        snprintf(out, size, "agent %s was stopped %s ago (it was pid %d)", agent, span,
                 (int)life->pid);
    else if (life->verdict == LIFE_HUNG && life->process == LIFE_PROCESS_RUNS &&
             life->last_ms >= 0 && life->last_ms <= LIFE_SILENCE_MS)
        snprintf(out, size,
                 "agent %s is not answering: its %s thread gave its last sign of life %s ago (pid "
                 "%d is running)",
                 agent, life_thread_name(thread),
                 text_span(span, sizeof(span), life->age_ms[thread]), (int)life->pid);
    else if (life->verdict != LIFE_ALIVE)
        snprintf(out, size, "agent %s is not answering: last sign of life %s%s (pid %d is %s)",
                 agent, span, life->last_ms >= 0 ? " ago" : "", (int)life->pid,
                 life_process_name(life->process));
    return out;
}

void life_warn(const char *subcommand, const char *agent, const struct life *life)
{
    char sentence[256];

    fflush(stdout);
    if (life->verdict != LIFE_ALIVE)
        fprintf(stderr, "holdfast %s: %s\n", subcommand,
                life_sentence(sentence, sizeof(sentence), agent, life));
}

/* --- last words ------------------------------------------------------------------------------- */

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

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

static int64_t life_last_beat(const struct hf_table *table)
{
    int64_t last = 0;

    for (int i = 0; i < LIFE_THREADS; i++)
        last = life_beat_of(table, i) > last ? life_beat_of(table, i) : last;
    return last;
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

/* Continued signs of life prove a living agent, whatever /proc shows for its pid here. */
static bool life_still_beats(const struct hf_table *table)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_MS * HF_NS_PER_MS};
    int64_t before = life_last_beat(table);

    nanosleep(&pause, NULL);
    return life_last_beat(table) != before;
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

void life_judge(const struct hf_table *table, struct life *ret_life)
{
    const struct hf_table_header *header = table->header;
    struct life life = {
        .pid = (pid_t)atomic_load_explicit(&header->pid, memory_order_acquire),
        .last_ms = -1,
    };
    int64_t started = atomic_load_explicit(&header->started_ns, memory_order_acquire);
    int64_t last = life_last_beat(table), now = reader_now().ns;
    enum hf_table_state state;
    bool doubt;

    life.process = life_look_at_process(life.pid, started, last, &doubt);
    if ((doubt || life.process == LIFE_PROCESS_STOPPED) && last > 0 &&
        life_age_ms(now, last) <= LIFE_SILENCE_MS && life_still_beats(table))
        life.process = doubt ? LIFE_PROCESS_UNSEEN : LIFE_PROCESS_RUNS;
    now = reader_now().ns;
    for (int i = 0; i < LIFE_THREADS; i++)
        life.age_ms[i] = life_age_ms(now, life_beat_of(table, i));
    life.last_ms = life_age_ms(now, life_last_beat(table));
    life.up_ms = life_age_ms(now, started);
    state = (enum hf_table_state)atomic_load_explicit(&header->state, memory_order_acquire);
    life.verdict = life_verdict_of(&life, state);
    *ret_life = life;
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

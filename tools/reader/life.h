/* Is the agent behind a table alive? Judged by its threads' signs of life and by its process. */
#ifndef HOLDFAST_TOOLS_READER_LIFE_H
#define HOLDFAST_TOOLS_READER_LIFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/nstime.h"
#include "shm/table.h"
#include "shm/table_notes.h"

/* Threads give a sign of life every 100 ms; one that is silent for so long hangs. */
#define LIFE_SILENCE_MS 3000

enum life_verdict {
    LIFE_ALIVE,
    LIFE_HUNG,  /* a thread, or the stopped process, gives no sign */
    LIFE_DEAD,  /* the process is gone */
    LIFE_ENDED, /* it ended cleanly */
};

enum life_process {
    LIFE_PROCESS_RUNS,
    LIFE_PROCESS_STOPPED, /* SIGSTOP, or a debugger */
    LIFE_PROCESS_GONE,    /* or a zombie, or its pid was reused */
    LIFE_PROCESS_UNSEEN,  /* it lives, but not in this PID namespace or /proc */
};

enum { LIFE_MAIN, LIFE_BROKER, LIFE_RENEWAL, LIFE_THREADS };

struct life {
    enum life_verdict verdict;
    enum life_process process;
    pid_t pid;
    int64_t age_ms[LIFE_THREADS]; /* of each thread's last sign of life; -1: it gave none */
    int64_t last_ms;              /* age of the latest of them; -1: none at all */
    int64_t up_ms;                /* since the start */
    int64_t beat_ns;              /* the latest sign of life; 0: none */
};

/* May sleep for 0.3 s: continued signs of life tell a process in another PID namespace from a dead one. (!) A sign of life that is
 * ahead of the clock is none. */
void life_judge(const struct hf_table *table, struct life *ret_life);

/* The same without the sleep, for many tables and one sleep of the caller's. True: signs of life that continue may still tell
 * otherwise; then to be asked again after life_wait() with this `beat_ns`. `before_ns` 0: the first time. */
bool life_look(const struct hf_table *table, int64_t before_ns, struct life *ret_life);
void life_wait(void);

/* The same for given facts; pure. */
enum life_verdict life_verdict_of(const struct life *life, enum hf_table_state state);

const char *life_thread_name(int thread);
const char *life_verdict_name(enum life_verdict verdict);
/* "running", "stopped", "gone", "unseen". */
const char *life_process_name(enum life_process process);

/* Whether the table tells of now: otherwise nodes, waiters and clients are those of the last sign of life. */
bool life_is_present(const struct life *life);
/* How long ago the table told of its present, for people: "4.0s ago", or "never". */
const char *life_when(char *out, size_t size, const struct life *life);

/* The fault, for people: "agent NAME is not answering: last sign of life 12.3s ago (pid 123 is
 * stopped)". Returns `out`; "" for an agent that is alive. */
const char *life_sentence(char *out, size_t size, const char *agent, const struct life *life);

/* The same on stderr, after stdout's text: without its agent a table is not kept up to date. */
void life_warn(const char *subcommand, const char *agent, const struct life *life);

/* The failed assertion by which the last agent of a table ended. One thread. */

#define LAST_WORDS_SIZE (4 * HF_LAST_WORDS + 128)

/* For people: "last ended by a failed assertion 3m12s ago (pid 123): ...". Returns `out`. */
const char *last_words_sentence(char *out, size_t size, const struct hf_last_words *words,
                                int64_t now_wall_ms);

#endif

/* The reference for whatever two processes of one host do by turns: a word in shared memory that each of them
 * changes and then wakes the other. */
#include "tools/bench/bench.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_futex_wait(_Atomic uint32_t *word, uint32_t while_it_is)
{
    while (atomic_load(word) == while_it_is)
        syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, NULL, NULL, 0);
}

void bench_futex_store(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Ends with its parent, who would wait for it for ever. */
static _Noreturn void echo(_Atomic uint32_t word[2], long rounds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t k = 0; k < (uint32_t)rounds; k++) {
        bench_futex_wait(&word[0], k);
        bench_futex_store(&word[1], k + 1);
    }
    _exit(0);
}

int bench_futex(int argc, char **argv)
{
    _Atomic uint32_t *word = bench_share(2 * sizeof(*word));
    double *samples;
    long rounds, pause_us;
    pid_t other;

    if (argc != 3) {
        fputs("usage: bench futex ROUNDS PAUSE_US\n", stderr);
        return 64;
    }
    rounds = bench_number(argv[1], 1);
    pause_us = bench_number(argv[2], 0);
    samples = calloc((size_t)rounds, sizeof(*samples));
    other = fork();
    if (other == 0)
        echo(word, rounds);
    for (uint32_t k = 0; k < (uint32_t)rounds; k++) {
        double start;

        bench_pause(pause_us);
        start = bench_now_us();
        bench_futex_store(&word[0], k + 1);
        bench_futex_wait(&word[1], k);
        samples[k] = bench_now_us() - start;
    }
    waitpid(other, NULL, 0);
    printf("{\"bench\":\"futex\",\"pause_us\":%ld,\"p50_us\":%.2f,\"p99_us\":%.2f}\n", pause_us,
           bench_percentile(samples, (size_t)rounds, 0.5),
           bench_percentile(samples, (size_t)rounds, 0.99));
    free(samples);
    return 0;
}

/* The reference for two processes of one host that take turns: a word in shared memory that each of them
 * changes and then wakes the other. */
#include "tools/bench/bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/measure.h"
#include "tools/bench/share.h"

/* Ends with its parent, which would wait for it for ever. */
static _Noreturn void futex_echo(_Atomic uint32_t word[2], long rounds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t k = 0; k < (uint32_t)rounds; k++) {
        share_wait(&word[0], k);
        share_store(&word[1], k + 1);
    }
    _exit(0);
}

/* Moves the caller to the nth processor that it may use: on separate processors neither process waits for the other
 * to leave, and each wake-up crosses them. Does nothing if there is no such processor. */
static void futex_move_to(int nth)
{
    cpu_set_t may, one;

    if (sched_getaffinity(0, sizeof(may), &may) != 0)
        measure_die("sched_getaffinity: %s", strerror(errno));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may) || nth-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

int bench_futex(int argc, char **argv)
{
    _Atomic uint32_t *word = share_memory(2 * sizeof(*word));
    double *samples;
    long rounds, pause_us;
    bool apart = argc == 4 && strcmp(argv[3], "apart") == 0;
    pid_t other;

    if (argc != 3 && !apart) {
        fputs("usage: bench futex ROUNDS PAUSE_US [apart]\n", stderr);
        return 64;
    }
    rounds = measure_number(argv[1], 1);
    pause_us = measure_number(argv[2], 0);
    samples = calloc((size_t)rounds, sizeof(*samples));
    other = fork();
    if (apart)
        futex_move_to(other == 0);
    if (other == 0)
        futex_echo(word, rounds);
    for (uint32_t k = 0; k < (uint32_t)rounds; k++) {
        double start;

        measure_pause(pause_us);
        start = measure_now_us();
        share_store(&word[0], k + 1);
        share_wait(&word[1], k);
        samples[k] = measure_now_us() - start;
    }
    waitpid(other, NULL, 0);
    printf("{\"bench\":\"futex\",\"apart\":%s,\"pause_us\":%ld,\"p50_us\":%.2f,\"p99_us\":%.2f}\n",
           apart ? "true" : "false", pause_us, measure_percentile(samples, (size_t)rounds, 0.5),
           measure_percentile(samples, (size_t)rounds, 0.99));
    free(samples);
    return 0;
}

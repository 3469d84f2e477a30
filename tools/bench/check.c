/* The cost of the holder's check: hf_held() on a held lease, in turns with a bare clock read. At the end as many checks
 * are made between two calls of getppid(), so that strace shows their system calls. */
#include "tools/bench/measure.h"

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
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"

#define TURNS 21 /* of each kind, alternating; the medians are compared */

static double check_clock_turn(long rounds)
{
    double start = measure_now_us();
    struct timespec t;

    for (long i = 0; i < rounds; i++) {
        clock_gettime(CLOCK_BOOTTIME, &t);
        __asm__ volatile("" : : "g"(&t) : "memory");
    }
    return (measure_now_us() - start) * 1e3 / (double)rounds;
}

static double check_held_turn(hf_lease *lease, long rounds)
{
    double start = measure_now_us();
    long held = 0;

    for (long i = 0; i < rounds; i++)
        held += hf_held(lease);
    if (held != rounds)
        measure_die("the lease was lost while it was measured");
    return (measure_now_us() - start) * 1e3 / (double)rounds;
}

int bench_check(int argc, char **argv)
{
    double clocks[TURNS], helds[TURNS], ratios[TURNS];
    hf_client *client;
    hf_lease *lease;
    char name[64];
    long rounds;
    int rc;

    if (argc != 3) {
        fputs("usage: bench check AGENT ROUNDS\n", stderr);
        return 64;
    }
    rounds = measure_number(argv[2], 1);
    snprintf(name, sizeof(name), "bench/check/%d", (int)getpid());
    if ((rc = hf_connect(argv[1], &client)) < 0 || (rc = hf_try(client, name, &lease)) < 0)
        measure_die("%s: %s", hf_strerror(rc), hf_last_message());
    (void)check_clock_turn(rounds); /* warm */
    (void)check_held_turn(lease, rounds);
    for (int i = 0; i < TURNS; i++) {
        clocks[i] = check_clock_turn(rounds);
        helds[i] = check_held_turn(lease, rounds);
        ratios[i] = helds[i] / clocks[i];
    }
    (void)getppid();
    (void)check_held_turn(lease, rounds);
    (void)getppid();
    printf("{\"bench\":\"check\",\"clock_ns\":%.2f,\"held_ns\":%.2f,\"ratio\":%.3f}\n",
           measure_percentile(clocks, TURNS, 0.5), measure_percentile(helds, TURNS, 0.5),
           measure_percentile(ratios, TURNS, 0.5));
    hf_release(lease);
    hf_disconnect(client);
    return 0;
}

/* --- a futex instead -------------------------------------------------------------------------- */

/* The reference for two processes of one host that take turns: a word in shared memory that each of them
 * changes and then wakes the other. */

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

/* The cost of the holder's check: hf_held() on a held lease, in turns with a bare clock read. At the end as many checks
 * are made between two calls of getppid(), so that strace shows their system calls. */
#include "tools/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tools/bench/measure.h"

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

/* From release to grant: two processes, each with its agent (or both with one), take turns with one lock. The holder
 * lets the other wait for about PAUSE_US, so that polling has no phase, and releases; a sample is the time from the
 * call of hf_release() in one to the return of the acquire in the other. */
#include "tools/bench/bench.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/library.h"
#include "tools/bench/measure.h"
#include "tools/bench/share.h"

struct turns {
    long pause_us;
    _Atomic uint32_t asked, granted; /* turns so far */
    double released_us;
    double samples[];
};

static void turns_await_more(_Atomic uint32_t *count, uint32_t than)
{
    uint32_t seen;

    while ((seen = atomic_load(count)) <= than)
        share_wait(count, seen);
}

/* This process has the odd turns or the even ones. */
static void turns_play(struct turns *t, const char *agent, const char *name, uint32_t first,
                       uint32_t all)
{
    hf_client *client = library_connect(agent);

    for (uint32_t turn = first; turn <= all; turn += 2) {
        hf_lease *lease;
        int rc;

        if (turn > 0) {
            turns_await_more(&t->granted, turn - 1);
            share_store(&t->asked, turn);
        }
        if ((rc = hf_acquire(client, name, 0, -1, &lease)) < 0)
            measure_die("%s: %s", hf_strerror(rc), hf_last_message());
        if (turn > 0)
            t->samples[turn - 1] = measure_now_us() - t->released_us;
        share_store(&t->granted, turn + 1);
        if (turn < all)
            turns_await_more(&t->asked, turn);
        measure_pause(t->pause_us);
        t->released_us = measure_now_us();
        if ((rc = hf_release(lease)) < 0)
            measure_die("release: %s: %s", hf_strerror(rc), hf_last_message());
    }
    hf_disconnect(client);
}

int bench_turns(int argc, char **argv)
{
    struct turns *t;
    uint32_t rounds;
    char name[64];
    int status = 0;
    pid_t other;

    if (argc != 5) {
        fputs("usage: bench turns AGENT AGENT ROUNDS PAUSE_US\n", stderr);
        return 64;
    }
    rounds = (uint32_t)measure_number(argv[3], 1);
    t = share_memory(sizeof(*t) + rounds * sizeof(*t->samples));
    t->pause_us = measure_number(argv[4], 1);
    snprintf(name, sizeof(name), "bench/turns/%d", (int)getpid());
    other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        turns_play(t, argv[2], name, 1, rounds);
        _exit(0);
    }
    turns_play(t, argv[1], name, 0, rounds);
    if (waitpid(other, &status, 0) < 0 || status != 0)
        measure_die("the other process ended with status %d", status);
    printf("{\"bench\":\"turns\",\"agents\":%d,\"rounds\":%u,\"pause_us\":%ld,\"p50_us\":%.1f,"
           "\"p99_us\":%.1f,\"max_us\":%.1f}\n",
           1 + (strcmp(argv[1], argv[2]) != 0), rounds, t->pause_us,
           measure_percentile(t->samples, rounds, 0.5),
           measure_percentile(t->samples, rounds, 0.99), measure_percentile(t->samples, rounds, 1));
    return 0;
}

/* The cost of waiting: one process holds many names, and another, on this host or another, waits for them, always in
 * vain. Both end when their stdin does; tools/bench/run reads the nodes' counters meanwhile. */
#include "tools/bench/measure.h"

#include <poll.h>
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

#include "libclient/holdfast.h"

/* Dispatches until stdin ends. */
static void queue_idle(hf_client *client)
{
    struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                         {.fd = hf_fd(client), .events = POLLIN}};
    char bytes[64];

    if (p[1].fd < 0)
        measure_die("%s", hf_last_message());
    for (;;) {
        if (poll(p, 2, -1) < 0)
            measure_die("poll");
        if (p[0].revents && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
            return;
        if (p[1].revents)
            hf_dispatch(client);
    }
}

static hf_op *queue_start(hf_client *client, const char *prefix, long i)
{
    char name[128];
    struct hf_acquire_options options = {.size = sizeof(options), .name = name, .wait_ms = -1};
    hf_op *op;
    int rc;

    options.name_len = (size_t)snprintf(name, sizeof(name), "%.64s/%ld", prefix, i);
    while ((rc = hf_acquire_start(client, &options, &op)) == HF_EFULL) /* for now */
        hf_dispatch(client);
    if (rc < 0)
        measure_die("%s: %s: %s", name, hf_strerror(rc), hf_last_message());
    return op;
}

/* Waits until each is granted. */
static void queue_collect(hf_client *client, hf_op **ops, long count)
{
    struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};

    if (p.fd < 0)
        measure_die("%s", hf_last_message());
    for (long i = 0; i < count;) {
        hf_lease *lease;
        int rc = hf_op_result(ops[i], &lease);

        if (rc == HF_OK) {
            i++;
            continue;
        }
        if (rc != HF_EPENDING)
            measure_die("%s: %s", hf_strerror(rc), hf_last_message());
        if (poll(&p, 1, -1) < 0)
            measure_die("poll");
        hf_dispatch(client);
    }
}

int bench_queue(int argc, char **argv)
{
    hf_client *client;
    double cpu, began;
    hf_op **ops;
    long count;
    bool hold;
    int rc;

    if (argc != 5 || (strcmp(argv[1], "hold") != 0 && strcmp(argv[1], "wait") != 0)) {
        fputs("usage: bench queue hold|wait AGENT PREFIX NAMES\n", stderr);
        return 64;
    }
    hold = strcmp(argv[1], "hold") == 0;
    count = measure_number(argv[4], 1);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is meant. */
    ops = calloc((size_t)count, sizeof(*ops));
    if ((rc = hf_connect(argv[2], &client)) < 0)
        measure_die("%s: %s", hf_strerror(rc), hf_last_message());
    for (long i = 0; i < count; i++)
        ops[i] = queue_start(client, argv[3], i);
    if (hold)
        queue_collect(client, ops, count);
    puts("ready");
    fflush(stdout);
    cpu = measure_cpu_us();
    began = measure_now_us();
    queue_idle(client);
    printf("{\"bench\":\"queue\",\"names\":%ld,\"cpu_percent\":%.3f}\n", count,
           (measure_cpu_us() - cpu) / (measure_now_us() - began) * 100);
    hf_disconnect(client);
    free(ops);
    return 0;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* From release to grant: two processes, each with its agent (or both with one), take turns with one lock. The holder
 * lets the other wait for about PAUSE_US, so that polling has no phase, and releases; a sample is the time from the
 * call of hf_release() in one to the return of the acquire in the other. */

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

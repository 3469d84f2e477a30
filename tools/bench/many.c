/* Throughput of many clients of one agent: each is a process, or (with --sets) one process takes so many locks with
 * one call. Each cycle locks names of its own and unlocks them. */
#include "tools/bench/measure.h"

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

#define CLIENTS_MAX 8192
#define SAMPLES_MAX 1024 /* of one process, the last ones */
#define NAMES       64   /* of one process, by turns */

struct member {
    long cycles;
    long in_vain; /* the agent gave up on the nodes, as it does when they are overloaded */
    double cpu_us;
    float acquire_us[SAMPLES_MAX];
};

struct many {
    _Atomic uint32_t ready, start, stop;
    struct member member[];
};

/* Whether `rc` is that failure; any other ends the process. */
static bool many_is_in_vain(struct member *m, int rc, const char *name)
{
    if (rc != HF_ENOQUORUM && rc != HF_ETIMEDOUT)
        library_must(rc, name);
    m->in_vain += rc < 0;
    return rc < 0;
}

static void many_cycle(hf_client *client, struct member *m, const char *prefix)
{
    double asked = measure_now_us();
    char name[LIBRARY_NAME_LEN + 1];
    hf_lease *lease;

    library_name(name, prefix, m->cycles % NAMES);
    if (many_is_in_vain(m, hf_try(client, name, &lease), name))
        return;
    m->acquire_us[m->cycles % SAMPLES_MAX] = (float)(measure_now_us() - asked);
    if (!many_is_in_vain(m, hf_release(lease), name))
        m->cycles++;
}

static void many_set_cycle(hf_client *client, struct member *m, const char *prefix, int width)
{
    struct hf_acquire_options options = {.size = sizeof(options)};
    char text[HF_SET_MAX][LIBRARY_NAME_LEN + 1];
    struct hf_name names[HF_SET_MAX];
    hf_lease *leases[HF_SET_MAX];
    double asked = measure_now_us();

    for (int i = 0; i < width; i++) {
        library_name(text[i], prefix, i);
        names[i] = (struct hf_name){text[i], LIBRARY_NAME_LEN};
    }
    library_must(hf_acquire_all(client, &options, names, (size_t)width, leases), text[0]);
    m->acquire_us[m->cycles / width % SAMPLES_MAX] = (float)(measure_now_us() - asked);
    library_must(hf_release_all(leases, (size_t)width), text[0]);
    m->cycles += width;
}

/* The agent's socket cannot queue so many at once: a client that finds the queue full tries again. */
static hf_client *many_connect_in_turn(const char *agent)
{
    hf_client *client;
    int rc;

    for (int try = 0; (rc = hf_connect(agent, &client)) == HF_ENOAGENT && try < 2000; try++)
        measure_pause(20000);
    library_must(rc, agent);
    return client;
}

static void many_play(struct many *t, int number, const char *agent, int width)
{
    struct member *m = &t->member[number];
    hf_client *client = many_connect_in_turn(agent);
    char prefix[LIBRARY_NAME_LEN];
    double cpu;

    snprintf(prefix, sizeof(prefix), "many/%d/%d", (int)getppid() % 10000, number);
    atomic_fetch_add(&t->ready, 1);
    share_wait(&t->start, 0);
    cpu = measure_cpu_us();
    while (!atomic_load_explicit(&t->stop, memory_order_relaxed))
        width ? many_set_cycle(client, m, prefix, width) : many_cycle(client, m, prefix);
    m->cpu_us = measure_cpu_us() - cpu;
    hf_disconnect(client);
}

static void many_report(struct many *t, int clients, int width, double wall_us)
{
    double *samples = malloc(sizeof(*samples) * (size_t)clients * SAMPLES_MAX), cpu_us = 0;
    size_t count = 0;
    long cycles = 0, in_vain = 0;

    for (int i = 0; i < clients; i++) {
        struct member *m = &t->member[i];
        long kept = width ? m->cycles / width : m->cycles;

        cycles += m->cycles;
        in_vain += m->in_vain;
        cpu_us += m->cpu_us;
        for (long k = 0; k < kept && k < SAMPLES_MAX; k++)
            samples[count++] = (double)m->acquire_us[k];
    }
    if (!count)
        measure_die("no lock was granted in %.1f s", wall_us / 1e6);
    printf("{\"bench\":\"many\",\"clients\":%d,\"width\":%d,\"cycles\":%ld,\"in_vain\":%ld,"
           "\"cycles_per_s\":%.0f,"
           "\"acquire_p50_us\":%.1f,\"acquire_p99_us\":%.1f,\"client_cpu_us\":%.2f}\n",
           clients, width ? width : 1, cycles, in_vain, (double)cycles / wall_us * 1e6,
           measure_percentile(samples, count, 0.5), measure_percentile(samples, count, 0.99),
           cpu_us / (double)cycles);
    free(samples);
}

int bench_many(int argc, char **argv)
{
    int clients, width = 0, bad = 0, status;
    long seconds_ms;
    struct many *t;
    double start;

    if (argc != 4 && argc != 5) {
        fputs("usage: bench many AGENT CLIENTS MILLISECONDS [SET]\n", stderr);
        return 64;
    }
    clients = (int)measure_number(argv[2], 1);
    seconds_ms = measure_number(argv[3], 1);
    if (argc == 5)
        width = (int)measure_number(argv[4], 1);
    if (clients > CLIENTS_MAX || width > HF_SET_MAX)
        measure_die("%d clients and sets of %d at most", CLIENTS_MAX, HF_SET_MAX);
    t = share_memory(sizeof(*t) + (size_t)clients * sizeof(t->member[0]));
    for (int i = 0; i < clients; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            many_play(t, i, argv[1], width);
            _exit(0);
        }
    while (atomic_load(&t->ready) < (uint32_t)clients) {
        if (waitpid(-1, &status, WNOHANG) > 0)
            measure_die("a client ended before all were there");
        usleep(10000);
    }
    start = measure_now_us();
    share_store(&t->start, 1);
    usleep((unsigned)(seconds_ms * 1000));
    atomic_store(&t->stop, 1);
    start = measure_now_us() - start;
    for (int i = 0; i < clients; i++)
        bad += wait(&status) < 0 || status != 0;
    if (bad)
        measure_die("%d clients ended badly", bad);
    many_report(t, clients, width, start);
    return 0;
}

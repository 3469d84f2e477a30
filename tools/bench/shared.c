/* Shared and exclusive locks: what each costs beside a plain one, and how long both kinds wait for each other. */
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

#define MEMBERS_MAX    512
#define SAMPLES_MAX    16384 /* of one process, the last ones */
#define ALONE_PAUSE_US 100000

enum kind { PLAIN, SHARED, EXCLUSIVE };

static const char *const kinds[] = {"plain", "shared", "exclusive"};

/* Waits, if it must; gives how many leases it took. */
static size_t shared_take(hf_client *client, enum kind kind, const char *name,
                          hf_lease **ret_leases)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.name = name;
    options.name_len = strlen(name);
    options.wait_ms = -1;
    if (kind == PLAIN)
        library_must(hf_acquire_with(client, &options, ret_leases), name);
    else if (kind == SHARED)
        library_must(hf_acquire_shared(client, &options, 0, ret_leases), name);
    else
        library_must(hf_acquire_exclusive(client, &options, ret_leases), name);
    return kind == EXCLUSIVE ? HF_EXCLUSIVE_LEASES : 1;
}

/* --- one alone -------------------------------------------------------------------------------- */

static int shared_cost(const char *agent, const char *word, long cycles)
{
    double *acquires = malloc(sizeof(*acquires) * (size_t)cycles);
    double *holds = malloc(sizeof(*holds) * (size_t)cycles);
    hf_client *client = library_connect(agent);
    enum kind kind = PLAIN;

    while (strcmp(word, kinds[kind]) != 0)
        if (kind++ == EXCLUSIVE)
            measure_die("%s is none of plain, shared and exclusive", word);
    for (long k = 0; k < cycles; k++) {
        hf_lease *leases[HF_EXCLUSIVE_LEASES];
        char name[64];
        double start;
        size_t count;

        snprintf(name, sizeof(name), "bench/shared/%s/%d/%ld", word, (int)getpid(), k % 64);
        start = measure_now_us();
        count = shared_take(client, kind, name, leases);
        acquires[k] = measure_now_us() - start;
        library_must(hf_release_all(leases, count), name);
        holds[k] = measure_now_us() - start;
    }
    printf("{\"bench\":\"shared cost\",\"kind\":\"%s\",\"cycles\":%ld,\"acquire_p50_us\":%.1f,"
           "\"acquire_p99_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
           word, cycles, measure_percentile(acquires, (size_t)cycles, 0.5),
           measure_percentile(acquires, (size_t)cycles, 0.99),
           measure_percentile(holds, (size_t)cycles, 0.5),
           measure_percentile(holds, (size_t)cycles, 0.99));
    hf_disconnect(client);
    free(acquires);
    free(holds);
    return 0;
}

/* --- a crowd ---------------------------------------------------------------------------------- */

struct member {
    enum kind kind;
    char agent[128];
    long count;
    float wait_us[SAMPLES_MAX];
};

struct crowd {
    _Atomic uint32_t ready, start, stop;
    int members;
    struct member member[];
};

static void shared_play(struct crowd *crowd, struct member *m, const char *name, long hold_us)
{
    hf_client *client = library_connect(m->agent);
    hf_lease *leases[HF_EXCLUSIVE_LEASES];

    atomic_fetch_add(&crowd->ready, 1);
    share_wait(&crowd->start, 0);
    while (!atomic_load(&crowd->stop)) {
        double start = measure_now_us();
        size_t count = shared_take(client, m->kind, name, leases);

        m->wait_us[m->count++ % SAMPLES_MAX] = (float)(measure_now_us() - start);
        usleep((unsigned)hold_us);
        library_must(hf_release_all(leases, count), name);
        if (m->kind == EXCLUSIVE)
            measure_pause(ALONE_PAUSE_US);
    }
    hf_disconnect(client);
}

static void shared_say_waits(const struct crowd *crowd, enum kind kind)
{
    double *samples = malloc(sizeof(*samples) * (size_t)crowd->members * SAMPLES_MAX);
    size_t count = 0;
    long total = 0;

    for (int i = 0; i < crowd->members; i++) {
        const struct member *m = &crowd->member[i];

        if (m->kind != kind)
            continue;
        total += m->count;
        for (long k = 0; k < m->count && k < SAMPLES_MAX; k++)
            samples[count++] = (double)m->wait_us[k];
    }
    printf(",\"%s\":{\"grants\":%ld,\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"longest_ms\":%.2f}",
           kinds[kind], total, count ? measure_percentile(samples, count, 0.5) / 1000 : 0,
           count ? measure_percentile(samples, count, 0.99) / 1000 : 0,
           count ? measure_percentile(samples, count, 1) / 1000 : 0);
    free(samples);
}

/* "AGENT=MEMBERS", of one kind. */
static void shared_add_members(struct crowd *crowd, const char *text, enum kind kind)
{
    const char *equals = strrchr(text, '=');
    long members = equals ? measure_number(equals + 1, 0) : 1;

    for (long i = 0; i < members && crowd->members < MEMBERS_MAX; i++) {
        struct member *m = &crowd->member[crowd->members++];

        m->kind = kind;
        snprintf(m->agent, sizeof(m->agent), "%.*s",
                 (int)(equals ? equals - text : (long)strlen(text)), text);
    }
}

static int shared_crowd_of(int argc, char **argv)
{
    struct crowd *crowd = share_memory(sizeof(*crowd) + MEMBERS_MAX * sizeof(crowd->member[0]));
    long seconds = measure_number(argv[2], 1), hold_us = measure_number(argv[3], 0);
    char name[64];
    int status, bad = 0;

    snprintf(name, sizeof(name), "bench/shared/crowd/%d", (int)getpid());
    shared_add_members(crowd, argv[4], EXCLUSIVE);
    for (int i = 5; i < argc; i++)
        shared_add_members(crowd, argv[i], SHARED);
    for (int i = 0; i < crowd->members; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            shared_play(crowd, &crowd->member[i], name, hold_us);
            _exit(0);
        }
    while (atomic_load(&crowd->ready) < (uint32_t)crowd->members) {
        if (waitpid(-1, &status, WNOHANG) > 0)
            measure_die("one ended before all were there");
        usleep(10000);
    }
    share_store(&crowd->start, 1);
    sleep((unsigned)seconds);
    atomic_store(&crowd->stop, 1);
    for (int i = 0; i < crowd->members; i++)
        bad += wait(&status) < 0 || status != 0;
    if (bad)
        measure_die("%d ended badly", bad);
    printf("{\"bench\":\"shared crowd\",\"members\":%d,\"seconds\":%ld,\"hold_us\":%ld",
           crowd->members, seconds, hold_us);
    shared_say_waits(crowd, SHARED);
    shared_say_waits(crowd, EXCLUSIVE);
    puts("}");
    return 0;
}

int bench_shared(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "cost") == 0)
        return shared_cost(argv[2], argv[3], measure_number(argv[4], 1));
    if (argc >= 5 && strcmp(argv[1], "crowd") == 0)
        return shared_crowd_of(argc, argv);
    fputs("usage: bench shared cost AGENT plain|shared|exclusive CYCLES\n"
          "       bench shared crowd SECONDS HOLD_US AGENT=ALONE AGENT=SHARING...\n",
          stderr);
    return 64;
}

/* Fairness: processes of several agents that acquire one lock all the time, and hold it for a moment. Each sleeps in
 * hf_acquire() while it waits. A turn is the wall time divided by the grants; with W processes a wait of W turns is
 * fair. */
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

#include "libclient/holdfast.h"
#include "tools/bench/measure.h"
#include "tools/bench/share.h"

#define CROWD_MAX  1024
#define AGENTS_MAX 16
#define WAITS_MAX  65536 /* of one process */

/* One process. */
struct member {
    int agent;
    long grants;
    double cpu_us, longest_wait_us;
    float waits_us[WAITS_MAX];
};

struct crowd {
    _Atomic uint32_t start, inside;
    _Atomic uint32_t overlaps;
    /* Updated by the holder of the lock. */
    int last_agent;
    long streak, longest_streak;
    double end_us;
    struct member member[CROWD_MAX];
};

/* Only the lock's holder is here. */
static void inside(struct crowd *c, const struct member *m, unsigned hold_us)
{
    if (atomic_fetch_add(&c->inside, 1) != 0)
        atomic_fetch_add(&c->overlaps, 1);
    c->streak = c->last_agent == m->agent ? c->streak + 1 : 1;
    c->last_agent = m->agent;
    if (c->streak > c->longest_streak)
        c->longest_streak = c->streak;
    usleep(hold_us);
    c->end_us = measure_now_us();
    atomic_fetch_sub(&c->inside, 1);
}

static void contend(struct crowd *c, struct member *m, const char *agent, const char *name,
                    double seconds, unsigned hold_us)
{
    hf_client *client;
    double until, cpu;
    int rc;

    if ((rc = hf_connect(agent, &client)) < 0)
        measure_die("%s: %s", hf_strerror(rc), hf_last_message());
    share_wait(&c->start, 0);
    until = measure_now_us() + seconds * 1e6;
    cpu = measure_cpu_us();
    while (measure_now_us() < until) {
        double asked = measure_now_us(), waited;
        hf_lease *lease;

        if ((rc = hf_acquire(client, name, 0, -1, &lease)) < 0)
            measure_die("%s: %s", hf_strerror(rc), hf_last_message());
        waited = measure_now_us() - asked;
        if (m->grants < WAITS_MAX)
            m->waits_us[m->grants] = (float)waited;
        m->grants++;
        if (waited > m->longest_wait_us)
            m->longest_wait_us = waited;
        inside(c, m, hold_us);
        if ((rc = hf_release(lease)) < 0)
            measure_die("release: %s: %s", hf_strerror(rc), hf_last_message());
    }
    m->cpu_us = measure_cpu_us() - cpu;
    hf_disconnect(client);
}

static void report(struct crowd *c, int members, const char *const agents[], int agent_count,
                   double wall_us)
{
    double cpu = 0, busiest = 0, longest = 0, *waits;
    long grants = 0, of_agent[AGENTS_MAX] = {0};
    size_t count = 0;

    for (int i = 0; i < members; i++)
        grants += c->member[i].grants;
    waits = malloc(sizeof(*waits) * (size_t)(grants ? grants : 1));
    for (int i = 0; i < members; i++) {
        struct member *m = &c->member[i];

        of_agent[m->agent] += m->grants;
        cpu += m->cpu_us;
        busiest = m->cpu_us > busiest ? m->cpu_us : busiest;
        longest = m->longest_wait_us > longest ? m->longest_wait_us : longest;
        for (long k = 0; k < m->grants && k < WAITS_MAX; k++)
            waits[count++] = (double)m->waits_us[k];
    }
    printf(
        "{\"bench\":\"crowd\",\"waiters\":%d,\"agents\":%d,\"grants\":%ld,\"seconds\":%.2f,"
        "\"grants_per_s\":%.1f,\"turn_ms\":%.3f,\"wait_p50_turns\":%.1f,\"wait_p99_turns\":%.1f,"
        "\"wait_max_turns\":%.1f,\"fair_turns\":%.2f,\"longest_streak\":%ld,\"overlaps\":%u,"
        "\"cpu_us_per_grant\":%.1f,\"cpu_percent_mean\":%.3f,\"cpu_percent_max\":%.3f,\"share\":{",
        members, agent_count, grants, wall_us / 1e6, (double)grants / wall_us * 1e6,
        wall_us / (double)grants / 1e3,
        measure_percentile(waits, count, 0.5) / wall_us * (double)grants,
        measure_percentile(waits, count, 0.99) / wall_us * (double)grants,
        longest / wall_us * (double)grants, longest / wall_us * (double)grants / members,
        c->longest_streak, atomic_load(&c->overlaps), cpu / (double)grants,
        cpu / wall_us / members * 100, busiest / wall_us * 100);
    for (int i = 0; i < agent_count; i++)
        printf("%s\"%s\":%.3f", i ? "," : "", agents[i], (double)of_agent[i] / (double)grants);
    puts("}}");
    free(waits);
}

int bench_crowd(int argc, char **argv)
{
    struct crowd *c = share_memory(sizeof(*c));
    const char *agents[AGENTS_MAX];
    int members = 0, agent_count = argc - 3, bad = 0, status;
    double start;
    long seconds, hold_us;
    char name[64];

    if (argc < 4 || agent_count > AGENTS_MAX) {
        fputs("usage: bench crowd SECONDS HOLD_US AGENT=PROCESSES...\n", stderr);
        return 64;
    }
    seconds = measure_number(argv[1], 1);
    hold_us = measure_number(argv[2], 0);
    snprintf(name, sizeof(name), "bench/crowd/%d", (int)getpid());
    for (int i = 0; i < agent_count; i++) {
        char *equals = strchr(argv[3 + i], '=');
        long processes;

        if (!equals)
            measure_die("'%s' is not AGENT=PROCESSES", argv[3 + i]);
        *equals = '\0';
        processes = measure_number(equals + 1, 1);
        agents[i] = argv[3 + i];
        for (long k = 0; k < processes; k++) {
            struct member *m = &c->member[members++];

            if (members > CROWD_MAX)
                measure_die("%d processes at most", CROWD_MAX);
            m->agent = i;
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                contend(c, m, agents[i], name, (double)seconds, (unsigned)hold_us);
                _exit(0);
            }
        }
    }
    sleep(1); /* for them to connect */
    start = measure_now_us();
    share_store(&c->start, 1);
    for (int i = 0; i < members; i++)
        bad += wait(&status) < 0 || status != 0;
    if (bad)
        measure_die("%d processes ended badly", bad);
    report(c, members, agents, agent_count, c->end_us - start);
    return 0;
}

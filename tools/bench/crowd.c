/* Fairness: processes of several agents that acquire one lock all the time, and hold it for a moment. Each sleeps in
 * hf_acquire() while it waits. A turn is the wall time divided by the grants; with W processes a wait of W turns is
 * fair. Waits that the end cuts off count as far as they came: who never got the lock has waited longest. */
#include "tools/bench/measure.h"

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
    double start_us, until_us;
    struct member member[CROWD_MAX];
};

/* Only the lock's holder is here. */
static void crowd_inside(struct crowd *c, const struct member *m, unsigned hold_us)
{
    if (atomic_fetch_add(&c->inside, 1) != 0)
        atomic_fetch_add(&c->overlaps, 1);
    c->streak = c->last_agent == m->agent ? c->streak + 1 : 1;
    c->last_agent = m->agent;
    if (c->streak > c->longest_streak)
        c->longest_streak = c->streak;
    usleep(hold_us);
    atomic_fetch_sub(&c->inside, 1);
}

static void crowd_contend(struct crowd *c, struct member *m, const char *agent, const char *name,
                          unsigned hold_us)
{
    hf_client *client;
    double cpu, asked;
    int rc;

    if ((rc = hf_connect(agent, &client)) < 0)
        measure_die("%s: %s", hf_strerror(rc), hf_last_message());
    share_wait(&c->start, 0);
    cpu = measure_cpu_us();
    while ((asked = measure_now_us()) < c->until_us) {
        double waited;
        hf_lease *lease;

        rc = hf_acquire(client, name, 0, (int64_t)((c->until_us - asked) / 1e3) + 1, &lease);
        if (rc < 0 && rc != HF_ETIMEDOUT && rc != HF_EBUSY)
            measure_die("%s: %s", hf_strerror(rc), hf_last_message());
        waited = measure_now_us() - asked;
        if (waited > m->longest_wait_us)
            m->longest_wait_us = waited;
        if (rc < 0)
            break;
        if (m->grants < WAITS_MAX)
            m->waits_us[m->grants] = (float)waited;
        m->grants++;
        crowd_inside(c, m, hold_us);
        if ((rc = hf_release(lease)) < 0)
            measure_die("release: %s: %s", hf_strerror(rc), hf_last_message());
    }
    m->cpu_us = measure_cpu_us() - cpu;
    hf_disconnect(client);
}

/* Jain's index: 1 where all have the same, 1/count where one has all. */
static double crowd_evenness(const double *shares, int count)
{
    double sum = 0, squares = 0;

    for (int i = 0; i < count; i++) {
        sum += shares[i];
        squares += shares[i] * shares[i];
    }
    return squares > 0 ? sum * sum / (count * squares) : 0;
}

static void crowd_report(struct crowd *c, int members, const char *const agents[], int agent_count,
                         double hold_us)
{
    double wall_us = c->until_us - c->start_us;
    double cpu = 0, busiest = 0, longest = 0, *waits;
    double of_member[CROWD_MAX], of_agent[AGENTS_MAX] = {0}, longest_of[AGENTS_MAX] = {0};
    long grants = 0;
    size_t count = 0;

    for (int i = 0; i < members; i++)
        grants += c->member[i].grants;
    waits = malloc(sizeof(*waits) * (size_t)(grants ? grants : 1));
    for (int i = 0; i < members; i++) {
        struct member *m = &c->member[i];

        of_member[i] = (double)m->grants;
        of_agent[m->agent] += (double)m->grants;
        cpu += m->cpu_us;
        busiest = m->cpu_us > busiest ? m->cpu_us : busiest;
        longest = m->longest_wait_us > longest ? m->longest_wait_us : longest;
        if (m->longest_wait_us > longest_of[m->agent])
            longest_of[m->agent] = m->longest_wait_us;
        for (long k = 0; k < m->grants && k < WAITS_MAX; k++)
            waits[count++] = (double)m->waits_us[k];
    }
    printf("{\"bench\":\"crowd\",\"waiters\":%d,\"agents\":%d,\"grants\":%ld,\"seconds\":%.2f,"
           "\"grants_per_s\":%.1f,\"turn_ms\":%.3f,\"wait_p50_turns\":%.1f,\"wait_p99_turns\":%.1f,"
           "\"wait_max_turns\":%.1f,\"fair_turns\":%.2f,\"longest_streak\":%ld,\"overlaps\":%u,"
           "\"cpu_us_per_grant\":%.1f,\"cpu_percent_mean\":%.3f,\"cpu_percent_max\":%.3f,"
           "\"wait_max_ms\":%.1f,\"ideal_ms\":%.1f,\"even_agents\":%.3f,\"even_waiters\":%.3f,"
           "\"share\":{",
           members, agent_count, grants, wall_us / 1e6, (double)grants / wall_us * 1e6,
           wall_us / (double)grants / 1e3,
           measure_percentile(waits, count, 0.5) / wall_us * (double)grants,
           measure_percentile(waits, count, 0.99) / wall_us * (double)grants,
           longest / wall_us * (double)grants, longest / wall_us * (double)grants / members,
           c->longest_streak, atomic_load(&c->overlaps), cpu / (double)grants,
           cpu / wall_us / members * 100, busiest / wall_us * 100, longest / 1e3,
           members * hold_us / 1e3, crowd_evenness(of_agent, agent_count),
           crowd_evenness(of_member, members));
    for (int i = 0; i < agent_count; i++)
        printf("%s\"%s\":%.3f", i ? "," : "", agents[i], of_agent[i] / (double)grants);
    printf("},\"longest_ms\":{");
    for (int i = 0; i < agent_count; i++)
        printf("%s\"%s\":%.1f", i ? "," : "", agents[i], longest_of[i] / 1e3);
    puts("}}");
    free(waits);
}

int bench_crowd(int argc, char **argv)
{
    struct crowd *c = share_memory(sizeof(*c));
    const char *agents[AGENTS_MAX];
    int members = 0, agent_count, bad = 0, status;
    long seconds, hold_us;
    const char *name = NULL;
    char own[64];

    if (argc > 2 && strcmp(argv[1], "--name") == 0) {
        name = argv[2];
        argc -= 2;
        argv += 2;
    }
    agent_count = argc - 3;
    if (argc < 4 || agent_count > AGENTS_MAX) {
        fputs("usage: bench crowd [--name NAME] SECONDS HOLD_US AGENT=PROCESSES...\n", stderr);
        return 64;
    }
    seconds = measure_number(argv[1], 1);
    hold_us = measure_number(argv[2], 0);
    snprintf(own, sizeof(own), "bench/crowd/%d", (int)getpid());
    name = name ? name : own;
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
                crowd_contend(c, m, agents[i], name, (unsigned)hold_us);
                _exit(0);
            }
        }
    }
    sleep(1); /* for them to connect */
    c->start_us = measure_now_us();
    c->until_us = c->start_us + (double)seconds * 1e6;
    share_store(&c->start, 1);
    for (int i = 0; i < members; i++)
        bad += wait(&status) < 0 || status != 0;
    if (bad)
        measure_die("%d processes ended badly", bad);
    crowd_report(c, members, agents, agent_count, (double)hold_us);
    return 0;
}

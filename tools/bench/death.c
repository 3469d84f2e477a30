/* From a holder's death to the release of its lock: a child takes a lock and is killed; a sample is the time until a
 * quorum of the nodes has no such key. The nodes are polled all the time, which costs the agent a little. */
#include "tools/bench/measure.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES_MAX   9
#define PATIENCE_US 20e6

struct scene {
    _Atomic uint32_t held;
};

static bool death_gone_from(redisContext *node, const char *name)
{
    redisReply *reply = redisCommand(node, "EXISTS %s", name);
    bool gone;

    if (!reply)
        measure_die("node: %s", node->errstr);
    gone = reply->integer == 0;
    freeReplyObject(reply);
    return gone;
}

static double death_die_once(struct scene *scene, const char *agent, const char *name, int nodes,
                             redisContext **node, long pause_us)
{
    int gone = 0;
    double start;
    pid_t holder;

    atomic_store(&scene->held, 0);
    holder = fork();
    if (holder == 0) {
        hf_lease *lease;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        library_must(hf_acquire(library_connect(agent), name, 0, -1, &lease), name);
        share_store(&scene->held, 1);
        for (;;)
            pause();
    }
    share_wait(&scene->held, 0);
    measure_pause(pause_us);
    start = measure_now_us();
    kill(holder, SIGKILL);
    while (gone < nodes / 2 + 1) {
        gone = 0;
        for (int i = 0; i < nodes; i++)
            gone += death_gone_from(node[i], name);
        if (measure_now_us() - start > PATIENCE_US)
            measure_die("%s is not released", name);
    }
    start = measure_now_us() - start;
    waitpid(holder, NULL, 0);
    return start;
}

int bench_death(int argc, char **argv)
{
    struct scene *scene = share_memory(sizeof(*scene));
    redisContext *node[NODES_MAX];
    int nodes = argc - 4;
    long rounds, pause_us;
    double *samples;

    if (nodes < 1 || nodes > NODES_MAX) {
        fputs("usage: bench death AGENT ROUNDS PAUSE_US SOCKET...\n", stderr);
        return 64;
    }
    rounds = measure_number(argv[2], 1);
    pause_us = measure_number(argv[3], 0);
    for (int i = 0; i < nodes; i++) {
        node[i] = redisConnectUnix(argv[4 + i]);
        if (!node[i] || node[i]->err)
            measure_die("node %s: %s", argv[4 + i], node[i] ? node[i]->errstr : "out of memory");
    }
    samples = malloc((size_t)rounds * sizeof(*samples));
    for (long k = 0; k < rounds; k++) {
        char name[LIBRARY_NAME_LEN + 1];

        library_name(name, "death", getpid() % 1000 * 10000 + k);
        samples[k] = death_die_once(scene, argv[1], name, nodes, node, pause_us);
    }
    printf(
        "{\"bench\":\"death\",\"rounds\":%ld,\"pause_us\":%ld,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
        rounds, pause_us, measure_percentile(samples, (size_t)rounds, 0.5),
        measure_percentile(samples, (size_t)rounds, 0.99));
    for (int i = 0; i < nodes; i++)
        redisFree(node[i]);
    free(samples);
    return 0;
}

/* --- starting processes ----------------------------------------------------------------------- */

/* A whole process from start to end, again and again: the time of `holdfast run NAME -- true`, or of `flock FILE true`.
 * The command's words may have one %d: the number of the round. */

#define WORDS_MAX 32

static double death_spawn_once(int words, char **command, long round)
{
    char text[WORDS_MAX][256], *argv[WORDS_MAX + 1] = {NULL};
    double start = measure_now_us();
    int status = 0;
    pid_t pid;

    for (int i = 0; i < words; i++) {
        const char *number = strstr(command[i], "%d");

        if (number)
            snprintf(text[i], sizeof(text[i]), "%.*s%ld%s", (int)(number - command[i]), command[i],
                     round, number + 2);
        else
            snprintf(text[i], sizeof(text[i]), "%s", command[i]);
        argv[i] = text[i];
    }
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        measure_die("cannot start %s", argv[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        measure_die("%s ended with status %d", argv[0], status);
    return measure_now_us() - start;
}

int bench_spawn(int argc, char **argv)
{
    double *samples;
    long rounds;

    if (argc < 4 || argc - 3 > WORDS_MAX) {
        fputs("usage: bench spawn LABEL ROUNDS COMMAND...\n", stderr);
        return 64;
    }
    rounds = measure_number(argv[2], 1);
    samples = malloc((size_t)rounds * sizeof(*samples));
    for (long k = 0; k < rounds; k++)
        samples[k] = death_spawn_once(argc - 3, argv + 3, k);
    printf("{\"bench\":\"spawn\",\"what\":\"%s\",\"rounds\":%ld,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
           argv[1], rounds, measure_percentile(samples, (size_t)rounds, 0.5),
           measure_percentile(samples, (size_t)rounds, 0.99));
    free(samples);
    return 0;
}

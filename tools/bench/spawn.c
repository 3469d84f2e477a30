/* A whole process from start to end, again and again: the time of `holdfast run NAME -- true`, or of `flock FILE true`.
 * The command's words may have one %d: the number of the round. */
#include "tools/bench/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/measure.h"

#define WORDS_MAX 32

static double spawn_run_once(int words, char **command, long round)
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
        samples[k] = spawn_run_once(argc - 3, argv + 3, k);
    printf("{\"bench\":\"spawn\",\"what\":\"%s\",\"rounds\":%ld,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
           argv[1], rounds, measure_percentile(samples, (size_t)rounds, 0.5),
           measure_percentile(samples, (size_t)rounds, 0.99));
    free(samples);
    return 0;
}

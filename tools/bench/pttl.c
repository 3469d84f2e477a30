/* Samples held leases on the nodes: PTTL of some random ones each second on each node, until stdin ends. A line of JSON
 * a second: for each node the shortest time left of a key, and how many keys were missing. */
#include "tools/bench/bench.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/bench/library.h"
#include "tools/bench/measure.h"

#define NODES_MAX 9

struct sample {
    double p50_ms, min_ms;
    long missing;
};

static struct sample pttl_ask(redisContext *node, const char *prefix, long names, long count)
{
    double *left_ms = malloc(sizeof(*left_ms) * (size_t)count);
    struct sample sample = {0};
    long found = 0;

    for (long k = 0; k < count; k++) {
        char name[LIBRARY_NAME_LEN + 1];

        library_name(name, prefix, random() % names);
        redisAppendCommand(node, "PTTL %b", name, (size_t)LIBRARY_NAME_LEN);
    }
    for (long k = 0; k < count; k++) {
        void *reply;

        if (redisGetReply(node, &reply) != REDIS_OK)
            measure_die("node: %s", node->errstr);
        if (((redisReply *)reply)->integer < 0)
            sample.missing++;
        else
            left_ms[found++] = (double)((redisReply *)reply)->integer;
        freeReplyObject(reply);
    }
    if (found) {
        sample.p50_ms = measure_percentile(left_ms, (size_t)found, 0.5);
        sample.min_ms = left_ms[0];
    }
    free(left_ms);
    return sample;
}

int bench_pttl(int argc, char **argv)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    redisContext *node[NODES_MAX];
    int nodes = argc - 4;
    long names, count;

    if (nodes < 1 || nodes > NODES_MAX) {
        fputs("usage: bench pttl PREFIX NAMES PER_SECOND SOCKET...\n", stderr);
        return 64;
    }
    names = measure_number(argv[2], 1);
    count = measure_number(argv[3], 1);
    for (int i = 0; i < nodes; i++) {
        node[i] = redisConnectUnix(argv[4 + i]);
        if (!node[i] || node[i]->err)
            measure_die("node %s: %s", argv[4 + i], node[i] ? node[i]->errstr : "out of memory");
    }
    srandom((unsigned)getpid());
    while (poll(&in, 1, 1000) == 0) {
        struct sample samples[NODES_MAX];
        const char *separator = "";

        for (int i = 0; i < nodes; i++)
            samples[i] = pttl_ask(node[i], argv[1], names, count);
        printf("{\"bench\":\"pttl\",\"asked\":%ld,\"nodes\":[", count);
        for (int i = 0; i < nodes; i++, separator = ",")
            printf("%s{\"p50_ms\":%.0f,\"min_ms\":%.0f,\"missing\":%ld}", separator,
                   samples[i].p50_ms, samples[i].min_ms, samples[i].missing);
        puts("]}");
        fflush(stdout);
    }
    for (int i = 0; i < nodes; i++)
        redisFree(node[i]);
    return 0;
}

/* Lock and unlock through the library, one at a time, from one process: each cycle another name (as
 * the floor does). */
#include "tools/bench/measure.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libclient/holdfast.h"

int bench_lock(int argc, char **argv)
{
    double *samples, *acquires, cpu;
    hf_client *client;
    long cycles;
    int rc;

    if (argc != 3) {
        fputs("usage: bench lock AGENT CYCLES\n", stderr);
        return 64;
    }
    cycles = measure_number(argv[2], 1);
    samples = malloc(sizeof(*samples) * (size_t)cycles);
    acquires = malloc(sizeof(*acquires) * (size_t)cycles);
    if ((rc = hf_connect(argv[1], &client)) < 0)
        measure_die("%s: %s", hf_strerror(rc), hf_last_message());
    cpu = measure_cpu_us();
    for (long k = 0; k < cycles; k++) {
        double start = measure_now_us();
        hf_lease *lease;
        char name[64];

        snprintf(name, sizeof(name), "bench/lock/%d/%ld", (int)getpid(), k % 256);
        if ((rc = hf_try(client, name, &lease)) < 0)
            measure_die("cycle %ld: %s: %s", k, hf_strerror(rc), hf_last_message());
        acquires[k] = measure_now_us() - start;
        if ((rc = hf_release(lease)) < 0)
            measure_die("cycle %ld: release: %s: %s", k, hf_strerror(rc), hf_last_message());
        samples[k] = measure_now_us() - start;
    }
    cpu = measure_cpu_us() - cpu;
    printf("{\"bench\":\"lock\",\"p50_us\":%.1f,\"p99_us\":%.1f,\"acquire_p50_us\":%.1f,"
           "\"acquire_p99_us\":%.1f,\"client_cpu_us\":%.2f}\n",
           measure_percentile(samples, (size_t)cycles, 0.5),
           measure_percentile(samples, (size_t)cycles, 0.99),
           measure_percentile(acquires, (size_t)cycles, 0.5),
           measure_percentile(acquires, (size_t)cycles, 0.99), cpu / (double)cycles);
    hf_disconnect(client);
    free(samples);
    free(acquires);
    return 0;
}

/* --- a hold ----------------------------------------------------------------------------------- */

/* Takes many leases through the library and holds them until stdin ends; checks each of them once a second. Reports
 * when it has all, and at the end how many were lost. It ends without releasing them, like a process that dies. */

#define AT_ONCE 32 /* names in one call */

static void hold_take(hf_client *client, const char *prefix, long from, int count,
                      hf_lease **ret_leases)
{
    struct hf_acquire_options options = {.size = sizeof(options), .wait_ms = -1};
    char text[AT_ONCE][LIBRARY_NAME_LEN + 1];
    struct hf_name names[AT_ONCE];

    for (int i = 0; i < count; i++) {
        library_name(text[i], prefix, from + i);
        names[i] = (struct hf_name){text[i], LIBRARY_NAME_LEN};
    }
    library_must(hf_acquire_all(client, &options, names, (size_t)count, ret_leases), text[0]);
}

/* Returns how many are held; lowers `least_ms` to the shortest remaining validity. */
static long hold_look(hf_lease **leases, long count, double *least_ms)
{
    long held = 0;

    for (long i = 0; i < count; i++) {
        double left_ms = (double)hf_remaining_ms(leases[i]);

        held += left_ms > 0;
        if (left_ms < *least_ms)
            *least_ms = left_ms;
    }
    return held;
}

int bench_hold(int argc, char **argv)
{
    double start = measure_now_us(), cpu = measure_cpu_us(), least_ms = 1e12;
    long from, count, looks = 0, held;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    hf_client *client;
    hf_lease **leases;

    if (argc != 5) {
        fputs("usage: bench hold AGENT PREFIX FROM COUNT\n", stderr);
        return 64;
    }
    from = measure_number(argv[3], 0);
    count = measure_number(argv[4], 1);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is meant. */
    leases = calloc((size_t)count, sizeof(*leases));
    client = library_connect(argv[1]);
    for (long i = 0; i < count; i += AT_ONCE)
        hold_take(client, argv[2], from + i, (int)(count - i < AT_ONCE ? count - i : AT_ONCE),
                  leases + i);
    printf("{\"bench\":\"hold\",\"leases\":%ld,\"seconds\":%.2f,\"client_cpu_us\":%.2f}\n", count,
           (measure_now_us() - start) / 1e6, (measure_cpu_us() - cpu) / (double)count);
    fflush(stdout);
    while (poll(&in, 1, 1000) == 0) {
        (void)hold_look(leases, count, &least_ms);
        looks++;
    }
    held = hold_look(leases, count, &least_ms);
    printf(
        "{\"bench\":\"held\",\"leases\":%ld,\"lost\":%ld,\"looks\":%ld,\"least_left_ms\":%.0f}\n",
        count, count - held, looks + 1, least_ms);
    fflush(stdout);
    _exit(0);
}

/* --- PTTL ------------------------------------------------------------------------------------- */

/* Samples held leases on the nodes: PTTL of some random ones each second on each node, until stdin ends. A line of JSON
 * a second: for each node the shortest time left of a key, and how many keys were missing. */

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

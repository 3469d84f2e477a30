/* The cost of waiting: one process holds many names, and another, on this host or another, waits for them, always in
 * vain. Both end when their stdin does; tools/bench/run reads the nodes' counters meanwhile. */
#include "tools/bench/bench.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tools/bench/measure.h"

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

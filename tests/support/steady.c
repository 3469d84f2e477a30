/* A client that behaves: holds leases, and takes one more lock again and again.
 *
 *   steady AGENT LEASES
 *
 * Prints "ready" when it has the leases. At each line on stdin: how it went since the last one, as
 * "turns=N p50_us=N p99_us=N max_us=N lost=N"; a turn is an acquire, a check and a release. Ends with stdin. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tests/support/program.h"

#define TURNS_MAX  1000000
#define LEASES_MAX 1000

static uint32_t took_us[TURNS_MAX];
static hf_lease *leases[LEASES_MAX];

static hf_lease *acquire(hf_client *client, const char *name)
{
    hf_lease *lease;

    if (hf_acquire(client, name, 0, -1, &lease) < 0)
        die(name, hf_last_message());
    return lease;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void report(uint32_t turns, unsigned lost)
{
    qsort(took_us, turns, sizeof(took_us[0]), by_size);
    printf("turns=%u p50_us=%u p99_us=%u max_us=%u lost=%u\n", turns,
           turns ? took_us[turns / 2] : 0, turns ? took_us[(uint64_t)turns * 99 / 100] : 0,
           turns ? took_us[turns - 1] : 0, lost);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 0, lost = 0;
    uint32_t turns = 0;
    hf_client *client;
    char name[32], line[16];

    if (argc != 3 || count > LEASES_MAX || hf_connect(argv[1], &client) < 0)
        die("connect", hf_last_message());
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "kept-%u", i);
        leases[i] = acquire(client, name);
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t begin_us = now_ns() / 1000;
        hf_lease *lease = acquire(client, "steady");

        lost += !hf_held(lease);
        if (hf_release(lease) < 0)
            die("release", hf_last_message());
        if (turns < TURNS_MAX)
            took_us[turns++] = (uint32_t)(now_ns() / 1000 - begin_us);
        for (unsigned i = 0; i < count; i++)
            lost += !hf_held(leases[i]);
        if (poll(&input, 1, 2) <= 0)
            continue;
        if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
            break;
        report(turns, lost);
        turns = lost = 0;
    }
    hf_disconnect(client);
    return 0;
}

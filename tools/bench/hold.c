/* Takes many leases through the library and holds them until stdin ends; checks each of them once a second. Reports
 * when it has all, and at the end how many were lost. It ends without releasing them, like a process that dies. */
#include "tools/bench/bench.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/bench/library.h"
#include "tools/bench/measure.h"

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

/* Lock and unlock through the library, one at a time, from one process: each cycle another name (as
 * the floor does). */
#include "tools/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tools/bench/measure.h"

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

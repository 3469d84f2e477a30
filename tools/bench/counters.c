/* An agent's counters, read from its table: unlike `holdfast status` this costs nothing, whatever is held. */
#include "tools/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "shm/table.h"
#include "tools/bench/measure.h"

int bench_counters(int argc, char **argv)
{
    char shm_name[HF_TABLE_NAME_MAX], why[256] = "";
    struct hf_table table;

    if (argc != 2) {
        fputs("usage: bench counters AGENT\n", stderr);
        return 64;
    }
    if (hf_table_name(argv[1], false, geteuid(), shm_name) < 0 ||
        hf_table_open(shm_name, geteuid(), &table, why, sizeof(why)) < 0)
        measure_die("%s: %s", argv[1], why);
    for (uint32_t i = 0; i < table.counter_count; i++)
        printf("%s\"%s\":%" PRIu64, i ? "," : "{", hf_counter_name((enum hf_counter)i),
               hf_counter_read(&table, (enum hf_counter)i));
    puts("}");
    hf_table_close(&table);
    return 0;
}

/* Lets an agent that does not run find a slot whose generations are nearly used up, which takes
 * millions of leases otherwise.
 *
 *   torture_generation DIR SLOT GENERATION -- HOLDFASTD_ARGUMENT...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config.h"
#include "agent/process/host.h"
#include "agent/state/journal.h"
#include "shm/status.h"
#include "tests/support/config.h"
#include "tests/support/journal.h"

int main(int argc, char **argv)
{
    struct journal_lease record = {.state = JOURNAL_FREE};
    static struct config config;
    struct journal *journal;
    char why[1024] = "";
    struct host host;
    uint32_t found, slot;
    int code = 0;

    if (argc < 5 || strcmp(argv[4], "--") != 0 ||
        config_load(argc - 4, argv + 4, &config, &code, why, sizeof(why)) < 0 ||
        host_read(&host, why, sizeof(why)) < 0 ||
        journal_open(argv[1], config.capacity, config.node_count, config.list_hash, &host.clock,
                     &journal, &found, why, sizeof(why)) != HF_OK) {
        fprintf(stderr, "torture_generation: %s\n", why);
        return 2;
    }
    slot = (uint32_t)strtoul(argv[2], NULL, 10);
    record.generation = (uint32_t)strtoul(argv[3], NULL, 10);
    for (int i = 0; i < HF_NODES_MAX; i++)
        record.d[i] = HF_TIME_PAST;
    journal_put(journal, slot, &record);
    journal_close(journal);
    return 0;
}

/* bench: the table of measurements. */
#include "tools/bench/measure.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage;
} commands[] = {
    {"floor", bench_floor,
     "floor plain|scripts lat CYCLES NODE...   the bare quorum lock, one at a time\n"
     "  floor plain|scripts uring CYCLES NODE...   the same through io_uring\n"
     "  floor plain|scripts pace:US CYCLES NODE...   with so long from one asking to the next\n"
     "  floor plain|scripts all|turn CYCLES NODE...   it waits for all nodes; for one after the "
     "other\n"
     "  floor plain|scripts rtt CYCLES PAUSE_US NODE...   only its acquire: one round trip to a "
     "quorum\n"
     "  floor plain|scripts tput CYCLES WIDTH NODE...   WIDTH locks in flight\n"
     "  floor plain|scripts renew|shuffled|paced:MS KEYS BATCH NODE...   KEYS renewed once, BATCH "
     "per "
     "script"},
    {"check", bench_check, "check AGENT ROUNDS   hf_held() beside clock_gettime(CLOCK_BOOTTIME)"},
    {"lock", bench_lock, "lock AGENT CYCLES    lock and unlock through the library, one at a time"},
    {"futex", bench_futex,
     "futex ROUNDS PAUSE_US [apart]   a round trip between two processes; each on a processor of "
     "its own"},
    {"turns", bench_turns,
     "turns AGENT AGENT ROUNDS PAUSE_US   release to grant, of two processes that take turns"},
    {"crowd", bench_crowd,
     "crowd [--name NAME] SECONDS HOLD_US AGENT=PROCESSES...   many that want one lock: waits, "
     "shares, CPU"},
    {"shared", bench_shared,
     "shared cost AGENT plain|shared|exclusive CYCLES   one lock at a time, of that kind\n"
     "  shared crowd SECONDS HOLD_US AGENT=ALONE AGENT=SHARING...   waits of those who share one "
     "lock, "
     "and who want it alone"},
    {"queue", bench_queue,
     "queue hold|wait AGENT PREFIX NAMES   holds or waits for many names until stdin ends"},
    {"hold", bench_hold,
     "hold AGENT PREFIX FROM COUNT   takes leases and holds them until stdin ends"},
    {"pttl", bench_pttl,
     "pttl PREFIX NAMES PER_SECOND SOCKET...   PTTL of held keys, until stdin ends"},
    {"many", bench_many,
     "many AGENT CLIENTS MILLISECONDS [SET]   locks and unlocks of many processes; sets of SET by "
     "each"},
    {"table", bench_table,
     "table LEASES ROUNDS   check and look-up of random leases; needs no agent"},
    {"spawn", bench_spawn, "spawn LABEL ROUNDS COMMAND...   whole processes"},
    {"death", bench_death,
     "death AGENT ROUNDS PAUSE_US SOCKET...   from a holder's death to the release"},
    {"load", bench_load,
     "load KEY_NS SCRIPT_NS [--quick]   what renewals ask of a node, simulated; docs/SCALE.md"},
    {"relay", bench_relay,
     "relay DELAY_US PORT=PORT...   passes on what comes, so much later each way, until stdin "
     "ends"},
    {"counters", bench_counters, "counters AGENT   of its table"},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fputs("usage: bench MEASUREMENT\n", stderr);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(stderr, "  %s\n", commands[i].usage);
    return 64;
}

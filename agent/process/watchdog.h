/* The service manager's watchdog (systemd.service(5), WatchdogSec=), fed by what every thread does. Main thread.
 *
 * The manager ends an agent that does not feed it in time, and starts the next, which takes the leases over. Main feeds it
 * while the broker and the renewal thread go on, too (agent/core/progress.h). Where one of them stands still for half of
 * WATCHDOG_USEC, and for a second at least, main says so and has the manager act at once (WATCHDOG=trigger). Without a
 * watchdog main says it alone.
 */
#ifndef HOLDFAST_AGENT_PROCESS_WATCHDOG_H
#define HOLDFAST_AGENT_PROCESS_WATCHDOG_H

#include <stdbool.h>

#include "agent/core/progress.h"

struct hf_table_header;

struct watchdog {
    hf_dur feed_every; /* 0: nobody wants to be fed */
    hf_dur still_most; /* beyond it a thread hangs */
    hf_time fed;
    struct progress broker, renewal;
    bool hangs; /* as it was told */
};

void watchdog_init(struct watchdog *dog);

/* To be called in each turn of main. */
void watchdog_turn(struct watchdog *dog, const struct hf_table_header *header, hf_time now);

#endif

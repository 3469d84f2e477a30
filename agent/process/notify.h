/* Telling the service manager (sd_notify(3)): one datagram to $NOTIFY_SOCKET. Does nothing
 * without one. Main thread. */
#ifndef HOLDFAST_AGENT_PROCESS_NOTIFY_H
#define HOLDFAST_AGENT_PROCESS_NOTIFY_H

#include <stdbool.h>

#include "agent/core/heartbeat.h"
#include "shm/nstime.h"

/* Lines as in sd_notify(3): "READY=1\nSTATUS=...". Never blocks; failures do not matter. */
void notify_send(const char *state);

/* Whether there is a service manager to tell. */
bool notify_is_wanted(void);

/* RELOADING=1; the next READY=1 is its end. */
void notify_reloading(void);

/* The service manager's watchdog (systemd.service(5), WatchdogSec=), fed by what every thread does. Main thread.
 *
 * The manager ends an agent that does not feed it in time, and starts the next, which takes the leases over. Main feeds it
 * while the broker and the renewal thread go on, too (agent/core/heartbeat.h). Where one of them stands still for half of
 * WATCHDOG_USEC, and for a second at least, main says so and has the manager act at once (WATCHDOG=trigger). Without a
 * watchdog main says it alone.
 */

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

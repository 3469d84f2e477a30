/* Telling the service manager (sd_notify(3)): one datagram to $NOTIFY_SOCKET. Does nothing
 * without one. Main thread. */
#ifndef HOLDFAST_AGENT_PROCESS_NOTIFY_H
#define HOLDFAST_AGENT_PROCESS_NOTIFY_H

#include <stdbool.h>

#include "shm/nstime.h"

/* Lines as in sd_notify(3): "READY=1\nSTATUS=...". Never blocks; failures do not matter. */
void notify_send(const char *state);

/* Whether there is a service manager to tell. */
bool notify_is_wanted(void);

/* RELOADING=1; the next READY=1 is its end. */
void notify_reloading(void);

/* Half the time after which the watchdog of the service manager ends a process that did not say WATCHDOG=1; 0 when
 * there is none. */
hf_dur notify_watchdog(void);

#endif

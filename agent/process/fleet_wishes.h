/* Changes of the fleet that operators ask for over the control socket: read, looked at by a thread (hf-fleet,
 * agent/process/fleet_look.h), and given to the broker, which begins them. What becomes of a change stands in the answers to `fleet`.
 *
 * (!) One at a time. Main thread.
 */
#ifndef HOLDFAST_AGENT_PROCESS_FLEET_WISHES_H
#define HOLDFAST_AGENT_PROCESS_FLEET_WISHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/thread_role.h"

struct agent;
struct config;
struct fleet_wishes;

int fleet_wishes_create(struct agent *agent,
                        struct fleet_wishes **ret_wishes) IN_MAIN_THREAD; /* HF_ENOMEM */
/* After the broker thread has ended, or before it began. NULL is fine. A look that is under way is left behind. */
void fleet_wishes_destroy(struct fleet_wishes *wishes) IN_MAIN_THREAD;

/* Takes a request (agent/process/fleet_request.h); `config` is the one in force. Its number; 0: it was refused at once, for `ret_why`. */
uint64_t fleet_wishes_ask(struct fleet_wishes *wishes, const char *request, uint32_t uid,
                          const struct config *config, char *ret_why, size_t size) IN_MAIN_THREAD;
void fleet_wishes_turn(struct fleet_wishes *wishes) IN_MAIN_THREAD;
/* The broker thread has ended: what has not begun by now is over. */
void fleet_wishes_end(struct fleet_wishes *wishes) IN_MAIN_THREAD;
/* Whether that one is over, and the line to answer with. It stays until the next one is over. */
bool fleet_wishes_over(const struct fleet_wishes *wishes, uint64_t number,
                       const char **ret_line) IN_MAIN_THREAD;

#endif

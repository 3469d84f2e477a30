/* The control request `fleet-change`, and its answers: what an operator asks for.
 *
 *   fleet-change move ID ADDRESS [gone]    another server for a member; gone: the one that it leaves is stopped for good
 *   fleet-change add ID ADDRESS
 *   fleet-change remove ID [gone]
 *   fleet-change ttl-max MS
 *   fleet-change gone ID                   the server that leaves as ID, in a change under way, is stopped for good
 *   fleet-change abort [gone]              back to what was before the change under way; gone: the server that came is stopped for good
 *   fleet-change confirm                   every node has forgotten the record, and no host goes by a later one
 *
 * ID and ADDRESS are words as in the answer to `fleet` (agent/process/fleet_answer.h). The answer is one line:
 *
 *   begun VERSION LEAST_MS MEMBERS SEAT    the version that comes, how long until it has settled at the least, how many
 *                                          members it has, and the new server's seat ("-": none); more words may follow
 *   error: later: TEXT                     not now
 *   error: TEXT                            not so
 */
#ifndef HOLDFAST_AGENT_PROCESS_FLEET_REQUEST_H
#define HOLDFAST_AGENT_PROCESS_FLEET_REQUEST_H

#include <stdio.h>

#include "agent/core/fleet_change.h"

#define FLEET_REQUEST "fleet-change "

/* Reads a request, which begins with FLEET_REQUEST. `seat` of the wish is the ADDRESS as it was given. HF_OK or HF_EINVAL. */
int fleet_request_read(const char *request, struct fleet_wish *ret_wish);
/* The line for what was begun: `record` will be put. */
void fleet_request_begun(const struct fleet_record *record, const char *seat, FILE *out);

#endif

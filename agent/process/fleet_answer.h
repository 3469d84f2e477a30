/* The answer to the control request `fleet`: what is known of the fleet's record and of what each node says of it.
 *
 * Lines of a key and its value, the first of them "fleet 1", the form's version, the last one "end":
 *
 *   known yes|no            whether the agent goes by a record; with `no` the lines up to `by` are absent
 *   name HEX                the fleet's own name, and `digest HEX`: the record's
 *   version N               and `state founding|changing|complete`, `ttl_max_ms N`
 *   file_ttl_max_ms N       ttl_max of this host's configuration file, as the agent read it
 *   told_version N          a later one, which servers tell that are no seats of this one; absent: there is none
 *   seat ID ADDRESS         a member, in the fleet's order
 *   settles_ms N            so long until a complete record has settled; absent: it has, or it is changing
 *   before ID ADDRESS [gone]   a member of the version before; `gone`: by the operator's word its server is stopped for good
 *   by HOST UID WALL_MS     who wrote the record and when, where that is known
 *   node ID FIELD=...       a node of this host's configuration:
 *                             says=unknown|none|ours|founding|foreign|unreadable
 *                             counts=yes|no      whether its answers count
 *                             elsewhere=yes|no   the configuration has another address than its seat
 *                             seat=, configured=, connected=   addresses
 *                             link=              by which this host reaches it; absent: it has no as=SEAT for it
 *   waits TEXT              what is waited for; absent: nothing
 *   differs TEXT            why this host may not take locks; absent: it may
 *
 * An id, an address and a host are one word each, with the escapes of shm/escape.h and \x20 for a space; "-" is the
 * empty one. TEXT is the rest of the line, with those escapes. Who reads skips keys and fields that it does not know;
 * the version changes only when that is not enough.
 */
#ifndef HOLDFAST_AGENT_PROCESS_FLEET_ANSWER_H
#define HOLDFAST_AGENT_PROCESS_FLEET_ANSWER_H

#include <stdio.h>

#include "agent/record/fleet_shown.h"

/* Pure, but for the writing. */
void fleet_answer(const struct fleet_shown *shown, hf_time now, FILE *out);

#endif

/* Changes of the fleet that operators ask for over the control socket: read, looked at by a thread (hf-fleet,
 * agent/process/fleet_wishes.h), and given to the broker, which begins them. What becomes of a change stands in the answers to `fleet`.
 *
 * (!) One at a time. Main thread.
 */
#ifndef HOLDFAST_AGENT_PROCESS_FLEET_WISHES_H
#define HOLDFAST_AGENT_PROCESS_FLEET_WISHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/base/thread.h"
#include "agent/config/config.h"
#include "agent/core/fleet_change.h"
#include "agent/core/node_trust.h"
#include "agent/state/fleet_shown.h"

struct agent;
struct config;
struct fleet_wishes;

int fleet_wishes_create(struct agent *agent,
                        struct fleet_wishes **ret_wishes) IN_MAIN_THREAD; /* HF_ENOMEM */
/* After the broker thread has ended, or before it began. NULL is fine. A look that is under way is left behind. */
void fleet_wishes_destroy(struct fleet_wishes *wishes) IN_MAIN_THREAD;

/* Takes a request (agent/process/fleet_wishes.h); `config` is the one in force. Its number; 0: it was refused at once, for `ret_why`. */
uint64_t fleet_wishes_ask(struct fleet_wishes *wishes, const char *request, uint32_t uid,
                          const struct config *config, char *ret_why, size_t size) IN_MAIN_THREAD;
void fleet_wishes_turn(struct fleet_wishes *wishes) IN_MAIN_THREAD;
/* The broker thread has ended: what has not begun by now is over. */
void fleet_wishes_end(struct fleet_wishes *wishes) IN_MAIN_THREAD;
/* Whether that one is over, and the line to answer with. It stays until the next one is over. */
bool fleet_wishes_over(const struct fleet_wishes *wishes, uint64_t number,
                       const char **ret_line) IN_MAIN_THREAD;

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
 *                             link=              by which this host reaches it; absent: it has no fleet_address=SEAT for it
 *   waits TEXT              what is waited for; absent: nothing
 *   differs TEXT            why this host may not take locks; absent: it may
 *
 * An id, an address and a host are one word each, with the escapes of shm/text.h and \x20 for a space; "-" is the
 * empty one. TEXT is the rest of the line, with those escapes. Who reads skips keys and fields that it does not know;
 * the version changes only when that is not enough.
 */

/* Pure, but for the writing. */
void fleet_answer(const struct fleet_shown *shown, hf_time now, FILE *out);

/* Whether an operator's change of the fleet may be asked for: looks at the server that is to be a node, at one that is said to be
 * gone, and once more at those that stay. It waits for names and nodes, a few seconds at most, so it has a thread of its own (agent/process/fleet_wishes.c).
 *
 * (!) What a server that is no empty master without replicas would break is in docs/SAFETY.md. What only the record tells (ids,
 * how many stay, what is under way) is judged by agent/core/fleet_change.h afterwards.
 */

/* A copy of all that is looked at: the thread may outlive what it was asked from. */
struct fleet_probe {
    /* `seat`: the address as it was given; then the seat of the server there. */
    struct fleet_wish wish;
    struct config config; /* passwords */
    struct fleet_shown shown;
    char run_id[HF_NODES_MAX][TRUST_RUN_ID_LEN + 1]; /* of the configured nodes; "": not known */
    bool good;
    char why[512]; /* if not */
};

/* Fills in `good`, `why` and the wish's seat. */
void fleet_probe(struct fleet_probe *probe);

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
 * ID and ADDRESS are words as in the answer to `fleet` (agent/process/fleet_wishes.h). The answer is one line:
 *
 *   begun VERSION LEAST_MS MEMBERS SEAT    the version that comes, how long until it has settled at the least, how many
 *                                          members it has, and the new server's seat ("-": none); more words may follow
 *   error: later: TEXT                     not now
 *   error: TEXT                            not so
 */

#define FLEET_REQUEST "fleet-change "

/* Reads a request, which begins with FLEET_REQUEST. `seat` of the wish is the ADDRESS as it was given. HF_OK or HF_EINVAL. */
int fleet_request_read(const char *request, struct fleet_wish *ret_wish);
/* The line for what was begun: `record` will be put. */
void fleet_request_begun(const struct fleet_record *record, const char *seat, FILE *out);

#endif

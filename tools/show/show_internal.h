/* Events name a node by its place in the list of nodes. Where the fleet has changed, the agent leaves one event for each place
 * that was another node's before (HF_EVENT_NODE_PLACE). One thread. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_INTERNAL_H
#define HOLDFAST_TOOLS_SHOW_SHOW_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_admin.h"
#include "shm/layout.h"
#include "shm/table.h"
#include "shm/table_notes.h"
#include "tools/output/json.h"
#include "tools/reader/events.h"
#include "tools/reader/fleet_told.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/reader/waiting.h"

enum event_place { PLACE_AS_NOW, PLACE_AS_THEN, PLACE_UNKNOWN };

/* Whether a node of that id was at some place. */
bool event_places_has(const char *id);

/* The agent as JSON, for every document. */

/* null without words, whose `wall_ms` is 0 then. */
json_t *show_last_words_json(const struct hf_last_words *words);

/* The member "agent". */
void show_agent_json(struct json_out *out, const struct reader *reader, const struct life *life);

/* Printing events: a line for people, or a JSON object on a line. */

/* Reads the nodes' ids in advance: they are absent while the next agent starts. */
void show_event_learn(const struct reader *reader);

/* Whether the event is about the node that had that id then; after show_event_learn(). */
bool show_event_is_of(const struct reader *reader, const struct hf_event *event, const char *node);

void show_event(const struct reader *reader, const struct hf_event *event);
void show_event_json(const struct reader *reader, const struct hf_event *event);

/* `count` events were overwritten before they could be read. As a line of JSON, or on stderr. */
void show_event_overwritten(const char *subcommand, uint64_t count, bool json);

/* The fleet's record for people and as JSON. */

/* The record, a line per node, and what is not as it should be. */
void show_fleet(const struct fleet_told *told);

/* The members of `fleet --json`. */
void show_fleet_json(struct json_out *out, const struct fleet_told *told);

/* Leases for people and as JSON. */

/* The table of leases on stdout, with a heading. Returns their number; `ret_unreadable` as for
 * reader_walk(). */
uint32_t show_lease_list(const struct reader *reader, const struct reader_filter *filter,
                         uint32_t *ret_unreadable);

/* The same as the array "leases". */
uint32_t show_lease_list_json(struct json_out *out, const struct reader *reader,
                              const struct reader_filter *filter, uint32_t *ret_unreadable);

/* All details of one lease, one per line. */
void show_lease(const struct reader *reader, const struct hf_slot_view *view, bool in_force);
json_t *show_lease_json(const struct reader *reader, const struct hf_slot_view *view,
                        bool in_force);

/* "12 slots could not be read ..." on stderr, if any. */
void show_lease_unreadable(const char *subcommand, uint32_t unreadable);

/* Nodes for people and as JSON. */

/* Without a living agent (`life`) these show what was last known of the nodes, as such. */

/* One line per node, with a heading. */
void show_node_list(const struct reader *reader, const struct life *life);

/* All details of each node. */
void show_node_list_long(const struct reader *reader, const struct life *life);

/* The array "nodes", each with its newest `renewals` renewals. */
void show_node_list_json(struct json_out *out, const struct reader *reader, const struct life *life,
                         uint32_t renewals);

/* The words of enum hf_quarantine_reason bits, as an array. */
json_t *show_node_quarantine_json(uint32_t reasons);

/* The recent renewals on each node, the newest first. */

/* At most `most` per node. */
void show_renewals(const struct reader *reader, uint32_t most);

/* Who waits for locks, for people and as JSON. */

/* A table with a heading after an empty line; nothing if nobody waits. `all`: says how many more wait than it can show. */
void show_waiter_list(const struct waiting *waiting, bool all);

/* "waiting   1. pid 123 ..." a line each, for one name. */
void show_waiter_of_lease(const struct waiting *waiting);

/* null if it is not known who waits. */
void show_waiter_json(struct json_out *out, const struct waiting *waiting);

/* The names held on any host, as the nodes report them. */

/* `list --all-hosts`. An exit code. */
int list_all(const struct reader_args *args, const struct reader_name *prefix);

/* The events that an agent still has: history, and what watch begins with. */

/* Prints those that pass the filter and are of `args->node`, only the newest `args->count`. Returns how many there are.
 * Spoils `events`. After show_event_learn(). */
size_t past_events_print(const struct reader *reader, const struct reader_args *args,
                         const struct events_filter *filter, struct events *events);

/* The last run of a job that runs once in a period, for show and history. */

/* Asks the nodes by the agent; false: there is none that counts, or nobody can say. */
bool last_run_ask(const char *agent, const void *name, size_t name_len,
                  struct hf_once_info *ret_info);
/* The members of it. */
void last_run_put(json_t *object, const struct hf_once_info *info);

/* A file for node_exporter's textfile collector, which reads every *.prom of its directory at any moment. */

#define TEXTFILE_SUFFIX ".prom"

/* The holder of a name on any host, for people and as JSON. Not thread-safe (user names). */

/* Only the holder's members. */
void who_put_holder(json_t *object, const struct hf_holder *holder);

#endif

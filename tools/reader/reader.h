/* Reads an agent's table: opened by the agent's name, read-only, with or without a living agent.
 * One thread. */
#ifndef HOLDFAST_TOOLS_READER_READER_H
#define HOLDFAST_TOOLS_READER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/slot.h"
#include "shm/table.h"
#include "tools/reader/places.h"

#define READER_WHY_SIZE 512

struct reader {
    struct place place;
    struct hf_table table;
    char version[sizeof(((struct hf_table_header *)0)->version) + 1];
    char host[sizeof(((struct hf_table_header *)0)->host) + 1];
    char dir[HF_DIR_MAX + 1]; /* the agent's; "": it does not tell */
    bool elsewhere;           /* the agent lives, and in another directory than commands look in */
};

/* "agent A (pid 1) runs in DIR, and commands of this environment look in OTHER; use --agent DIR/sock". */
#define READER_ELSEWHERE_SIZE (2 * READER_WHY_SIZE + 3 * HF_DIR_MAX)
const char *reader_elsewhere(char *out, size_t size, const struct reader *reader);

/* Whether no program can attach to an agent that lives, because nothing listens at its attach socket: "agent A runs (pid 1), but ...". */
#define READER_SHUT_REMEDY                                                                         \
    "restart the agent: leases that are valid survive that; and see what removes its directory"
bool reader_is_shut(const struct reader *reader, char *out, size_t size);

/* `agent` as of places_find(). HF_OK, or with a sentence in `why` the codes of hf_table_open(),
 * HF_EINVAL for a bad name, HF_ETIMENS: the agent counts its time in another namespace, so the
 * instants in its table mean nothing here. */
int reader_open(const char *agent, struct reader *ret_reader, char *why, size_t why_size);

/* The same for one place. */
int reader_open_at(const struct place *place, struct reader *ret_reader, char *why,
                   size_t why_size);

/* The same without waiting for an agent that is just starting: HF_ETABLE. */
int reader_look_at(const struct place *place, struct reader *ret_reader, char *why,
                   size_t why_size);

void reader_close(struct reader *reader);

/* For subcommands: opens, or prints the reason on stderr. Returns an exit code. */
int reader_open_or_say(const char *subcommand, const char *agent, struct reader *ret_reader);

/* CLOCK_BOOTTIME. */
hf_time reader_now(void);

/* Unix time of an instant of this host's clock. */
int64_t reader_wall_of(hf_time instant);

/* Whether the lease that was copied to `view` is in force at the time of the call: only its
 * deadline counts, whatever the agent does. */
bool reader_in_force(const struct hf_table *table, const struct hf_slot_view *view);

/* Copies the lease of `name`, in force or over. HF_ENOTHELD: no slot has the name (or only a
 * released one). HF_ETABLE: could not be read. */
int reader_find(const struct hf_table *table, const void *name, size_t name_len,
                struct hf_slot_view *ret_view);

/* How many of the slots of `name` are held on this host; `ret_first` gets the first one's number. */
unsigned reader_slots_held(const struct hf_table *table, const void *name, size_t name_len,
                           unsigned *ret_first);

struct reader_filter {
    const void *prefix;
    size_t prefix_len;
    bool all;        /* also leases that are over */
    uint32_t states; /* 1 << enum hf_slot_state, or'ed: only those; 0: any */
    uint32_t most;   /* 0: any number */
};
typedef void reader_fn(const struct hf_slot_view *view, bool in_force, void *arg);

/* Counts the leases in force, and those late or losing. Reads every slot, 64 bytes each and no
 * texts: a million in a fraction of a second. */
struct reader_counts {
    uint32_t leases, late, losing;
};
void reader_count(const struct hf_table *table, struct reader_counts *ret_counts);

/* Calls `fn` for each lease, one copied at a time. Returns how many slots could not be read. */
uint32_t reader_walk(const struct hf_table *table, const struct reader_filter *filter,
                     reader_fn *fn, void *arg);

/* The rows of all nodes; `ret_rows` holds HF_NODES_MAX. Returns how many; one that cannot be read
 * has an empty id. */
uint32_t reader_nodes(const struct reader *reader, struct hf_node_row ret_rows[HF_NODES_MAX]);

/* Whether the node gives votes for acquires now. */
bool reader_node_votes(const struct hf_node_row *row);

/* The number of nodes that may vote now. */
uint32_t reader_nodes_voting(const struct hf_node_row rows[], uint32_t count);

/* A table that its owner cuts while a command reads it: the mapping then raises SIGBUS. */

/* From now on the command ends with a sentence then, and exit code 125. Before the first table is mapped. */
void cut_guard(void);

#endif

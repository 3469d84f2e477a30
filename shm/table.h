/* The table as an object: made by the agent, opened by readers.
 *
 * Who makes and writes it: the agent. Who opens it: readers by name (status tool), holders by a
 * descriptor from the attach socket. Readers map it PROT_READ and close the descriptor; they check
 * owner, type, size, magic, version and fingerprint before they use a byte, and bounds at each use.
 * Nothing here locks. Only slot reads may be called from a signal handler.
 */
#ifndef HOLDFAST_SHM_TABLE_H
#define HOLDFAST_SHM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/layout.h"

/* A mapping and where its sections are. Treat as read-only outside shm/. */
struct hf_table {
    struct hf_table_header *header;
    size_t size;
    struct hf_slot *slots;
    uint8_t *text;
    hf_index_entry *index; /* two areas of index_room entries */
    struct hf_node_row *nodes;
    _Atomic uint64_t *counters; /* at most HF_COUNTERS; an earlier minor version made fewer */
    uint32_t counter_count;
    uint32_t node_count; /* rows that there is room for; readers use hf_table_nodes() */
    /* the fixed room of this mapping */
    uint32_t slot_room, index_room;
    uint64_t text_room;
    /* The maker's private counts of memory and use. (!) 0 in a reader's: it loads the header each time,
     * since memory comes as it is needed. */
    uint32_t capacity;    /* places for leases: as configured, and at least what the journal had */
    uint32_t slots_there; /* slots with memory; readers use hf_table_slots() */
    uint32_t index_there; /* entries per area with memory */
    uint32_t index_size;  /* entries of the area in use; readers use hf_index_find() */
    uint32_t index_tried; /* a rebuild of that size found no place for an entry */
    uint32_t index_tombs; /* tombstones in the area in use */
    uint64_t text_there;  /* units */
    uint64_t text_units;  /* the most units */
    bool writable;
    int fd;    /* the maker's own descriptor, or a copy's for its refresh; else -1 */
    dev_t dev; /* of the object, to see whether the name still leads to it */
    ino_t inode;
    /* history, shm/history.h */
    struct hf_event *events[HF_EVENT_RINGS];
    uint32_t event_count[HF_EVENT_RINGS]; /* a power of two */
    struct hf_renewal *renewals;          /* HF_NODES_MAX rings of renewals_kept */
    uint32_t renewals_kept;
    struct hf_measures *measures;  /* shm/measures.h */
    struct hf_waiter_row *waiters; /* shm/waiters.h */
    uint32_t waiter_rows;
    /* the writer's private counts */
    uint64_t events_written[HF_EVENT_RINGS];
    uint32_t renewals_written[HF_NODES_MAX];
};

/* Bytes of text for each slot: allocated from the start for the first slots, enough for names of 32 bytes with
 * a command; and the most. */
#define HF_TEXT_FIRST 48
#define HF_TEXT_MOST  128

/* Sizes of a table to be made. */
struct hf_table_spec {
    const char *agent_name;
    const char *dir;   /* the agent's directory; NULL: not told */
    uint32_t capacity; /* the most leases, 1..HF_SLOTS_MAX */
    uint32_t
        slots_live;     /* slots below may have leases: a table has at least as many. 0: none has */
    uint32_t slot_room; /* the slots that it is laid out for; 0: HF_SLOTS_MAX */
    uint64_t text_units; /* the most; 0: HF_TEXT_MOST bytes for each slot */
    uint32_t nodes, quorum, ttl_ms, ttl_max_ms, flags;
    mode_t mode; /* 0644 or 0640 */
    gid_t group; /* (gid_t)-1: leave */
    const char *version;
    uint8_t boot_id[16];
    uint64_t timens_inode;
    int64_t timens_offset_ns; /* of its CLOCK_BOOTTIME from the host's */
    uint64_t pidns_inode;     /* 0: nobody has the pids of this table in sight */
    uint64_t id;              /* only the table with that hf_table_id() is kept; 0: any */
    /* Replace an existing table of ours even if it fits: its leases are not in the journal. */
    bool fresh;
};

/* "/holdfast.NAME", or "/holdfast-UID.NAME" for an ordinary user's agent (uid other than 0 and
 * `system` false). `ret_name` holds at least HF_TABLE_NAME_MAX bytes. HF_EINVAL on a bad NAME:
 * empty, over HF_AGENT_NAME_MAX, a leading dot, or anything but [A-Za-z0-9._-]. */
#define HF_TABLE_NAME_MAX 96
int hf_table_name(const char *agent_name, bool system, uid_t uid, char *ret_name);

/* Writes a sentence for a person (no newline) into `why` on every failure. */

/* Makes the object `shm_name` anew: O_EXCL|O_NOFOLLOW, posix_fallocate for all but slots, index and text beyond the first
 * (a full /dev/shm is an error here and not a SIGBUS later), header filled, state still INIT. An existing object is kept,
 * whatever capacity it was made for, if it is regular, ours, has one link, is not writable by others, was made by this
 * layout in this boot, by any minor version, is no copy, and is the one of `spec->id`. Then it is mapped (`ret_warm` true, its
 * slots as they are, for the caller to rewrite from the journal). Otherwise it is marked RETIRED and replaced: holders
 * of the old one keep their words until their V, and `why` has the reason although this succeeds ("": there was none).
 * Another user's object is refused, naming its owner (HF_ETABLE). A kept table starts with counters and node rows of 0,
 * incarnation + 1, and state INIT. The caller sets `started_ns` and the beats. HF_ESYS with errno for system errors
 * (ENOSPC: /dev/shm full). HF_EBUSY: another agent, which lives, has it. */
int hf_table_create(const char *shm_name, const struct hf_table_spec *spec,
                    struct hf_table *ret_table, bool *ret_warm, char *why, size_t why_size);

/* Tells this object from all that ever had its name. Never 0. (hf_table_create() keeps no copy.) */
uint64_t hf_table_id(const struct hf_table *table);

/* Whether hf_table_create() would keep the object; nothing is changed. HF_OK: kept. HF_ENOAGENT: there is none.
 * HF_EVERSION: it would be replaced. HF_ETABLE, HF_ESYS: refused. */
int hf_table_dry_run(const char *shm_name, const struct hf_table_spec *spec, char *why,
                     size_t why_size);

/* Memory for slots below `slots`, and for their places in the index; one thread. HF_EFULL: /dev/shm has none, and nothing
 * has changed for anybody. */
int hf_table_take_slots(struct hf_table *table, uint32_t slots);

/* Called before a journal is made anew, so that no table is left whose generations it does not know: marks
 * an existing object RETIRED and removes its name. 0 also if there is none; HF_ETABLE for another user's; HF_EBUSY: a
 * living agent has it. */
int hf_table_drop(const char *shm_name, const char *agent_name, char *why, size_t why_size);

/* An agent that lives, whatever PID namespace it is in; by its table. */
struct hf_table_living {
    uint32_t pid; /* as the agent sees it; 0: it is just starting */
    char dir[HF_DIR_MAX + 1];
};
/* False: there is no such table of that owner, or none that a living agent has. Nothing is mapped. */
bool hf_table_find_living(const char *shm_name, uid_t owner, struct hf_table_living *ret_living);
/* False: no agent lives that has the object, whatever it says. True also where a reader's lock keeps the agent from having
 * its own, and where the kernel does not tell. */
bool hf_table_may_live(const char *shm_name, uid_t owner);
/* Why another agent of that name may not start; HF_EBUSY. */
int hf_table_say_living(const char *agent_name, const struct hf_table_living *living, char *why,
                        size_t why_size);

/* The last store: readers may use it from now. */
void hf_table_set_state(struct hf_table *table, enum hf_table_state state);

/* Reader: the slots that may be looked at now. (!) Load it each time, and after the slot's number: never keep it. */
static inline uint32_t hf_table_slots(const struct hf_table *table)
{
    uint32_t slots = atomic_load_explicit(&table->header->slots_there, memory_order_acquire);

    return slots < table->slot_room ? slots : table->slot_room;
}

/* Reader: the most leases, as configured. Slots beyond may have leases of an earlier agent. */
static inline uint32_t hf_table_capacity(const struct hf_table *table)
{
    return atomic_load_explicit(&table->header->capacity, memory_order_relaxed);
}

/* Reader: the present number of nodes. (!) Load it each time: the agent may go on with another list in the same table. */
static inline uint32_t hf_table_nodes(const struct hf_table *table)
{
    uint32_t nodes = atomic_load_explicit(&table->header->nodes, memory_order_acquire);

    return nodes < table->node_count ? nodes : table->node_count;
}

/* What an agent goes by from its start on; a reload changes the default TTL alone. */
struct hf_table_terms {
    uint32_t nodes, quorum, ttl_ms, ttl_max_ms;
    bool
        mixed; /* maybe of two agents: the second is starting for long, or was killed in its start */
};
/* Reader: those of one start, although the next agent may go by others and write them now. */
struct hf_table_terms hf_table_terms(const struct hf_table *table);

/* A read-only descriptor of the agent's own table for SCM_RIGHTS, even if its name is gone; the
 * caller closes it. HF_ESYS with errno. */
int hf_table_readonly_fd(const struct hf_table *table, int *ret_fd);

/* Whether `shm_name` still leads to this object; false after rm or a replacement. */
bool hf_table_is_linked(const struct hf_table *table, const char *shm_name);

/* Reader by name. `owner` is the uid the object must belong to. HF_ENOAGENT: no such object;
 * HF_EPERM: its mode keeps us out; HF_ETABLE: squatted, truncated, corrupt, not ready;
 * HF_EVERSION: another layout. */
int hf_table_open(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                  size_t why_size);

/* The same, and waits up to two seconds while the table is not ready: an agent that starts again makes it so for a moment. */
int hf_table_open_waiting(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                          size_t why_size);

/* (!) The same for a table whose owner is not trusted: a private copy, since a mapping raises SIGBUS when its owner truncates the object.
 * It shows one moment, until hf_table_refresh(). */
int hf_table_open_copy(const char *shm_name, uid_t owner, struct hf_table *ret_table, char *why,
                       size_t why_size);
/* Copies again, in place; nothing for a mapping. HF_ETABLE, HF_ESYS: the object was truncated, or changes all the time, and the copy
 * holds parts of both moments: readers judge each slot as ever, and see no other's bytes. */
int hf_table_refresh(struct hf_table *table);
/* The header alone, copied and judged. */
int hf_table_peek(const char *shm_name, uid_t owner, struct hf_table_header *ret_header);

/* Reader by descriptor from the agent (closed by this call, also on failure). */
int hf_table_open_fd(int fd, struct hf_table *ret_table, char *why, size_t why_size);

/* Unmaps; a zeroed or closed table is fine. */
void hf_table_close(struct hf_table *table);

/* --- text: names, notes, commands ----------------------------------------------------------------
 * Writer only, one thread. Whole units, next fit; which units are taken is known in private memory
 * only, so a warm restart begins with an empty pool and reserves what the kept slots use. The table
 * must stay where it is. */
struct hf_text_pool;
int hf_text_pool_create(struct hf_table *table, struct hf_text_pool **ret_pool);
void hf_text_pool_destroy(struct hf_text_pool *pool);
/* Stores name, note and comm one after the other, and allocates memory if needed. HF_EFULL: no room
 * is left, or /dev/shm has no more memory. */
int hf_text_put(struct hf_text_pool *pool, const void *name, size_t name_len, const char *note,
                size_t note_len, const char *comm, size_t comm_len, uint32_t *ret_text_off);
void hf_text_drop(struct hf_text_pool *pool, uint32_t text_off, size_t name_len, size_t note_len,
                  size_t comm_len);

/* Takes the units of a text that already stands in the table; for the rebuild at a warm restart.
 * HF_EINVAL: out of range, or a unit of it is taken. */
int hf_text_pool_reserve(struct hf_text_pool *pool, uint32_t text_off, size_t name_len,
                         size_t note_len, size_t comm_len);

/* --- nodes and counters ----------------------------------------------------------------------- */

/* Writer: replaces row `node` under its sequence count (row->seq of `row` is ignored). */
void hf_node_publish(struct hf_table *table, uint32_t node, const struct hf_node_row *row);
/* Reader: a consistent copy, HF_ETABLE when none could be had. */
int hf_node_read(const struct hf_table *table, uint32_t node, struct hf_node_row *ret_row);

static inline void hf_counter_add(struct hf_table *table, enum hf_counter counter, int64_t n)
{
    if ((uint32_t)counter >= table->counter_count)
        return; /* made by an agent of an earlier minor version */
    /* Some have two writing threads. */
    atomic_fetch_add_explicit(&table->counters[counter], (uint64_t)n, memory_order_relaxed);
}

static inline void hf_counter_set(struct hf_table *table, enum hf_counter counter, uint64_t value)
{
    if ((uint32_t)counter < table->counter_count)
        atomic_store_explicit(&table->counters[counter], value, memory_order_relaxed);
}

uint64_t hf_counter_read(const struct hf_table *table, enum hf_counter counter);
const char *hf_counter_name(enum hf_counter counter);

#endif

/* What hf_table_create() and hf_table_open() share: judging an object and mapping it. Private to
 * shm/. */
#ifndef HOLDFAST_SHM_TABLE_MAP_H
#define HOLDFAST_SHM_TABLE_MAP_H

#include <stdint.h>
#include <sys/stat.h>

#include "shm/compiler.h"
#include "shm/table.h"

/* The sections' offsets in bytes from the start, all checked against the object's size. */
struct hf_table_places {
    uint64_t slots, text, index, nodes, counters;
    uint64_t text_room, text_there;
    uint32_t slot_room, slots_there, node_rows, index_room, index_there, counter_count;
    uint64_t events[HF_EVENT_RINGS], renewals;
    uint64_t measures; /* 0: none */
    uint64_t waiters;
    uint32_t waiter_rows; /* 0: none */
    uint32_t event_count[HF_EVENT_RINGS], renewals_kept;
};

/* Writes a message for people; never fails. */
void hf_table_say(char *why, size_t why_size, const char *format, ...) HF_PRINTF(3, 4);

/* Judges the fstat() result of an object that must belong to `owner`. 0 or HF_ETABLE with `why`. */
int hf_table_judge_file(const char *shm_name, const struct stat *st, uid_t owner, char *why,
                        size_t why_size);

/* Copies the header of an open object by pread(), which gives short counts where a mapping would
 * give SIGBUS. HF_ETABLE when the object is shorter than a header. */
int hf_table_read_header(int fd, const char *shm_name, struct hf_table_header *ret_header,
                         char *why, size_t why_size);

/* Maker: takes the lock that tells that a living agent has the object; it ends with the descriptor. HF_EBUSY with `why`:
 * another agent has it. */
int hf_table_lock(int fd, const char *agent_name, char *why, size_t why_size);

/* Judges a private copy of a header for an object of `size` bytes. 0, HF_ETABLE or HF_EVERSION. */
int hf_table_judge_header(const char *shm_name, const struct hf_table_header *header, uint64_t size,
                          struct hf_table_places *ret_places, char *why, size_t why_size);

/* Maps the whole object and fills `ret_table`; the descriptor stays the caller's. -1: empty private memory of that size. */
int hf_table_map(int fd, const char *shm_name, const struct stat *st, bool writable,
                 const struct hf_table_places *places, struct hf_table *ret_table, char *why,
                 size_t why_size);

/* The bytes of an object that have memory, at least. `header` is a private copy that was judged. */
uint64_t hf_table_room(const struct hf_table_header *header, const struct hf_table_places *places);

/* Maker: allocates memory for all except slots, text and entries of the index beyond those that the header tells of. 0 or
 * an errno. */
int hf_table_take_room(int fd, const struct hf_table_header *header,
                       const struct hf_table_places *places);

/* Maker: allocates memory for `units` more of text, or up to the most. 0 or an errno; ENOSPC also
 * when all have memory. */
int hf_table_grow_text(struct hf_table *table, uint64_t units);

/* The sizes of a new table. Pure. */

/* Leases that the agent has places for: what is configured, and at least what the journal holds. */
uint32_t hf_table_capacity_of(const struct hf_table_spec *spec);

/* Units of text for so many slots, at most. */
uint64_t hf_table_text_units_of(const struct hf_table_spec *spec, uint32_t slots);

/* Sections and sizes of a new table. */
void hf_table_lay_out(struct hf_table_header *header, const struct hf_table_spec *spec);

#endif

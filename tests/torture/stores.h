/* Keeps the state of shared memory after every single store into it: each is one that kill -9 can
 * leave. Of the code as it ships, without hooks in it.
 *
 * The pages are made read-only. A store faults, its page is opened, the one instruction is run with
 * the processor's trap flag, the state is kept, the page is closed again. Threads may store side by
 * side: a state then has what the others stored meanwhile, as a killed process has.
 * x86-64 only. Uses SIGSEGV and SIGTRAP, which no thread may block.
 */
#ifndef HOLDFAST_TESTS_STORES_H
#define HOLDFAST_TESTS_STORES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGIONS_MAX 8
#define WIRE_MAX    4096

/* Memory whose states are kept: `size` bytes at `at`, or `offset` bytes behind where mapping number
 * `mapping` begins, for somebody who has it elsewhere. */
struct region {
    void *at;
    uint64_t size;
    uint32_t mapping;
    uint64_t offset;
};

struct moment {
    uint64_t ip;        /* of the store, for `addr2line -e PROGRAM`; 0: no store */
    uint32_t wire_size; /* bytes that were about to be sent then */
    char wire[WIRE_MAX];
    uint8_t bytes[]; /* of the regions, one behind the other */
};

/* In memory shared by who stores and who judges. */
struct store_log {
    _Atomic uint32_t wanted, watching; /* to be watched; is watched */
    _Atomic uint32_t count;            /* of moments */
    _Atomic uint32_t overflown;        /* there was no room for all */
    uint32_t room;
    uint32_t regions;
    struct region region[REGIONS_MAX];
    uint64_t size; /* of the regions together */
};

/* Bytes that a log of so many moments takes. */
size_t store_log_size(const struct region *regions, int count, uint32_t moments);
void store_log_init(struct store_log *log, const struct region *regions, int count,
                    uint32_t moments);
struct moment *store_log_moment(const struct store_log *log, uint32_t i);
/* The bytes of moment `i` into the regions. */
void store_log_restore(const struct store_log *log, uint32_t i);

/* From here on, or not any more. The state at the beginning is kept, too. */
void stores_watch(struct store_log *log);
void stores_unwatch(void);
/* Keeps the state now, with what is about to be sent. */
void stores_note(const void *wire, size_t size);

/* --- of files that the program itself maps: tests/torture/mappings.c, which has to be linked ---- */

#define MAPPING_TABLE   0
#define MAPPING_JOURNAL 1
#define MAPPINGS        2

/* Watches from where the regions' mappings are there, if they are not yet. */
void stores_watch_mapped(struct store_log *log);
/* Forgets those that are there: the next ones count. */
void mappings_forget(void);

/* --- of a function ---------------------------------------------------------------------------- */

/* Runs `fn` in a child; NULL if that did not end well. Freed by stores_free(). The regions are left
 * as it leaves them. With `watch` NULL they are watched from the start, else `fn` calls
 * stores_watch_mapped() with what `*watch` is set to. */
struct store_log *stores_of(void (*fn)(void *arg), void *arg, const struct region *regions,
                            int count, struct store_log **watch);
void stores_free(struct store_log *log);

#endif

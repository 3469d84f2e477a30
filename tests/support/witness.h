/* What contenders leave for the judge (tests/support/history.py reads both files).
 *
 * A witness is a mapped file that all contenders share, the resource that their locks guard. Per lock
 * it has a word that the holder keeps writing while it believes that it holds, and where anything
 * foreign is a sighting, and a store that refuses a fence lower than one it has seen. A history is one
 * contender's own mapped file of records, so that it survives a SIGKILL. Times are CLOCK_BOOTTIME nanoseconds.
 */
#ifndef HOLDFAST_TESTS_WITNESS_H
#define HOLDFAST_TESTS_WITNESS_H

#include <stdatomic.h>
#include <stdint.h>

/* A word: pid << 40 | count of this process's writes. */
#define WITNESS_PID_SHIFT 40

struct witness {
    _Alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t fence; /* the highest that the store has seen */
    _Atomic uint64_t accepted, refused;
};

enum record_kind {
    RECORD_NONE,
    RECORD_HOLD,
    RECORD_SIGHTING, /* a foreign word while this one held; `word` is the foreign one */
    RECORD_UNUSED,   /* lost before it could be used */
};

enum record_flag {
    RECORD_CONTENDED = 1, /* another had the lock at first */
    RECORD_CARELESS =
        2, /* asked once whether it holds, and wrote to the store for the whole hold */
};

enum record_end {
    END_NONE, /* still held, or the contender was killed */
    END_RELEASED,
    END_LOST,
    END_UNSURE, /* released, and no majority answered in time */
};

struct record {
    uint32_t kind, flags, pid, host, lock, end;
    uint64_t fence;
    int64_t ask_ns;            /* the acquire was called */
    int64_t first_ns;          /* the first reading after the lease was held */
    int64_t last_ns;           /* the last reading before its release or loss */
    int64_t end_ns;            /* the release was answered, or the loss was seen */
    uint64_t first_word, word; /* the first write to the witness, and the latest after which the
                                  lease was still held */
    uint32_t refused;          /* writes of this hold that the store refused */
    char reason[44];           /* of a loss: its word */
};

_Static_assert(sizeof(struct record) == 128, "history.py reads it");

#endif

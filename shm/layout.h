/* The bytes of the table, the shared-memory object that shows every lease of one agent.
 *
 * Who writes: the agent, and nobody else. Each slot has one writing thread at a time (the broker
 * until the grant, the renewal thread until the end, see agent/lease.h). Who reads: everybody,
 * read-only. Ordering: `check` is one 64-bit word, stored with release and loaded with acquire;
 * everything else in a slot stands under `seq` (shm/slot.h). `state` of the header is stored last
 * when the table is made. The writer never decides by reading back what it published.
 *
 * docs/SHM.md shows the same bytes as a picture with the rules. Any change here also changes
 * docs/SHM.md, and HF_TABLE_MAJOR (incompatible) or HF_TABLE_MINOR (new section, or use of reserved
 * bytes).
 *
 * (!) An agent of another minor version takes the table over as it stands, so that living leases are
 * kept: what a later minor adds may be absent then (the writer does without it), and the writer does
 * not touch parts that it does not know. So a new section is no part of the fingerprint: its type and
 * element size are checked in the directory.
 */
#ifndef HOLDFAST_SHM_LAYOUT_H
#define HOLDFAST_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/file_id.h"
#include "shm/layout_history.h"
#include "shm/layout_measures.h"
#include "shm/layout_node.h"
#include "shm/layout_waiters.h"

/* Only tests set these: they build a holdfastd of a later version, to upgrade to. */
#ifndef HF_TEST_MAJOR
#define HF_TEST_MAJOR 0
#endif
#ifndef HF_TEST_MINOR
#define HF_TEST_MINOR 0
#endif

#define HF_TABLE_MAGIC    UINT64_C(0x3145464c42415448) /* "HTABLFE1", little endian */
#define HF_TABLE_MAJOR    (1 + HF_TEST_MAJOR)
#define HF_TABLE_MINOR    (0 + HF_TEST_MINOR)
#define HF_TABLE_HEADER   4096 /* bytes before the first section */
#define HF_NODES_MAX      9
#define HF_NAME_MAX       255 /* bytes of a name, at least 1 */
#define HF_NOTE_MAX       127 /* bytes of a holder's note */
#define HF_COMM_MAX       15  /* bytes of a command name, as in /proc/PID/comm */
#define HF_DIR_MAX        639 /* bytes of an agent's directory */
#define HF_LAST_WORDS     495 /* bytes of an agent's last words */
#define HF_AGENT_NAME_MAX 63  /* bytes of an agent's NAME: [A-Za-z0-9._-] */
#define HF_TEXT_UNIT      16  /* bytes; a slot's text takes whole units */
#define HF_SLOT_NONE      UINT32_MAX

/* --- the check word ------------------------------------------------------------------------------
 * generation (24 bits, never 0) << 40 | deadline in units of 2^20 ns, rounded down (40 bits).
 * 0 means not held. libclient/holdfast.h inlines a reader of the same format (static-asserted).
 */
#define HF_CHECK_GEN_SHIFT  40
#define HF_CHECK_TIME_SHIFT 20
#define HF_CHECK_TIME_MASK  ((UINT64_C(1) << HF_CHECK_GEN_SHIFT) - 1)
#define HF_GEN_MAX          ((UINT32_C(1) << 24) - 1)

enum hf_slot_state {
    HF_SLOT_FREE = 0,
    HF_SLOT_HELD = 1,
    HF_SLOT_LATE = 2,   /* validity below half the TTL: renewals are failing */
    HF_SLOT_LOSING = 3, /* terminal: the holder must stop, validity is frozen */
    HF_SLOT_LOST = 4,   /* lost; `reason` says why */
    HF_SLOT_ENDED = 5,  /* released */
};

enum hf_slot_flag {
    HF_SLOT_F_RUN = 1 << 0,       /* held by `holdfast run`: ends when its tree is reaped */
    HF_SLOT_F_READOPTED = 1 << 1, /* readopted from the journal of an earlier agent */
    HF_SLOT_F_ORPHAN = 1 << 2,    /* the holder vanished: lapses, no longer renewed */
};

/* Why a lease was lost or is losing. */
enum hf_loss_reason {
    HF_LOSS_NONE = 0,
    HF_LOSS_QUORUM = 1,     /* fewer than q nodes renewed in time */
    HF_LOSS_FOREIGN = 2,    /* keys on too many nodes have another token */
    HF_LOSS_MISSING = 3,    /* keys on too many nodes are gone */
    HF_LOSS_CLOCK = 4,      /* clock steps of nodes voided too many votes */
    HF_LOSS_ASKED = 5,      /* somebody asked the holder to stop */
    HF_LOSS_MAX_HOLD = 6,   /* max_hold is over */
    HF_LOSS_GUARDIAN = 7,   /* a guardian of `run` began to stop the job */
    HF_LOSS_LATE_REPLY = 8, /* the renewal thread came too late to extend */
    HF_LOSS_RESTART = 9,    /* the agent came back too late to readopt */
    HF_LOSS_HOLDER = 10,    /* the holder died */
    HF_LOSS_GOING = 11,     /* the agent ends, and its private nodes with it */
    HF_LOSS_HEARTBEAT = 12, /* the holder did not beat in time: it hangs */
    HF_LOSS_FORCED = 13,    /* an operator forced it out on too many nodes */
    HF_LOSS_FENCE = 14,     /* a majority has granted the lock to another since */
    HF_LOSS_AWAY = 15,      /* the agent was stopped, suspended or without CPU when it was due */
};

/* One lease: one cache line. Fields from `seq` on are under `seq`. */
struct hf_slot {
    _Atomic uint64_t check;
    _Atomic uint32_t seq;        /* odd while the writer is inside */
    _Atomic uint32_t generation; /* 1..HF_GEN_MAX, of the present or last lease */
    _Atomic int64_t deadline_ns; /* V, CLOCK_BOOTTIME; 0 = none */
    _Atomic uint64_t fence;      /* wall us << 10 | hand-off count (10) */
    _Atomic int64_t since_ns;    /* CLOCK_BOOTTIME of the grant */
    _Atomic uint32_t pid;        /* the holder, as the agent sees it */
    _Atomic uint32_t uid;
    _Atomic uint32_t text_off; /* in units of HF_TEXT_UNIT within the text section */
    _Atomic uint32_t lengths;  /* name | note << 8 | comm << 16 | state << 24 */
    _Atomic uint32_t marks;    /* flags (16) | votes << 16 | loss reason << 24 */
    _Atomic uint32_t ttl_ms;
};
_Static_assert(sizeof(struct hf_slot) == 64, "a slot is one cache line");
_Static_assert(offsetof(struct hf_slot, check) == 0, "the check word is first");
_Static_assert(offsetof(struct hf_slot, seq) == 8, "layout");
_Static_assert(offsetof(struct hf_slot, deadline_ns) == 16, "layout");
_Static_assert(offsetof(struct hf_slot, text_off) == 48, "layout");
_Static_assert(offsetof(struct hf_slot, ttl_ms) == 60, "layout");

enum hf_table_state {
    HF_TABLE_INIT = 0,  /* being made: do not use */
    HF_TABLE_ALIVE = 1, /* in use */
    HF_TABLE_STOPPED =
        2, /* the agent ended cleanly; leases of living holders wait for the next agent */
    HF_TABLE_RETIRED = 3, /* replaced: open the name again */
};

enum hf_section_type {
    HF_SECTION_SLOTS = 1,
    HF_SECTION_TEXT = 2,
    HF_SECTION_INDEX = 3, /* two areas, each with room for half of the entries */
    HF_SECTION_NODES = 4,
    HF_SECTION_COUNTERS = 5,
    /* a reader does without these */
    HF_SECTION_EVENTS = 6,    /* + enum hf_event_ring: 6 to 9 */
    HF_SECTION_RENEWALS = 10, /* HF_NODES_MAX rings, one after the other */
    HF_SECTION_MEASURES = 11, /* one struct hf_measures */
    HF_SECTION_WAITERS = 12,  /* HF_WAITERS_SHOWN rows */
    HF_SECTION_TEST = 0x7e57, /* of a later version, in tests only */
};
#define HF_SECTIONS_MAX 16

struct hf_section {
    uint32_t type;
    uint32_t elem_size;
    uint64_t elem_count;
    uint64_t offset; /* from the start of the object, a multiple of 64 */
    uint64_t length; /* bytes */
};
_Static_assert(sizeof(struct hf_section) == 32, "layout");

/* (!) Slots, index and text are laid out for the largest capacity, and take no memory before they are needed: elem_count is
 * that room, and the header's `slots_there`, `index_size` and `text_there` say how much of it has memory. The rest is a
 * hole, which is never touched. Readers load these numbers each time, and bound them by the room. */
#define HF_SLOTS_MAX   (UINT32_C(1) << 20) /* (docs/SHM.md: why not more) */
#define HF_SLOTS_FIRST 8192 /* have memory from the start, if the capacity is as large */
#define HF_SLOTS_STEP  1024 /* get memory at a time */

/* One entry of the name index: hash of the name (32) << 32 | slot + 1 (32). 0 is an empty place; a
 * slot part of HF_INDEX_TOMB is a deleted one. shm/index.h */
typedef _Atomic uint64_t hf_index_entry;
#define HF_INDEX_TOMB UINT32_MAX

/* Counters, one writer thread each; name and meaning in shm/counters.def. */
enum hf_counter {
#define HF_COUNTER_ENUM(id, name, doc) HF_COUNTER_##id,
#include "shm/counters.def"
#undef HF_COUNTER_ENUM
    HF_COUNTERS
};

struct hf_table_header {
    /* line 0: written once */
    uint64_t magic;
    uint16_t major;
    uint16_t minor; /* of the agent that writes now: set at each start */
    uint16_t
        min_minor; /* readers of this major and at least this minor may read; set at each start */
    uint16_t header_len;
    uint64_t total_size;
    uint64_t fingerprint; /* hf_layout_fingerprint() of the writer */
    uint8_t boot_id[16];
    uint64_t epoch;        /* random, per cold start; never 0 */
    uint64_t timens_inode; /* the agent's time namespace */
    /* line 1: written once per start, before `state` */
    _Atomic uint32_t capacity;      /* the most leases, as configured */
    _Atomic uint32_t nodes, quorum; /* these four: hf_table_terms() */
    _Atomic uint32_t ttl_ms;        /* default TTL; a reload may change it */
    _Atomic uint32_t ttl_max_ms;    /* the fleet's largest */
    uint32_t uid;                   /* the agent's */
    uint32_t flags;                 /* enum hf_table_flag */
    uint32_t reserved0;
    uint8_t index_key[16]; /* SipHash key of the name index */
    char version[16];      /* of the agent's program */
    /* line 2 */
    _Atomic uint32_t state;       /* enum hf_table_state, stored last */
    _Atomic uint32_t incarnation; /* +1 at each warm restart */
    _Atomic uint32_t pid;
    uint32_t reserved1;
    _Atomic int64_t started_ns; /* CLOCK_BOOTTIME */
    /* the drain, shm/drained.h */
    _Atomic int64_t drained_wall_ms; /* Unix time since when; 0: not drained, -1: it is not known */
    _Atomic uint32_t drained_uid, drained_pid; /* who drained it */
    /* with the inode, which may be used again. Written once */
    int64_t timens_offset_ns;
    uint8_t reserved2[16];
    /* line 3: the signs of life of each thread's loop, CLOCK_BOOTTIME */
    _Atomic int64_t main_beat_ns, broker_beat_ns, renewal_beat_ns;
    uint8_t reserved3[40];
    /* line 4: the name index */
    _Atomic uint32_t index_seq;  /* odd while a rebuild flips the areas */
    _Atomic uint32_t index_area; /* the one to read, 0 or 1 | log2 of its entries << 8 */
    _Atomic uint32_t index_size; /* entries of each area that have memory, a power of two */
    _Atomic uint32_t slots_used; /* only slots below this number were ever used */
    _Atomic uint64_t events_written[HF_EVENT_RINGS]; /* one writer thread each */
    _Atomic uint64_t text_there;  /* units of text that have memory; it only grows */
    _Atomic uint32_t slots_there; /* slots that have memory; it only grows */
    _Atomic uint32_t unindexed;   /* slots whose name the index has no place for */
    /* lines 5..6 */
    char agent_name[HF_AGENT_NAME_MAX + 1];
    char host[64];
    /* lines 7.. */
    struct hf_section sections[HF_SECTIONS_MAX];
    /* the agent's directory, as it sees it; once per start */
    char dir[HF_DIR_MAX + 1];
    /* the failed assertion by which the last agent ended, shm/last_words.h */
    _Atomic int64_t words_wall_ms; /* Unix time; 0: none */
    uint32_t words_pid;
    char words[HF_LAST_WORDS + 1];
    struct hf_file_id file; /* which object this is: in a copy, another one. Written once */
};

enum hf_table_flag {
    HF_TABLE_F_DEV = 1 << 0,
    HF_TABLE_F_ASSUME_FRESH = 1 << 1,
    HF_TABLE_F_ALLOW_EVICTION = 1 << 2,
    HF_TABLE_F_USER = 1 << 3, /* an ordinary user's agent */
    HF_TABLE_F_ALLOW_REPLICAS = 1 << 4,
};

_Static_assert(offsetof(struct hf_table_header, capacity) == 64, "layout");
_Static_assert(offsetof(struct hf_table_header, state) == 128, "layout");
_Static_assert(offsetof(struct hf_table_header, main_beat_ns) == 192, "layout");
_Static_assert(offsetof(struct hf_table_header, index_seq) == 256, "layout");
_Static_assert(offsetof(struct hf_table_header, agent_name) == 320, "layout");
_Static_assert(offsetof(struct hf_table_header, sections) == 448, "layout");
_Static_assert(offsetof(struct hf_table_header, dir) == 960, "layout");
_Static_assert(offsetof(struct hf_table_header, words_wall_ms) == 1600, "layout");
_Static_assert(offsetof(struct hf_table_header, file) == 2112, "layout");
_Static_assert(sizeof(struct hf_table_header) <= HF_TABLE_HEADER, "layout");

/* A hash of every size and offset above and of the byte order: builds that differ refuse each
 * other's tables, as with LMDB's lock format. */
uint64_t hf_layout_fingerprint(void);

#endif

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

#include "shm/process.h"

/* The bytes of a node's row in the table; part of shm/layout.h, which says who writes and who reads. */

#define HF_NODE_TEXT_MAX 127 /* bytes of a node's id or address */

/* The state of one node, for `nodes` and `status`; under its own `seq`, like a slot. */
struct hf_node_row {
    _Atomic uint32_t seq;
    uint32_t state;              /* enum hf_node_state */
    uint32_t refused;            /* enum hf_node_refusal */
    uint32_t quarantine_reason;  /* enum hf_quarantine_reason, bits */
    int64_t quarantine_until_ns; /* CLOCK_BOOTTIME; 0 none */
    int64_t rtt_ns;              /* last reply */
    int64_t last_reply_ns;       /* CLOCK_BOOTTIME of the last reply, 0 never */
    int64_t clock_offset_us;     /* node TIME minus our wall clock, last sample */
    uint64_t replies, timeouts, errors, reconnects, clock_steps;
    int64_t unwritable_since_ns; /* CLOCK_BOOTTIME; 0: it takes writes */
    int64_t unseen_step_ns;      /* a step of its clock up to this may go unseen; 0 unknown */
    uint32_t error_class; /* enum hf_node_error, of the refused write, else of the last error */
    uint32_t flags;       /* enum hf_node_flag */
    char id[HF_NODE_TEXT_MAX + 1];
    char address[HF_NODE_TEXT_MAX + 1]; /* never a password */
    char run_id[41];
    char version[23];
    char error[80]; /* its text, cut */
};
_Static_assert(sizeof(struct hf_node_row) % 64 == 0, "whole lines");

/* `error` of a node that is up, before a lock's key: it shows a fence there that agents do not believe. */
#define HF_NODE_FENCE_AHEAD "has a fence far ahead: "
/* The same of the record of runs of `run --once-per`. */
#define HF_NODE_ONCE_AHEAD "has a run far ahead: "
/* The same before the error that it gives to releases. */
#define HF_NODE_RELEASE_REFUSED "refuses releases: "

enum hf_node_state {
    HF_NODE_CONNECTING = 0,
    HF_NODE_UP = 1,
    HF_NODE_QUARANTINED = 2, /* up, gives no acquire votes for now */
    HF_NODE_DOWN = 3,
    HF_NODE_REFUSED = 4,    /* up, but not usable: `refused` says why */
    HF_NODE_UNWRITABLE = 5, /* up, but it refuses writes: `error_class` says why */
};

enum hf_node_refusal {
    HF_REFUSED_NOT = 0,
    HF_REFUSED_REPLICA,
    HF_REFUSED_CLUSTER,
    /* Not refused: another node that answers has the same run_id, and both have one vote together. */
    HF_REFUSED_DUPLICATE,
    HF_REFUSED_NOT_REDIS,
    HF_REFUSED_EVICTION, /* maxmemory with a policy other than noeviction: no votes */
    HF_REFUSED_AUTH,
    HF_REFUSED_FLEET,      /* its sentinel names another ttl_max, N, list or key formats */
    HF_REFUSED_REPLICATED, /* it has replicas, or had a failover */
    HF_REFUSED_MISPLACED,  /* this host's configuration has another node's address for it */
};

enum hf_quarantine_reason {
    HF_QUARANTINE_AGE = 1 << 0,      /* first contact: uptime or sentinel too young */
    HF_QUARANTINE_RUN_ID = 1 << 1,   /* restarted */
    HF_QUARANTINE_SENTINEL = 1 << 2, /* sentinel absent or changed */
    HF_QUARANTINE_CLOCK = 1 << 3,    /* its clock stepped */
    HF_QUARANTINE_MEDIAN = 1 << 4,   /* its clock is over 1 s off the median */
};

enum hf_node_error {
    HF_NODE_ERR_NONE = 0,
    HF_NODE_ERR_RESOLVE,
    HF_NODE_ERR_CONNECT,
    HF_NODE_ERR_BROKEN, /* connection ended */
    HF_NODE_ERR_TIMEOUT,
    HF_NODE_ERR_SILENT, /* no answer at all for a third of the default TTL: closed */
    HF_NODE_ERR_AUTH,   /* NOAUTH, WRONGPASS */
    HF_NODE_ERR_PERM,   /* NOPERM */
    HF_NODE_ERR_BUSY,
    HF_NODE_ERR_LOADING,
    HF_NODE_ERR_MISCONF,
    HF_NODE_ERR_READONLY,
    HF_NODE_ERR_OOM,
    HF_NODE_ERR_NOSCRIPT,
    HF_NODE_ERR_PROTOCOL, /* not a Redis, or an answer of the wrong shape */
    HF_NODE_ERR_OTHER,
    HF_NODE_ERR_NOREPLICAS,  /* too few replicas for its min-replicas-to-write */
    HF_NODE_ERR_TLS,         /* the TLS handshake failed, for another reason than those: */
    HF_NODE_ERR_TLS_CA,      /* its certificate is by no CA that we trust */
    HF_NODE_ERR_TLS_HOST,    /* ...for another host */
    HF_NODE_ERR_TLS_EXPIRED, /* ...over, or not valid yet */
    HF_NODE_ERR_TLS_CLIENT,  /* it refuses our certificate, or wants one */
    HF_NODE_ERR_NO_TLS,      /* it speaks none, and is to */
    HF_NODE_ERR_WANTS_TLS,   /* it speaks TLS, and is not to */
};

enum hf_node_flag {
    HF_NODE_F_ASSUMED_FRESH = 1 << 0, /* the operator vouches for it */
    HF_NODE_F_DEV = 1 << 2,           /* a private node of --dev */
    /* of the fleet's record */
    HF_NODE_F_NO_RECORD = 1 << 3,  /* it has none, so its answers do not count */
    HF_NODE_F_NOT_SEATED = 1 << 4, /* it is not at its seat, so its answers do not count */
    HF_NODE_F_ELSEWHERE = 1 << 5,  /* the configuration has another address than its seat */
    HF_NODE_F_UNCOUNTED = 1 << 6,  /* by the fleet's record this host goes by it does not count */
    /* With one of these its answers do not count. */
    HF_NODE_F_MUTE = HF_NODE_F_NO_RECORD | HF_NODE_F_NOT_SEATED | HF_NODE_F_UNCOUNTED,
    HF_NODE_F_TRACKING = 7 << 8, /* enum hf_node_tracking; 0 from agents without it */
};
#define HF_NODE_F_TRACKING_SHIFT 8

/* Whether a node tells waiters that a lock's key has changed; without that they poll. */
enum hf_node_tracking {
    HF_TRACKING_DOWN = 0, /* no connection yet */
    HF_TRACKING_ON = 1,
    HF_TRACKING_REFUSED = 2, /* the node does not allow it */
    HF_TRACKING_BROKEN = 3,  /* the connection for it ended */
};

/* The bytes of the measures in the table, for metrics (shm/measures.h); part of shm/layout.h, which says who
 * writes and who reads. The section is one struct hf_measures; what later versions add takes places
 * that are free here, so its size never changes. */

/* Each has one writing thread. */
enum hf_histogram_of {
    HF_HISTOGRAM_ACQUIRE = 0, /* broker: from the start of a round to its grant */
    HF_HISTOGRAM_WAIT = 1,    /* broker: from the request to its grant, however it came */
    HF_HISTOGRAM_LAG =
        2, /* renewal: a renewal script behind its due time, without waiting for nodes */
    HF_HISTOGRAM_MARGIN = 3, /* renewal: what was left until V when a renewal moved V on */
    HF_HISTOGRAMS = 4,
};
#define HF_HISTOGRAM_ROOM 8

/* A value of u us (rounded up) is in the first bucket i with u <= 64 << i; above all of them in the last. */
#define HF_BUCKETS      28
#define HF_BUCKET_FIRST 64 /* us */

struct hf_histogram {
    _Atomic uint64_t bucket[HF_BUCKETS]; /* not cumulative */
    _Atomic uint64_t sum_ns;
    uint64_t reserved[3];
};
_Static_assert(sizeof(struct hf_histogram) == 256, "layout");

/* The largest or least value of each of the last minutes; each has one writing thread. */
enum hf_extreme_of {
    HF_EXTREME_ACQUIRE = 0, /* these five: the largest, us */
    HF_EXTREME_WAIT = 1,
    HF_EXTREME_LAG = 2,
    HF_EXTREME_TURN = 3,    /* renewal: a turn of its loop */
    HF_EXTREME_OVERDUE = 4, /* renewal: a vote was renewed behind 1.1 T/3 after the one before */
    HF_EXTREME_MARGIN = 5,  /* the least, millionths of T: what was left until V */
    HF_EXTREMES = 6,
};
#define HF_EXTREME_ROOM    8
#define HF_EXTREME_WINDOWS 8

/* Of minute m (CLOCK_BOOTTIME / 60 s) at m mod 8: minute << 40 | value + 1; 0: none yet. */
struct hf_extreme {
    _Atomic uint64_t window[HF_EXTREME_WINDOWS];
};

/* How acquires ended that were granted nothing. The broker counts. */
enum hf_acquire_failure {
    HF_FAILED_BUSY = 0,     /* a try: another holds it */
    HF_FAILED_TIMEOUT = 1,  /* the wait was over */
    HF_FAILED_QUORUM = 2,   /* too few nodes */
    HF_FAILED_DRAINED = 3,  /* this host is drained */
    HF_FAILED_LIMIT = 4,    /* a user's limit, or no room in the table */
    HF_FAILED_FLEET = 5,    /* this host's constants differ from the fleet's */
    HF_FAILED_CANCELED = 6, /* by the client */
    HF_FAILED_OTHER = 7,
    HF_FAILED_DENIED = 8, /* no rule of this host allows it */
    HF_FAILURES = 9,
};
#define HF_FAILURE_ROOM 16

/* The broker's; START_WALL_MS is main's. */
enum hf_gauge_of {
    HF_GAUGE_START_WALL_MS = 0, /* Unix time of the agent's start */
    HF_GAUGE_READY = 1,         /* 1: a quorum of nodes may vote and takes writes */
    HF_GAUGE_OLDEST_WAITER_NS =
        2, /* CLOCK_BOOTTIME since which the request waits that waits longest; 0: none */
    HF_GAUGE_FLEET_VERSION = 3,  /* of the record by which the agent goes; 0: it has none */
    HF_GAUGE_FLEET_COMPLETE = 4, /* 1: that record is complete */
    HF_GAUGE_FLEET_SETTLED = 5,  /* 1: it is, and has settled */
    HF_GAUGE_FLEET_DIFFERS = 6,  /* 1: this host may take no locks, by that record */
    HF_GAUGE_FLEET_FOREIGN = 7,  /* nodes that have the record of another fleet */
    HF_GAUGES = 8,
};
#define HF_GAUGE_ROOM 16

struct hf_measures {
    struct hf_histogram histogram[HF_HISTOGRAM_ROOM];
    struct hf_extreme extreme[HF_EXTREME_ROOM];
    _Atomic uint64_t failed[HF_FAILURE_ROOM];
    _Atomic uint64_t gauge[HF_GAUGE_ROOM];
};
_Static_assert(sizeof(struct hf_measures) == 2816, "layout");
_Static_assert(offsetof(struct hf_measures, extreme) == 2048, "layout");
_Static_assert(offsetof(struct hf_measures, failed) == 2560, "layout");

/* The bytes of the history in the table, for `history` and `watch` (shm/history.h); part of shm/layout.h. */

enum hf_event_kind {
    HF_EVENT_NONE = 0,
    /* of a lease */
    HF_EVENT_GRANTED = 1,
    HF_EVENT_READOPTED = 2,   /* from the journal of an earlier agent */
    HF_EVENT_VOTE_VOID = 3,   /* `reason`: FOREIGN, FORCED, MISSING or CLOCK on `node` */
    HF_EVENT_VOTE = 4,        /* `node` counts again after a later renewal */
    HF_EVENT_HEALED = 5,      /* our key was written again on `node` */
    HF_EVENT_LATE = 6,        /* V - 0.5 T came: renewals fail */
    HF_EVENT_ON_TIME = 7,     /* renewed after that */
    HF_EVENT_LOSING = 8,      /* the holder must stop; terminal */
    HF_EVENT_JOB_STOPPED = 9, /* a guardian says that it stops its job: signal or hook */
    HF_EVENT_JOB_KILLED = 10, /* a guardian, or the agent, kills the job's tree */
    HF_EVENT_ABANDONED = 11,  /* the holder of a run vanished: the lease lapses */
    HF_EVENT_LOST = 12,       /* the end, by loss */
    HF_EVENT_RELEASED = 13,   /* the end, by release; HF_LOSS_HOLDER: its holder died */
    HF_EVENT_FORCED = 14,     /* an operator on this host forced out a hold; pid, uid: the operator;
                                 `value`: the number of nodes on which it succeeded */
    HF_EVENT_DENIED = 15, /* a process of this host may not do that with the name; pid, uid: its;
                                 `value`: 1 take, 2 see, 4 force */
    HF_EVENT_FOUND_LOST =
        16, /* its release found that it had been lost; `reason`: FOREIGN, MISSING */
    HF_EVENT_SKIPPED =
        17, /* once per period: not run; `value`: so many ms after the start that counts */
    /* of the agent */
    HF_EVENT_AGENT_STARTED = 32, /* `value`: leases readopted */
    HF_EVENT_AGENT_ENDING = 33,
    HF_EVENT_AGENT_AWAY = 34,     /* it renewed nothing for `value` ms; by the renewal thread */
    HF_EVENT_RELOADED = 35,       /* its configuration; the text: what changed */
    HF_EVENT_RELOAD_REFUSED = 36, /* nothing changed; the text: why */
    HF_EVENT_DRAINED = 37,        /* it grants nothing new; pid, uid: the operator */
    HF_EVENT_UNDRAINED = 38,      /* it does again; likewise */
    HF_EVENT_FLEET = 39, /* it goes by another record; `reason`: enum hf_fleet_step, `value`: the
                                     version; the text, uid: host and user of the operator, if known */
    /* of a node */
    HF_EVENT_NODE_UP = 40,
    HF_EVENT_NODE_DOWN = 41,      /* `reason`: enum hf_node_error */
    HF_EVENT_NODE_REFUSED = 42,   /* `reason`: enum hf_node_refusal */
    HF_EVENT_NODE_ACCEPTED = 43,  /* not refused any more */
    HF_EVENT_NODE_RESTARTED = 44, /* another run_id */
    HF_EVENT_NODE_FORGOT = 45,    /* its sentinel was absent or changed */
    HF_EVENT_NODE_STEPPED = 46,   /* its clock stepped */
    HF_EVENT_QUARANTINE = 47,     /* `reason`: enum hf_quarantine_reason bits; V: its end */
    HF_EVENT_QUARANTINE_OVER = 48,
    HF_EVENT_NODE_UNWRITABLE = 49, /* `reason`: enum hf_node_error */
    HF_EVENT_NODE_WRITABLE = 50,
    HF_EVENT_NODE_PLACE =
        51, /* the list of nodes is another one: the text was the id at that place in events of before */
};

/* Each has one writing thread. Frequent events do not push out rare ones. */
enum hf_event_ring {
    HF_EVENTS_GRANTS = 0, /* broker: granted, readopted, forced, released soon after the grant */
    HF_EVENTS_NODES = 1,  /* broker: the agent and the nodes */
    HF_EVENTS_ENDS = 2,   /* renewal: released, votes that count again */
    HF_EVENTS_LOSSES = 3, /* renewal: all troubles of a lease */
    HF_EVENT_RINGS = 4,
};

#define HF_EVENT_TEXT    87
#define HF_EVENT_NO_NODE UINT8_MAX

/* How far that version of the fleet's record is, for this agent. */
enum hf_fleet_step {
    HF_FLEET_CHANGING = 1,
    HF_FLEET_COMPLETE = 2,
    HF_FLEET_SETTLED = 3,
};

enum hf_event_flag {
    HF_EVENT_F_JOB = 1 << 0,         /* the lease of a `holdfast run` */
    HF_EVENT_F_HANDED_OVER = 1 << 1, /* released, granted: from process to process of one host */
};

/* One event, under its own `seq`. Entry `index` of a ring is at `index` mod the ring's size. */
struct hf_event {
    _Atomic uint32_t seq;
    uint8_t kind;    /* enum hf_event_kind */
    uint8_t node;    /* the node that caused it; HF_EVENT_NO_NODE */
    uint8_t reason;  /* enum hf_loss_reason, or as the kind says */
    uint8_t flags;   /* enum hf_event_flag */
    uint64_t index;  /* in its ring, from 0 */
    uint64_t number; /* over all rings, from 1 */
    int64_t at_ns;   /* CLOCK_BOOTTIME */
    int64_t wall_ms;
    int64_t valid_before_ns, valid_ns; /* V before and after; 0 none */
    uint64_t fence;
    int64_t value; /* as the kind says */
    uint32_t slot, generation;
    uint32_t pid, uid;       /* the holder */
    uint32_t by_pid, by_uid; /* asked the holder to stop; pid 0: unknown */
    uint32_t name_hash;      /* as in the index */
    uint16_t voting;  /* bit per node: its vote stands at `at`; for LATE, and LOSING without a
                        quorum: beyond V */
    uint8_t nodes;    /* of the list */
    uint8_t text_len; /* length of the whole name; `text` has its first bytes */
    uint8_t text[HF_EVENT_TEXT + 1]; /* the lease's name; of a node, more about it */
};
_Static_assert(sizeof(struct hf_event) == 192, "layout");
_Static_assert(offsetof(struct hf_event, text) == 104, "layout");

#define HF_RENEWALS_KEPT 256 /* per node */

/* One renewal or heal of a node, answered or not; under its own `seq`. */
struct hf_renewal {
    _Atomic uint32_t seq;
    uint32_t index;      /* its number on this node, from 1; 0: none yet */
    int64_t at_ns;       /* CLOCK_BOOTTIME, before it was sent */
    uint32_t latency_us; /* until its outcome was known */
    uint16_t keys, hit, missing, foreign;
    uint8_t outcome; /* enum hf_node_error; NONE: answered */
    uint8_t flags;   /* enum hf_renewal_flag */
    uint8_t reserved[2];
};
_Static_assert(sizeof(struct hf_renewal) == 32, "layout");

enum hf_renewal_flag {
    HF_RENEWAL_F_HEAL = 1 << 0, /* one key, written again */
    HF_RENEWAL_F_LATE = 1 << 1, /* answered after its timeout */
};

/* The bytes of the requests that wait, in the table (shm/waiters.h); part of shm/layout.h, which says who writes and
 * who reads. The section has HF_WAITERS_SHOWN rows; their size never changes. */

#define HF_WAITERS_SHOWN 512 /* 192 KiB; of more than that the oldest are shown */

enum hf_waiter_flag {
    HF_WAITER_F_USED = 1 << 0,
    HF_WAITER_F_JOB = 1 << 1, /* of `holdfast run` */
};

struct hf_waiter_row {
    _Atomic uint32_t seq; /* odd while the writer is inside */
    uint32_t flags;       /* enum hf_waiter_flag; without USED the row is empty */
    uint32_t pid, uid;    /* as the agent sees them */
    int64_t since_ns;     /* CLOCK_BOOTTIME: when the request came to this agent */
    int64_t asked_ns;     /* when it first came to any agent: its place, then `number` */
    int64_t deadline_ns;  /* when it gives up; INT64_MAX: never */
    uint64_t number;      /* rises from request to request */
    uint32_t ttl_ms;
    uint8_t name_len, reserved0[3];
    char comm[16];
    uint8_t name[256];
    uint8_t reserved1[56];
};
_Static_assert(sizeof(struct hf_waiter_row) == 384, "layout");
_Static_assert(offsetof(struct hf_waiter_row, since_ns) == 16, "layout");
_Static_assert(offsetof(struct hf_waiter_row, comm) == 56, "layout");
_Static_assert(offsetof(struct hf_waiter_row, name) == 72, "layout");

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
    HF_SLOT_F_JOB = 1 << 0,       /* held by `holdfast run`: ends when its tree is reaped */
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
    /* the drain, shm/table_notes.h */
    _Atomic int64_t drained_wall_ms; /* Unix time since when; 0: not drained, -1: it is not known */
    _Atomic uint32_t drained_uid, drained_pid; /* who drained it */
    /* with the inode, which may be used again. Written once */
    int64_t timens_offset_ns;
    uint64_t
        pidns_inode; /* of the agent; its pids and those of its leases mean nothing elsewhere. Once per start */
    uint8_t reserved2[8];
    /* line 3: the signs of life of each thread's loop, CLOCK_BOOTTIME */
    _Atomic int64_t main_beat_ns, broker_beat_ns, renewal_beat_ns;
    struct hf_file_id dir_file; /* which directory `dir` is; 0: not told. Once per start */
    uint8_t reserved3[16];
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
    /* the failed assertion by which the last agent ended, shm/table_notes.h */
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

/* The bytes of the history in the table, for `history` and `watch` (shm/history.h); part of shm/layout.h. */
#ifndef HOLDFAST_SHM_LAYOUT_HISTORY_H
#define HOLDFAST_SHM_LAYOUT_HISTORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

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
    HF_EVENT_F_RUN = 1 << 0,         /* the lease of a `holdfast run` */
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

#endif

/* The bytes of a node's row in the table; part of shm/layout.h, which says who writes and who reads. */
#ifndef HOLDFAST_SHM_LAYOUT_NODE_H
#define HOLDFAST_SHM_LAYOUT_NODE_H

#include <stdatomic.h>
#include <stdint.h>

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

#endif

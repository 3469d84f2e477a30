/* The protocol of client and agent: two datagrams at attach, then entries in two rings.
 *
 * The attach socket (SOCK_SEQPACKET) is for identity and death. A client sends one hf_hello; the
 * agent answers one hf_welcome with three descriptors (enum hf_welcome_fd) or a refusal with none.
 * After that the agent sends only one-byte nudges (MSG_DONTWAIT) to clients that want them (enum hf_nudge). The
 * client sends one-byte bells, when the agent sleeps (shm/ring.h), and one hf_group of a guardian (which the agent accepts from its own
 * user and root). All integers are native; both sides run on one host and compare
 * hf_wire_fingerprint().
 */
#ifndef HOLDFAST_SHM_WIRE_H
#define HOLDFAST_SHM_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

#define HF_WIRE_MAGIC 0x31574648 /* "HFW1" */
#define HF_WIRE_MAJOR 1
#define HF_WIRE_MINOR 0
#define HF_COOKIE_LEN 16

/* The agent's descriptors for each session: socket and pidfd, and two by which it sees that a client has closed its
 * memory. Besides, it needs four connections to each node, and 64 for itself and for clients that it is just admitting or refusing. */
#define HF_SESSION_FDS 4
static inline int64_t hf_sessions_fit(int64_t descriptors, uint32_t nodes)
{
    int64_t fit = (descriptors - 64 - 4 * (int64_t)nodes) / HF_SESSION_FDS;

    return fit > 0 ? fit : 0;
}

/* Without so many an agent does not reach its nodes and keeps no record, so it would serve nobody and renew nothing. */
static inline int64_t hf_descriptors_least(uint32_t nodes)
{
    return 20 + 4 * (int64_t)nodes;
}

enum hf_hello_role {
    HF_ROLE_HOLDER = 0,
    HF_ROLE_GUARDIAN = 1, /* second session of a `run`: cookie of the first is required */
};

/* Who is sent a byte on the socket when there is something to look at. */
enum hf_nudge {
    HF_NUDGE_NEVER = 0,
    HF_NUDGE_ALWAYS = 1,
    HF_NUDGE_WHO_POLLS = 2, /* while `polls` of the requests page says so */
};

struct hf_hello {
    uint32_t magic;
    uint16_t major, minor;
    uint64_t fingerprint;          /* hf_wire_fingerprint() */
    uint64_t start_time;           /* field 22 of /proc/PID/stat, before Linux 6.9 who it is */
    uint64_t timens_inode;         /* st_ino of /proc/self/ns/time */
    int64_t boottime_ns;           /* the client's clock when it wrote this */
    uint32_t role;                 /* enum hf_hello_role */
    uint32_t nudge;                /* enum hf_nudge */
    uint8_t cookie[HF_COOKIE_LEN]; /* all 0: a new client; else the one of an earlier welcome */
    char comm[HF_COMM_MAX + 1];
    char version[16];
    uint8_t reserved[32];
};
_Static_assert(sizeof(struct hf_hello) == 128, "layout");

/* A datagram of so many bytes from an attached client says that there is something in its ring: a bell. */
#define HF_BELL_BYTES 1

enum hf_welcome_fd { HF_FD_TABLE, HF_FD_REQUESTS, HF_FD_COMPLETIONS, HF_WELCOME_FDS };

struct hf_welcome {
    uint32_t magic;
    int32_t status; /* 0, or the reason of a refusal */
    uint16_t major, minor;
    uint32_t client_id;
    uint64_t epoch;       /* of the table */
    uint32_t incarnation; /* of the agent */
    uint32_t ring_entries;
    uint32_t ttl_ms, ttl_max_ms, ttl_min_ms;
    uint32_t readopted; /* leases of this cookie that the agent still holds */
    uint8_t cookie[HF_COOKIE_LEN];
    char version[16];
    char text[172]; /* a message for people when refused */
    uint32_t again; /* refused, but in a moment it may be welcome */
};
_Static_assert(sizeof(struct hf_welcome) == 256, "layout");

/* A guardian, after its welcome, once: the control group (v2) that its job runs in. There is no answer. */
#define HF_GROUP_MAGIC 0x31474648 /* "HFG1" */
enum hf_group_fd {
    HF_FD_GROUP,        /* the directory */
    HF_FD_GROUP_KILL,   /* its cgroup.kill, open for writing */
    HF_FD_GROUP_FREEZE, /* its cgroup.freeze, likewise */
    HF_GROUP_FDS
};
struct hf_group {
    uint32_t magic;
    uint8_t reserved[28];
};
_Static_assert(sizeof(struct hf_group) == 32, "layout");

/* --- entries -------------------------------------------------------------------------------------
 * Fixed size; a client writes requests and reads completions. The agent copies a request once and
 * judges the copy. A request's `id` is the client's own, unique among its unanswered ones, never 0;
 * a request sent again with the same id after a reconnect is the same request.
 */
enum hf_wire_op {
    HF_OP_ACQUIRE = 1,
    HF_OP_RELEASE = 2, /* by slot and generation */
    HF_OP_CANCEL = 3, /* `target`: id of an unanswered acquire or query; no completion of its own */
    HF_OP_STOP_HOLDER = 4, /* ask the holder of `name` to stop: its lease becomes LOSING */
    HF_OP_LOSING = 5,      /* a guardian began to stop its job: terminal; no completion */
    HF_OP_PING = 6,
    HF_OP_PROGRESS = 7, /* completions only: what an unanswered acquire waits for */
    HF_OP_QUERY = 8,    /* who holds `name`, on any host */
    HF_OP_LISTING = 9,  /* some of the held names that begin with `name`, as one node has them */
    HF_OP_FORCE =
        10, /* force out the hold of `name` that `key_id` or `target` means, of any holder */
    HF_OP_ITEM = 11,  /* completions only: a hf_listing_item */
    HF_OP_DRAIN = 12, /* grant nothing new, or (HF_REQ_UNDRAIN) grant again */
    /* whether a job has run in this period; if not, it is written that it starts. By slot and
     * generation; `target`: a random number of the asker's own, the same when the request is sent again. With
     * `name` instead of a slot: LAST and FORGET */
    HF_OP_ONCE = 13,
};

enum hf_request_flag {
    HF_REQ_JOB = 1 << 0,    /* acquire: ends when a guardian says that the tree is reaped */
    HF_REQ_REAPED = 1 << 1, /* release of a run: the tree is reaped */
    HF_REQ_SECOND_GUARDIAN =
        1 << 2,              /* acquire of a run: no job is started before a guardian has joined */
    HF_REQ_KILLING = 1 << 3, /* losing: it kills its job, for history only */
    HF_REQ_WAIT = 1 << 4,    /* query: answered when it is free, or at the deadline */
    HF_REQ_UNDRAIN = 1 << 5, /* drain: the end of it */
    HF_REQ_TAKE_BACK = 1 << 6, /* once: the job failed; `target`, the start before, counts again */
    HF_REQ_ENDED =
        1
        << 7, /* once: the job has ended; `target`: enum hf_once_end, and << 8 its code or signal */
    HF_REQ_LAST = 1 << 8,   /* once: only tells the last run of `name` */
    HF_REQ_FORGET = 1 << 9, /* once: the last run of `name` counts no more, by an operator's word */
};

#define HF_ENTRY_SIZE         512
#define HF_KEY_ID_LEN         20  /* bytes: a SHA-1 */
#define HF_HEARTBEAT_LEAST_MS 100 /* scheduling alone could miss a shorter one */

struct hf_request_entry {
    uint32_t op, flags;
    uint64_t id, target;
    int64_t deadline_ns;  /* acquire: CLOCK_BOOTTIME; 0 = try once, INT64_MAX = no limit */
    uint32_t ttl_ms;      /* 0: the agent's default */
    uint32_t max_hold_ms; /* 0: no limit */
    uint32_t slot, generation;
    uint8_t name_len, note_len;
    uint8_t reserved[6];
    uint8_t name[256];
    char note[128];
    uint32_t heartbeat_ms; /* acquire: D; 0: none */
    uint32_t beat_word;    /* acquire with a heartbeat: its word, below HF_BEATS */
    /* acquire: the time of the first request, CLOCK_BOOTTIME, for its place in the queue
     * of a later agent; 0 unknown */
    int64_t asked_ns;
    /* force: sha1 of the key's value, 0: whatever has the fence `target`. A listing has its
     * cursor in `target`, its node in `slot` */
    uint8_t key_id[HF_KEY_ID_LEN];
    uint32_t period_ms; /* once */
    uint8_t reserved2[32];
};
_Static_assert(sizeof(struct hf_request_entry) == HF_ENTRY_SIZE, "layout");

/* The holder, as far as known; strings end with NUL, are cut to fit, and are "" when unknown. */
struct hf_wire_holder {
    uint64_t fence;        /* 0 unknown */
    int64_t since_wall_ms; /* 0 unknown */
    int64_t pttl_ms;       /* of the key on the node that answered; -1 no expiry, -2 unknown */
    uint32_t pid, uid;
    char host[64], comm[16], note[128];
};

struct hf_completion_entry {
    uint64_t id;
    uint32_t op;
    int32_t status; /* 0 or enum hf_status */
    uint32_t slot, generation;
    uint64_t fence;
    int64_t deadline_ns; /* V at the grant; once: when the job may start at the latest */
    uint32_t nodes_voting, nodes_up; /* for HF_ENOQUORUM */
    struct hf_wire_holder holder; /* for HF_EBUSY and progress; drain: who drained it, since when */
    char text[184];               /* a message for people, "" when `status` says enough */
    uint32_t place;               /* progress of an acquire: 1 = next; 0 unknown */
    /* query, force: `holder` has the key on most nodes, `fence` is the highest that a
     * node knows */
    uint8_t key_id[HF_KEY_ID_LEN]; /* of its key; 0 another type */
    uint8_t query_outcome;         /* enum hf_query_outcome */
    uint8_t query_answered, query_holding, query_forced, query_free; /* how many nodes */
    uint8_t drained_before; /* drain: whether it was drained before this request */
    /* once: `fence` is when the last run was started, microseconds of Unix time (0 never),
     * `holder` who started it; how it ended: enum hf_once_end, its code or signal */
    uint8_t once_end, once_code;
    uint8_t reserved[8];
};
_Static_assert(sizeof(struct hf_completion_entry) == HF_ENTRY_SIZE, "layout");

enum hf_query_outcome {
    HF_QUERY_NONE = 0,
    HF_QUERY_HELD = 1,    /* by one holder on q nodes */
    HF_QUERY_FREE = 2,    /* q nodes have no such key */
    HF_QUERY_SPLIT = 3,   /* neither, whatever the other nodes may say */
    HF_QUERY_UNKNOWN = 4, /* it depends on nodes that do not answer */
};

/* A completion: a name held on one node. The listing's own completion comes after all of these, with
 * the next cursor in `fence`; 0: that was all. */
struct hf_listing_item {
    uint64_t id;
    uint32_t op;
    int32_t status;
    uint64_t fence;
    int64_t since_wall_ms, pttl_ms;
    uint32_t pid, uid;
    uint8_t key_id[HF_KEY_ID_LEN];
    uint8_t name_len;
    uint8_t name[HF_NAME_MAX];
    char host[64], comm[16], note[96]; /* as of hf_wire_holder, the note cut */
    uint8_t reserved[12];
};
_Static_assert(sizeof(struct hf_listing_item) == HF_ENTRY_SIZE, "layout");
_Static_assert(offsetof(struct hf_listing_item, op) == offsetof(struct hf_completion_entry, op),
               "layout");

uint64_t hf_wire_fingerprint(void);

#endif

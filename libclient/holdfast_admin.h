/* libholdfast for those who look after locks: who holds which on any host, asking and forcing a holder
 * to give one up, and an agent's table. Programs that only take locks need holdfast.h alone. */
#ifndef HOLDFAST_ADMIN_H
#define HOLDFAST_ADMIN_H

#include "holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- on this host -------------------------------------------------------------------------------- */

/* Asks the holder of `name` on this host to stop: its lease becomes LOSING. The asker must be root,
 * the agent's user or the holder's user (HF_EPERM). HF_ENOTHELD: nobody here holds it. */
HF_EXPORT int hf_ask(hf_client *client, const void *name, size_t name_len);

/* --- who holds it, on any host -------------------------------------------------------------------
 * The nodes are asked; what they say is a moment old when it arrives, and no promise: to act on it
 * safely, acquire. An agent from before these calls gives HF_EVERSION. */
enum hf_who_state {
    HF_WHO_HELD = 1, /* by one holder, on a majority of the nodes */
    HF_WHO_FREE = 2, /* a majority of the nodes has no such key */
    /* nobody holds it, yet it is not free: several contend for it, or leave remains behind */
    HF_WHO_SPLIT = 3,
    HF_WHO_UNKNOWN = 4 /* that depends on nodes that do not answer */
};

struct hf_who_info {
    size_t size; /* HF_WHO_INFO_INIT */
    int state;   /* enum hf_who_state */
    uint32_t nodes, quorum, answered;
    uint32_t holding; /* nodes that have the holder's key */
    uint32_t forced;  /* nodes on which it is forced out */
    uint32_t free;    /* nodes that have no such key */
    /* Of the key that most nodes have. `pttl_ms`: after it fewer than a majority have it, if nobody
     * renews it. Of a lock that another program has set only `pttl_ms` is known: `fence` is 0. */
    struct hf_holder holder;
    /* Tells this hold from others: the SHA-1 of the key's value, in hex; "" of a key of another type
     * than Redlock's, or of none. */
    char id[41];
    uint64_t last_fence; /* the highest that was given out for the name, 0 unknown */
};
#define HF_WHO_INFO_INIT                                                                           \
    {                                                                                              \
        sizeof(struct hf_who_info), 0, 0, 0, 0, 0, 0, 0, HF_HOLDER_INIT, "", 0                     \
    }

/* HF_OK: the state is one of the first three. HF_ENOQUORUM: it is HF_WHO_UNKNOWN, and `who` has what
 * was found all the same. HF_EINTR. */
HF_EXPORT int hf_who(hf_client *client, const void *name, size_t name_len, struct hf_who_info *who);

/* Sleeps until nobody holds `name` on any host, without taking it: somebody else may take it at the
 * same moment. `wait_ms` 0 looks once (HF_EBUSY), -1 waits without limit. The end of a hold on this
 * host is noticed at once, on another one after a fraction of a second. `progress` (may be NULL) is
 * called in this thread with who is waited for. HF_ETIMEDOUT, and hf_conflict() has the holder;
 * HF_ENOQUORUM: too few nodes answered; HF_EINTR. */
HF_EXPORT int hf_wait_free(hf_client *client, const void *name, size_t name_len, int64_t wait_ms,
                           void (*progress)(const struct hf_progress *progress, void *arg),
                           void *arg);

/* Ends the very hold that `seen` tells of (its `holder.fence`, or where that is 0 its `id`), on
 * whatever host, whether its holder answers or not. The holder's agent can renew it no more, and
 * nobody else gets the lock before that agent has given it up or its time is over; a lock that
 * another program has set is free after a second, if its value cannot be an agent's. docs/SAFETY.md
 * has what that means. `now` may be
 * NULL; else it is filled whenever the nodes were asked. For root and the agent's user (HF_EPERM).
 * HF_ENOTHELD: nobody holds it. HF_EBUSY: another hold than the one meant has it. HF_ENOQUORUM: done
 * on too few nodes. */
HF_EXPORT int hf_force(hf_client *client, const void *name, size_t name_len,
                       const struct hf_who_info *seen, struct hf_who_info *now);

/* What agents hold on any host, by the records that they leave on the nodes. */
struct hf_listed {
    size_t size; /* as the library has it */
    const void *name;
    size_t name_len;
    uint32_t holding; /* nodes that say so */
    struct hf_holder holder;
    char id[41]; /* as of hf_who() */
};
/* Calls `fn` for each held name that begins with `prefix` (may be empty), in the order of their bytes,
 * until it returns nonzero, which is then returned. `ret_nodes`, if not NULL, gets how many nodes
 * could be listed. What changes meanwhile may be told or not; a name that is held by fewer nodes than
 * a majority may be on its way in or out. HF_ENOQUORUM: fewer than a majority could be listed; HF_EINTR. */
HF_EXPORT int hf_list(hf_client *client, const void *prefix, size_t prefix_len,
                      int (*fn)(const struct hf_listed *listed, void *arg), void *arg,
                      uint32_t *ret_nodes);

/* --- looking -------------------------------------------------------------------------------------
 * A read-only view of an agent's table; works when the agent hangs or is dead. */
typedef struct hf_view hf_view;

struct hf_info {
    size_t size; /* HF_INFO_INIT; in hf_view_walk() as the library has it */
    uint8_t name[256];
    uint32_t name_len;
    int state;      /* enum hf_lease_state */
    uint32_t votes; /* nodes that hold our key as far as is known */
    uint32_t pid, uid, ttl_ms;
    uint64_t fence;
    int64_t since_ns, valid_until_ns; /* instants of CLOCK_BOOTTIME; 0: none */
    int held;                         /* valid at the time of the call */
    int run;                          /* held by `holdfast run` */
    char command[16], note[128];
    char reason[64];
};
#define HF_INFO_INIT                                                                               \
    {                                                                                              \
        sizeof(struct hf_info), "", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "", ""                    \
    }

/* `agent` as for hf_connect(). HF_ENOAGENT: there is no such table; HF_EPERM, HF_ETABLE,
 * HF_EVERSION: it may not or cannot be read. */
HF_EXPORT int hf_view_open(const char *agent, hf_view **ret_view);
HF_EXPORT void hf_view_close(hf_view *view); /* NULL is fine */
/* HF_ENOTHELD: no such lease here. */
HF_EXPORT int hf_view_find(hf_view *view, const void *name, size_t name_len, struct hf_info *info);
/* Calls `fn` for every lease until it returns nonzero, which is then returned. */
HF_EXPORT int hf_view_walk(hf_view *view, int (*fn)(const struct hf_info *info, void *arg),
                           void *arg);
/* The instant of CLOCK_BOOTTIME, in nanoseconds, of the agent's last sign of life, 0 if none; HF_ETABLE
 * when the table was replaced: open again. */
HF_EXPORT int hf_view_heartbeat_ns(hf_view *view, int64_t *ret_ns);

#ifdef __cplusplus
}
#endif

#endif

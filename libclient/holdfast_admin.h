/* libholdfast for operators' tools: show the holders of locks on any host, ask a holder to stop or
 * force it out, and read an agent's table. Programs that only take locks need only holdfast.h. */
#ifndef HOLDFAST_ADMIN_H
#define HOLDFAST_ADMIN_H

#include "holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- on this host -------------------------------------------------------------------------------- */

/* Asks the holder of `name` on this host to stop: its lease becomes LOSING. The caller must be
 * root, the agent's user, the holder's user, or have the right `force` (HF_EPERM). HF_ENOTHELD: nobody
 * on this host holds it. */
HF_EXPORT int hf_ask(hf_client *client, const void *name, size_t name_len);

/* Drains this host's agent: it grants nothing new until hf_undrain(), also after its restart, until the host is
 * booted. Leases that are held go on being renewed. A try is refused with HF_EDRAINED, a wait goes on and hears
 * of it. When this returns no lease is granted any more. The caller must be root or the agent's user (HF_EPERM).
 * HF_OK also if it stands already. HF_ESYS: the agent cannot
 * keep it for its next start; nothing is changed. */
struct hf_drain_info {
    size_t size;     /* HF_DRAIN_INFO_INIT */
    int was_drained; /* before the call */
    int64_t
        since_wall_ms; /* of the drain that stands, or has ended: Unix time; 0: not known, nor who it was */
    uint32_t uid, pid; /* whose order it was */
};
#define HF_DRAIN_INFO_INIT                                                                         \
    {                                                                                              \
        sizeof(struct hf_drain_info), 0, 0, 0, 0                                                   \
    }
HF_EXPORT int hf_drain(hf_client *client, struct hf_drain_info *info);
HF_EXPORT int hf_undrain(hf_client *client, struct hf_drain_info *info);

/* --- who holds it, on any host -------------------------------------------------------------------
 * The agent asks the nodes. Their answer is a moment old when it arrives and promises nothing: to
 * act on it safely, acquire. */
enum hf_who_state {
    HF_WHO_HELD = 1, /* by one holder, on a majority of the nodes */
    HF_WHO_FREE = 2, /* a majority of the nodes has no such key */
    /* nobody holds it, yet it is not free: several contend for it, or left keys behind */
    HF_WHO_SPLIT = 3,
    HF_WHO_UNKNOWN = 4 /* it depends on nodes that do not answer */
};

struct hf_who_info {
    size_t size; /* HF_WHO_INFO_INIT */
    int state;   /* enum hf_who_state */
    uint32_t nodes, quorum, answered;
    uint32_t holding; /* nodes that have the holder's key */
    uint32_t forced;  /* nodes on which it is forced out */
    uint32_t free;    /* nodes that have no such key */
    /* From the key that most nodes have. After `pttl_ms` fewer than a majority have it, if nobody
     * renews it. For a lock that another program has set only `pttl_ms` is known: `fence` is 0. */
    struct hf_holder holder;
    /* Tells this hold from others: the SHA-1 of the key's value, in hex; "" for a key of another
     * type than Redlock's, or no key. */
    char id[41];
    uint64_t last_fence; /* the highest granted for the name; 0: unknown */
};
#define HF_WHO_INFO_INIT                                                                           \
    {                                                                                              \
        sizeof(struct hf_who_info), 0, 0, 0, 0, 0, 0, 0, HF_HOLDER_INIT, "", 0                     \
    }

/* HF_OK: the state is one of the first three. HF_ENOQUORUM: it is HF_WHO_UNKNOWN, and `who` still
 * has what was found. HF_EPERM: a rule of this host's agent lets others see the name. HF_EINTR. */
HF_EXPORT int hf_who(hf_client *client, const void *name, size_t name_len, struct hf_who_info *who);

/* Sleeps until nobody holds `name` on any host, without taking it: somebody else may take it at the
 * same moment. `wait_ms` 0 asks once (HF_EBUSY), -1 waits without limit. The end of a hold on this
 * host is noticed at once, on another host after a fraction of a second. `progress` (may be NULL)
 * is called in this thread with the holder. HF_ETIMEDOUT, and hf_conflict() has the holder;
 * HF_ENOQUORUM: too few nodes answered; HF_EPERM: as of hf_who(); HF_EINTR. */
HF_EXPORT int hf_wait_free(hf_client *client, const void *name, size_t name_len, int64_t wait_ms,
                           void (*progress)(const struct hf_progress *progress, void *arg),
                           void *arg);

/* Forces out the hold that `seen` describes (by its `holder.fence`, or if that is 0 by its `id`) and
 * no other, on any host, whether its holder answers or not. The holder's agent can no longer renew
 * it, and nobody else gets the lock before that agent has ended the lease or the time left on its
 * keys is over; a lock that another program has set is free after a second, if its value cannot be
 * an agent's. docs/SAFETY.md says what that means. `now` may be NULL; else it is filled whenever the
 * nodes were asked. The caller must be root, the agent's user or have the right `force` (HF_EPERM). HF_ENOTHELD: nobody
 * holds it. HF_EBUSY: another hold has replaced it. HF_ENOQUORUM: done on too few nodes. */
HF_EXPORT int hf_force(hf_client *client, const void *name, size_t name_len,
                       const struct hf_who_info *seen, struct hf_who_info *now);

/* --- the last run of a job that runs once in a period (hf_once(), hf_once_last()) ---------------- */

/* The last run counts no more: the next start runs. The caller needs the right that hf_force() needs (HF_EPERM). HF_ENOTHELD: there
 * is none. HF_EBUSY: another run began meanwhile. HF_ENOQUORUM: fewer than a majority of the nodes took it. */
HF_EXPORT int hf_once_forget(hf_client *client, const void *name, size_t name_len);

/* A name held on any host, from the records that agents write on the nodes. */
struct hf_listed {
    size_t size; /* as the library has it */
    const void *name;
    size_t name_len;
    uint32_t holding; /* nodes that have the holder's key */
    struct hf_holder holder;
    char id[41]; /* as in struct hf_who_info */
};
/* Calls `fn` for each held name that begins with `prefix` (may be empty) and that a rule of this host's agent does not
 * keep from this user, in the order of their bytes, until it returns nonzero, which is then returned. `ret_nodes`, if not NULL, gets the number of nodes that
 * could be listed; if it is not all, hf_last_message() has what the last of the others said. A node that does not end its listing, or
 * names more than 100,000 locks that no other node has, could not be, and what it said does not count. Changes during the call may be missed; a name held on fewer nodes than a majority may be
 * just being acquired or released. HF_ENOQUORUM: fewer than a majority could be listed; HF_EINTR. */
HF_EXPORT int hf_list(hf_client *client, const void *prefix, size_t prefix_len,
                      int (*fn)(const struct hf_listed *listed, void *arg), void *arg,
                      uint32_t *ret_nodes);

/* --- the table ------------------------------------------------------------------------------------
 * A read-only view of an agent's table; works when the agent hangs or is dead. */
typedef struct hf_view hf_view;

struct hf_info {
    size_t size; /* HF_INFO_INIT; in hf_view_walk() set by the library */
    uint8_t name[256];
    uint32_t name_len;
    int state;      /* enum hf_lease_state */
    uint32_t votes; /* nodes that have the lease's key, as far as is known */
    uint32_t pid, uid, ttl_ms;
    uint64_t fence;
    int64_t since_ns, valid_until_ns; /* instants of CLOCK_BOOTTIME; 0: none */
    int held;                         /* valid at the time of the call */
    int is_job;                       /* held by `holdfast run` */
    char command[16], note[128];
    char reason[64];
};
#define HF_INFO_INIT                                                                               \
    {                                                                                              \
        sizeof(struct hf_info), "", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "", ""                    \
    }

/* `agent` as for hf_connect(). Waits up to two seconds for a table that its agent is making. HF_ENOAGENT: there is no such table; HF_EPERM: the caller may not
 * read it; HF_ETABLE, HF_EVERSION: it cannot be read. */
HF_EXPORT int hf_view_open(const char *agent, hf_view **ret_view);
HF_EXPORT void hf_view_close(hf_view *view); /* NULL is fine */
/* HF_ENOTHELD: no such lease on this host. */
HF_EXPORT int hf_view_find(hf_view *view, const void *name, size_t name_len, struct hf_info *info);
/* Calls `fn` for every lease until it returns nonzero, which is then returned. */
HF_EXPORT int hf_view_walk(hf_view *view, int (*fn)(const struct hf_info *info, void *arg),
                           void *arg);
/* The instant of CLOCK_BOOTTIME, in nanoseconds, of the agent's last sign of life, 0 if none;
 * HF_ETABLE: the table was replaced, open the view again. */
HF_EXPORT int hf_view_heartbeat_ns(hf_view *view, int64_t *ret_ns);

#ifdef __cplusplus
}
#endif

#endif

/* One lease as the agent keeps it, and the table of all of them.
 *
 * Who writes: the broker makes it and fills it; after MSG_GRANTED the renewal thread owns `fsm` and
 * its own fields; after MSG_ENDED the broker owns all again, takes it out of the table and frees it
 * after a grace period. A hand-off ends the lease of the old holder: a new struct lease with the same
 * token and the next generation takes its place (agent/state/lease.h).
 * Who reads: any thread that is registered with liburcu may look leases up or walk over them inside a
 * read section, and read the part that never changes and the atomics. The slot in shared memory and
 * the journal record have the same owner as `fsm`.
 */
#ifndef HOLDFAST_AGENT_STATE_LEASE_H
#define HOLDFAST_AGENT_STATE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/handoff.h"
#include "shm/layout.h"
#include "shm/table.h"

#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include "agent/base/token.h"
#include "agent/core/heartbeat.h"
#include "agent/core/holder.h"
#include "agent/core/lease_fsm.h"

struct beats;

/* The renewal thread's view of one node's vote. */
struct lease_node {
    uint8_t retries;    /* since the last answer, backoff_next() */
    bool in_flight : 1; /* a renew or heal is unanswered: no second one in parallel */
    bool heal : 1;      /* the command that is due is a heal */
    bool told : 1;      /* a notice came since the last command was sent */
    bool hurried : 1;   /* the last command was sent because of a notice */
    bool written : 1;   /* a SET of our token may have run there since its vote last counted */
};
_Static_assert(sizeof(struct lease_node) == 2, "a lease has one for each node");

/* Fields that few leases need: with a heartbeat or a max_hold, or handed over. */
struct lease_extra {
    hf_time won;       /* when its token was granted: `since` of the first holder */
    hf_time token_end; /* max_hold of the token; HF_TIME_NEVER */
    struct heartbeat beat;
    uint32_t heartbeat_ms, beat_word; /* 0: none; the word of its holder's page */
    struct beats *beats;              /* its holder's page, a reference; NULL: not known (yet) */
};

/* A million of them are held at a time: every byte counts, and parts of variable length (names, the
 * configured nodes) take no more than they need. One allocation: the struct, whose fsm ends with the last
 * configured node; the lease_nodes; the words and the extra, which lease_name() and the like find. */
struct lease {
    /* never changes once it is in the table */
    uint64_t request_id; /* the client's number of the acquire */
    uint64_t fence;      /* whole: node part and number of hand-offs */
    hf_time since;
    hf_wall since_wall;
    uint32_t slot, generation;
    uint32_t ttl_ms, pid, uid;
    uint16_t key_len;
    uint8_t name_len, note_len, comm_len;
    uint8_t nodes; /* configured */
    bool is_job : 1,
        second_guardian : 1; /* second_guardian: a run that has no job before a guardian has joined */
    bool key_is_name : 1, has_extra : 1;
    struct token token;

    /* owned by the renewal thread between MSG_GRANTED and MSG_ENDED */
    bool job_stopped : 1, job_killed : 1;      /* told by a guardian */
    bool releasing : 1;                        /* the release is under way */
    bool found_foreign : 1, found_missing : 1; /* lease_found() */
    uint16_t undescribed; /* bit per node: its record is to be written (renewal_nodes.c) */
    int8_t blamed;        /* the node whose void vote made it LOSING or LOST; -1 none */

    /* owned by the broker */
    bool ending;         /* a release or abandon was already posted */
    uint16_t unanswered; /* bit per node: its acquire had no answer yet */

    /* shared: written by the owner, read by anyone */
    _Atomic uint8_t state; /* enum hf_slot_state */
    _Atomic int64_t valid_ns;

    union {                    /* last */
        struct lease_fsm fsm;  /* the renewal thread's */
        struct lease *removed; /* the broker's, when removed: the one removed before */
        struct rcu_head rcu;   /* afterwards */
    };
};

/* Of a new lease, with all that comes from who holds it. */
struct lease_words {
    const void *name, *key; /* key: as formatted for the nodes */
    size_t name_len, key_len;
    const struct holder *holder;
    bool extra; /* it gets an extra: lease_set_token() */
};

struct lease *lease_new(int nodes, const struct lease_words *words);
void lease_free(struct lease *lease); /* at once: only a lease that never was in a table */
/* Sets what differs from the default: granted at `since`, no end of the token. Needs an extra. */
void lease_set_token(struct lease *lease, hf_time won, hf_time token_end);

/* Its release found that it had been lost (agent/redis/key_deleter.h), or not: HF_LOSS_NONE. */
static inline void lease_found(struct lease *lease, enum hf_loss_reason gone)
{
    lease->found_foreign = gone == HF_LOSS_FOREIGN;
    lease->found_missing = gone == HF_LOSS_MISSING;
}
static inline enum hf_loss_reason lease_found_gone(const struct lease *lease)
{
    return lease->found_foreign   ? HF_LOSS_FOREIGN
           : lease->found_missing ? HF_LOSS_MISSING
                                  : HF_LOSS_NONE;
}

static inline struct lease_node *lease_node(const struct lease *lease, int node)
{
    return (struct lease_node *)((char *)&lease->fsm + lease_fsm_size(lease->nodes)) + node;
}
static inline struct timing lease_timing(const struct lease *lease)
{
    return lease_fsm_timing(&lease->fsm);
}
static inline const uint8_t *lease_name(const struct lease *lease)
{
    return (const uint8_t *)lease_node(lease, lease->nodes);
}
static inline const uint8_t *lease_key(const struct lease *lease)
{
    return lease_name(lease) + (lease->key_is_name ? 0 : lease->name_len);
}
/* C strings */
static inline const char *lease_note(const struct lease *lease)
{
    return (const char *)lease_key(lease) + lease->key_len;
}
static inline const char *lease_comm(const struct lease *lease)
{
    return lease_note(lease) + lease->note_len + 1;
}
/* NULL: it has none. Its heartbeat is the renewal thread's. */
static inline struct lease_extra *lease_extra(const struct lease *lease)
{
    uintptr_t end = (uintptr_t)lease_comm(lease) + lease->comm_len + 1u;
    uintptr_t align = _Alignof(struct lease_extra);

    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the first aligned byte behind the words. */
    return lease->has_extra ? (struct lease_extra *)((end + align - 1) / align * align) : NULL;
}
static inline uint32_t lease_heartbeat_ms(const struct lease *lease)
{
    return lease->has_extra ? lease_extra(lease)->heartbeat_ms : 0;
}
/* NULL: none was asked for. */
static inline struct heartbeat *lease_beat(const struct lease *lease)
{
    return lease_heartbeat_ms(lease) ? &lease_extra(lease)->beat : NULL;
}
static inline hf_time lease_won(const struct lease *lease)
{
    return lease->has_extra ? lease_extra(lease)->won : lease->since;
}
static inline hf_time lease_token_end(const struct lease *lease)
{
    return lease->has_extra ? lease_extra(lease)->token_end : HF_TIME_NEVER;
}

/* --- the table, slot -> lease ----------------------------------------------------------------------
 * Callers are registered with liburcu (rcu_register_thread). `slot`: below the capacity. */
struct lease_table;
int lease_table_create(uint32_t capacity, struct lease_table **ret_table);
/* Frees every lease in it; no reader may be left. */
void lease_table_destroy(struct lease_table *table);

/* Broker only. The slot must be free: the lease before it there has been removed. */
void lease_table_add(struct lease_table *table, struct lease *lease);
/* Takes out the lease that is there. It is freed after a grace period, which begins at the next
 * lease_table_tidy() or when several have gathered: each start may wake a thread. */
void lease_table_remove(struct lease_table *table, uint32_t slot);
void lease_table_tidy(struct lease_table *table);

/* Inside a read section (lease_read_begin/end), which must be short and must not block. */
void lease_read_begin(void);
void lease_read_end(void);
/* NULL: none. */
struct lease *lease_table_at(const struct lease_table *table, uint32_t slot);
/* Calls fn for every lease, by slot, in read sections of bounded length; fn must not block. Returns
 * how many. */
size_t lease_table_walk(const struct lease_table *table,
                        void (*fn)(const struct lease *lease, void *arg), void *arg);

/* Leases that are lost, or released while they were LOSING: counted by their reason, and in the
 * log. */

/* Once for each lease: when it becomes LOSING, or LOST without LOSING. In the renewal thread, or while
 * the broker is made. */
void losses_count(struct hf_table *table, enum hf_loss_reason reason);

/* Whether holders, and who may ask them to stop, can cause it at will. */
bool losses_at_will(enum hf_loss_reason reason);

/* The page in which a client's program counts its heartbeats up, mapped read-only.
 *
 * Who writes: the client, anything at any time; only a change of a count means something
 * (agent/core/heartbeat.h). Who reads: the renewal thread, for leases with a heartbeat. The session
 * and each such lease hold a reference: the page is unmapped with the last one, in any thread.
 */

struct beats;

/* Takes over the page that hf_ring_agent_create() mapped; one reference is the caller's. NULL:
 * out of memory, and the page is unmapped. */
struct beats *beats_new(const _Atomic uint32_t *words);
/* Take and drop a reference. NULL is fine. */
struct beats *beats_hold(struct beats *beats);
void beats_drop(struct beats *beats);
/* `word` below HF_BEATS; 0 without a page. */
uint32_t beats_count(const struct beats *beats, uint32_t word);

/* Handing a lease over to a waiter of this host without asking the nodes: same token, next
 * generation, and a fence that is higher by one in its low part.
 *
 * The broker chooses the next holder (agent/broker/locks/handoffs.c) and asks the renewal thread, which owns the
 * lease (agent/renewal/renewal_handoff.c). The renewal thread judges anew, and either carries it out or releases
 * the lease. Order (!): journal {HANDOFF, new holder}; check word to 0; new identity and check word. Only
 * then does the broker tell the two processes. So an agent that is killed in between leaves the lease to
 * the old holder, whose handle is empty by then, or to the new one, but never to both.
 *
 * Who writes: the broker makes it; from MSG_HAND_OVER to MSG_HANDED_OVER it belongs to the renewal
 * thread, but for `waiter`, which stays the broker's.
 */

struct client;
struct name;
struct waiter;

struct handoff {
    uint32_t slot, generation; /* of the lease that ends */
    struct lease *to;          /* all but the renewal thread's fields; its generation is the next */
    struct holder owner;
    uint32_t text_off;          /* offset of the next holder's text in the table */
    hf_time max_hold;           /* of the next holder */
    enum hf_loss_reason reason; /* why the old one ends */
    /* the answer */
    enum handoff_verdict verdict;
    hf_time valid;
    uint16_t voting;
    /* the broker's */
    struct name *name;
    struct client *client; /* kept until the answer */
    struct waiter *waiter; /* NULL: its session ended */
    bool unwanted;         /* it was cancelled meanwhile */
    bool new_text;         /* `to` has a text of its own in the table */
};

/* The facts by which a hand-off of `lease` is judged; `state` and `valid` as the caller's thread knows them. */
struct handoff_facts handoff_facts(const struct lease *lease, enum hf_slot_state state,
                                   hf_time valid, hf_dur next_ttl, hf_time next_end, hf_time now);

#endif

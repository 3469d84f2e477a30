/* A fan-out: all nodes are asked at once about one key, who holds it, or that this hold be ended.
 *
 * Every node that is up is asked. The owner is told once: when the outcome is certain and a moment has
 * passed in which the other nodes could answer too, or when no more answers come within an attempt's
 * timeout. (!) That a key is absent counts only from a node that may vote: a node that may have
 * forgotten would say so of a held key, too. Belongs to the broker's loop.
 *
 * (!) Users share a number of fan-outs, and each has a part that others cannot take (agent/broker/clients/users.c); an inquiry
 * for a last run (onces.c) counts as one. The number also bounds what one user puts before others' acquires on a node. A fan-out
 * counts for its user until each node has answered, or its deadline is over.
 */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_FANOUT_H
#define HOLDFAST_AGENT_BROKER_QUERIES_FANOUT_H

#include "agent/broker/queries/queries.h"
#include "agent/core/tally.h"
#include "agent/redis/link.h"

struct fanout;
struct user;
/* The findings; valid within the call, after which the fan-out is gone. */
typedef void fanout_fn(const struct fanout *fanout, void *arg);

struct fanout {
    LIST_ENTRY(fanout) all;
    struct queries *queries;
    struct user *user; /* for whom it counts; NULL: no more */
    struct tally tally;
    struct {
        struct hf_wire_holder holder;
        uint64_t fence; /* the record's, node part */
        bool forced;    /* the mark stands there, from now or before */
        bool asked, tracked;
        bool overdue; /* no answer by the deadline, nor since */
        enum hf_node_error error;
    } node[HF_NODES_MAX];
    int calls, awaited; /* not answered yet; of those that are not overdue */
    hf_dur grace;
    struct loop_timer timer; /* of `grace` */
    fanout_fn *fn;           /* NULL: it was called, or is not wanted any more */
    void *arg;
};

enum fanout_kind {
    FANOUT_QUERY,
    FANOUT_TRACK, /* the same, and nodes that can tell of the next change */
    FANOUT_FORCE,
};
/* What all nodes are asked. */
struct fanout_order {
    enum fanout_kind kind;
    struct user *user; /* whose query it is */
    const void *key;
    size_t key_len;
    const struct link_force *force; /* with FANOUT_FORCE */
    hf_dur grace;
};

/* Whether the user may have one more now. HF_ELIMIT with the limit. (!) Also where a node that answers could not be asked: it
 * would be taken for one that does not. */
int fanout_judge(const struct queries *queries, const struct user *user, char *text, size_t size);
/* What is no fan-out, and asks all nodes as one does, has a place among those of its user. */
void fanout_place_take(struct queries *queries, struct user *user);
void fanout_place_leave(struct queries *queries, struct user *user);
/* HF_OK: `fn` is called later, not from within. HF_ENOMEM. */
int fanout_begin(struct queries *queries, const struct fanout_order *order, fanout_fn *fn,
                 void *arg, struct fanout **ret_fanout);
/* `fn` will not be called any more. NULL is fine. */
void fanout_drop(struct fanout *fanout);
void fanouts_destroy(struct queries *queries); /* after the links */

/* The holder of the key that most nodes have, as far as known; false: no node has one. `pttl_ms`: when
 * fewer than q nodes have it if nobody renews it. */
bool fanout_holder(const struct fanout *fanout, struct hf_wire_holder *ret_holder);
int fanout_forced(const struct fanout *fanout);  /* on how many nodes */
int fanout_tracked(const struct fanout *fanout); /* how many nodes tell of the next change */

#endif

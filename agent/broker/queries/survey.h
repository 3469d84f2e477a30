/* Asking all nodes at once about one key: who holds it, or that this hold be ended.
 *
 * Every node that is up is asked. The owner is told once: when the outcome is certain and a moment has
 * passed in which the other nodes could answer too, or when no more answers come within an attempt's
 * timeout. (!) That a key is absent counts only from a node that may vote: a node that may have
 * forgotten would say so of a held key, too. Belongs to the broker's loop.
 */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_SURVEY_H
#define HOLDFAST_AGENT_BROKER_QUERIES_SURVEY_H

#include "agent/broker/queries/queries.h"
#include "agent/core/census.h"
#include "agent/redis/link.h"

struct survey;
/* The findings; valid within the call, after which the survey is gone. */
typedef void survey_fn(const struct survey *survey, void *arg);

struct survey {
    LIST_ENTRY(survey) all;
    struct queries *queries;
    struct census census;
    struct {
        struct hf_wire_holder holder;
        uint64_t fence; /* the record's, node part */
        bool forced;    /* the mark stands there, from now or before */
        bool asked, tracked;
        enum hf_node_error error;
    } node[HF_NODES_MAX];
    int calls; /* not answered yet */
    hf_dur grace;
    struct loop_timer timer; /* of `grace` */
    survey_fn *fn;           /* NULL: it was called, or is not wanted any more */
    void *arg;
};

enum survey_kind {
    SURVEY_LOOK,
    SURVEY_TRACK, /* the same, and nodes that can tell of the next change */
    SURVEY_FORCE,
};
/* `force`: with SURVEY_FORCE. HF_OK: `fn` is called later, not from within. HF_ENOMEM. */
int survey_begin(struct queries *queries, enum survey_kind kind, const void *key, size_t key_len,
                 const struct link_force *force, hf_dur grace, survey_fn *fn, void *arg,
                 struct survey **ret_survey);
/* `fn` will not be called any more. NULL is fine. */
void survey_drop(struct survey *survey);
void surveys_destroy(struct queries *queries); /* after the links */

/* The holder of the key that most nodes have, as far as known; false: no node has one. `pttl_ms`: when
 * fewer than q nodes have it if nobody renews it. */
bool survey_holder(const struct survey *survey, struct hf_wire_holder *ret_holder);
int survey_forced(const struct survey *survey);  /* on how many nodes */
int survey_tracked(const struct survey *survey); /* how many nodes tell of the next change */

#endif

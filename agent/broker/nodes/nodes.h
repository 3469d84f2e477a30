/* The nodes as the broker sees them: its links, each node's trust, and whether a round may begin.
 * Belongs to the broker's thread, but for nodes_create() and nodes_destroy().
 *
 * From above: nodes_review.c (events of the links, the review) -> node_fleet_steps.c (what the fleet's record asks for)
 * -> sentinels.c -> node_answers.c (what answers show) -> node_known.c, node_events.c, node_fleet.c -> nodes.c. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODES_H
#define HOLDFAST_AGENT_BROKER_NODES_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/thread.h"
#include "agent/core/fleet.h"
#include "agent/core/node_trust.h"
#include "agent/core/timing.h"
#include "agent/core/server.h"
#include "agent/core/share.h"
#include "agent/redis/key_deleter.h"
#include "agent/redis/link.h"
#include "agent/base/address.h"
#include "agent/state/fleet_shown.h"
#include "shm/nstime.h"
#include "shm/wordings.h"

/* What events have told of a node, so that each thing is told once. */
struct node_told {
    bool up, tried; /* tried: its first connection came up or failed */
    bool absent;    /* the last event says that its sentinel was absent */
    bool deaf;      /* it refuses to send notices */
    enum hf_node_refusal refusal;
    enum hf_node_error writes; /* why it refuses writes */
    uint32_t reasons;          /* of the quarantine */
    uint32_t mark;             /* trust.mark */
    uint32_t steps, own_steps; /* clock steps told; trust.steps at the start */
    uint32_t renewal_steps;    /* seen by the renewal thread */
    int64_t middle_us;         /* of the clock's interval */
};

struct node {
    struct link *link;
    struct node_trust trust;
    struct node_writes writes;
    struct sampling sampling; /* by probes */
    struct hf_node_row row;   /* as it was last published */
    bool up, asking_sentinel, replaced;
    hf_time traced;                  /* when the last trace of a clock step was sent there */
    bool kept;                       /* what is known of it was kept in this run */
    bool reread;                     /* the sentinel is to be read again */
    bool putting;                    /* the fleet's record is on its way there */
    hf_time put_again;               /* not before: it was not taken */
    hf_time puts_paid, rereads_paid; /* buckets */
    bool forgetful;                  /* told: it takes the record, and does not show it */
    bool failed;                     /* it could not be reached, or not any more */
    char record_by[96];              /* who put the record that it has, as it says */
    struct seat seat;
    enum hf_node_tracking tracking;
    hf_time up_since;
    char fleet_text[512]; /* how its record, or its sentinel, differs from ours; "" */
    struct node_told told;
};

/* Tells rooms above what happens to a node. Called in the broker's thread, from within its links' events. */
struct nodes_owner {
    /* A key has changed on a node; NULL: any may have. */
    void (*noticed)(void *arg, int node, const void *key, size_t key_len);
    /* Whether the node sends notices. */
    void (*telling)(void *arg, int node, bool can);
    /* A node changed; called after every change, and at least every second. */
    void (*reviewed)(void *arg, hf_time now);
    void *arg;
};

struct nodes {
    struct agent *agent;
    const struct config *config;
    struct loop *loop;
    struct key_deleter *key_deleter; /* it uses `links` */
    struct nodes_owner owner;
    hf_time started;
    struct node node[HF_NODES_MAX];
    struct servers servers; /* that they lead to */
    uint32_t twins;         /* bit per node: it is up, and says that it is another one's server */
    struct link *links[HF_NODES_MAX];
    const struct link_events *link_events;
    uint32_t unsent; /* bit per node: commands of this turn are buffered */
    int n, q;
    struct loop_timer review;
    struct shares comings;   /* of log lines about nodes that come and go */
    struct log_limit writes; /* of lines about nodes that refuse them */
    struct log_limit doubts; /* ... that show what is not believed */
    struct fleet fleet_view;
    hf_time fleet_asked;            /* while no record is known */
    struct fleet_shown fleet_shown; /* as last shown */
    char fleet_by[96];              /* who put the record, as a node told it */
    uint32_t fleet_uid;             /* who asked for the change that is put */
    bool fleet_back;                /* it gives up the change before it */
    bool fleet_here;                /* it was founded by this host, as told to the renewal thread */
    /* When this agent starts again by another record; while fleet_view is left. */
    hf_time fleet_ends;
    char fleet[576]; /* why no lock is granted: this host is not as the fleet; "" */
};

/* Commands to these nodes (bit per node) leave with the others of this turn. */
static inline void nodes_send_later(struct nodes *nodes, uint32_t which)
{
    nodes->unsent |= which;
}
void nodes_send(struct nodes *nodes) IN_BROKER_THREAD;
/* Sends the node's link to its seat. */
void nodes_reconnect(struct nodes *nodes, int node) IN_BROKER_THREAD;
struct link_options nodes_link_options(struct nodes *nodes, int node, hf_dur probe);
/* How long after a sample of its clock the next one is due, by what the last one left open. */
hf_dur nodes_probe_gap(const struct nodes *nodes, int node);
void nodes_show_address(struct nodes *nodes, int node);
void nodes_show_error(struct hf_node_row *row, enum hf_node_error error, const char *text);
/* The answer to an acquire, a raise or the making of a sentinel; `written`: it was carried out. */
void nodes_on_write(struct nodes *nodes, int node, const struct link_reply *reply,
                    bool written) IN_BROKER_THREAD;
/* The node shows something for this key that is not believed, or does not any more. */
enum node_doubt { DOUBT_FENCE, DOUBT_ONCE };
void nodes_doubt(struct nodes *nodes, int node, enum node_doubt what, const void *key,
                 size_t key_len) IN_BROKER_THREAD;
void nodes_believe(struct nodes *nodes, int node, enum node_doubt what, const void *key,
                   size_t key_len) IN_BROKER_THREAD;
/* Tells the renewal thread of these events, and of the nonce that this thread knows. */
void nodes_tell_renewal(struct nodes *nodes, int node, unsigned events) IN_BROKER_THREAD;
bool nodes_may_vote(const struct nodes *nodes, int node, hf_time now) IN_BROKER_THREAD;
/* By its last answer it is of the record that this host goes by. */
bool nodes_has_our_record(const struct nodes *nodes, int node) IN_BROKER_THREAD;
/* How many servers vote. */
int nodes_voting(const struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* It may be asked for a vote, but could not give one: it refuses writes. */
bool nodes_takes_writes(const struct nodes *nodes, int node) IN_BROKER_THREAD;
/* Servers that may vote and take writes: the number that people are told. Rounds ask all that may vote,
 * because that shows first when a node takes writes again. */
int nodes_granting(const struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
int nodes_up(const struct nodes *nodes) IN_BROKER_THREAD;
/* Whether it is too early to say that nodes are missing: the agent has just started, or is about to start again. */
bool nodes_settling(const struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* trust_median() of the nodes that are up, or of all that have ever told their TIME. */
int nodes_median(const struct nodes *nodes, bool up, hf_time now,
                 const struct node_trust **ret_nodes, int64_t *ret_median_us) IN_BROKER_THREAD;
/* The nodes' TIME now, by the median; false: unknown. */
bool nodes_time(const struct nodes *nodes, hf_time now, hf_nodetime *ret_time) IN_BROKER_THREAD;
/* The same of the nodes that are up, and which of them are at most `most` off it (trust_near()); 0: none is up. */
uint32_t nodes_agree(const struct nodes *nodes, hf_dur most, hf_time now, hf_nodetime *ret_time,
                     int *ret_farthest, int64_t *ret_ahead_us) IN_BROKER_THREAD;
/* Not empty: acquires are answered HF_EFLEET with this. */
const char *nodes_fleet_text(const struct nodes *nodes) IN_BROKER_THREAD;

/* What is known of the nodes, and kept for the next agent (agent/state/node_records.h). In the broker's thread; meeting a
 * node also while the broker is made. */

struct nodes;

/* (!) Whatever is known of the server that was there is forgotten: the next one is judged by the node's record, or as
 * one that is met for the first time. */
void node_known_meet(struct nodes *nodes, int node, hf_time now);
/* What is told and kept of a node is of the server at its seat, by whatever way, not of another one that the
 * configuration leads to. */
bool node_known_is_it(const struct nodes *nodes, int node);
void node_known_keep(struct nodes *nodes, int node);
/* fleet_shown() for all that is kept. (!) What is kept of a node that was not met in this run is of an earlier one, which may
 * have had a shorter quarantine: then it is the instant that this run began with. */
hf_time node_known_shown(const struct nodes *nodes);

/* What an answer shows of the node itself: its clock, whether it has forgotten, which fleet's record it has. */

struct message;

/* A reply of any script on a broker's link: clock, nonce, counters. Returns enum trust_event bits. */
unsigned nodes_on_reply(struct nodes *nodes, int node,
                        const struct link_reply *reply) IN_BROKER_THREAD;
/* A release was answered by this error, on either thread's link; NONE: they are carried out again. */
void nodes_on_release_refused(struct nodes *nodes, int node, enum hf_node_error error,
                              const char *text) IN_BROKER_THREAD;
/* Logs, records and passes on what a reply or a connection showed: TRUST_* bits. */
void nodes_note(struct nodes *nodes, int node, unsigned events, hf_time now) IN_BROKER_THREAD;
/* The same from the renewal thread. */
void nodes_on_told(struct nodes *nodes, const struct message *m) IN_BROKER_THREAD;

/* Each thing that happens to a node is logged and told by one event. */

/* Events that an earlier agent has told count as told. */
void node_events_begin(struct nodes *nodes, int node);
void node_events_up(struct nodes *nodes, int node, const char *version);
void node_events_down(struct nodes *nodes, int node, enum hf_node_error error, const char *text);
/* `events`: enum trust_event bits that this thread found. */
void node_events_found(struct nodes *nodes, int node, unsigned events);
/* The same for events that the renewal thread found. */
void node_events_heard(struct nodes *nodes, int node, unsigned events);
/* Tells refusals and quarantines that differ from those told last. */
void node_events_review(struct nodes *nodes, int node, hf_time now);

/* Sentences about nodes, for people. */

/* What is missing for a quorum of votes and, if known, for how long. */
void nodes_explain(const struct nodes *nodes, hf_time now, char *ret_text,
                   size_t size) IN_BROKER_THREAD;
/* Why a round failed in which the nodes of the bits `errors` answered with an error. */
void nodes_explain_round(const struct nodes *nodes, uint32_t errors, char *ret_text,
                         size_t size) IN_BROKER_THREAD;
/* A number that changes with the reasons why nodes do not vote; never 0. */
uint64_t nodes_situation(const struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* Of a node that is not known yet: why these facts would have it refused; NULL: they would not. */
const struct hf_why *node_facts_refusal(const struct config *config,
                                        const struct node_facts *facts);

/* The top of this room: makes the nodes' links, hears their events, and after every change looks at all nodes anew. */

/* Makes the links, without connecting. On HF_ENOMEM and HF_ESYS nothing is left behind. */
int nodes_create(struct agent *agent, struct loop *loop, struct resolver *resolver,
                 const struct nodes_owner *owner, struct nodes **ret_nodes);
/* A reload. Links of which the address is another one end, and connect there. */
void nodes_configure(struct nodes *nodes, const struct config *config) IN_BROKER_THREAD;
/* In the broker's thread. */
void nodes_start(struct nodes *nodes) IN_BROKER_THREAD;
/* Ends the links: every command in flight is told that it is over. Releases under way are forgotten: the journal has
 * them. */
void nodes_end(struct nodes *nodes);
void nodes_destroy(struct nodes *nodes); /* NULL is fine */

/* Makes sentinels, and writes a trace on nodes whose clock stepped. */

/* Whose each node is, by what is known now. */
void sentinels_judge(struct nodes *nodes);
/* Makes one where there is none; with --reset-fleet replaces those of another list. */
void sentinels_make(struct nodes *nodes, hf_time now);
/* Replaces the nonce of nodes whose clock stepped under it. */
void sentinels_trace(struct nodes *nodes, hf_time now);
/* Reads sentinel and record now, unless that is under way. */
void sentinel_reread(struct nodes *nodes, int node, hf_time now);
/* A sentinel was read. Returns enum trust_event bits. */
unsigned sentinel_adopt(struct nodes *nodes, int node, const struct link_reply *reply, hf_time now);
/* Whether the node's sentinel is another fleet's, and in `ret_text` how it differs. Any thread. */
bool sentinel_differs(const struct node_sentinel *sentinel, const struct config *config, int node,
                      char *ret_text, size_t size);

#endif

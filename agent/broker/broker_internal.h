/* What the broker's parts share. Everything here belongs to the broker thread unless it says
 * otherwise. */
#ifndef HOLDFAST_AGENT_BROKER_BROKER_INTERNAL_H
#define HOLDFAST_AGENT_BROKER_BROKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/agent.h"
#include "agent/base/log_limit.h"
#include "agent/base/loop.h"
#include "agent/base/mutex.h"
#include "agent/broker/broker.h"
#include "agent/broker/clients/answers.h"
#include "agent/core/backoff.h"
#include "agent/core/ballot.h"
#include "agent/core/chains.h"
#include "agent/core/node_trust.h"
#include "agent/core/node_writes.h"
#include "agent/core/sampling.h"
#include "agent/record/beats.h"
#include "agent/record/lease.h"
#include "agent/redis/link.h"
#include "agent/redis/releaser.h"
#include "agent/redis/resolver.h"
#include "shm/ring.h"
#include "shm/wire.h"

struct group;
struct handoff;
struct journal_identity;
struct round;
struct resource;
struct waiter;
struct waited;
struct young;
struct wakeups;
struct look;
struct scan;

LIST_HEAD(look_list, look);

/* --- users: agent/broker/clients/users.c --------------------------------------------------------------------- */

/* What one uid uses, for its limits. Kept for as long as the agent runs: there are few uids. */
struct user {
    LIST_ENTRY(user) all;
    uint32_t uid;
    unsigned sessions, leases, waiters, looks, scans, groups;
    uint64_t text_units; /* of the leases' and waiters' names and notes */
    hf_time paid_until;  /* when its requests so far are within its rate */
    hf_time tell_again;
};

/* The account of a uid; NULL when out of memory. */
struct user *user_get(struct broker *b, uint32_t uid);
void users_destroy(struct broker *b);
uint64_t user_text_units(size_t name_len, size_t note_len);
/* One more connection; whether it may become a client is judged at its hello. */
bool user_may_connect(const struct broker *b, const struct user *u);
/* One more request now; then user_asked(), before the next. */
bool user_may_ask(const struct broker *b, struct user *u, hf_time now);
void user_asked(const struct broker *b, struct user *u);
bool user_may_hold(const struct broker *b, const struct user *u);
void user_say_held(const struct broker *b, const struct user *u, char *text, size_t size);
/* One more acquire, of a name and note of so many units. HF_ELIMIT with the limit by its name. */
int user_judge_acquire(const struct broker *b, const struct user *u, uint64_t units, char *text,
                       size_t size);

/* --- clients: agent/broker/clients/clients.c ----------------------------------------------------------------- */

/* A lease that its holder was releasing as an earlier agent was killed: the request comes again. */
struct ended {
    LIST_ENTRY(ended) of_client;
    struct resource *resource; /* its release is under way; NULL once it is over */
    uint32_t slot, generation;
    struct session *session; /* waits for that; NULL */
    uint64_t request_id;
};

/* One process that was welcomed. It may have a second session: the other guardian of a run. */
struct client {
    LIST_ENTRY(client) all;
    uint64_t id;
    uint64_t cookie_hash;
    uint32_t pid, uid;
    uint64_t start_time;
    char comm[HF_COMM_MAX + 1];
    bool joined;       /* a guardian came: there may be a job */
    bool over;         /* it ended before one came: none may come any more */
    bool ghost;        /* readopted, not attached yet */
    unsigned handoffs; /* of a lease to it, on their way */
    int ghost_pidfd; /* watches the process of a ghost; -1: none, it is looked for at each sweep */
    struct loop_fd ghost_watch;
    struct user *user;
    struct group *group;        /* of its job; NULL */
    LIST_HEAD(, resource) held; /* leases, until MSG_ENDED */
    LIST_HEAD(, ended) ended;
    LIST_HEAD(, session) sessions;
    struct broker *broker;
};

void clients_create(struct broker *b);
void clients_destroy(struct broker *b); /* after the sessions */
struct client *client_new(struct broker *b);
/* For a client read from the journal; HF_ELOST when that process is gone. (!) A process that cannot
 * be looked at (no descriptors) counts as alive: its lease is valid, and only its holder or its V
 * may end it. It is looked at again with every sweep. */
int client_ghost(struct broker *b, uint32_t pid, uint64_t start_time, uint32_t uid,
                 uint64_t cookie_hash, const char *comm, struct client **ret_client);
void client_ghost_end(struct client *c);
/* Ghosts without a watch: looks whether they can be watched now, or are gone. */
void clients_sweep(struct broker *b);
/* Remembers what was released for this client; `r` NULL: that is over. HF_ENOMEM. */
int client_ended(struct client *c, struct resource *r, uint32_t slot, uint32_t generation);
struct ended *client_find_ended(struct client *c, uint32_t slot, uint32_t generation);
/* Frees a client without sessions, ghost and leases. */
void client_settle(struct client *c);
uint64_t cookie_hash(const uint8_t cookie[HF_COOKIE_LEN]);

/* --- sessions: agent/broker/clients/sessions.c, agent/broker/dispatch.c, agent/broker/clients/attach.c ----------------------------- */

/* One attached connection: at most three descriptors (socket, doorbell, pidfd). */
struct session {
    LIST_ENTRY(session) of_client;
    TAILQ_ENTRY(session) active; /* has requests to be taken */
    TAILQ_ENTRY(session) woken;  /* with `wakes` */
    LIST_ENTRY(session) all;
    struct client *client; /* NULL until the hello */
    struct broker *broker;
    struct loop_fd socket, process;
    struct loop_timer hello_timer;
    int doorbell;
    bool is_active, nudge, closing;
    bool guardian, gave_group; /* by its hello; its one datagram after that came */
    bool wakes;                /* its client is to look */
    hf_time lively_until;      /* it asked or was answered: it is looked at, without its doorbell */
    uint32_t pid, uid;
    struct user *user;
    struct hf_ring_agent ring;
    struct beats *beats; /* where its program beats */
    struct answers answers;
    LIST_HEAD(, waiter) waiters;
    struct look_list looks;
    LIST_HEAD(, scan) scans;
};

int sessions_create(struct broker *b);
int sessions_listen(struct broker *b);
void sessions_destroy(struct broker *b);
/* Takes requests of active sessions, a bounded number each; true when some are left. */
bool sessions_serve(struct broker *b);
/* Last in a turn: wakes the clients of all that were answered, or whose leases changed. */
void sessions_wake(struct broker *b);
/* Answers request `id`; what the ring has no room for waits until the client has read some. */
void session_answer(struct session *s, const struct hf_completion_entry *answer);
/* What comes before the answer to a request. HF_ENOMEM: it does not. */
int session_item(struct session *s, const struct hf_completion_entry *item);
/* Tells what an unanswered acquire waits for, if there is room. */
void session_progress(struct session *s, struct hf_completion_entry *entry);
/* Something about a lease of this client changed. `but`: is told by an answer; NULL. */
void client_signal(struct client *c, const struct session *but);
void session_end(struct session *s, const char *why);
/* Whether the kernel takes descriptors for this socket, and for those accepted from it (SO_PASSRIGHTS, Linux 6.16). */
void session_pass_descriptors(int fd, bool on);
/* In dispatch.c: a request, copied out of the ring, with a place for its answer reserved. `s` may be freed by what it
 * asks for. */
void session_handle(struct session *s, const struct hf_request_entry *q);
/* In attach.c: judges a hello and sends the welcome. */
void attach_hello(struct session *s, const struct hf_hello *hello, size_t length);

/* --- control groups of jobs: agent/broker/clients/groups.c ---------------------------------------------------- */

/* Whether those of jobs are taken from this session's user: the agent's own and root. What others hand over may be a
 * file whose close() never returns. */
bool groups_are_taken_from(const struct session *s);
/* A datagram after the hello: true if it was a job's group, which is dealt with. */
bool groups_take(struct session *s);
/* A lease of this client changed, or its last session ended. */
void groups_review(struct client *c);
/* One of its leases is over: without a job's the group is of no use. */
void groups_lease_over(struct client *c);
void groups_drop(struct client *c);
void groups_destroy(struct broker *b); /* after the clients */

/* --- resources: agent/broker/locks/resources.c ------------------------------------------------------------- */

/* One request that waits. */
struct waiter {
    TAILQ_ENTRY(waiter) queue; /* of the resource, first come first served */
    LIST_ENTRY(waiter) of_session;
    struct session *session;
    struct resource *resource;
    uint64_t id;
    hf_time since;    /* when it came */
    hf_time asked;    /* when it first came to an agent: its place among those of the one before */
    hf_time deadline; /* HF_TIME_PAST: try once; HF_TIME_NEVER */
    struct loop_timer timer;
    struct timing timing;
    uint32_t max_hold_ms, heartbeat_ms, beat_word;
    bool run, guarded, contended;
    int told;           /* last progress reason */
    uint64_t told_what; /* the fence in the way, or nodes_situation() */
    hf_time told_at;
    struct loop_timer tell; /* what was not told because it came too soon */
    char note[HF_NOTE_MAX + 1];
    uint8_t note_len;
    struct hf_wire_holder holder; /* last seen in the way */
    hf_time holder_at;            /* when its pttl_ms was told */
    int last_failure;             /* HF_EBUSY or HF_ENOQUORUM: what it ends with */
};

/* What goes on for a name: somebody wants it, gets it, or gives it back. A name that is only held, or
 * at rest, has none. */
struct resource_work {
    struct broker *b;
    struct resource *resource;
    TAILQ_HEAD(waiter_queue, waiter) waiters;
    struct round *round;     /* undecided */
    struct round *granted;   /* the decided round of the lease while it has unanswered acquires */
    struct young *young;     /* the lease is not handed in yet */
    struct handoff *handoff; /* of the lease, on its way */
    hf_time others_seen;     /* another's key was in the way, or heard of; HF_TIME_PAST never */
    hf_time yield_until;     /* no round before */
    hf_time foreign_seen;    /* a key that no agent wrote held the lock; HF_TIME_PAST never */
    int64_t gap;             /* the stretch in which a gap was left last; handoff.h */
    hf_time barred_until; /* undoing: not released before, an earlier agent's holder may believe */
    struct loop_timer retry; /* while somebody waits and no round is under way: the next step */
    struct waited *waited;   /* what nodes tell of it; NULL */
    struct ended *ended;     /* undoing: what an earlier agent's client was releasing */
    struct session *release_session; /* to be answered at MSG_ENDED */
    uint64_t release_id;
    uint32_t tries;   /* of the waiters, those that try once */
    uint8_t failures; /* of rounds in a row, for backoff_next() */
};

/* A name that is held, waited for, or was so lately (its slot still carries the name). There may be a
 * million: without gaps. */
struct resource {
    /* Never NULL: without any it is the broker's `no_work`, for reading alone. resource_work() */
    struct resource_work *work;
    struct client *holder; /* of its lease */
    union {                /* never two of them */
        LIST_ENTRY(resource) of_holder;
        TAILQ_ENTRY(resource) stalled_link;
        TAILQ_ENTRY(resource) idle_link;
    };
    uint64_t last_fence; /* node part of our last grant or proposal */
    uint32_t slot;
    uint32_t generation;
    uint32_t text_off;
    uint8_t text_note_len, text_comm_len;
    bool turn_over : 1; /* the next release is one for good: others go first */
    bool undoing : 1;   /* own release of a failed round is unanswered */
    bool stalled : 1;   /* waits for voting nodes */
    bool idle : 1;
    bool indexed : 1; /* the table's index carries it */
    bool has_text : 1;
    uint8_t name_len;
    uint8_t name[];
};

static inline struct broker *resource_broker(const struct resource *r)
{
    return r->work->b;
}

int resources_create(struct broker *b);
void resources_destroy(struct broker *b);
/* NULL: the name has no resource. */
struct resource *resource_find(struct broker *b, const void *name, size_t len);
/* Finds or makes; HF_EFULL. */
int resource_get(struct broker *b, const void *name, size_t name_len,
                 struct resource **ret_resource);
/* For readoption: takes that very slot. */
int resource_at(struct broker *b, const void *name, size_t name_len, uint32_t slot,
                struct resource **ret_resource);
/* To another slot, when this one's generations are used up. HF_EFULL. */
int resource_move(struct resource *r);
/* Nobody needs it now: its slot keeps the name until another name needs the
 * slot. Nothing while in use. */
void resource_rest(struct resource *r);
void resource_rouse(struct resource *r);
/* What goes on for it, to be changed; NULL: out of memory. There is one while anybody waits, a round
 * or a hand-off is under way, a lease is young or to be released: only who begins one of these need
 * ask. */
struct resource_work *resource_work(struct resource *r);
/* Something is over: if all is, that memory goes. */
void resource_calm(struct resource *r);
/* It waits for voting nodes no more. */
void resource_unstall(struct resource *r);
/* Its lease, from the grant until MSG_ENDED; NULL: none. */
struct lease *resource_lease(const struct resource *r);
/* The same of a slot, if that is the generation. */
struct lease *resources_lease(struct broker *b, uint32_t slot, uint32_t generation);
/* The text of a lease that is to follow, and where it stands. HF_EFULL. */
int resource_text_prepare(struct resource *r, const struct lease *lease, uint32_t *ret_off,
                          bool *ret_new);
/* A new one; the lease follows or does not: the other's text goes. */
void resource_text_switch(struct resource *r, const struct lease *lease, uint32_t text_off);
void resource_text_drop(struct resource *r, const struct lease *lease, uint32_t text_off);
/* The slot's text, index entry and identity for a lease. `stands`: the text is there already. */
int resource_publish(struct resource *r, struct lease *lease, bool stands, hf_time valid,
                     uint32_t votes, uint32_t flags);

/* --- waiters: agent/broker/locks/waiters.c ----------------------------------------------------------------- */

/* The waiter is answered with `status` and gone. */
void waiter_fail(struct waiter *w, int status, const char *text);
void waiter_free(struct waiter *w);
/* The lease that it gets, with what that has of the waiter and its client. Not: slot, generation,
 * token, fence and instants. NULL: out of memory. `key`: of its name, for the nodes; `extra`: as in
 * lease_words. */
struct lease *waiter_new_lease(const struct waiter *w, const void *key, size_t key_len, bool extra);
/* The same for the journal. Not: token, name and instants. */
void waiter_fill_identity(const struct waiter *w, struct journal_identity *identity);
/* max_hold of a lease that it gets at `now`; HF_TIME_NEVER. */
hf_time waiter_hold_end(const struct waiter *w, hf_time now);
/* Who holds `r`, whose lease is of this host. */
void waiter_describe_local(const struct resource *r, struct hf_wire_holder *ret_holder);
/* For waiter->timer and waiter->tell. */
void waiter_on_timer(struct loop_timer *timer, hf_time now);
void waiter_on_tell(struct loop_timer *timer, hf_time now);
/* It joins others that wait for another host's lock, and no round may begin for long. */
void waiter_hear_of_others(struct waiter *w);
/* A round of its resource failed with `failure`, and `holder` was in the way if that is HF_EBUSY. A
 * try that began before the round did is answered; the others know what they wait for. */
void waiters_hear(struct resource *r, int failure, const struct hf_wire_holder *holder,
                  hf_time round_began, const char *text);
/* A node told how long the key of a holder without a record stands there. */
void waiters_hear_left(struct resource *r, int64_t pttl_ms, hf_time now);
/* It waits for a lease of this host: a try is answered, the others are told who has it. */
void waiter_hear_held(struct waiter *w);
static inline bool waiter_tries(const struct waiter *w)
{
    return w->deadline.ns == HF_TIME_PAST.ns;
}
/* The one to be served next; NULL. */
struct waiter *waiter_first(struct resource *r);
/* Does what can be done next: begins a round for the first waiter, or tells what is waited for. */
void resource_kick(struct resource *r);
/* All stalled ones again: the nodes changed. */
void resources_kick_stalled(struct broker *b);
void resources_on_stalled_timer(struct loop_timer *timer, hf_time now);

/* --- grants: agent/broker/locks/grants.c ------------------------------------------------------------------- */

/* Makes the lease of a won round, publishes it and answers the waiter.
 * HF_EFULL, HF_ELIMIT, HF_ENOMEM: undo. */
int resource_grant(struct round *round, hf_time now);
/* Ties a lease to its name and its holder; both know of it until MSG_ENDED, or MSG_HANDED_OVER. */
void resource_hold(struct resource *r, struct lease *lease, struct client *holder);
void resource_let_go(struct resource *r);
/* Tells whoever asked for the release of the lease that had this generation; NULL: nobody did. */
const struct session *answer_released(struct resource *r, uint32_t generation, bool lost);
void resource_lease_changed(struct broker *b, struct lease *lease);
void resource_lease_ended(struct broker *b, struct lease *lease);
/* The release of a failed round was answered, or gave up. */
void resource_undone(struct resource *r);
/* Tells the client that asked for it. */
void answer_granted(struct session *s, const struct lease *lease);

/* --- young leases: agent/broker/locks/young.c --------------------------------------------------------------- */

void young_create(struct broker *b);
void young_destroy(struct broker *b);
/* The lease was granted: it stays here for a moment, or is handed in at once. */
void young_begin(struct resource *r, hf_time now);
/* To the renewal thread, with the votes that came meanwhile. Nothing if it is there already. */
void young_hand_in(struct resource *r);
void young_hand_in_all(struct broker *b);
/* A vote that came after the grant, for a command sent after `a`. False: the renewal thread is to be
 * told. */
bool young_vote(struct resource *r, int node, hf_time a);
/* Ends the lease and releases it from here. False: the renewal thread is to be told. */
bool young_release(struct resource *r, enum hf_loss_reason reason);

/* --- hand-off: agent/broker/locks/handoffs.c --------------------------------------------------------------- */

/* Ends the lease of `r`, which nobody believes in any more: goes to the next waiter of this host, or
 * is released. */
void resource_give_up(struct resource *r, enum hf_loss_reason reason);
/* Whether programs that poll are to have their chance after this release. */
bool resource_owes_gap(const struct resource *r, hf_time now);
/* They have: no round of this host for a while. */
void resource_leave_gap(struct resource *r, hf_time now);
/* The renewal thread has answered. */
void handoff_answered(struct handoff *handoff);
/* The waiter's session ends. */
void handoff_forget_waiter(struct handoff *handoff);
void handoff_cancel(struct handoff *handoff);
/* (!) The journal may name it as the owner by now, for the next agent too: no other answer than the
 * hand-off's until that is known. */
bool handoff_is_to(const struct resource *r, const struct waiter *w);
void handoff_destroy(struct handoff *handoff);

/* --- requests: agent/broker/locks/requests.c --------------------------------------------------------------- */

/* Each answers by itself. */
void resources_acquire(struct session *s, const struct hf_request_entry *r);
void resources_release(struct session *s, const struct hf_request_entry *r);
void resources_cancel(struct session *s, uint64_t id);
void resources_ask(struct session *s, const struct hf_request_entry *r);
void resources_losing(struct session *s, const struct hf_request_entry *r);
/* Ends the lease of `r` through the renewal thread. */
void lease_end(struct resource *r, enum message_kind kind, enum hf_loss_reason reason);
/* A session ended: its waiters are dropped. */
void resources_drop_session(struct session *s);
/* Its client ended: leases are released, those of a run that may have a job abandoned. */
void resources_client_gone(struct client *c);
/* Its holder came back with this session: heartbeats come in its page now. */
void resources_rebind(struct session *s);
/* The agent goes away: waiters are answered, rounds undone; with --dev leases are ended, too. */
void resources_drain(struct broker *b);
void resource_drain(struct resource *r);

/* --- rounds: agent/broker/locks/rounds.c ------------------------------------------------------------------- */

/* One acquire on the nodes with one token. Lives until every node's acquire had its final answer.
 */
struct round {
    LIST_ENTRY(round) all;
    struct broker *b;
    struct resource *resource; /* NULL once it is no business of the resource any more */
    struct waiter *waiter;     /* NULL once decided, or cancelled */
    struct ballot ballot;
    struct timing timing;
    hf_time started;
    hf_time sent[HF_NODES_MAX], deadline[HF_NODES_MAX]; /* of the newest command per node */
    uint32_t asked;                                     /* bit per node: may have been written to */
    uint32_t written;    /* of these, may hold our key: neither TAKEN nor STALE nor SENTINEL */
    uint32_t unanswered; /* final answer outstanding */
    uint32_t broken;     /* its connection ended first: in doubt */
    uint32_t foreign;    /* has a key that no agent wrote, or one whose fence record is another's */
    uint32_t errors;     /* answered with an error */
    uint32_t stale_retried, reloaded; /* sent once more: after STALE, after NOSCRIPT */
    bool track;         /* somebody waits: have the nodes tell when what is in the way changes */
    bool decided, over; /* over: its lease ended, or it was undone: late successes are released */
    int calls;          /* commands outstanding */
    struct loop_timer overdue; /* contended and undecided: when nodes are waited for no longer */
    uint64_t in_way[HF_NODES_MAX]; /* fence of the lease that a node has; 0: none, or not known */
    struct hf_wire_holder holder;
    struct link_holder described;
    struct token token;
    char comm[HF_COMM_MAX + 1], note[HF_NOTE_MAX + 1];
    uint32_t pid, uid;
    size_t key_len;
    uint8_t key[CONFIG_KEY_MAX];
};

int round_begin(struct resource *r, struct waiter *w);
/* The waiter went away: undo. */
void round_cancel(struct round *round);
/* The lease of this round ended: acquires that are still unanswered are released when they answer.
 */
void round_lease_over(struct round *round);
void rounds_destroy(struct broker *b);
bool rounds_busy(const struct broker *b);
/* Whether one and the same lease is known to stand on a quorum: then somebody has won. */
bool round_has_winner(const struct round *round);
/* Nobody is known to be in the way, but nodes let us wait. NULL: no. */
bool round_is_slow(const struct round *round, hf_time now);

/* --- wakeups: agent/broker/locks/wakeups.c ----------------------------------------------------------------- */

int wakeups_create(struct broker *b);
void wakeups_destroy(struct broker *b);
/* A round begins. True: somebody waits, so what its acquires read is to be tracked. */
bool wakeups_round(struct round *round);
/* A final answer to one of them, before or after the decision. */
void wakeups_vote(struct broker *b, struct round *round, int node, const struct link_reply *reply);
/* The round failed and somebody waits: sets the retry. `won`: bit per node that had given us its
 * key; `winner`: another is known to have a quorum. */
void wakeups_lost(struct resource *r, uint32_t won, bool winner, int64_t pttl_ms, hf_time now);
/* The same for want of nodes. */
void wakeups_failed(struct resource *r, hf_time again);
/* The retry came: whether a round may begin. If not, it is set again. */
bool wakeups_due(struct resource *r, hf_time now);
/* Nobody waits any more. */
void wakeups_forget(struct resource *r);
/* A key has changed on a node; NULL: any may have. */
void wakeups_noticed(struct broker *b, int node, const void *key, size_t key_len);
/* Whether the node tells of changes. */
void wakeups_telling(struct broker *b, int node, bool can);

/* --- questions to the nodes: agent/broker/questions/looks.c, agent/broker/questions/forces.c, agent/broker/questions/scans.c ---------------------- */

void looks_create(struct broker *b);
void looks_destroy(struct broker *b); /* before the links */
/* HF_OP_LOOK, HF_OP_FORCE, HF_OP_SCAN; each answers by itself. */
void looks_ask(struct session *s, const struct hf_request_entry *q);
void looks_force(struct session *s, const struct hf_request_entry *q);
void scans_ask(struct session *s, const struct hf_request_entry *q);
/* A lease of this host is over: whoever waits for its name to be free looks now. */
void looks_hear_ended(struct broker *b, const void *name, size_t name_len);
/* A key has changed on a node; NULL: any may have. */
void looks_hear_noticed(struct broker *b, const void *key, size_t key_len);
/* A session ended, or the agent goes away: nothing is asked for it any more. */
void looks_drop_session(struct session *s);
void scans_drop_session(struct session *s);
void looks_drain(struct broker *b);

/* --- nodes: agent/broker/nodes/nodes.c --------------------------------------------------------------------- */

/* What was told of a node by an event, so that each thing is told once. */
struct node_told {
    bool up, tried; /* tried: its first connection came up or not */
    bool absent;    /* its sentinel was, by the last event */
    bool deaf;      /* it refuses to tell of changes */
    enum hf_node_refusal refusal;
    enum hf_node_error writes; /* why it refuses them */
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
    struct hf_node_row row;   /* as last published */
    bool up, asking_sentinel, replaced;
    bool reread; /* the sentinel is to be read again */
    enum hf_node_tracking tracking;
    hf_time up_since;
    char fleet_text[160]; /* how its sentinel differs; "" */
    struct node_told told;
};

int nodes_create(struct broker *b);
void nodes_start(struct broker *b);
void nodes_destroy(struct broker *b);
/* A reply of any script on a broker's link: clock, nonce, counters. Returns enum trust_event bits.
 */
unsigned nodes_on_reply(struct broker *b, int node, const struct link_reply *reply);
/* What an acquire, a raise or the making of a sentinel was answered; `written`: it was carried out. */
void nodes_on_write(struct broker *b, int node, const struct link_reply *reply, bool written);
/* Logs, journals and passes on what a reply or a connection showed: TRUST_* bits. */
void nodes_note(struct broker *b, int node, unsigned events, hf_time now);
/* Tells the renewal thread of them, and of the nonce that this thread knows. */
void nodes_tell_renewal(struct broker *b, int node, unsigned events);
/* From the renewal thread. */
void nodes_on_told(struct broker *b, const struct message *m);
bool nodes_may_vote(const struct broker *b, int node, hf_time now);
int nodes_voting(const struct broker *b, hf_time now);
/* It may be asked for a vote, but could not give one: it refuses writes. */
bool nodes_takes_writes(const struct broker *b, int node);
/* Those that may vote and take writes, which is what people are told: all that may vote are asked, for
 * that tells first when a node takes writes again. */
int nodes_granting(const struct broker *b, hf_time now);
int nodes_up(const struct broker *b);
/* Whether it is too early to say that nodes are missing: the agent has just started. */
bool nodes_settling(const struct broker *b, hf_time now);
/* TIME of the nodes now, by the lower median; false: unknown. */
bool nodes_time(const struct broker *b, hf_time now, hf_nodetime *ret_time);
/* Not empty: acquires are answered HF_EFLEET with this. */
const char *nodes_fleet_text(const struct broker *b);

/* --- agent/broker/nodes/node_events.c: each thing that happens to a node is logged and told by one event ---- */

/* What an earlier agent told of it is told. */
void node_events_begin(struct broker *b, int node);
void node_events_up(struct broker *b, int node, const char *version);
void node_events_down(struct broker *b, int node, enum hf_node_error error, const char *text);
/* `events`: enum trust_event bits that this thread found. */
void node_events_found(struct broker *b, int node, unsigned events);
/* The same of the renewal thread. */
void node_events_heard(struct broker *b, int node, unsigned events);
/* Refusal and quarantine, by comparing with what was told last. */
void node_events_review(struct broker *b, int node, hf_time now);

/* --- agent/broker/nodes/node_texts.c ----------------------------------------------------------------------- */

/* What is missing for a quorum of votes, and for how long if that is known. */
void nodes_explain(const struct broker *b, hf_time now, char *ret_text, size_t size);
/* Why a round failed: `voted` gave their vote, those of the bits `errors` answered with an error. */
void nodes_explain_round(const struct broker *b, int voted, uint32_t errors, char *ret_text,
                         size_t size);
/* A number that changes when another thing keeps a node from voting; never 0. */
uint64_t nodes_situation(const struct broker *b, hf_time now);
const char *node_quarantine_text(uint32_t reasons);
const char *node_refusal_text(enum hf_node_refusal refusal);

/* --- sentinels: agent/broker/nodes/sentinels.c ------------------------------------------------------------- */

/* Asks for one where none is; with --new-list replaces those of another list. */
void sentinels_make(struct broker *b, hf_time now);
/* Replaces the nonce of nodes whose clock stepped under it. */
void sentinels_trace(struct broker *b, hf_time now);
/* One was read. Returns enum trust_event bits. */
unsigned sentinel_adopt(struct broker *b, int node, const struct link_reply *reply, hf_time now);

/* --- readopt: agent/broker/locks/readopt.c ----------------------------------------------------------------- */

int readopt(struct broker *b);
/* Forgets the releases that wait for V; the journal has them. */
void readopt_destroy(struct broker *b);

/* --- the broker ------------------------------------------------------------------------------- */

TAILQ_HEAD(resource_queue, resource);

struct broker {
    struct agent *agent;
    const struct config *config;
    struct loop *loop;
    struct resolver *resolver;
    struct releaser *releaser;
    pthread_t thread;
    _Atomic pid_t tid; /* of that thread while it runs; else 0 */
    bool thread_started;
    struct loop_timer beat, sweep;
    hf_time started;
    uint8_t random[240]; /* for tokens, used from the end; up to 256 come at once (getrandom(2)) */
    size_t random_left;

    /* clients */
    struct loop_fd listener, doorbells;
    bool deaf; /* no descriptors were left for who wanted in last */
    struct log_limit cut_offs, no_fds, writes;
    int doorbell_epoll;
    struct loop_fd groups; /* `priv` NULL: there was none yet */
    int groups_epoll;
    unsigned group_count;
    LIST_HEAD(, client) clients;
    unsigned unwatched; /* ghosts among them without a watch */
    LIST_HEAD(, session) sessions;
    LIST_HEAD(, user) users;
    TAILQ_HEAD(, session) active, woken;
    unsigned session_count, active_count;
    uint64_t next_client_id;

    /* resources */
    struct chains names;  /* slots by the hash of their name */
    uint8_t hash_key[16]; /* of `names` */
    struct log_limit index_full;
    struct resource **by_slot;
    /* of all resources for which nothing goes on; nobody writes to it */
    struct resource_work no_work;
    uint32_t *generations;
    uint32_t slots_used; /* slots below were ever used */
    uint32_t next_slot;  /* slots below are in use, at rest, or retired */
    struct resource_queue idle, stalled;
    struct hf_text_pool *text;
    struct old_text *old_texts; /* per slot, within readopt() */
    unsigned waiter_count, handoff_count;
    struct loop_timer stalled_timer;

    LIST_HEAD(, round) rounds;
    unsigned round_count;
    LIST_HEAD(, survey) surveys;
    unsigned survey_count;
    struct look_list waiting_looks[64]; /* by key */
    unsigned waiting_look_count;
    TAILQ_HEAD(, scan) scans_due[HF_NODES_MAX];
    struct scan *scanning[HF_NODES_MAX]; /* one page of one scan at a time */
    LIST_HEAD(, later) laters;
    struct wakeups *wakeups;

    /* nodes */
    struct node nodes[HF_NODES_MAX];
    struct link *links[HF_NODES_MAX];
    uint32_t unsent; /* bit per node: commands of this turn's rounds are buffered */
    int n, q;
    struct loop_timer review;
    char fleet[200];

    TAILQ_HEAD(young_list, young) young, young_free; /* by grant; to be used again */
    struct loop_timer young_timer;

    bool draining, closing;
    hf_time drain_until, releases_until;
    struct loop_timer drain_timer;

    /* shared with main */
    _Atomic bool ready;
    struct mutex why_lock;
    char why[200]; /* under why_lock; clang 14 takes no GUARDED_BY on a sibling member in C */
};

uint32_t broker_random(void);
void broker_token(struct broker *b, struct token *ret_token);
void broker_tell_renewal(struct broker *b, struct message *m);
/* Publishes `ready` and why. */
void broker_review(struct broker *b, hf_time now);

#endif

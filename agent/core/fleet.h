/* Who the nodes of the fleet are, as one agent knows it: what each node says, the record by which the agent goes,
 * and what is to be written where. Pure. docs/SAFETY.md, "The fleet record", has the argument.
 *
 * (!) Rules, each with a test:
 *  - An answer of node i counts (a vote, a hit) only if it tells the digest of our record, and comes from the
 *    server at the seat that our record names for i.
 *  - Only complete records are gone by, and the one that is gone by stays.
 *  - Who has no memory goes by the record that most of the configured nodes have; or by one of exactly the servers that
 *    are connected, all of them, where the others have none. One node leads nobody anywhere.
 *  - A fleet is founded when all its nodes are there and none has a record: `founding` on each of them, in the
 *    list's order, and only then `complete`. Nobody overwrites a record that he did not expect.
 *  - Who has no memory founds on nodes that may vote only: a node that was emptied belongs to the fleet that it
 *    has forgotten, whose agents give it their record again within the quarantine.
 *  - A node without a record gets ours only after another member told our digest in an answer that was asked for
 *    after the empty node was seen: never from memory. Where no member has it, the fleet is founded again by an agent that knows
 *    its record to be the latest one (fleet_is_latest()), or by an operator's word, and by nobody while a node shows a later one.
 *  - A record on a server that may have come back with an earlier one (a restart, a first contact) is as none: it proves
 *    nothing and counts for nothing, until another member has told our digest since, or ours is known to be the latest.
 *  - A node with another fleet's record is refused by itself.
 *  - (!) A later record of the fleet that a majority of our list shows is gone by (agent/core/fleet.h); nobody goes back.
 *    The agent starts again by it
 *    (agent.again), so that one record holds from an agent's start to its end. agent/core/fleet_change.h has the rest of how a
 *    fleet changes.
 */
#ifndef HOLDFAST_AGENT_CORE_FLEET_H
#define HOLDFAST_AGENT_CORE_FLEET_H

#include <stdbool.h>

#include "agent/core/fleet_record.h"
#include "agent/core/node_trust.h"
#include "shm/nstime.h"

/* How long a host without a memory waits for the other nodes before it says that it does. */
#define FLEET_PATIENCE hf_ns(2 * HF_NS_PER_SEC)

/* The record that a node was seen to have. */
enum fleet_said {
    FLEET_SAID_NOTHING, /* it has not been read */
    FLEET_SAID_NONE,
    FLEET_SAID_RECORD, /* `record` */
    FLEET_SAID_UNREADABLE,
    FLEET_SAID_LATER, /* of a later version of Holdfast: by its format, or by what it says */
};

struct fleet_node {
    /* (!) Of a server that had our record and was left for the seat: only that very server is the node. It is known by its
     * nonce; or by its run id, for a clock step may have changed the nonce meanwhile. "": none */
    char left[TRUST_NONCE_LEN + 1], left_run_id[TRUST_RUN_ID_LEN + 1];
    char left_at[HF_NODE_TEXT_MAX + 1]; /* where it was left */
    char run_id[TRUST_RUN_ID_LEN + 1];  /* of the one that answers; "" not known */
    bool there;                         /* it answers, and nothing but its record is against it */
    bool proven;                        /* it has not forgotten anything within a quarantine */
    bool refuses;                       /* it answered the last record that was put with an error */
    char peer[HF_NODE_TEXT_MAX + 1];
    char configured[HF_NODE_TEXT_MAX +
                    1]; /* the seat that the configuration names; "": a name, or unknown */
    int line;           /* of the configuration file, that names the node; 0: of no file */
    enum fleet_said said;
    char digest[FLEET_DIGEST_LEN + 1]; /* in its last answer; "" none */
    char nonce[TRUST_NONCE_LEN + 1];   /* of the sentinel beside it; "" none */
    struct fleet_record record;
    char read[FLEET_DIGEST_LEN + 1]; /* the digest that `said` is about */
    hf_time empty_since;             /* since an answer told no record; HF_TIME_NEVER: it has one */
    int64_t since_ms;                /* when that was put, by its host's clock; 0 not known */
    hf_time asked;                   /* when its last answer was asked for */
    hf_time shown; /* when its last answer with our record was; HF_TIME_PAST: none was */
    /* (!) Since when the server that answers may have come back with an earlier record than the fleet's: its run is not `sure`;
     * HF_TIME_NEVER: it has not. */
    hf_time doubted;
    bool marked; /* it says so itself, to every host: the mark beside its record is of this run */
    bool young;  /* it was in quarantine since then */
    char sure[TRUST_RUN_ID_LEN + 1]; /* the run that was last known to have the latest; "" none */
    /* Since when it tells our record under this nonce, or the complete one that is made of it; HF_TIME_NEVER: it does not. */
    hf_time sighted;
};

struct fleet {
    int n;
    bool trusting; /* --dev: no restart is held against a node once its quarantine is over */
    bool anew; /* --reset-fleet: only a record of the very servers that are connected is gone by */
    char file[128];          /* this host's configuration file; "": none */
    struct fleet_record own; /* by the configuration: ids, ttl_max and keys; no addresses */
    hf_time started;
    bool known;
    struct fleet_record record; /* not founding; of version 1 if it was not known at the start */
    int64_t since_ms;           /* when it was put, by its host's clock; 0 not known */
    char digest[FLEET_DIGEST_LEN + 1];
    char over[FLEET_DIGEST_LEN +
              1];      /* of the record that is made of a changing one; "": it is none */
    hf_time settles;   /* HF_TIME_PAST: it has */
    hf_time shown;     /* what the run before this one in the same process knew, as fleet_shown() */
    uint32_t counting; /* nodes, by the record */
    bool way_back;     /* the record gives up the change before it, as a node says that has it */
    bool leaving;      /* it is replaced: nothing is to be done any more */
    bool unkept;       /* a record could not be kept, so nothing goes by it */
    hf_time wish_until; /* an operator's change is to be put; HF_TIME_PAST: none */
    struct fleet_record wish;
    hf_time
        confirmed_until; /* by an operator's word the nodes that answer are the fleet's; HF_TIME_PAST: no word */
    /* For people: the latest record of our fleet that a server told which is no seat of ours, and of which node that was. */
    struct fleet_record told;
    int told_by; /* only if told.count */
    struct fleet_node node[HF_NODES_MAX];
};

/* `own`: ids, ttl_max_ms and keys are set. */
void fleet_init(struct fleet *fleet, const struct fleet_record *own, bool anew, hf_time now);
/* Whether an agent goes by such a record. */
bool fleet_may_go_by(const struct fleet_record *record);
/* What an earlier agent went by, or what this agent starts again by. `settles`: when it has settled; HF_TIME_PAST: it
 * has. */
void fleet_restore(struct fleet *fleet, const struct fleet_record *record, hf_time settles);
/* After fleet_restore(): fleet_shown() of the run before. */
void fleet_restore_shown(struct fleet *fleet, hf_time shown);

/* The seat that the configuration itself names for a node; "": it has a name, which leads somewhere. */
void fleet_on_configured(struct fleet *fleet, int node, const char *seat);
/* A running agent's configuration was read again. Where it names the seat, no other server was meant: as at a start. */
void fleet_on_reload(struct fleet *fleet, int node, const char *seat);
/* A record was put on a node, which took it or answered with an error, or neither. */
void fleet_on_put(struct fleet *fleet, int node, bool refused, bool taken);
/* Beside the record: the run of the server of which its writer was sure. Call it after fleet_on_record(). (!) Of another run it says
 * nothing: the data came back. */
void fleet_on_sure(struct fleet *fleet, int node, const char *sure);
/* For people: where a node is configured. */
void fleet_on_written(struct fleet *fleet, int node, const char *file, int line);
/* A node is connected, and as what seat; or it is gone. */
void fleet_on_up(struct fleet *fleet, int node, const char *peer);
void fleet_on_down(struct fleet *fleet, int node);
/* What an earlier run knew of the node: `sure` and `shown`. Before it is connected. */
void fleet_on_remembered(struct fleet *fleet, int node, const char *sure, hf_time shown);
/* Which server it is that is connected, by its run id. Before fleet_on_answer() of its answers. */
void fleet_on_server(struct fleet *fleet, int node, const char *run_id, hf_time now);
/* It is in quarantine. */
void fleet_on_young(struct fleet *fleet, int node);
/* The link leaves the server where it is, for the seat. */
void fleet_on_leave(struct fleet *fleet, int node);
/* Whether nothing but its record is against it, and whether it is out of quarantine besides. */
void fleet_on_usable(struct fleet *fleet, int node, bool usable, bool proven);

/* Any answer's nonce and digest. Returns whether the record is to be read: it is not the one that was. */
bool fleet_on_answer(struct fleet *fleet, int node, const char *nonce, const char *digest,
                     hf_time sent, hf_time received);
/* The record that was told with this digest. Call it after fleet_on_answer() of the same answer. */
void fleet_on_record(struct fleet *fleet, int node, const char *digest, const char *text,
                     size_t length);

/* Whether the record by which the agent goes was put to give up a change. */
void fleet_on_way_back(struct fleet *fleet, bool way_back);
/* When the node's record was put, and ours, by clocks of their hosts in Unix time; 0 not known. */
void fleet_on_since(struct fleet *fleet, int node, int64_t since_ms, int64_t ours_ms);

/* (!) It has a version 1 of this fleet that was founded after our later version was complete, and so may most nodes, while
 * no majority has ours: --reset-fleet has begun it anew over the first list, which has the same name, and our memory is of
 * before that. */
bool fleet_is_refounded(const struct fleet *fleet, int node);
/* Whether it told a digest whose record has not been read. */
bool fleet_is_unread(const struct fleet *fleet, int node);
/* Until then no majority had a later record than ours: as many showed ours then, or later. HF_TIME_PAST: not known. */
hf_time fleet_shown(const struct fleet *fleet);
/* (!) Whether the record of an agent is the latest one, though no node has it any more: a majority showed it within a quarantine
 * before a majority was empty. By then no later record had settled, so no lease was longer than ours can be, and no server counted
 * that is not ours. A memory alone proves nothing: the fleet may have changed while this host was away. `by`: they are taken to be
 * empty then; HF_TIME_NEVER: only if they are. */
bool fleet_is_latest(const struct fleet *fleet, hf_time by);
/* Whether the node's record may be an earlier one than the fleet's. (!) Then it proves nothing and no answer counts. */
bool fleet_is_doubted(const struct fleet *fleet, int node);
/* Ends the doubts that have an answer: another member has shown our record since, or ours is known to be the latest, or confirmed. Of
 * an agent that never knew a fleet, the quarantine is the answer. Ask for it before fleet_next(). */
void fleet_settle_doubts(struct fleet *fleet, hf_time now);
/* This agent is sure of it, and other hosts may not be. */
bool fleet_is_unmarked(const struct fleet *fleet, int node);
/* What is put there may say that this very server is known to have the latest record with it; who founds knows that. */
bool fleet_may_mark(const struct fleet *fleet, int node);
/* Whether its last answer may have ended a doubt. */
bool fleet_proves(const struct fleet *fleet, int node);
/* Another member has told our record since `since`. (!) One of the list that the record leads to: a server that leaves is no proof
 * that those that stay have not gone on. */
bool fleet_is_shown(const struct fleet *fleet, int but, hf_time since);
/* Whether answers of the node count: the record counts it, the seat, the digest of its last answer, and it is in no doubt. */
bool fleet_counts(const struct fleet *fleet, int node);
/* It has a record of our fleet, of whatever version. */
bool fleet_is_of_our_fleet(const struct fleet *fleet, int node);
/* Whether it is connected to the seat of our record; true while none is known. */
bool fleet_is_seated(const struct fleet *fleet, int node);
enum fleet_step {
    FLEET_WAIT,
    FLEET_ADOPT, /* `record`: go by it from now on; keep it before anything counts, then fleet_adopt() */
    FLEET_AGAIN, /* keep `record`, and start again by it; then fleet_leave() */
    FLEET_PUT,   /* `record` on `node`, where it has `nonce` and `digest` */
};

struct fleet_action {
    enum fleet_step step;
    int node;
    struct fleet_record record;
    const char *nonce, *digest; /* of struct fleet_node */
    const char *sure; /* its run, if it is known to have the latest record with it; else "" */
};

/* What is to be done now. One thing at a time: ask again when it is done, or something changed. `skip`: bit per
 * node, nothing is put there now (it is being written to, or refuses writes); no founding begins meanwhile. */
void fleet_next(const struct fleet *fleet, hf_time now, uint32_t skip,
                struct fleet_action *ret_action);
void fleet_adopt(struct fleet *fleet, const struct fleet_record *record);
void fleet_leave(struct fleet *fleet);
/* Nodes, bit per node, whose next answer is waited for: ask them now. */
uint32_t fleet_awaits(const struct fleet *fleet);
/* Where the record that is gone by has that node. Not before it is known. */
const struct fleet_seat *fleet_place(const struct fleet *fleet, int node);

/* --- words (agent/core/fleet_words.c) --------------------------------------------------------- */

/* Whether its record is not for this host, and why, with the remedy: another fleet's, or other ids, or of a later
 * version. `ret_text` is "" where nothing is against it. */
bool fleet_is_foreign(const struct fleet *fleet, int node, char *ret_text, size_t size);
/* What our record has otherwise than this host's configuration: its locks would not be the fleet's. */
bool fleet_differs(const struct fleet *fleet, char *ret_text, size_t size);
/* Call it after fleet_on_record(): what a server tells from which the link is about to leave. */
void fleet_note_told(struct fleet *fleet, int node);
/* What is waited for, with its remedy; "" nothing. */
void fleet_waits(const struct fleet *fleet, hf_time now, char *ret_text, size_t size);

/* How many servers these nodes (bit per node) are, by what they say: all that is counted to a majority. */
int fleet_servers(const struct fleet *fleet, uint32_t nodes);

/* --- for its files (agent/core/fleet_view.c) ----------------------------------------------------------------------------- */

/* It never was sure of a node: it is without a memory. Or it takes the word of --dev. */
bool fleet_doubt_is_newcomer(const struct fleet *fleet);
bool fleet_says(const struct fleet *fleet, int node, const char *digest);
/* It has our record, whether it counts by it or not. */
bool fleet_shows(const struct fleet *fleet, int node);
bool fleet_is_stranger(const struct fleet *fleet, int node);
/* The node whose seat this host's configuration has for it, if it is refused for that (fleet_is_stranger()); -1: none. */
int fleet_misplaced(const struct fleet *fleet, int node);
bool fleet_is_of_these_servers(const struct fleet *fleet, const struct fleet_record *record);
bool fleet_is_akin(const struct fleet *fleet, const struct fleet_record *record);
/* It is a member of the list that our record leads to. */
bool fleet_is_of_new_list(const struct fleet *fleet, int node);
/* No member of that list has our record, but for those in doubt. */
bool fleet_none_has_it(const struct fleet *fleet);
/* It has none, or what its founder left of ours. */
bool fleet_is_bare(const struct fleet *fleet, int node);
/* It has a record by which a host without a memory could go. */
bool fleet_is_candidate(const struct fleet *fleet, int node);
/* For words: the node with the latest record of the fleet that most nodes have; -1: none, or as many have another fleet's. */
int fleet_choose(const struct fleet *fleet, int *ret_count);

/* When a later record of the fleet counts. Pure. docs/SAFETY.md, "A fleet that changes", has the argument.
 *
 * (!) Rules, each with a test:
 *  - An agent goes by a later record only when a majority of the list by which it asks shows that record. One server, whatever is
 *    written there, moves nobody; and no password goes to an address that only such a server names.
 *  - What may follow what is judged when a record is read, as it was when it was written.
 *  - Records are compared whole: a digest of 32 bits can be made.
 */

/* Whether a change could have made it: enough members stay, and fewer than a majority are gone. */
bool fleet_later_is_sound(const struct fleet_record *record);
/* The node has that record, at its seat. */
bool fleet_later_has(const struct fleet *fleet, int node, const struct fleet_record *record);
/* The node has none, and another member of the list that the record leads to has shown the record since. */
bool fleet_later_is_told(const struct fleet *fleet, int node, const struct fleet_record *record);
/* A node of our list with a later record that a majority shows, the latest one; -1: none. */
int fleet_later_find(const struct fleet *fleet);
/* The same for an agent that goes by no record: a majority of the configured nodes shows it. */
int fleet_later_find_first(const struct fleet *fleet);
/* (!) Some server shows a later record of the fleet, or one that nobody could read: ours is given to no node from memory. */
bool fleet_later_is_seen(const struct fleet *fleet);
/* A node of our list with a later record that no majority shows; -1: none. */
int fleet_later_find_lone(const struct fleet *fleet);

#endif

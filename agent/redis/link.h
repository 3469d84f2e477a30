/* One connection of one thread to one node: connecting, AUTH, SELECT, INFO,
 * scripts, commands with deadlines.
 *
 * Threads: a link belongs to the loop it was made on; its context never crosses threads. Broker and
 * renewal thread have one link per node each.
 * A link reconnects by itself with backoff for as long as it lives. Connect success proves nothing
 * (a stopped Redis still accepts): only a reply does. Host names are resolved off this thread
 * (agent/redis/resolver.h).
 * Deadlines are timers of ours on CLOCK_BOOTTIME; a timeout does not close the connection (the
 * command may still run, and its late answer is wanted), but no answer at all for `silence` does.
 * SIGPIPE must be ignored or blocked: hiredis writes without MSG_NOSIGNAL.
 */
#ifndef HOLDFAST_AGENT_REDIS_LINK_H
#define HOLDFAST_AGENT_REDIS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/address.h"
#include "agent/base/loop.h"
#include "agent/core/fleet_record.h"
#include "agent/core/node_trust.h"
#include "agent/core/once.h"
#include "agent/redis/holder_text.h"
#include "shm/layout.h"
#include "shm/nstime.h"
#include "shm/wire.h"

struct link;
struct resolver;
struct tls_keys;
struct token;

enum link_outcome {
    LINK_ANSWERED, /* the script ran and its answer has the right shape */
    LINK_ERROR,    /* the node answered with an error: `error` is its class */
    LINK_TIMEOUT,  /* the deadline passed; not final: a second call follows */
    LINK_BROKEN,   /* the connection ended before an answer: the command may have run, or may yet */
    LINK_NOT_SENT, /* nothing was sent: not connected, or too many commands waiting */
};

enum link_verdict {
    VERDICT_OK,       /* acquire, heal: our key stands; raise: fence accepted */
    VERDICT_LOW,      /* acquire, raise: our key stands, but the node's fence, `fence`, is higher */
    VERDICT_TAKEN,    /* another's key, or a key of another type: `holder` as far as known */
    VERDICT_STALE,    /* the node's TIME was past the deadline: nothing written */
    VERDICT_SENTINEL, /* the nonce differs: nothing written */
    VERDICT_GONE,     /* raise: our key is not there any more */
    VERDICT_FREE,     /* query, force: there is no such key */
};

#define LINK_ID_LEN 40 /* hex characters */

/* One answer. Pointers are valid during the callback only. */
struct link_reply {
    enum link_outcome outcome;
    bool final; /* no further call for this command */
    bool late;  /* LINK_TIMEOUT was told before */
    enum hf_node_error error;
    const char *error_text; /* "" when none */
    hf_time sent;           /* before the first byte */
    hf_time received;       /* when it was processed */
    /* LINK_ANSWERED only: */
    bool doubtful; /* release: another server may have answered */
    hf_nodetime node_time;
    char nonce[TRUST_NONCE_LEN + 1];   /* of the sentinel, "" absent */
    char digest[FLEET_DIGEST_LEN + 1]; /* of the fleet's record, "" none */
    enum link_verdict verdict;         /* acquire, heal, raise, query, force */
    uint64_t fence;                    /* the node's fence now (node part); 0 none */
    struct hf_wire_holder holder;      /* with VERDICT_TAKEN */
    /* query, force: sha1hex of the key's value (of the value before, if it was forced out); "" for another
     * type. heal, raise: of the token that set `fence`, if that is another's; else "" */
    char id[LINK_ID_LEN + 1];
    bool forced; /* with `id`: it is forced out, but no other host can have the key yet */
    struct once_record once; /* once: as it was before, with `holder`; OK only */
    /* renew, release: one character per key: '1' renewed / deleted, '0' missing, 'f' foreign,
     * 'x' renew only: ours was forced out */
    const char *marks;
    size_t mark_count;
    struct node_sentinel sentinel; /* sentinel command */
    bool sentinel_created;
    const char *record; /* sentinel command: the fleet's record, "" none; not terminated */
    size_t record_len;
    const char *record_by;   /* who put it, for people */
    const char *record_sure; /* the run of the server that was known to have the latest; "" */
    /* up, probed with `probe_writes`: the answer to a write that changes nothing, NONE: fine */
    bool write_tried;
    enum hf_node_error write_error;
    const char *write_text;
    bool tracked;      /* after link_track(): the node tells when a key that was read changes */
    uint64_t cursor;   /* listing: the cursor of the next page; 0: this was the last */
    size_t item_count; /* listing: for link_item() */
    const void *items;
};

/* Runs on the link's thread, never from inside the call that sent the command. */
typedef void link_reply_fn(struct link *link, const struct link_reply *reply, void *arg);

struct link_events {
    /* Handshake done: INFO, then the sentinel (read only). From now
     * commands are sent. `sentinel` is LINK_ANSWERED, but for a replica or a node in
     * cluster mode it may be LINK_ERROR. */
    void (*up)(struct link *link, const struct node_facts *facts, const struct link_reply *sentinel,
               void *arg);
    /* Repeated INFO and sentinel reads while up (every `probe`, link_set_probe()); keeps clock and facts fresh. */
    void (*probed)(struct link *link, const struct node_facts *facts,
                   const struct link_reply *sentinel, void *arg);
    /* The connection ended or could not be made; `error` and `text` say why. Every unanswered
     * command was told BROKEN. */
    void (*down)(struct link *link, enum hf_node_error error, const char *text, void *arg);
    /* The next two may be NULL: nothing is tracked then. A key that was read after link_track() has
     * changed, and is not tracked any more; NULL: any may have changed. */
    void (*noticed)(struct link *link, const void *key, size_t key_len, void *arg);
    /* Whether the node sends notices: from HF_TRACKING_ON on. Keys that were read before are not tracked.
     * `text`: why not. */
    void (*tracking)(struct link *link, enum hf_node_tracking state, const char *text, void *arg);
};

struct link_options {
    struct loop *loop;
    struct resolver *resolver;
    const struct node_address *address; /* must outlive the link, or link_configure() */
    struct tls_keys *keys;              /* for TLS, must outlive the link; NULL: those in use */
    int node;                           /* its position in the list */
    hf_dur connect_timeout;
    hf_dur silence;    /* without any answer for so long it is closed (timing_silence) */
    hf_dur probe;      /* between probes */
    bool probe_writes; /* handshake and probes find out whether the node takes writes */
    bool asks_rights;  /* for each right of its user, before any is missed */
    const struct link_events *events;
    void *arg;
};

int link_create(const struct link_options *options, struct link **ret_link); /* HF_OK, HF_ENOMEM */
void link_start(struct link *link);
/* A reload: from now on these of the options count, and the earlier address is not used any more. A
 * connection that stands stays, whatever user and password are now; with another host, port or path it
 * ends, and a new one is made. Not from inside the link's own callbacks. */
void link_configure(struct link *link, const struct link_options *options);
/* Ends the connection for good: commands in flight get LINK_BROKEN, and nothing more is sent. */
void link_shut(struct link *link);
/* The same, and frees it; NULL is fine. (!) Of several links all are shut first: what one tells may have others looked at. */
void link_destroy(struct link *link);

int link_node(const struct link *link);
/* Where it is connected, as a seat (agent/core/fleet_record.h): the peer's address, or the one that the configuration
 * says it is known by. "": not connected. */
void link_peer(const struct link *link, char ret_seat[HF_NODE_TEXT_MAX + 1]);
bool link_is_up(const struct link *link);
/* There is a connection, whatever comes of it. */
bool link_is_connected(const struct link *link);
/* Commands that were sent and have no final answer. */
int link_in_flight(const struct link *link);
/* ballot_round_time() and ballot_patience() by their last answers. */
hf_dur links_round_time(struct link *const links[], int n, int q);
hf_dur links_patience(struct link *const links[], int n, int q, int node);
/* Whether the oldest command without an answer is overdue: the node may be hanging. */
bool links_is_overdue(struct link *const links[], int n, int q, int node, hf_time now);
/* Writes what is buffered now instead of at the loop's next turn. */
void link_flush(struct link *link);
/* Sets the time between probes from now on. */
void link_set_probe(struct link *link, hf_dur probe);
/* Probes at once, if the link is up and no probe is under way; but 100 ms after the last probe's beginning at the earliest. */
void link_probe_soon(struct link *link);

/* --- the scripts: agent/scripts/NAME.lua, each returns TIME and the node's stamp first -------- */

/* What the commands about one lock have in common, whatever node they go to. Begins as zeros; the first command makes
 * them. */
struct link_words {
    char tag[LINK_ID_LEN + 1]; /* sha1hex of the token */
    size_t holder_len;         /* 0: not made yet */
    uint64_t fence;            /* that `holder` begins with */
    char holder[HOLDER_TEXT_MAX];
};

struct link_lock { /* acquire, heal, raise of one key */
    const void *key;
    size_t key_len; /* the formatted key */
    const struct token *token;
    uint32_t ttl_ms;
    hf_nodetime deadline; /* acquire, heal: STALE when the node's TIME is past it */
    /* acquire, heal: the nonce and the digest ("" none) that were validated, else nothing is written */
    const char *nonce, *digest;
    uint64_t fence; /* node part */
    struct link_holder holder;
    struct link_words *words; /* of this token and holder; NULL: they are made for this command */
};

struct link_key { /* renew, release of many keys */
    const void *key;
    size_t key_len;
    const struct token *token;
    uint32_t ttl_ms; /* renew */
};

#define LINK_KEYS_MAX 500

/* All return HF_OK (then `fn` is called once, or twice after a timeout) or HF_ENOQUORUM (not
 * connected, or too many commands in flight or bytes unsent: nothing was sent and `fn` is not called) or HF_ENOMEM.
 * `deadline` is ours, CLOCK_BOOTTIME. Arguments are copied.
 * A script that the node has forgotten is loaded again. Raise and release are then sent once more
 * from here; of acquire, heal and renew HF_NODE_ERR_NOSCRIPT is told, for their owner to send them
 * once more if the token is still good. So is whatever was answered while it was in doubt who answers
 * (link_identity.c), but for releases: it may have run. */
int link_acquire(struct link *link, const struct link_lock *lock, hf_time deadline,
                 link_reply_fn *fn, void *arg);
int link_raise(struct link *link, const struct link_lock *lock, hf_time deadline, link_reply_fn *fn,
               void *arg);
int link_heal(struct link *link, const struct link_lock *lock, hf_time deadline, link_reply_fn *fn,
              void *arg);
int link_renew(struct link *link, const struct link_key *keys, size_t count, hf_time deadline,
               link_reply_fn *fn, void *arg);
int link_release(struct link *link, const struct link_key *keys, size_t count, hf_time deadline,
                 link_reply_fn *fn, void *arg);

/* What the next of the above reads is tracked, if the link is HF_TRACKING_ON: `tracked` of its
 * answer says whether. A hint (agent/redis/notices.h). Costs one command more. */
void link_track(struct link *link);
enum hf_node_tracking link_tracking(const struct link *link);

/* Reads the sentinel; with `make` creates it when absent, with `replace` (--reset-fleet) also when its
 * constants differ, with `other` when the node goes by another record: the digest that was judged. `sentinel_created`
 * is of these. The answer has sentinel and record as they stand afterwards. */
struct link_sentinel {
    bool make, replace;
    const char *other_nonce, *other; /* NULL: none */
    const char *nonce;               /* for a new one: TRUST_NONCE_LEN hex characters */
    const char *stepped; /* where this nonce stands it gets the new one and a new age; NULL: none */
    hf_wall wall;
    int64_t ttl_max_ms;
    int nodes;
    const char *list_hash;
};
int link_sentinel(struct link *link, const struct link_sentinel *sentinel, hf_time deadline,
                  link_reply_fn *fn, void *arg);

/* Puts a record of the fleet beside the sentinel: VERDICT_OK; VERDICT_STALE; VERDICT_SENTINEL where the nonce or the
 * digest is another one. Sent again after NOSCRIPT: it has its deadline. */
struct link_fleet {
    hf_nodetime deadline;           /* STALE when the node's TIME is past it */
    const char *nonce, *digest;     /* as they were seen; digest "": none */
    const char *record, *by, *sure; /* sure: as in struct link_reply */
};
int link_fleet(struct link *link, const struct link_fleet *fleet, hf_time deadline,
               link_reply_fn *fn, void *arg);

/* Who holds a key: VERDICT_FREE, or VERDICT_TAKEN with `id` and `holder.pttl_ms`, and, with `record`,
 * the rest of `holder` if the key's fence record is of that very value. Read only, and sent again
 * after NOSCRIPT. */
int link_query(struct link *link, const void *key, size_t key_len, bool record, hf_time deadline,
               link_reply_fn *fn, void *arg);

/* Puts a mark in the token's place if the key belongs to the hold that is meant: VERDICT_OK. Else
 * VERDICT_TAKEN with all that link_query() tells, or VERDICT_FREE. Sent again after NOSCRIPT. */
struct link_force {
    const void *key;
    size_t key_len;
    uint64_t fence;      /* the hold's, node part; 0: any, then the id is needed */
    const char *id;      /* the hold's; "": any */
    uint32_t foreign_ms; /* how long the mark stays if no agent can have written it */
    uint32_t ttl_max_ms;
};
int link_force(struct link *link, const struct link_force *force, hf_time deadline,
               link_reply_fn *fn, void *arg);

/* A step of agent/core/once.h: OK with the record that the node had before, or LOW with the later fence, or STALE or
 * SENTINEL. Sent again after NOSCRIPT. */
struct link_once {
    const void *key;
    size_t key_len;
    uint64_t fence; /* node part, of the token that asks */
    int64_t turn;
    enum once_step step; /* FORGET is a WRITE */
    int64_t at_us, asker, ended;
    const struct link_holder *by; /* WRITE: who runs it; NULL: nobody */
    int64_t retention_ms;
    hf_nodetime deadline;
    const char *nonce, *digest; /* as of link_lock */
};
int link_once(struct link *link, const struct link_once *order, hf_time deadline, link_reply_fn *fn,
              void *arg);

/* One page of the held keys that begin with `prefix` and end with `suffix`, any bytes: those whose fence
 * record belongs to their value. `cursor` 0 begins; a key may come twice. Read only, and sent again
 * after NOSCRIPT. */
int link_listing(struct link *link, const void *prefix, size_t prefix_len, const char *suffix,
                 uint64_t cursor, hf_time deadline, link_reply_fn *fn, void *arg);

struct link_item {
    const void *key;
    size_t key_len;
    char id[LINK_ID_LEN + 1];
    struct hf_wire_holder holder;
};
/* Item `i` of a listing's answer; false: no agent wrote it. */
bool link_item(const struct link_reply *reply, size_t i, struct link_item *ret_item);

/* Text of an error class for status and logs: "timeout", "loading". */
const char *link_error_name(enum hf_node_error error);

#endif

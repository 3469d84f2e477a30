/* What the parts of a link share. One thread. From above, each calling only those after it:
 *   link.c (connection, and what each state does next) -> link_handshake.c (the commands on a new connection)
 *   -> link_script.c (the script commands, and one script's run)
 *   -> link_identity.c (whether it is still the same server), link_tracking.c (notices of changes)
 *   -> link_call.c (commands in flight) -> link_io.c (the descriptor's events), link_tls.c
 *   -> link_end.c (a link's end), link_answer.c (decoding; knows no link) */
#ifndef HOLDFAST_AGENT_REDIS_LINK_INTERNAL_H
#define HOLDFAST_AGENT_REDIS_LINK_INTERNAL_H

#include <stdalign.h>
#include <stddef.h>
#include <sys/queue.h>

#include <hiredis/async.h>

#include "agent/core/backoff.h"
#include "agent/redis/acl.h"
#include "agent/redis/bounds.h"
#include "agent/redis/link.h"
#include "agent/redis/notices.h"
#include "agent/redis/resolver.h"
#include "agent/redis/script.h"
#include "agent/redis/tls.h"
#include "shm/compiler.h"

#define LINK_IN_FLIGHT_MAX  4096 /* commands without an answer, per link */
#define LINK_TEXT_MAX       160  /* bytes of an error's text, with NUL */
#define LINK_SENTINEL_KEY   "holdfast:node"
#define LINK_KEYS_OF_AGENTS "holdfast:*"
#define LINK_FENCE_PREFIX   "holdfast:fence:"
#define LINK_ONCE_PREFIX    "holdfast:once:"

/*   IDLE -> RESOLVING -> CONNECTING -> [SECURING ->] GREETING -> UP
 *              ^     next | ^              |             |         |
 *              |   address+-+              v             v         v
 *            WAITING <-------------------------------- ENDED <-----+
 */
enum link_state {
    LINK_IDLE,
    LINK_RESOLVING,
    LINK_CONNECTING,
    LINK_SECURING, /* connected; the TLS handshake, or a knock */
    LINK_GREETING, /* connected; INFO, scripts and sentinel are not all answered yet */
    LINK_UP,
    LINK_ENDED,   /* the connection is gone; commands and owner are told at the loop's next turn */
    LINK_WAITING, /* for the next attempt */
};

struct call;
/* The answer to a command of our own; never NULL. */
typedef void call_fn(struct link *link, const struct call *call, const redisReply *answer);
/* The answer to a script. Returns whether the call is in flight again. */
typedef bool call_answered_fn(struct link *link, struct call *call, const redisReply *answer);

/* One command in flight. Answers come in the order of sending. */
struct call {
    TAILQ_ENTRY(call) entry;
    struct link *link;
    hf_time sent; /* before the first byte of the last sending */
    size_t room;  /* of `command` */
    size_t length;
    enum script script;
    call_fn *own; /* our own command; else NULL, and what follows is set */
    call_answered_fn *answered;
    size_t keys; /* renew, release: how many marks are due */
    struct loop_timer deadline;
    bool reloaded, timed_out;
    uint32_t mark; /* of tracking_mark(); 0: what it read is not tracked */
    link_reply_fn *fn;
    void *arg;
    alignas(max_align_t) char command[]; /* kept to be sent again after NOSCRIPT */
};
TAILQ_HEAD(call_list, call);
#define CALL_ROOM        1024 /* bytes of commands of those that are used again */
#define CALLS_SPARE_MOST 256  /* that a link keeps */

/* Notices of changes; link_tracking.c. */
struct link_tracking {
    struct notices *notices; /* NULL: not wanted */
    enum hf_node_tracking state;
    uint32_t epoch;  /* counts changes of `state` */
    hf_time since;   /* the last of them */
    bool ready;      /* the notices' connection is subscribed */
    unsigned asking; /* CLIENT TRACKING commands without an answer */
    bool next;       /* for the script that is sent next */
    struct loop_timer again;
    struct backoff backoff;
};

/* TLS, or a knock; link_tls.c. */
struct link_secure {
    redisAsyncContext *context; /* whose descriptor was taken over; NULL: none was */
    int fd, failed;             /* of tls_open() */
    struct tls *tls;            /* NULL: a knock */
    bool knocking;
    struct loop_fd io;
};

struct link {
    struct link_options options;
    enum link_state state;
    redisAsyncContext *context; /* while CONNECTING, GREETING, UP */
    struct bounds bounds;
    struct loop_fd io; /* without TLS */
    struct loop_timer
        step; /* of `state`: connect timeout, the handshake, telling the end, next attempt */
    struct backoff backoff;
    struct backoff distance; /* in its place while `is_far`: the peer misbehaved */
    bool is_far;
    hf_time up_since; /* HF_TIME_NEVER: this connection did not come up */
    uint32_t random;

    /* the host's addresses, and the next one to try; the last known ones serve while names cannot be
     * looked up */
    char addresses[RESOLVER_ADDRESSES][64];
    int address_count, address_next;
    char connected[64]; /* the address of the present attempt, or connection */

    /* commands */
    struct call_list calls;
    struct call_list spare; /* calls of CALL_ROOM bytes that are over */
    int in_flight, spare_count;
    struct loop_timer silence;
    bool silence_grace; /* there were unread bytes at its end: a moment to read them */
    hf_time heard;      /* last answer */
    hf_dur rtt;
    bool loading[SCRIPTS];                 /* its SCRIPT LOAD is in flight */
    char sha[SCRIPTS][SCRIPT_SHA_LEN + 1]; /* as SCRIPT LOAD told it */

    /* what the node says of itself */
    struct node_facts facts; /* of the last complete INFO */
    struct node_facts asked; /* of the running ones */
    bool asked_well;         /* INFO of the running probe was answered */
    bool is_redis;           /* INFO was answered as Redis does: its error texts may be shown */
    bool is_strange;         /* it spoke unasked, or in shapes that Redis does not use */
    struct loop_timer probe;
    hf_time probed;   /* when the last probe began */
    bool write_tried; /* by the running probe; the answer: */
    enum hf_node_error write_error;
    char write_text[LINK_TEXT_MAX];

    /* whether it is still the server that said so */
    bool doubted; /* INFO is in flight or due, maybe with a new name: no answer counts before it */
    struct loop_timer who; /* INFO is due */
    hf_time who_paid;      /* of bucket_next() */
    bool named;            /* this connection has the name */
    bool nameless;         /* connections may not be named there */
    char name[32];
    hf_time checked; /* the loop's turn in which the name was asked for last */
    int checks;      /* questions for the name without an answer, of `in_flight` */

    struct link_tracking tracking;

    struct link_secure secure;
    bool secure_slow; /* the last handshake of TLS had no end in its time */
    int mute_ends;    /* connections in a row that ended without a word */
    /* It speaks the other protocol: HF_NODE_ERR_NO_TLS, HF_NODE_ERR_WANTS_TLS; else NONE. */
    enum hf_node_error other;

    /* what its user may do there */
    bool acl_doubted;          /* something was refused for want of a right */
    struct acl_lack acl;       /* by the last survey */
    struct acl_lack acl_asked; /* of the running one, whose next answer is to this command: */
    int acl_at;

    /* why it ended */
    enum hf_node_error end_error;
    char end_text[LINK_TEXT_MAX];
};

/* --- link_end.c ------------------------------------------------------------------------------- */

/* Ends the connection; commands and owner are told at the loop's next turn: the caller may be inside link_flush() of
 * an owner that expects no callbacks. Does nothing when it has ended already. Not for hiredis' connect and disconnect
 * callbacks: there it frees the context itself, and link_ended() follows. */
void link_end(struct link *link, enum hf_node_error error, const char *format, ...) HF_PRINTF(3, 4);
/* The same when the peer has not said a word. */
void link_mute_end(struct link *link, enum hf_node_error error, const char *text);
/* The context is gone or being freed; `end_text` is set. */
void link_ended(struct link *link, enum hf_node_error error);
void link_drop_context(struct link *link);
/* At once, where hiredis frees the context later. */
void io_detach(redisAsyncContext *context);
/* Ends the connection if hiredis keeps too much of what was read. */
void link_read_is_over(struct link *link);
void link_enter(struct link *link, enum link_state state, hf_time step_at);
/* For delays; never 0. */
uint32_t link_random(struct link *link);
/* An error's text from the node: printable, cut to fit, and without our password, which some
 * servers repeat. */
void link_copy_text(const struct link *link, char to[LINK_TEXT_MAX], const char *from);

/* --- link_io.c -------------------------------------------------------------------------------- */

/* Watches the descriptor of the link's new context. */
void io_attach(struct link *link);

/* --- link_call.c ------------------------------------------------------------------------------ */

void calls_init(struct link *link);
/* Forgets what belonged to the last connection. */
void calls_reset(struct link *link);
/* All unanswered commands get LINK_BROKEN, oldest first. */
void calls_break(struct link *link);
void calls_destroy(struct link *link);

/* Buffers a command of our own; silence is its only deadline. HF_OK, HF_ENOQUORUM, HF_ENOMEM. */
int call_own(struct link *link, call_fn *own, int argc, const char **argv, const size_t *lengths);
/* SCRIPT LOAD, unless it is in flight. `loaded` may be NULL. */
int call_load(struct link *link, enum script script, call_fn *loaded);
/* What link_script.c makes a call of. The call is the caller's until it is sent, and again once it was answered. */
struct call *call_new(struct link *link, int argc, const char **argv, const size_t *lengths);
int call_send(struct link *link, struct call *call);
void call_free(struct call *call);
struct link_reply call_reply(const struct call *call, enum link_outcome outcome,
                             enum hf_node_error error, hf_time now);
/* How many bytes hiredis has still to send. */
size_t call_unsent(const struct link *link);

/* --- link_script.c ---------------------------------------------------------------------------- */

/* As link_sentinel(), while the handshake lasts too. */
int script_sentinel(struct link *link, const struct link_sentinel *sentinel, hf_time deadline,
                    link_reply_fn *fn, void *arg);

/* --- link_handshake.c ------------------------------------------------------------------------- */

void handshake_init(struct link *link);
/* Asks AUTH, SELECT, INFO, and the rest when they are answered; the link is up in the end, or ends by link_end(). */
void handshake_begin(struct link *link);

/* --- link_identity.c -------------------------------------------------------------------------- */

/* Names the connection, once INFO was answered, and asks INFO behind the name: with another answer the
 * connection ends. HF_OK, HF_ENOQUORUM, HF_ENOMEM. */
int identity_name(struct link *link);
/* Before a command whose answer may count: asks for the name, once for all that leave together.
 * Does nothing where connections cannot be named. HF_OK, HF_ENOQUORUM, HF_ENOMEM. */
int identity_check(struct link *link);
/* Whether this answer puts in doubt which server gave it. Then INFO is in flight, and no answer counts
 * until INFO shows the same server; or the connection was ended. */
bool identity_is_doubtful(struct link *link, const redisReply *answer);
/* Whether these facts are those of the server that was greeted, in the same role. */
bool identity_holds(const struct link *link, const struct node_facts *facts);
/* They are not that server's: ends the connection. */
void identity_differs(struct link *link, const struct node_facts *facts);
/* Reads INFO's answer. False: no Redis answers so, and the connection has ended; `text`: the words for that. */
bool identity_read(struct link *link, const redisReply *answer, struct node_facts *facts,
                   const char *text);
void identity_init(struct link *link);
/* Forgets what belonged to the last connection. */
void identity_reset(struct link *link);

/* --- link_tls.c ------------------------------------------------------------------------------- */

/* In hiredis' connect callback: begins TLS. */
void secure_begin(struct link *link);
/* The link was LINK_SECURING for too long, or could not begin. */
void secure_timed_out(struct link *link);
/* Sends what is buffered. */
void secure_flush(struct link *link);
/* The descriptor of the link's connection. */
int secure_socket(const struct link *link);
/* Whether this connection is to find out only which protocol the peer speaks, and in hiredis' connect callback: finds
 * it out. */
bool knock_wanted(const struct link *link);
void knock_begin(struct link *link);

/* Asks for each right, if there is a reason to. HF_OK, HF_ENOQUORUM, HF_ENOMEM. */
int acl_survey(struct link *link);
/* The node has refused something for want of a right, in these words. Returns better ones, in `buffer`, if it is known
 * which rights are missing. The next survey is due. */
const char *acl_of_error(struct link *link, const char *text, char buffer[LINK_TEXT_MAX]);

/* --- link_tracking.c -------------------------------------------------------------------------- */

int tracking_init(struct link *link); /* HF_ENOMEM */
void tracking_destroy(struct link *link);
/* Takes over the link's address and silence, and these events. */
void tracking_configure(struct link *link, const struct link_events *events);
void tracking_begin(struct link *link); /* the link is up */
void tracking_stop(struct link *link);  /* it is no longer up */
/* Before a script: tracks its keys if that is wanted. The returned mark is for tracking_stands(), which
 * says whether the keys that the script read are still tracked. 0: they are not. */
uint32_t tracking_mark(struct link *link);
bool tracking_stands(const struct link *link, uint32_t mark);

/* --- link_answer.c ---------------------------------------------------------------------------- */

enum hf_node_error reply_error_class(const char *text);
/* The text of an error, without the prefix that a server before 7.0 puts before the error of a
 * command in a script. */
const char *reply_error_text(const char *text);
/* Sets the fields of LINK_ANSWERED, or of LINK_ERROR (HF_NODE_ERR_PROTOCOL: the wrong shape);
 * leaves the others. `error_text` then points into `answer` or to a constant. */
void reply_decode(const redisReply *answer, enum script script, size_t keys,
                  struct link_reply *out);
/* (!) Of INFO's answer; a Redis of today answers 5 to 12 KiB. */
#define INFO_MOST (64 * 1024)
bool reply_info_is_long(const redisReply *answer);
/* False: no Redis answers INFO like this. */
bool reply_decode_info(const redisReply *answer, struct node_facts *facts);
#endif

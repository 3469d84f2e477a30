/* hiredis' asynchronous interface as the agent uses it, on connections that a plan delays, stalls
 * and breaks. The commands' answers come from the virtual nodes (vnode.h).
 *
 * A connection keeps order in each direction, as TCP does; what was sent before its end may still
 * arrive and run afterwards.
 */
#ifndef HOLDFAST_TESTS_SIM_FAKE_HIREDIS_H
#define HOLDFAST_TESTS_SIM_FAKE_HIREDIS_H

#include <hiredis/async.h>

#include "tests/sim/host.h"
#include "tests/sim/sim.h"

/* A command as it travels: words that end with NUL, all in one block behind this; but a script's
 * text, which lives for ever. */
struct command {
    int argc;
    const char **argv;
    size_t *length;
};

enum connection_state { CONN_CONNECTING, CONN_OPEN, CONN_ENDED };

struct sim_message;

struct sim_connection {
    redisAsyncContext context; /* the client's end */
    redisReader reader;
    struct sim_connection *next;
    int number;
    struct sim_host *host;
    struct loop *loop;
    struct vnode *node;
    uint32_t node_life; /* of the node's process that it leads to */
    enum connection_state state;
    bool client_gone; /* the client's end is closed */
    bool failed;      /* the connect was refused */
    bool cut;         /* nothing passes any more */
    bool strays;      /* it is to break while something is on its way */
    bool in_callback;
    int redirect;  /* of CLIENT TRACKING; 0: not on */
    char name[32]; /* CLIENT SETNAME */
    bool caching;  /* CLIENT CACHING YES came last */
    struct sim_event connect;
    struct sim_io io; /* connected, refused, ended */
    struct sim_message *first, **last;
    sim_ns there_at, back_at; /* the last arrivals */
};

/* One command and its answer. */
struct sim_message {
    struct sim_event event;
    struct sim_io io;
    struct sim_message *next; /* of the connection, in the order of sending */
    struct sim_connection *connection;
    redisCallbackFn *fn;
    void *arg;
    bool sent, executed, lost;
    sim_ns sent_at;
    hf_time sent_now; /* by the host's clock */
    uint64_t serial;
    struct redisReply *reply;
    struct command command; /* its block follows */
};

void fake_reset(void);
/* Sends what was buffered on the loop's connections. */
void fake_flush_all(struct loop *loop);
/* The process that had these ends is gone; what it sent is on its way. */
void fake_agent_gone(struct sim_host *host);
/* The connection is reset: of what travels to the node a part still arrives; `told`: the client
 * learns of it, else it only sees silence. */
void connection_break(struct sim_connection *connection, bool told);
/* The node's process ended. */
void connections_node_gone(struct vnode *node);
/* What was held up by the network arrives now. */
void connections_hurry(void);
struct sim_connection *connections_first(void);
/* A message that arrived at the node was run there: its answer travels back. */
void message_answered(struct sim_message *message);

/* --- replies, made by the nodes; they live until the end of the schedule ------------------------ */

struct redisReply *reply_text(int type, const char *text, size_t length);
struct redisReply *reply_number(long long number);
struct redisReply *reply_nil(void);
struct redisReply *reply_array(size_t elements);

/* --- the network: net.c ----------------------------------------------------------------------- */

enum net_direction { NET_THERE, NET_BACK };

struct net_path { /* between one host and one node */
    sim_ns blocked_until[2];
    sim_ns slow_until, slow_by;
};
void net_reset(void);
struct net_path *net_path(const struct sim_host *host, const struct vnode *node);
/* When something that leaves now arrives. */
sim_ns net_arrival(const struct sim_host *host, const struct vnode *node,
                   enum net_direction direction);

#endif

/* A node: a Redis of which as much is here as the agents ask of one. The scripts are the shipped
 * ones, run by Lua (node_lua.c) on the keys of node_store.c. */
#ifndef HOLDFAST_TESTS_SIM_VNODE_H
#define HOLDFAST_TESTS_SIM_VNODE_H

#include "agent/core/sha1.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/sim.h"

/* --- keys: node_store.c ----------------------------------------------------------------------- */

#define STORE_KEYS   12
#define STORE_FIELDS 10
#define STORE_VALUE  72

struct store_key {
    char name[48];
    bool used, is_hash;
    int64_t expires_ms; /* wall clock of the node; -1 none */
    char value[STORE_VALUE];
    struct {
        char name[16], value[STORE_VALUE];
        const char *text; /* in place of a value that has no room there; NULL */
    } field[STORE_FIELDS];
    int fields;
};

struct store {
    struct store_key key[STORE_KEYS];
};

void stores_reset(void);
/* NULL: not there, or expired. */
struct store_key *store_find(struct store *store, const char *name, int64_t now_ms);
struct store_key *store_make(struct store *store, const char *name, int64_t now_ms);
void store_delete(struct store_key *key);
const char *store_field(const struct store_key *key, const char *name); /* NULL: none */
void store_set_field(struct store_key *key, const char *name, const char *value);

/* --- the node: vnode.c ------------------------------------------------------------------------ */

enum vnode_durability { KEEPS_NOTHING, KEEPS_ALL_BUT_A_SECOND, KEEPS_ALL };

#define SIM_IP "10.0.0.1" /* of all servers */

struct vnode {
    int number;
    bool running;
    bool unreachable; /* while it does not run: the whole machine is away */
    uint32_t life;    /* of its process */
    sim_ns started, stopped_until;
    struct sim_clock clock;
    int64_t wall_us;     /* wall clock minus its CLOCK_MONOTONIC; steps change it */
    int64_t set_back_us; /* all steps back: a key may stand for that much longer */
    int64_t astray_us;   /* of wall_us: it is ahead for a while, or behind (wander.h) */
    bool no_gt;          /* a server before 7.0: PEXPIRE knows no GT */
    enum vnode_durability durability;
    char run_id[41];
    const struct vnode *claims; /* it says that it is that one; NULL: it does not lie */
    char info[400]; /* INFO's answer, of `info_life` after `info_up` seconds, with `info_run_id` */
    char info_run_id[41];
    uint32_t info_life;
    int64_t info_up;
    int info_length;
    const char *error; /* what scripts are answered with; NULL */
    sim_ns error_until;
    uint32_t scripts;         /* bit per script that is loaded */
    bool proxied;             /* agents' connections outlive its process */
    bool promoted;            /* was a replica, and says so */
    bool dead;                /* stopped for good, by an operator's word: it has no data any more */
    const struct store *next; /* the data of the server that takes its place; NULL */
    bool next_promoted;
    int64_t next_wall_us; /* by how much that one's clock differs */
    struct store store, saved;
    bool forgot_a_second; /* it restarted without its last second: keys deleted in it are back */
    struct sim_message *backlog[512]; /* arrived while it was stopped */
    int waiting;
    struct sim_event resume, start, save;
    sim_ns last_step;
    sim_ns flushed, flushed_before; /* the last time, and the one before */
};

void vnodes_begin(void);
/* As many of sim.node are struck by faults of all nodes: those of the plan, where the fleet changes all servers. */
int vnodes_struck(void);
/* One more server, with nothing in it, at an address of its own. */
struct vnode *vnode_new(void);
/* The server of that port; NULL: none. Each has another port, too, which leads there like a proxy. */
#define VNODE_OTHER_WAY 100
struct vnode *vnode_at(int port);
/* The server of that seat; NULL: none. */
struct vnode *vnode_of_seat(const char *address);
/* Its address, as agents connect to it. */
int vnode_port(const struct vnode *node);
void vnode_receive(struct vnode *node, struct sim_message *message);
bool vnode_listens(const struct vnode *node);
int64_t vnode_wall_us(const struct vnode *node);
/* A field of its key holdfast:node; NULL: none. */
const char *vnode_field(const struct vnode *node, const char *name);
/* Its nonce is that of the stamp, and the digest of its record, too. */
bool vnode_has_stamp(const struct vnode *node, const char *stamp);
/* Made an hour ago by an agent of this fleet, whose host's clock was right. */
void vnode_make_sentinel(struct vnode *node);
/* Founded then, and complete. */
void vnode_set_record(struct vnode *node, const char *text, const char *digest);

void vnode_stop(struct vnode *node, sim_ns until);                  /* SIGSTOP and SIGCONT */
void vnode_kill(struct vnode *node, sim_ns back, bool unreachable); /* starts again at `back` */
/* Stopped for good. */
void vnode_die(struct vnode *node, bool unreachable);
/* In the place of one that was stopped for good an empty one starts at `at`. */
void vnode_rise(struct vnode *node, sim_ns at);
/* Another server comes at its address, with that data; `promoted`: it was a replica and has been running for long. */
void vnode_replace(struct vnode *node, const struct store *store, bool promoted, sim_ns back);
void vnode_flush(struct vnode *node);
void vnode_step(struct vnode *node, int64_t us);
/* Its clock is ahead and comes back, and meanwhile it finds that share of the keys whose time is over. A fence record lasts for
 * longer than it is ahead. */
void vnode_excursion(struct vnode *node, int64_t us, double share, struct sim_rng *rng);
/* Its clock is ahead of the right time by that much, whatever it was before; below 0: behind. */
void vnode_wander(struct vnode *node, int64_t us);
/* It finds that share of the keys whose time is over by then. */
void vnode_expire(struct vnode *node, int64_t wall_us, double share, struct sim_rng *rng);
void vnode_fail(struct vnode *node, const char *error, sim_ns until);

/* --- Lua: node_lua.c -------------------------------------------------------------------------- */

/* What redis.sha1hex() makes of it. */
void scripts_id(const char *value, char ret_id[SHA1_HEX_LEN + 1]);
/* Which script a text is; -1: none of ours. */
int scripts_find(const char *text, size_t length);
/* Runs it on the node; `message` says for whom. */
struct redisReply *scripts_run(struct vnode *node, int script, const struct sim_message *message);

#endif

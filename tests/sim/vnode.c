#include "tests/sim/vnode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config.h"
#include "tests/sim/wander.h"
#include "tests/sim/watches.h"
#include "tests/sim/wide.h"

#define SENTINEL   "holdfast:node"
#define PORT_FIRST 7001
#define START_US   INT64_C(1700000000000000) /* wall clock when the schedule begins */

int64_t vnode_wall_us(const struct vnode *node)
{
    return clock_at(&node->clock, sim.now) / SIM_US + node->wall_us;
}

bool vnode_listens(const struct vnode *node)
{
    return node->running;
}

static void hex(char *to, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = "0123456789abcdef"[rng_next(&sim.rng) & 15];
    to[length] = '\0';
}

const char *vnode_field(const struct vnode *node, const char *name)
{
    for (int i = 0; i < STORE_KEYS; i++)
        if (node->store.key[i].used && strcmp(node->store.key[i].name, SENTINEL) == 0)
            return store_field(&node->store.key[i], name);
    return NULL;
}

bool vnode_has_stamp(const struct vnode *node, const char *stamp)
{
    const char *nonce = vnode_field(node, "nonce"), *digest = vnode_field(node, "digest");
    size_t length = strcspn(stamp, ":");

    if (!nonce || strlen(nonce) != length || strncmp(nonce, stamp, length) != 0)
        return false;
    return strcmp(stamp[length] ? stamp + length + 1 : "", digest ? digest : "") == 0;
}

int vnode_port(const struct vnode *node)
{
    return PORT_FIRST + node->number;
}

struct vnode *vnode_at(int port)
{
    int number = (port - PORT_FIRST) % VNODE_OTHER_WAY;

    return number >= 0 && number < sim.servers ? sim.node[number] : NULL;
}

struct vnode *vnode_of_seat(const char *address)
{
    return vnode_at(atoi(address + strlen(SIM_IP ":")));
}

/* --- commands --------------------------------------------------------------------------------- */

static bool is(const struct command *c, int i, const char *word)
{
    return i < c->argc && c->argv[i][0] == word[0] && strcmp(c->argv[i], word) == 0;
}

static struct redisReply *error(const char *text)
{
    return reply_text(REDIS_REPLY_ERROR, text, strlen(text));
}

static struct redisReply *info(struct vnode *node)
{
    const char *run_id = node->claims ? node->claims->run_id : node->run_id;
    int64_t up =
        (clock_at(&node->clock, sim.now) - clock_at(&node->clock, node->started)) / SIM_SEC;

    if (node->info_life != node->life || node->info_up != up ||
        strcmp(node->info_run_id, run_id) != 0) {
        node->info_life = node->life;
        node->info_up = up;
        memcpy(node->info_run_id, run_id, sizeof(node->info_run_id));
        node->info_length =
            snprintf(node->info, sizeof(node->info),
                     "redis_version:7.0.15\r\nrun_id:%s\r\nuptime_in_seconds:%" PRId64
                     "\r\nrole:master\r\ncluster_enabled:0\r\nmaxmemory:0\r\nmaxmemory_policy:"
                     "noeviction\r\nconnected_slaves:0\r\nmaster_replid2:%s\r\n",
                     run_id, up,
                     node->promoted ? "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb"
                                    : "0000000000000000000000000000000000000000");
    }
    return reply_text(REDIS_REPLY_STRING, node->info, (size_t)node->info_length);
}

static struct redisReply *load(struct vnode *node, const struct command *c)
{
    int script = scripts_find(c->argv[2], c->length[2]);
    char sha[41];

    if (script < 0)
        return error("ERR not a script of ours");
    node->scripts |= 1u << script;
    snprintf(sha, sizeof(sha), "%040d", script);
    return reply_text(REDIS_REPLY_STRING, sha, 40);
}

static struct redisReply *evalsha(struct vnode *node, const struct sim_message *m)
{
    int script = atoi(m->command.argv[1]);

    if (node->error && sim.now < node->error_until)
        return error(node->error);
    if (!(node->scripts >> script & 1))
        return error("NOSCRIPT No matching script. Please use EVAL.");
    return scripts_run(node, script, m);
}

static struct redisReply *client(const struct sim_message *m)
{
    const struct command *c = &m->command;
    struct sim_connection *reader = m->connection;

    if (is(c, 1, "TRACKING") && is(c, 3, "REDIRECT"))
        return watches_on(reader, atoi(c->argv[4]))
                   ? reply_text(REDIS_REPLY_STATUS, "OK", 2)
                   : error("ERR The client ID you want redirect to does not exist");
    if (is(c, 1, "SETNAME")) {
        snprintf(reader->name, sizeof(reader->name), "%s", c->argv[2]);
        return reply_text(REDIS_REPLY_STATUS, "OK", 2);
    }
    if (is(c, 1, "GETNAME"))
        return reader->name[0] ? reply_text(REDIS_REPLY_STRING, reader->name, strlen(reader->name))
                               : reply_nil();
    if (!is(c, 1, "CACHING"))
        return error("ERR unknown subcommand");
    if (!reader->redirect)
        return error("ERR CLIENT CACHING can be called only when the client is in tracking mode");
    reader->caching = true;
    return reply_text(REDIS_REPLY_STATUS, "OK", 2);
}

/* Of a key that is absent: nothing changes, but a node that fails says so. */
static struct redisReply *write_nothing(const struct vnode *node, const struct command *c)
{
    if (node->error && sim.now < node->error_until)
        return error(node->error);
    if (is(c, 0, "SET") && !is(c, 3, "XX"))
        return error("ERR this SET is not known here");
    return reply_text(REDIS_REPLY_STATUS, "OK", 2);
}

static struct redisReply *run(struct vnode *node, const struct sim_message *m)
{
    const struct command *c = &m->command;

    if (is(c, 0, "EVALSHA"))
        return evalsha(node, m);
    if (is(c, 0, "CLIENT"))
        return client(m);
    if (is(c, 0, "INFO"))
        return info(node);
    if (is(c, 0, "SCRIPT"))
        return load(node, c);
    if (is(c, 1, "holdfast:fence:"))
        return write_nothing(node, c);
    return error("ERR unknown command");
}

static void execute(struct vnode *node, struct sim_message *m)
{
    struct sim_connection *connection = m->connection;
    bool lost = wander_meets(node, m);

    m->reply = run(node, m);
    if (strcmp(m->command.argv[0], "CLIENT") != 0)
        m->connection->caching = false;
    sim_digest((uint64_t)sim.now ^ m->serial << 40 ^ (uint64_t)m->reply->type << 60);
    message_answered(m);
    if (lost)
        connection_break(connection, true);
}

void vnode_receive(struct vnode *node, struct sim_message *m)
{
    if (!node->running)
        return;
    if (sim.now >= node->stopped_until) {
        execute(node, m);
        return;
    }
    if (node->waiting == (int)HF_LENGTH(node->backlog)) {
        fputs("sim: a stopped node's backlog is full\n", stderr);
        abort();
    }
    node->backlog[node->waiting++] = m;
}

static void on_resume(struct sim_event *event)
{
    struct vnode *node = HF_CONTAINER(event, struct vnode, resume);
    int count = node->waiting;

    if (sim.now < node->stopped_until) {
        sim_at(event, node->stopped_until);
        return;
    }
    node->waiting = 0;
    /* One connection after the other, each in its order. */
    while (count > 0) {
        const struct sim_connection *c = node->backlog[rng_below(&sim.rng, count)]->connection;
        int kept = 0;

        for (int i = 0; i < count; i++) {
            if (node->backlog[i]->connection == c)
                execute(node, node->backlog[i]);
            else
                node->backlog[kept++] = node->backlog[i];
        }
        count = kept;
    }
}

/* --- what befalls it -------------------------------------------------------------------------- */

void vnode_stop(struct vnode *node, sim_ns until)
{
    if (!node->running || until <= node->stopped_until)
        return;
    node->stopped_until = until;
    sim_at(&node->resume, until);
}

/* A new process: with what its durability has kept. */
static void begin_life(struct vnode *node)
{
    enum vnode_durability kept = node->durability;

    node->running = true;
    node->life++;
    node->started = sim.now;
    node->stopped_until = 0;
    node->waiting = 0;
    node->scripts = 0;
    node->error = NULL;
    hex(node->run_id, 40);
    if (node->life > 1 && rng_chance(&sim.rng, 0.2)) /* started with other settings */
        node->durability = (enum vnode_durability)rng_below(&sim.rng, 3);
    if (node->durability == KEEPS_ALL_BUT_A_SECOND && !node->save.place)
        sim_at(&node->save, sim.now + rng_below(&sim.rng, SIM_SEC));
    if (node->next) {
        node->store = *node->next;
        node->next = NULL;
        node->promoted = node->next_promoted;
        if (node->promoted)
            node->started = -3600 * SIM_SEC;
        node->wall_us += node->next_wall_us;
        if (node->next_wall_us)
            node->last_step = sim.now;
        node->forgot_a_second = true;
    } else if (kept == KEEPS_NOTHING)
        memset(&node->store, 0, sizeof(node->store));
    else if (kept == KEEPS_ALL_BUT_A_SECOND && node->life > 1) {
        node->store = node->saved;
        node->forgot_a_second = true;
    }
}

static void on_start(struct sim_event *event)
{
    struct vnode *node = HF_CONTAINER(event, struct vnode, start);

    sim_trace("n%d starts again", node->number);
    begin_life(node);
    if (rng_chance(&sim.rng, 0.3))
        vnode_fail(node, "LOADING Redis is loading the dataset in memory",
                   sim.now + rng_below(&sim.rng, 300 * SIM_MS));
}

static void on_save(struct sim_event *event)
{
    struct vnode *node = HF_CONTAINER(event, struct vnode, save);

    if (node->running)
        node->saved = node->store;
    sim_at(event, sim.now + SIM_SEC);
}

void vnode_kill(struct vnode *node, sim_ns back, bool unreachable)
{
    if (!node->running)
        return;
    sim_trace("n%d is killed", node->number);
    sim.seen[SEEN_RESTART] = true;
    node->running = false;
    node->unreachable = unreachable;
    node->next = NULL;
    for (int i = 0; node->proxied && i < node->waiting; i++) {
        node->backlog[i]->reply = error("ERR the server behind this proxy is away");
        message_answered(node->backlog[i]);
    }
    node->waiting = 0;
    sim_cancel(&node->resume);
    if (!unreachable)
        connections_node_gone(node);
    node->life++;
    sim_at(&node->start, back);
}

void vnode_die(struct vnode *node, bool unreachable)
{
    vnode_kill(node, SIM_NEVER, unreachable);
    sim_trace("n%d is stopped for good", node->number);
    sim_cancel(&node->start);
    memset(&node->store, 0, sizeof(node->store));
    node->saved = node->store;
    node->dead = true;
}

void vnode_rise(struct vnode *node, sim_ns at)
{
    if (!node->dead)
        return;
    node->dead = false;
    sim_at(&node->start, at);
}

void vnode_replace(struct vnode *node, const struct store *store, bool promoted, sim_ns back)
{
    static struct store next[SIM_SERVERS];

    if (!node->running)
        return;
    sim_trace("n%d: another server takes its place%s", node->number,
              promoted ? ", a replica before" : "");
    vnode_kill(node, back, false);
    next[node->number] = *store;
    node->next = &next[node->number];
    node->next_promoted = promoted;
    node->next_wall_us = 0;
}

void vnode_flush(struct vnode *node)
{
    sim_trace("n%d FLUSHALL", node->number);
    node->flushed_before = node->flushed;
    node->flushed = sim.now;
    memset(&node->store, 0, sizeof(node->store));
    node->saved = node->store;
    watches_flushed(node);
}

void vnode_step(struct vnode *node, int64_t us)
{
    sim_trace("n%d steps by %.6f s", node->number, (double)us / 1000000);
    sim.seen[SEEN_STEP] = true;
    node->wall_us += us;
    node->last_step = sim.now;
    sim.set_back |= us < 0;
    node->set_back_us -= us < 0 ? us : 0;
}

void vnode_expire(struct vnode *node, int64_t wall_us, double share, struct sim_rng *rng)
{
    for (int i = 0; i < STORE_KEYS; i++)
        if (node->store.key[i].used && !node->store.key[i].is_hash && rng_chance(rng, share))
            (void)store_find(&node->store, node->store.key[i].name, wall_us / 1000);
}

void vnode_excursion(struct vnode *node, int64_t us, double share, struct sim_rng *rng)
{
    sim_trace("n%d is ahead by %.6f s for a moment", node->number, (double)us / 1000000);
    node->last_step = sim.now;
    vnode_expire(node, vnode_wall_us(node) + us, share, rng);
}

void vnode_wander(struct vnode *node, int64_t us)
{
    if (us == node->astray_us)
        return;
    sim_trace("n%d is %s by %.6f s", node->number, us < 0 ? "behind" : "ahead",
              (double)llabs(us) / 1000000);
    node->wall_us += us - node->astray_us;
    node->astray_us = us;
    node->last_step = sim.now;
}

void vnode_fail(struct vnode *node, const char *text, sim_ns until)
{
    node->error = text;
    node->error_until = until;
}

/* --- beginning -------------------------------------------------------------------------------- */

void vnode_make_sentinel(struct vnode *node)
{
    struct store_key *key = store_make(&node->store, SENTINEL, 0);
    const int64_t ago_us = INT64_C(3600000000);
    struct node_address list[SIM_NODES];
    char text[STORE_VALUE];

    key->is_hash = true;
    hex(text, 32);
    store_set_field(key, "nonce", text);
    snprintf(text, sizeof(text), "%" PRId64, vnode_wall_us(node) - ago_us);
    store_set_field(key, "created_us", text);
    snprintf(text, sizeof(text), "%" PRId64, (START_US - ago_us) / 1000);
    store_set_field(key, "created_wall_ms", text);
    snprintf(text, sizeof(text), "%u", (unsigned)sim.plan.ttl_max_ms);
    store_set_field(key, "ttl_max_ms", text);
    snprintf(text, sizeof(text), "%d", sim.plan.nodes);
    store_set_field(key, "nodes", text);
    for (int i = 0; i < sim.plan.nodes; i++)
        snprintf(list[i].id, sizeof(list[i].id), "n%d", i);
    list_hash_with(list, sim.plan.nodes, "", text);
    store_set_field(key, "list_hash", text);
}

void vnode_set_record(struct vnode *node, const char *text, const char *digest)
{
    struct store_key *key = store_make(&node->store, SENTINEL, 0);

    store_set_field(key, "record", text);
    store_set_field(key, "digest", digest);
    store_set_field(key, "record_by", "h0 1000 1699996400000");
    node->saved = node->store;
}

struct vnode *vnode_new(void)
{
    struct vnode *node = sim_alloc(sizeof(*node));

    if (sim.servers == SIM_SERVERS) {
        fputs("sim: too many servers\n", stderr);
        abort();
    }
    node->number = sim.servers;
    node->flushed = node->flushed_before = -SIM_NEVER;
    node->clock.ppb = rng_between(&sim.rng, -SIM_RATE_MOST, SIM_RATE_MOST);
    node->wall_us = START_US + rng_between(&sim.rng, -200000, 200000);
    node->durability = (enum vnode_durability)rng_below(&sim.rng, 3);
    node->resume.fn = on_resume;
    node->start.fn = on_start;
    node->save.fn = on_save;
    begin_life(node);
    node->saved = node->store;
    sim.node[sim.servers++] = node;
    return node;
}

int vnodes_struck(void)
{
    return wide_has(WIDE_CHANGES) ? sim.servers : sim.plan.nodes;
}

void vnodes_begin(void)
{
    for (int i = 0; i < sim.plan.nodes; i++) {
        struct vnode *node = vnode_new();

        if (sim.plan.young)
            continue;
        node->started = -3600 * SIM_SEC;
        vnode_make_sentinel(node);
    }
}

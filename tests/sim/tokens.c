#include "tests/sim/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/core/fleet_record.h"
#include "agent/core/timing.h"
#include "agent/redis/script.h"
#include "agent/renewal/renewal_internal.h"
#include "shm/status.h"
#include "tests/sim/checks.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/fleets.h"
#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define RELEASED_WITHIN (150 * SIM_MS) /* and the time of one attempt */

#define TOKENS_BITS     13
#define TOKENS          (1 << TOKENS_BITS) /* a power of two, more than a schedule has */

struct life {
    char text[44];
    const struct sim_host *host; /* that drew it */
    uint32_t incarnation;        /* of the agent that released it first */
    sim_ns set;                  /* an acquire or a heal was sent last */
    sim_ns released, ended;      /* SIM_NEVER: not yet */
    uint32_t ttl_ms;
    bool is_job;          /* its keys may be left to lapse, */
    uint32_t released_to; /* but for these nodes */
    uint32_t voted;       /* nodes that its lease has ever counted on */
    uint32_t stood;       /* nodes that an acquire wrote it to */
    struct counted counted[SIM_SERVERS];
};

static struct life tokens[TOKENS];
static uint32_t used[TOKENS];
static uint32_t used_count;

/* When a key was last rightly there, or nobody could do anything about it. */
static sim_ns excused_at[SIM_SERVERS][STORE_KEYS];

void tokens_begin(void)
{
    memset(excused_at, 0, sizeof(excused_at));
    while (used_count)
        tokens[used[--used_count]].text[0] = '\0';
}

static struct life *find(const char *text)
{
    uint64_t hash = 0;
    uint32_t i;

    memcpy(&hash, text, sizeof(hash));
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    for (i = (uint32_t)(hash >> (64 - TOKENS_BITS)); tokens[i].text[0]; i = (i + 1) & (TOKENS - 1))
        if (strcmp(tokens[i].text, text) == 0)
            return &tokens[i];
    if (used_count == TOKENS - 1) {
        fputs("sim: too many tokens\n", stderr);
        abort();
    }
    used[used_count++] = i;
    tokens[i] = (struct life){.released = SIM_NEVER, .ended = SIM_NEVER};
    for (int k = 0; k < SIM_SERVERS; k++)
        tokens[i].counted[k].until = HF_TIME_PAST;
    snprintf(tokens[i].text, sizeof(tokens[i].text), "%s", text);
    return &tokens[i];
}

static struct life *find_token(const struct token *token)
{
    char text[TOKEN_LEN + 1] = "";

    token_text(token, text);
    return find(text);
}

void token_ended(const struct token *token, bool is_job)
{
    struct life *t = find_token(token);

    t->is_job = is_job;
    if (t->ended == SIM_NEVER)
        t->ended = sim.now;
}

void token_voted(const struct token *token, uint32_t nodes)
{
    find_token(token)->voted |= nodes;
}

bool token_is_on(const struct token *token, uint32_t nodes)
{
    return (find_token(token)->voted & nodes) == nodes;
}

/* --- whose answers count ------------------------------------------------------------------------ */

struct counted token_counted(const struct token *token, int server)
{
    return find_token(token)->counted[server];
}

/* A schedule has few records, and asks for each of them with every answer. */
static void digest_of(const struct fleet_record *record, char ret_digest[FLEET_DIGEST_LEN + 1])
{
    static struct {
        struct fleet_record record;
        char digest[FLEET_DIGEST_LEN + 1];
    } known[8];
    static unsigned next;
    char text[FLEET_TEXT_SIZE];
    size_t i = 0;

    while (i < HF_LENGTH(known) && memcmp(&known[i].record, record, sizeof(*record)) != 0)
        i++;
    if (i == HF_LENGTH(known)) {
        i = next++ % HF_LENGTH(known);
        memcpy(&known[i].record, record, sizeof(*record));
        fleet_record_digest(text, fleet_record_text(record, text), known[i].digest);
    }
    memcpy(ret_digest, known[i].digest, sizeof(known[i].digest));
}

/* The record by which the thread goes that this is sent by; NULL: none is known. */
static const struct fleet_record *record_of(const struct sim_host *host, int script,
                                            char ret_digest[FLEET_DIGEST_LEN + 1])
{
    const struct fleet_record *record = host->agent.renewal->fleet;

    if (script == SCRIPT_ACQUIRE)
        record = host->broker && host->broker->nodes->fleet_view.known
                     ? &host->broker->nodes->fleet_view.record
                     : NULL;
    if (record)
        digest_of(record, ret_digest);
    return record;
}

/* The digest in the stamp, the third word of an answer; false: there is none. */
static bool digest_in(const char *answer, char ret_digest[FLEET_DIGEST_LEN + 1])
{
    const char *stamp = answer;
    size_t length, nonce;

    for (int i = 0; i < 2 && stamp; i++)
        stamp = strchr(stamp, ' ') ? strchr(stamp, ' ') + 1 : NULL;
    length = stamp ? strcspn(stamp, " ") : 0;
    nonce = stamp ? strcspn(stamp, ": ") : 0;
    if (length - nonce != 1 + FLEET_DIGEST_LEN)
        return false;
    memcpy(ret_digest, stamp + nonce + 1, FLEET_DIGEST_LEN);
    ret_digest[FLEET_DIGEST_LEN] = '\0';
    return true;
}

/* (!) Our record, and at its seat. Leases of an agent from before there were records are renewed where there is none. */
static bool counts(const struct sim_message *m, int script, int i)
{
    const struct sim_connection *c = m->connection;
    char ours[FLEET_DIGEST_LEN + 1], its[FLEET_DIGEST_LEN + 1];
    bool digest = digest_in(m->reply->str, its);
    const struct fleet_record *record = record_of(c->host, script, ours);
    const struct fleet_seat *seats;

    if (!record)
        return !digest && script != SCRIPT_ACQUIRE;
    (void)fleet_record_list(record, &seats);
    return digest && strcmp(its, ours) == 0 && record->state != FLEET_FOUNDING &&
           fleets_counts(c->host, record, i) && vnode_of_seat(seats[i].address) == c->node;
}

void checks_answered(const struct sim_message *m)
{
    const struct command *c = &m->command;
    int script, keys, i;

    if (strcmp(c->argv[0], "EVALSHA") != 0 || !m->connection->context.data ||
        m->reply->type != REDIS_REPLY_STRING)
        return;
    script = atoi(c->argv[1]);
    if (script != SCRIPT_ACQUIRE && script != SCRIPT_HEAL && script != SCRIPT_RENEW)
        return;
    i = link_node(m->connection->context.data);
    if (!counts(m, script, i))
        return;
    if (wide_has(WIDE_CHANGES))
        i = m->connection->node->number; /* places change */
    keys = script == SCRIPT_RENEW ? atoi(c->argv[2]) - 1 : 1;
    for (int k = 0; k < keys; k++) {
        struct life *t = find(c->argv[3 + atoi(c->argv[2]) + k]);

        t->counted[i].acquired |= script == SCRIPT_ACQUIRE;
        t->counted[i].until = hf_time_max(
            t->counted[i].until, hf_time_add(m->sent_now, timing_of(hf_ms(t->ttl_ms)).span));
    }
}

/* --- on their way ----------------------------------------------------------------------------- */

/* (!) An agent that is killed leaves nothing on the nodes that the next one does not know of. */
static bool is_journaled(const struct sim_host *host, const char *text)
{
    struct journal_identity identity;
    struct journal_lease state;
    struct token token;

    if (token_read(text, &token) < 0)
        return false;
    for (uint32_t slot = 0; slot < host->agent.table.capacity; slot++)
        if (journal_get(host->agent.journal, slot, &identity, &state) == HF_OK &&
            memcmp(&identity.token, &token, sizeof(token)) == 0)
            return true;
    return false;
}

static void sent_set(const struct sim_host *host, int script, const char *text, const char *ttl)
{
    struct life *t = find(text);

    t->host = host;
    t->set = sim.now;
    if (!is_journaled(host, text))
        sim_violation("journal", "a token is set that the journal does not know");
    t->ttl_ms = (uint32_t)atoi(ttl);
    if (t->released < SIM_NEVER)
        sim_violation("token", "a token is %s after its release was sent",
                      script == SCRIPT_HEAL ? "healed" : "set");
    else if (t->ended < SIM_NEVER)
        sim_violation("token", "a token is %s after its lease was over",
                      script == SCRIPT_HEAL ? "healed" : "set");
}

void checks_sent(const struct sim_connection *connection, const struct command *c)
{
    const struct sim_host *host = connection->host;
    const struct vnode *node = connection->node;
    static const char *const names[SCRIPTS] = {"acquire", "raise",    "heal",     "renew",
                                               "release", "sentinel", "a record", "query",
                                               "listing", "force"};
    int script, keys;

    if (strcmp(c->argv[0], "EVALSHA") != 0)
        return;
    script = atoi(c->argv[1]);
    keys = atoi(c->argv[2]);
    if (script != SCRIPT_SENTINEL && script != SCRIPT_RENEW && script < SCRIPT_QUERY)
        sim_trace("h%d sends %s %.8s to n%d", host->number, names[script], c->argv[3 + keys],
                  node->number);
    switch (script) {
    case SCRIPT_ACQUIRE:
        /* (!) It would keep the true lease's heal out. */
        if (!trust_may_vote(&host->broker->nodes->node[link_node(connection->context.data)].trust,
                            host_now(host)))
            sim_violation("trust", "h%d asks n%d, which may not vote", host->number, node->number);
        sent_set(host, script, c->argv[6], c->argv[7]);
        break;
    case SCRIPT_HEAL:
        sent_set(host, script, c->argv[6], c->argv[7]);
        break;
    case SCRIPT_RENEW:
        for (int i = 0; i < keys - 1; i++) {
            const struct life *t = find(c->argv[3 + keys + i]);

            if (t->released < SIM_NEVER || t->ended < SIM_NEVER)
                sim_violation("token", "a token is renewed after its lease was over");
        }
        break;
    case SCRIPT_RELEASE:
        for (int i = 0; i < keys - 1; i++) {
            struct life *t = find(c->argv[3 + keys + i]);

            t->released_to |= UINT32_C(1) << node->number;
            if (t->released == SIM_NEVER) {
                t->released = sim.now;
                t->incarnation = host->incarnation;
            }
        }
        break;
    default:
        break;
    }
}

static sim_ns attempt_of(const struct life *t)
{
    sim_ns attempt = (sim_ns)t->ttl_ms * SIM_MS / 15;

    return attempt < 50 * SIM_MS ? 50 * SIM_MS : attempt;
}

/* (!) An agent that is killed leaves nothing behind of a round that failed: its record stays until a
 * release was answered, or had the time for that: where a quorum never had the token, 50 ms. */
void token_freed(const struct sim_host *host, const struct token *token)
{
    const struct life *t = find_token(token);
    sim_ns attempt = attempt_of(t);

    if (__builtin_popcount(t->stood) <= host->config.node_count - fleets_quorum(host))
        attempt = 50 * SIM_MS;
    /* The host's clock may be fast. */
    if (t->released < SIM_NEVER || t->ended < SIM_NEVER ||
        sim.now >= t->set + attempt - attempt / 100)
        return;
    for (int i = 0; i < sim.servers; i++)
        for (int k = 0; k < STORE_KEYS; k++) {
            const struct store_key *key = &sim.node[i]->store.key[k];

            if (key->used && !key->is_hash && strcmp(key->value, t->text) == 0)
                sim_violation("journal", "h%d forgets %.8s, which n%d has", host->number, t->text,
                              i);
        }
}

/* --- on the nodes ----------------------------------------------------------------------------- */

/* An acquire or a heal that comes after its deadline must not write: the sender gives it T/15 (at
 * least 50 ms), and the node's clock may be 1 % slow. */
void checks_stored(const struct vnode *node, const char *key, const char *value,
                   const struct sim_message *m)
{
    int script = atoi(m->command.argv[1]);
    struct life *t;
    sim_ns attempt;

    sim_trace("n%d %s %s %.8s", node->number, script == SCRIPT_RENEW ? "renews" : "sets", key,
              value);
    if (script != SCRIPT_ACQUIRE && script != SCRIPT_HEAL)
        return;
    t = find(value);
    if (script == SCRIPT_ACQUIRE)
        t->stood |= UINT32_C(1) << node->number;
    if (!vnode_has_stamp(node, m->command.argv[9]))
        sim_violation("sentinel", "n%d writes %s under another sentinel than the sender's",
                      node->number, key);
    attempt = attempt_of(t);
    if (!node->last_step && sim.now > m->sent_at + attempt + attempt / 50 + 2 * SIM_MS)
        sim_violation("deadline", "n%d writes %s %.3f s after it was sent", node->number, key,
                      (double)(sim.now - m->sent_at) / SIM_SEC);
}

/* Something is still on its way between them, or a connection is dead and nobody knows it yet. */
static bool is_held_up(const struct sim_host *host, const struct vnode *node)
{
    for (const struct sim_connection *c = connections_first(); c; c = c->next) {
        bool is_dead = c->state != CONN_ENDED && (c->cut || c->node_life != node->life);

        if (c->host == host && c->node == node &&
            (is_dead || c->there_at > sim.now || c->back_at > sim.now))
            return true;
    }
    return false;
}

/* What keeps a release from the node for now, or makes up for it. An agent that is killed forgets the
 * releases that wait for a node which is away, once a quorum has answered. */
static bool is_excused(const struct vnode *node, const struct life *t)
{
    const struct sim_host *host = t->host;
    const struct net_path *path = net_path(host, node);

    return t->released == SIM_NEVER ||
           (t->is_job && !(t->released_to & UINT32_C(1) << node->number)) ||
           host->phase != HOST_ON || host->incarnation != t->incarnation ||
           host->stopped_until > sim.now || host_is_running(host) ||
           !host_is_linked(host, node->number) || !node->running || node->stopped_until > sim.now ||
           node->error_until > sim.now || node->last_step || node->forgot_a_second ||
           path->slow_until > sim.now || path->blocked_until[NET_THERE] > sim.now ||
           path->blocked_until[NET_BACK] > sim.now || is_held_up(host, node);
}

static sim_ns max_ns(sim_ns a, sim_ns b)
{
    return a > b ? a : b;
}

/* When the last of what has a known end was out of the way: nothing may have happened since it began. */
static sim_ns excused_until(const struct vnode *node, const struct life *t)
{
    const struct net_path *path = net_path(t->host, node);
    sim_ns until = max_ns(t->host->stopped_until, node->stopped_until);

    until = max_ns(until, t->host->no_cpu_until);
    until = max_ns(until, max_ns(node->error_until, path->slow_until));
    return max_ns(until, max_ns(path->blocked_until[NET_THERE], path->blocked_until[NET_BACK]));
}

void tokens_check(void)
{
    for (int i = 0; i < sim.servers; i++) {
        struct vnode *node = sim.node[i];
        int64_t now_ms = vnode_wall_us(node) / 1000;

        for (int k = 0; k < STORE_KEYS; k++) {
            const struct store_key *key = &node->store.key[k];
            const struct life *t;

            if (!key->used || key->is_hash || forces_is_mark(key->value) ||
                (key->expires_ms >= 0 && key->expires_ms <= now_ms) ||
                is_excused(node, t = find(key->value)))
                excused_at[i][k] = sim.now;
            else if (sim.now -
                         max_ns(max_ns(excused_at[i][k], excused_until(node, t)), t->released) >
                     attempt_of(t) + RELEASED_WITHIN)
                sim_violation("orphan", "n%d still has %s = %.8s, %.3f s after its release", i,
                              key->name, key->value, (double)(sim.now - t->released) / SIM_SEC);
        }
    }
}

/* A key that somebody must have held until now, or that is to be gone. */
static bool is_left(struct vnode *node, const struct store_key *key)
{
    return key->used && !key->is_hash && !node->forgot_a_second && !node->last_step &&
           store_find(&node->store, key->name, vnode_wall_us(node) / 1000);
}

bool checks_quiet(bool must)
{
    bool quiet = true;

    for (int i = 0; i < sim.servers; i++) {
        struct vnode *node = sim.node[i];

        for (int k = 0; k < STORE_KEYS; k++) {
            const struct store_key *key = &node->store.key[k];

            if (!is_left(node, key))
                continue;
            quiet = false;
            if (must)
                sim_violation("orphan", "n%d has %s = %.8s, and nobody holds it", i, key->name,
                              key->value);
        }
    }
    return quiet;
}

/* A mark tells its hold, too. */
static bool is_of_a_run(const char *value, int server)
{
    for (uint32_t i = 0; i < used_count; i++) {
        const struct life *t = &tokens[used[i]];

        if (forces_same_hold(value, t->text))
            return t->is_job && !(t->released_to & UINT32_C(1) << server);
    }
    return false;
}

bool checks_lapsing(void)
{
    for (int i = 0; i < sim.servers; i++)
        for (int k = 0; k < STORE_KEYS; k++) {
            const struct store_key *key = &sim.node[i]->store.key[k];

            if (is_left(sim.node[i], key) && !is_of_a_run(key->value, i))
                return false;
        }
    return true;
}

/* Links that lead nowhere: what is asked of a node is kept, and the test answers. The linker takes them in place of
 * agent/redis's. Include once, after broker_fixture.h. */
#ifndef HOLDFAST_TESTS_LINKS_FIXTURE_H
#define HOLDFAST_TESTS_LINKS_FIXTURE_H

#include "agent/config/config.h"
#include "agent/core/fleet_record.h"
#include "agent/redis/link.h"

#define NODE_NONCE "0123456789abcdef0123456789abcdef"

enum command_kind { ACQUIRE = 1, RAISE, SENTINEL, QUERY, FORCE, LISTING, FLEET };

struct command {
    enum command_kind kind;
    int node;
    link_reply_fn *fn;
    void *arg;
    hf_time sent;
    struct token token;
    uint64_t fence, cursor;
    bool make, answered;
    bool tracked; /* link_track() was called for it */
    /* fleet, acquire, and a sentinel that is to be replaced: the stamp, as it was seen. "": none */
    char stamp[TRUST_NONCE_LEN + 1 + FLEET_DIGEST_LEN + 1];
    bool replace;
    char nonce[TRUST_NONCE_LEN + 1]; /* sentinel: the new one */
    hf_nodetime deadline;            /* by the node's clock */
    struct fleet_record record;      /* fleet */
    char sure[TRUST_RUN_ID_LEN + 1]; /* fleet */
};

struct link {
    int node;
    bool up, overdue, tells, track;
    char peer[HF_NODE_TEXT_MAX + 1];
    int configured, probes; /* how often it was told so */
    struct link_options options;
    struct command commands[MOST];
    int asked; /* commands, ever */
    int more;  /* commands without an answer besides, as if */
};

static struct link links[NODES];

/* The record of the fleet of these links, by which the agent goes after go_by_the_record(). */
static char the_record[FLEET_TEXT_SIZE], the_digest[FLEET_DIGEST_LEN + 1];
static size_t the_record_len;

static HF_UNUSED struct command *newest(int node)
{
    assert_true(links[node].asked > 0);
    return &links[node].commands[links[node].asked - 1];
}

static HF_UNUSED int keep(struct link *link, const struct command *command)
{
    if (!link->up)
        return HF_ENOQUORUM;
    assert_true(link->asked < MOST);
    link->commands[link->asked] = *command;
    link->commands[link->asked].node = link->node;
    link->commands[link->asked].sent = its_time;
    link->commands[link->asked].tracked = link->track;
    link->track = false;
    link->asked++;
    return HF_OK;
}

/* The node's clock is ours, and its sentinel is known. */
static HF_UNUSED struct link_reply reply_now(hf_time sent)
{
    struct link_reply reply = {.outcome = LINK_ANSWERED,
                               .final = true,
                               .error_text = "",
                               .sent = sent,
                               .received = its_time,
                               .node_time = {clock_wall().ms * 1000},
                               .nonce = NODE_NONCE,
                               .marks = "",
                               .write_text = "",
                               .verdict = VERDICT_OK};

    memcpy(reply.digest, the_digest, sizeof(the_digest));
    return reply;
}

static HF_UNUSED void answer_with(struct command *command, struct link_reply reply)
{
    assert_false(command->answered);
    command->answered = reply.final;
    command->fn(&links[command->node], &reply, command->arg);
    end_turn();
}

static HF_UNUSED void answer(struct command *command, enum link_verdict verdict)
{
    struct link_reply reply = reply_now(command->sent);

    reply.verdict = verdict;
    reply.tracked = command->tracked;
    if (verdict == VERDICT_OK)
        reply.fence = command->fence;
    answer_with(command, reply);
}

static HF_UNUSED void break_off(struct command *command)
{
    struct link_reply reply = reply_now(command->sent);

    reply.outcome = LINK_BROKEN;
    answer_with(command, reply);
}

static HF_UNUSED void make_links(void)
{
    memset(links, 0, sizeof(links));
    the_digest[0] = '\0';
    the_record_len = 0;
    for (int i = 0; i < NODES; i++) {
        links[i].node = i;
        links[i].up = true;
        snprintf(links[i].peer, sizeof(links[i].peer), "%s", config.nodes[i].text);
    }
}

/* What the agent would found, in that state. */
static HF_UNUSED struct fleet_record fleet_of_links(enum fleet_state state)
{
    struct fleet_record record;

    config_fleet(&config, &record);
    record.version = 1;
    record.state = state;
    for (int i = 0; i < NODES; i++)
        memcpy(record.seat[i].address, links[i].peer, sizeof(links[i].peer));
    fleet_record_name(&record, record.fleet);
    return record;
}

/* From now on nodes answer with the record, and the agent that is made goes by it, as an earlier one of this boot
 * did. */
static HF_UNUSED void go_by_the_record(void)
{
    static struct fleet_record record;

    record = fleet_of_links(FLEET_COMPLETE);
    the_record_len = fleet_record_text(&record, the_record);
    fleet_record_digest(the_record, the_record_len, the_digest);
    agent.fleet = &record;
}

/* A node that was judged, and may vote. */
static HF_UNUSED struct node_trust trusted(void)
{
    struct node_trust t;
    const int64_t off_us = clock_wall().ms * 1000 - its_time.ns / 1000;

    trust_init(&t, timing_quarantine(hf_ms(TTL_MAX_MS)), false);
    t.contacted = t.judged = t.nonce_seen = t.nonce_had = t.clock_known = true;
    t.sentinel.present = true;
    snprintf(t.sentinel.nonce, sizeof(t.sentinel.nonce), "%s", NODE_NONCE);
    snprintf(t.nonce, sizeof(t.nonce), "%s", NODE_NONCE);
    t.low_us = t.high_us = off_us;
    t.sampled = its_time;
    return t;
}

/* --- agent/redis/link.h ----------------------------------------------------------------------- */

int link_node(const struct link *link)
{
    return link->node;
}

void link_peer(const struct link *link, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    memcpy(ret_seat, link->up ? link->peer : "", link->up ? sizeof(link->peer) : 1);
}

bool link_is_up(const struct link *link)
{
    return link->up;
}

int link_in_flight(const struct link *link)
{
    int count = link->more;

    for (int i = 0; i < link->asked; i++)
        count += !link->commands[i].answered;
    return count;
}

hf_dur links_round_time(HF_UNUSED struct link *const of[], HF_UNUSED int n, HF_UNUSED int q)
{
    return hf_ms(1);
}

hf_dur links_patience(HF_UNUSED struct link *const of[], HF_UNUSED int n, HF_UNUSED int q,
                      HF_UNUSED int node)
{
    return hf_ms(50);
}

bool links_is_overdue(struct link *const of[], HF_UNUSED int n, HF_UNUSED int q, int node,
                      HF_UNUSED hf_time now)
{
    return of[node]->overdue;
}

void link_flush(HF_UNUSED struct link *link) {}

void link_track(struct link *link)
{
    link->track = link->tells;
}

enum hf_node_tracking link_tracking(const struct link *link)
{
    return link->tells ? HF_TRACKING_ON : HF_TRACKING_DOWN;
}

const char *link_error_name(HF_UNUSED enum hf_node_error error)
{
    return "error";
}

int link_create(const struct link_options *options, struct link **ret_link)
{
    links[options->node].options = *options;
    *ret_link = &links[options->node];
    return HF_OK;
}

void link_start(HF_UNUSED struct link *link) {}

void link_configure(struct link *link, const struct link_options *options)
{
    link->options = *options;
    link->configured++;
}

void link_probe_soon(struct link *link)
{
    link->probes++;
}

void link_set_probe(HF_UNUSED struct link *link, HF_UNUSED hf_dur probe) {}

/* As a link's end does. */
void link_shut(struct link *link)
{
    link->up = false;
    for (int i = 0; i < link->asked; i++)
        if (!link->commands[i].answered)
            break_off(&link->commands[i]);
}

void link_destroy(struct link *link)
{
    link_shut(link);
}

static void stamp(struct command *command, const char *nonce, const char *digest)
{
    bool has = digest && *digest;

    snprintf(command->stamp, sizeof(command->stamp), "%s%s%s", nonce ? nonce : "", has ? ":" : "",
             has ? digest : "");
}

static int lock_command(struct link *link, enum command_kind kind, const struct link_lock *lock,
                        link_reply_fn *fn, void *arg)
{
    struct command command = {.kind = kind,
                              .fn = fn,
                              .arg = arg,
                              .token = *lock->token,
                              .fence = lock->fence,
                              .deadline = lock->deadline};

    stamp(&command, lock->nonce, lock->digest);
    return keep(link, &command);
}

int link_acquire(struct link *link, const struct link_lock *lock, HF_UNUSED hf_time deadline,
                 link_reply_fn *fn, void *arg)
{
    return lock_command(link, ACQUIRE, lock, fn, arg);
}

int link_raise(struct link *link, const struct link_lock *lock, HF_UNUSED hf_time deadline,
               link_reply_fn *fn, void *arg)
{
    return lock_command(link, RAISE, lock, fn, arg);
}

int link_sentinel(struct link *link, const struct link_sentinel *sentinel,
                  HF_UNUSED hf_time deadline, link_reply_fn *fn, void *arg)
{
    struct command command = {.kind = SENTINEL,
                              .fn = fn,
                              .arg = arg,
                              .make = sentinel->make,
                              .replace = sentinel->replace};

    snprintf(command.nonce, sizeof(command.nonce), "%s", sentinel->nonce);
    if (sentinel->other)
        stamp(&command, sentinel->other_nonce, sentinel->other);
    return keep(link, &command);
}

int link_fleet(struct link *link, const struct link_fleet *put, HF_UNUSED hf_time deadline,
               link_reply_fn *fn, void *arg)
{
    struct command command = {.kind = FLEET, .fn = fn, .arg = arg, .deadline = put->deadline};

    stamp(&command, put->nonce, put->digest);
    snprintf(command.sure, sizeof(command.sure), "%s", put->sure);
    assert_int_equal(fleet_record_read(put->record, strlen(put->record), &command.record), HF_OK);
    return keep(link, &command);
}

int link_query(struct link *link, HF_UNUSED const void *key, HF_UNUSED size_t key_len,
               HF_UNUSED bool record, HF_UNUSED hf_time deadline, link_reply_fn *fn, void *arg)
{
    return keep(link, &(struct command){.kind = QUERY, .fn = fn, .arg = arg});
}

int link_force(struct link *link, HF_UNUSED const struct link_force *force,
               HF_UNUSED hf_time deadline, link_reply_fn *fn, void *arg)
{
    return keep(link, &(struct command){.kind = FORCE, .fn = fn, .arg = arg});
}

int link_once(struct link *link, HF_UNUSED const struct link_once *order,
              HF_UNUSED hf_time deadline, link_reply_fn *fn, void *arg)
{
    return keep(link, &(struct command){.kind = FORCE, .fn = fn, .arg = arg});
}

int link_listing(struct link *link, HF_UNUSED const void *prefix, HF_UNUSED size_t prefix_len,
                 HF_UNUSED const char *suffix, uint64_t cursor, HF_UNUSED hf_time deadline,
                 link_reply_fn *fn, void *arg)
{
    return keep(link, &(struct command){.kind = LISTING, .fn = fn, .arg = arg, .cursor = cursor});
}

bool link_item(HF_UNUSED const struct link_reply *reply, HF_UNUSED size_t i,
               HF_UNUSED struct link_item *ret_item)
{
    return false;
}

#endif

/* The broker's room of nodes on links that lead nowhere, with the test as its owner: what links tell, and what the
 * owner hears. Include once, after cmocka.h. */
#ifndef HOLDFAST_TESTS_NODES_ROOM_FIXTURE_H
#define HOLDFAST_TESTS_NODES_ROOM_FIXTURE_H

#include "agent/broker/nodes/nodes.h"
#include "agent/state/events.h"
#include "agent/state/stores.h"
#include "tests/unit/broker_fixture.h"
#include "tests/unit/links_fixture.h"

static struct nodes *nodes;
static int reviews, voting; /* of the owner's last review */
static char fleet[200];
static char last_refusal[200];

/* --- below ------------------------------------------------------------------------------------ */

int key_deleter_create(HF_UNUSED struct loop *l, HF_UNUSED struct link *const *of,
                       HF_UNUSED const struct servers *that, HF_UNUSED int n, HF_UNUSED int q,
                       HF_UNUSED const struct key_deleter_owner *owner,
                       struct key_deleter **ret_key_deleter)
{
    *ret_key_deleter = NULL;
    return HF_OK;
}

void key_deleter_destroy(HF_UNUSED struct key_deleter *key_deleter) {}

void key_deleter_flush(HF_UNUSED struct key_deleter *key_deleter) {}

void key_deleter_link_up(HF_UNUSED struct key_deleter *key_deleter, HF_UNUSED int node)
{
    hear("key_deleter");
}

static struct node_trust recorded[NODES];

bool stores_known_node(HF_UNUSED const struct agent *a, int node, struct node_trust *ret_trust)
{
    *ret_trust = recorded[node];
    return recorded[node].contacted;
}

void node_records_put(HF_UNUSED struct node_records *records, int node,
                      const struct node_trust *trust)
{
    recorded[node] = *trust;
}

/* --- events, as one reads them --------------------------------------------------------------- */

static void hear_of(const char *what, int node)
{
    char word[40];

    snprintf(word, sizeof(word), "%s%d", what, node);
    hear(word);
}

void event_fleet(HF_UNUSED struct agent *a, HF_UNUSED enum hf_fleet_step step,
                 HF_UNUSED uint64_t version, HF_UNUSED const char *host, HF_UNUSED uint32_t uid)
{
}

void event_node_up(HF_UNUSED struct agent *a, int node, HF_UNUSED const char *version)
{
    hear_of("up", node);
}

void event_node_down(HF_UNUSED struct agent *a, int node, HF_UNUSED enum hf_node_error error,
                     HF_UNUSED const char *text)
{
    hear_of("down", node);
}

void event_node_refused(HF_UNUSED struct agent *a, int node, enum hf_node_refusal refusal,
                        const char *text)
{
    snprintf(last_refusal, sizeof(last_refusal), "%s", text);
    hear_of(refusal == HF_REFUSED_NOT         ? "taken-back"
            : refusal == HF_REFUSED_DUPLICATE ? "duplicate"
            : refusal == HF_REFUSED_FLEET     ? "fleet"
                                              : "refused",
            node);
}

void event_node_writes(HF_UNUSED struct agent *a, int node, enum hf_node_error error,
                       HF_UNUSED const char *text)
{
    hear_of(error == HF_NODE_ERR_NONE ? "writable" : "unwritable", node);
}

void event_node_restarted(HF_UNUSED struct agent *a, int node, HF_UNUSED const char *run_id)
{
    hear_of("restarted", node);
}

void event_node_forgot(HF_UNUSED struct agent *a, int node)
{
    hear_of("forgot", node);
}

void event_node_stepped(HF_UNUSED struct agent *a, int node, HF_UNUSED int64_t step_us)
{
    hear_of("stepped", node);
}

void event_quarantine(HF_UNUSED struct agent *a, int node, HF_UNUSED uint32_t reasons,
                      HF_UNUSED hf_time until)
{
    hear_of("quarantine", node);
}

void event_quarantine_over(HF_UNUSED struct agent *a, int node)
{
    hear_of("over", node);
}

bool event_quarantine_stands(HF_UNUSED const struct agent *a, HF_UNUSED int node)
{
    return false;
}

/* --- above ------------------------------------------------------------------------------------ */

static void on_noticed(HF_UNUSED void *arg, int node, const void *key, size_t key_len)
{
    char word[80];

    snprintf(word, sizeof(word), "noticed%d:%.*s", node, (int)key_len,
             key ? (const char *)key : "");
    hear(key ? word : "noticed-any");
}

static void on_telling(HF_UNUSED void *arg, int node, bool can)
{
    hear_of(can ? "telling" : "deaf", node);
}

static void on_reviewed(void *arg, hf_time now)
{
    assert_ptr_equal(arg, &reviews);
    assert_int_equal(now.ns, its_time.ns);
    reviews++;
    voting = nodes_voting(nodes, now);
    snprintf(fleet, sizeof(fleet), "%s", nodes_fleet_text(nodes));
}

/* --- nodes ------------------------------------------------------------------------------------ */

static HF_UNUSED int make_nodes(void)
{
    const struct nodes_owner owner = {
        .noticed = on_noticed, .telling = on_telling, .reviewed = on_reviewed, .arg = &reviews};

    for (int i = 0; i < NODES; i++)
        links[i].up = false;
    reviews = voting = 0;
    fleet[0] = last_refusal[0] = heard[0] = '\0';
    assert_int_equal(nodes_create(&agent, loop, NULL, &owner, &nodes), HF_OK);
    nodes_start(nodes);
    pass(0);
    reviews = 0;
    return 0;
}

static HF_UNUSED int make(HF_UNUSED void **state)
{
    make_agent();
    make_links();
    go_by_the_record();
    return make_nodes();
}

/* Neither the agent nor its nodes have a record of the fleet yet. */
static HF_UNUSED int make_unfounded(HF_UNUSED void **state)
{
    make_agent();
    make_links();
    return make_nodes();
}

static HF_UNUSED int unmake(void **state)
{
    (void)state;
    nodes_end(nodes);
    nodes_destroy(nodes);
    memset(recorded, 0, sizeof(recorded));
    unmake_agent();
    return 0;
}

static HF_UNUSED struct node_facts facts_of(int server)
{
    struct node_facts facts = {.version = "7.0", .uptime = hf_ms(1000000)};

    snprintf(facts.run_id, sizeof(facts.run_id), "%040d", server);
    return facts;
}

static HF_UNUSED struct link_reply sentinel_of(uint32_t ttl_max_ms)
{
    struct link_reply reply = reply_now(its_time);

    reply.sentinel = (struct node_sentinel){.present = true,
                                            .nonce = NODE_NONCE,
                                            .created = {reply.node_time.us - 1000000000},
                                            .created_wall = {clock_wall().ms - 1000000},
                                            .ttl_max_ms = ttl_max_ms,
                                            .nodes = NODES,
                                            .list_hash = "cafe"};
    reply.record = the_digest[0] ? the_record : "";
    reply.record_len = the_record_len;
    reply.record_by = "host-b 0 1700000000000";
    reply.record_sure = "";
    return reply;
}

/* As its link tells; `server`: whose run_id it shows. */
static HF_UNUSED void comes_up_with(int node, int server, struct link_reply reply)
{
    const struct node_facts facts = facts_of(server);

    links[node].up = true;
    links[node].options.events->up(&links[node], &facts, &reply, links[node].options.arg);
}

static HF_UNUSED void comes_up(int node)
{
    comes_up_with(node, node, sentinel_of(TTL_MAX_MS));
}

static HF_UNUSED void is_probed_with(int node, int server, struct link_reply reply)
{
    const struct node_facts facts = facts_of(server);

    links[node].options.events->probed(&links[node], &facts, &reply, links[node].options.arg);
}

static HF_UNUSED void goes_down(int node, enum hf_node_error error)
{
    links[node].up = false;
    links[node].options.events->down(&links[node], error, "gone", links[node].options.arg);
}

static HF_UNUSED void all_come_up(void)
{
    for (int i = 0; i < NODES; i++)
        comes_up(i);
    pass(0);
    assert_int_equal(voting, NODES);
    heard[0] = '\0';
    reviews = 0;
    for (struct message *m; (m = mailbox_take(&agent.to_renewal));)
        free(m);
}

#endif

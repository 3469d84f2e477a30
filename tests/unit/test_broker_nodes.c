/* The broker's nodes, with the test in place of their links and of whoever is above: what links tell becomes what the
 * owner hears, each thing once, and what is said of the fleet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/record/events.h"
#include "agent/record/stores.h"
#include "tests/unit/broker_fixture.h"
#include "tests/unit/links_fixture.h"

static struct nodes *nodes;
static int reviews, voting; /* of the owner's last review */
static char fleet[200];
static char last_refusal[200];

/* --- below ------------------------------------------------------------------------------------ */

int releaser_create(HF_UNUSED struct loop *l, HF_UNUSED struct link *const *of, HF_UNUSED int n,
                    HF_UNUSED int q, HF_UNUSED void *owner, struct releaser **ret_releaser)
{
    *ret_releaser = NULL;
    return HF_OK;
}

void releaser_destroy(HF_UNUSED struct releaser *releaser) {}

void releaser_flush(HF_UNUSED struct releaser *releaser) {}

void releaser_link_up(HF_UNUSED struct releaser *releaser, HF_UNUSED int node)
{
    hear("releaser");
}

bool stores_known_node(HF_UNUSED const struct agent *a, HF_UNUSED int node,
                       HF_UNUSED struct node_trust *ret_trust)
{
    return false;
}

void node_records_put(HF_UNUSED struct node_records *records, HF_UNUSED int node,
                      HF_UNUSED const struct node_trust *trust)
{
}

/* --- events, as one reads them --------------------------------------------------------------- */

static void hear_of(const char *what, int node)
{
    char word[40];

    snprintf(word, sizeof(word), "%s%d", what, node);
    hear(word);
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

static int make(void **state)
{
    const struct nodes_owner owner = {
        .noticed = on_noticed, .telling = on_telling, .reviewed = on_reviewed, .arg = &reviews};

    (void)state;
    make_agent();
    make_links();
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

static int unmake(void **state)
{
    (void)state;
    nodes_end(nodes);
    nodes_destroy(nodes);
    unmake_agent();
    return 0;
}

static struct node_facts facts_of(int server)
{
    struct node_facts facts = {.version = "7.0", .uptime = hf_ms(1000000), .sole = true};

    snprintf(facts.run_id, sizeof(facts.run_id), "%040d", server);
    return facts;
}

static struct link_reply sentinel_of(uint32_t ttl_max_ms)
{
    struct link_reply reply = reply_now(its_time);

    reply.sentinel = (struct node_sentinel){.present = true,
                                            .nonce = NODE_NONCE,
                                            .created = {reply.node_time.us - 1000000000},
                                            .created_wall = {clock_wall().ms - 1000000},
                                            .ttl_max_ms = ttl_max_ms,
                                            .nodes = NODES,
                                            .list_hash = "cafe"};
    return reply;
}

/* As its link tells; `server`: whose run_id it shows. */
static void comes_up_with(int node, int server, struct link_reply reply)
{
    const struct node_facts facts = facts_of(server);

    links[node].up = true;
    links[node].options.events->up(&links[node], &facts, &reply, links[node].options.arg);
}

static void comes_up(int node)
{
    comes_up_with(node, node, sentinel_of(TTL_MAX_MS));
}

static void is_probed_with(int node, int server, struct link_reply reply)
{
    const struct node_facts facts = facts_of(server);

    links[node].options.events->probed(&links[node], &facts, &reply, links[node].options.arg);
}

static void goes_down(int node, enum hf_node_error error)
{
    links[node].up = false;
    links[node].options.events->down(&links[node], error, "gone", links[node].options.arg);
}

static void all_come_up(void)
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

/* --- up, down, probes ------------------------------------------------------------------------- */

static void a_node_that_comes_up_is_told(void **state)
{
    (void)state;
    comes_up(0);
    assert_heard("up0 releaser");
    was_posted(MSG_TRUST);
    assert_int_equal(reviews, 0); /* not from within the link's event */
    pass(0);
    assert_int_equal(reviews, 1);
    assert_int_equal(voting, 0); /* its clock is judged by q of them */
    comes_up(1);
    pass(0);
    assert_int_equal(reviews, 2);
    assert_int_equal(voting, 2);
    assert_int_equal(nodes_up(nodes), 2);
}

static void a_node_that_goes_down_is_told_once(void **state)
{
    (void)state;
    all_come_up();
    goes_down(1, HF_NODE_ERR_BROKEN);
    assert_int_equal(nodes_voting(nodes, its_time), 2); /* at once */
    pass(0);
    assert_int_equal(reviews, 1);
    assert_int_equal(voting, 2);
    /* Each attempt fails in another way. */
    goes_down(1, HF_NODE_ERR_CONNECT);
    goes_down(1, HF_NODE_ERR_TIMEOUT);
    pass(0);
    assert_int_equal(reviews, 2);
    assert_heard("down1");
    comes_up(1);
    pass(0);
    assert_heard("up1 releaser");
    assert_int_equal(voting, 3);
}

static void one_that_never_came_up_is_told_once(void **state)
{
    (void)state;
    goes_down(2, HF_NODE_ERR_CONNECT);
    goes_down(2, HF_NODE_ERR_TIMEOUT);
    assert_heard("down2");
}

static void a_probe_is_no_news(void **state)
{
    (void)state;
    all_come_up();
    pass(500);
    reviews = 0;
    is_probed_with(0, 0, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_int_equal(reviews, 1);
    assert_heard("");
    nothing_was_posted();
    assert_int_equal(voting, 3);
}

/* What it finds does count: another server in that place has no vote. */
static void a_probe_finds_another_server(void **state)
{
    (void)state;
    all_come_up();
    is_probed_with(0, 7, sentinel_of(TTL_MAX_MS));
    assert_int_equal(nodes_voting(nodes, its_time), 2);
    free(posted(MSG_TRUST));
    pass(0);
    assert_int_equal(voting, 2);
    assert_heard("restarted0 quarantine0");
}

static void a_review_comes_every_second(void **state)
{
    (void)state;
    all_come_up();
    pass(10000);
    assert_in_range(reviews, 10, 11);
}

static void changes_of_keys_go_up(void **state)
{
    const struct link_events *events = links[0].options.events;

    (void)state;
    all_come_up();
    events->tracking(&links[1], HF_TRACKING_ON, "", nodes);
    events->noticed(&links[1], "key", 3, nodes);
    events->noticed(&links[1], NULL, 0, nodes);
    events->tracking(&links[1], HF_TRACKING_REFUSED, "unknown command", nodes);
    assert_heard("telling1 noticed1:key noticed-any deaf1");
}

/* --- who may vote ----------------------------------------------------------------------------- */

/* (!) Two names of one server are one vote, at once: a round may begin before the review. */
static void one_server_has_one_vote(void **state)
{
    (void)state;
    comes_up(0);
    comes_up(2);
    pass(0);
    heard[0] = '\0';
    comes_up_with(1, 0, sentinel_of(TTL_MAX_MS));
    assert_true(nodes->node[1].trust.refused);
    assert_false(nodes->node[0].trust.refused);
    assert_int_equal(nodes_voting(nodes, its_time), 2);
    pass(0);
    assert_int_equal(voting, 2);
    pass(3000);
    assert_int_equal(count_heard("duplicate1"), 1);
    assert_int_equal(count_heard("duplicate"), 1);
    heard[0] = '\0';
    /* It is another server by now. */
    goes_down(1, HF_NODE_ERR_BROKEN);
    comes_up_with(1, 1, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_int_equal(count_heard("taken-back1"), 1);
}

static void a_node_that_refuses_writes_grants_nothing(void **state)
{
    struct link_reply reply;

    (void)state;
    all_come_up();
    reply = reply_now(its_time);
    reply.outcome = LINK_ERROR;
    reply.error = HF_NODE_ERR_OOM;
    reply.error_text = "OOM";
    nodes_on_write(nodes, 2, &reply, false);
    nodes_on_write(nodes, 2, &reply, false);
    assert_int_equal(nodes_granting(nodes, its_time), 2);
    assert_int_equal(nodes_voting(nodes, its_time), 3); /* it is asked all the same */
    pass(0);
    assert_int_equal(reviews, 1);
    assert_heard("unwritable2");
    nodes_on_write(nodes, 2, &reply, true);
    assert_int_equal(nodes_granting(nodes, its_time), 3);
    pass(0);
    assert_heard("writable2");
}

/* --- the fleet -------------------------------------------------------------------------------- */

static void a_sentinel_of_others_is_said_in_words(void **state)
{
    (void)state;
    comes_up(0);
    comes_up_with(1, 1, sentinel_of(5000));
    pass(0);
    assert_non_null(strstr(fleet, "ttl_max is 5000 ms on node n2 and 60000 ms here"));
    assert_non_null(strstr(fleet, "all agents of a fleet need the same constants"));
    assert_int_equal(count_heard("fleet1"), 1);
    assert_non_null(strstr(last_refusal, "ttl_max is 5000 ms"));
    pass(5000);
    assert_int_equal(count_heard("fleet1"), 1);
    is_probed_with(1, 1, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_string_equal(fleet, "");
    assert_int_equal(count_heard("taken-back1"), 1);
}

/* On any disagreement none is made. */
static void no_sentinel_is_made_beside_one_of_others(void **state)
{
    struct link_reply none = sentinel_of(TTL_MAX_MS);

    (void)state;
    none.sentinel = (struct node_sentinel){.present = false};
    none.nonce[0] = '\0';
    comes_up_with(0, 0, none);
    comes_up_with(1, 1, sentinel_of(5000));
    comes_up(2);
    pass(5000);
    assert_int_equal(links[0].asked, 0);
    is_probed_with(1, 1, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_int_equal(links[0].asked, 1);
    assert_true(newest(0)->make);
}

/* --- settling --------------------------------------------------------------------------------- */

static void it_settles_within_a_second(void **state)
{
    (void)state;
    assert_true(nodes_settling(nodes, its_time));
    comes_up(0);
    comes_up(1);
    pass(900);
    assert_true(nodes_settling(nodes, its_time));
    pass(100);
    assert_false(nodes_settling(nodes, its_time));
}

static void it_has_settled_when_all_are_judged(void **state)
{
    (void)state;
    comes_up(0);
    comes_up(1);
    pass(0);
    assert_true(nodes_settling(nodes, its_time));
    comes_up(2);
    assert_true(nodes_settling(nodes, its_time)); /* up, and not judged */
    pass(0);
    assert_false(nodes_settling(nodes, its_time));
}

/* --- a reload --------------------------------------------------------------------------------- */

static void a_reload_gives_links_their_addresses_and_times(void **state)
{
    struct config next = config;
    struct hf_node_row row;

    (void)state;
    all_come_up();
    strcpy(next.nodes[1].host, "/run/other");
    strcpy(next.nodes[1].text, "unix:/run/other");
    assert_int_equal(timing_derive(hf_ms(9000), hf_ms(TTL_MAX_MS), &next.timing, NULL, 0), HF_OK);
    nodes_configure(nodes, &next);
    pass(0);
    for (int i = 0; i < NODES; i++) {
        assert_ptr_equal(links[i].options.address, &next.nodes[i]);
        assert_int_equal(links[i].options.silence.ns, timing_silence(hf_ms(9000)).ns);
        assert_true(links[i].options.probe.ns > 0 && links[i].options.probe_writes);
    }
    assert_int_equal(hf_node_read(&agent.table, 1, &row), HF_OK);
    assert_string_equal(row.address, "unix:/run/other");
    assert_int_equal(voting, NODES); /* who they are stands */
    nodes_configure(nodes, &config);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make, unmake)
    const struct CMUnitTest tests[] = {
        ROW(a_node_that_comes_up_is_told),
        ROW(a_node_that_goes_down_is_told_once),
        ROW(one_that_never_came_up_is_told_once),
        ROW(a_probe_is_no_news),
        ROW(a_probe_finds_another_server),
        ROW(a_review_comes_every_second),
        ROW(changes_of_keys_go_up),
        ROW(one_server_has_one_vote),
        ROW(a_node_that_refuses_writes_grants_nothing),
        ROW(a_sentinel_of_others_is_said_in_words),
        ROW(no_sentinel_is_made_beside_one_of_others),
        ROW(it_settles_within_a_second),
        ROW(it_has_settled_when_all_are_judged),
        ROW(a_reload_gives_links_their_addresses_and_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The broker and the fleet's record: what it reads from its nodes, what it writes there, whose answers count, and where
 * its links go. The test is the nodes, and answers as agent/scripts do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "agent/core/fleet_change.h"
#include "agent/state/fleet_memory.h"
#include "tests/support/scratch.h"
#include "tests/unit/nodes_room_fixture.h"

#define ELSEWHERE "10.0.0.1:7999"

/* --- servers ---------------------------------------------------------------------------------- */

static struct stand_in {
    char nonce[TRUST_NONCE_LEN + 1]; /* "": it has no sentinel */
    char record[FLEET_TEXT_SIZE], digest[FLEET_DIGEST_LEN + 1], by[96];
    hf_time made;
    int64_t ahead_us; /* its clock */
    int run;          /* whose run_id it shows */
    char sure[TRUST_RUN_ID_LEN + 1];
    bool forgets; /* what is put */
} servers[NODES];

static char order[200]; /* of the nodes that a record was put on; "n1!": a complete one */

static void write_record(int i, const struct fleet_record *record, const char *by)
{
    size_t length = fleet_record_text(record, servers[i].record);

    fleet_record_digest(servers[i].record, length, servers[i].digest);
    snprintf(servers[i].by, sizeof(servers[i].by), "%s", by);
    snprintf(servers[i].sure, sizeof(servers[i].sure), "%040d", servers[i].run);
}

static void forget_record(int i)
{
    servers[i].record[0] = servers[i].digest[0] = servers[i].by[0] = servers[i].sure[0] = '\0';
}

static void flush(int i)
{
    forget_record(i);
    servers[i].nonce[0] = '\0';
}

static const char *stamp_of(int i)
{
    static char text[TRUST_NONCE_LEN + 1 + FLEET_DIGEST_LEN + 1];

    snprintf(text, sizeof(text), "%s%s%s", servers[i].nonce, servers[i].digest[0] ? ":" : "",
             servers[i].digest);
    return text;
}

static struct link_reply answer_of(int i, hf_time sent)
{
    struct link_reply reply = reply_now(sent);

    memcpy(reply.nonce, servers[i].nonce, sizeof(reply.nonce));
    memcpy(reply.digest, servers[i].digest, sizeof(reply.digest));
    reply.node_time.us += servers[i].ahead_us;
    return reply;
}

static struct link_reply sentinel_shown(int i, hf_time sent)
{
    struct link_reply reply = answer_of(i, sent);
    hf_dur age = hf_time_since(its_time, servers[i].made);

    if (!servers[i].nonce[0])
        return reply;
    reply.sentinel = (struct node_sentinel){.present = true,
                                            .created = {reply.node_time.us - age.ns / HF_NS_PER_US},
                                            .created_wall = {clock_wall().ms - hf_dur_ms(age)},
                                            .ttl_max_ms = TTL_MAX_MS,
                                            .nodes = NODES,
                                            .list_hash = "cafe"};
    memcpy(reply.sentinel.nonce, reply.nonce, sizeof(reply.nonce));
    reply.record = servers[i].record;
    reply.record_len = strlen(servers[i].record);
    reply.record_by = servers[i].by;
    reply.record_sure = servers[i].sure;
    return reply;
}

/* sentinel.lua */
static void run_sentinel(struct command *command)
{
    int i = command->node;
    bool create = servers[i].nonce[0] ? strcmp(command->stamp, stamp_of(i)) == 0 : command->make;
    struct link_reply reply;

    if (create) {
        flush(i);
        memcpy(servers[i].nonce, command->nonce, sizeof(command->nonce));
        servers[i].made = its_time;
    }
    reply = sentinel_shown(i, command->sent);
    reply.sentinel_created = create;
    answer_with(command, reply);
}

/* fleet.lua */
static void run_put(struct command *command)
{
    int i = command->node;
    enum link_verdict verdict = VERDICT_OK;
    struct link_reply reply;

    if (answer_of(i, its_time).node_time.us > command->deadline.us) {
        verdict = VERDICT_STALE;
    } else if (!servers[i].nonce[0] || strcmp(command->stamp, stamp_of(i)) != 0) {
        verdict = VERDICT_SENTINEL;
    } else {
        if (!servers[i].forgets)
            write_record(i, &command->record, "host-a 0 1700000000000");
        memcpy(servers[i].sure, command->sure, sizeof(command->sure));
        snprintf(order + strlen(order), sizeof(order) - strlen(order), "%s%s ", config.nodes[i].id,
                 command->record.state == FLEET_COMPLETE ? "!" : "");
    }
    reply = answer_of(i, command->sent);
    reply.verdict = verdict;
    answer_with(command, reply);
}

/* The node answers what it was asked by now. Returns whether there was anything. */
static bool serve(int i)
{
    const int asked = links[i].asked;
    bool any = false;

    for (int k = 0; k < asked; k++) {
        struct command *command = &links[i].commands[k];

        if (command->answered)
            continue;
        any = true;
        if (command->kind == FLEET)
            run_put(command);
        else if (command->kind == SENTINEL)
            run_sentinel(command);
        else
            fail_msg("command %d", command->kind);
    }
    return any;
}

/* All answer for as long as anything is asked, and no time passes. */
static void settle(void)
{
    bool any = true;

    pass(0);
    for (int turns = 0; any; turns++) {
        assert_true(turns < 100);
        any = false;
        for (int i = 0; i < NODES; i++)
            any = serve(i) || any;
        pass(0);
    }
}

static void arrive(int i)
{
    comes_up_with(i, servers[i].run, sentinel_shown(i, its_time));
}

static void probe(int i, hf_time sent)
{
    is_probed_with(i, servers[i].run, sentinel_shown(i, sent));
}

static void all_arrive(void)
{
    for (int i = 0; i < NODES; i++)
        arrive(i);
    settle();
}

/* Time passes as on a quiet day: each node is probed every second, and answers at once. */
static void go_on(int seconds)
{
    for (int s = 0; s < seconds; s++) {
        pass(1000);
        for (int i = 0; i < NODES; i++)
            if (links[i].up)
                probe(i, its_time);
        settle();
    }
}

/* --- the agent -------------------------------------------------------------------------------- */

static char dir[80], trash[sizeof(agent.fleet_path)];

/* Servers that are old, without a record; the agent has a place for its memory. */
static void make_servers(void)
{
    make_agent();
    make_links();
    memset(servers, 0, sizeof(servers));
    for (int i = 0; i < NODES; i++) {
        memset(servers[i].nonce, 'a' + i, TRUST_NONCE_LEN);
        servers[i].made = hf_time_sub(its_time, hf_ms(900000));
        servers[i].run = i;
    }
    order[0] = '\0';
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    snprintf(agent.fleet_path, sizeof(agent.fleet_path), "%s/fleet", dir);
    memcpy(trash, agent.fleet_path, sizeof(trash));
}

static int make_new(HF_UNUSED void **state)
{
    make_servers();
    return make_nodes();
}

static void give_the_record(int i)
{
    struct fleet_record record = fleet_of_links(FLEET_COMPLETE);

    write_record(i, &record, "host-b 0 1700000000000");
}

static void give_all_the_record(void)
{
    for (int i = 0; i < NODES; i++)
        give_the_record(i);
}

/* The servers belong to the fleet of the links' addresses; the agent has no memory. */
static int make_founded(HF_UNUSED void **state)
{
    make_servers();
    give_all_the_record();
    return make_nodes();
}

/* The same, and it has one. */
static int make_known(HF_UNUSED void **state)
{
    make_servers();
    give_all_the_record();
    go_by_the_record();
    return make_nodes();
}

static int make_anew(HF_UNUSED void **state)
{
    make_servers();
    config.reset_fleet = true;
    return make_nodes();
}

static int remove_all(void **state)
{
    (void)unlink(trash);
    (void)rmdir(dir);
    return unmake(state);
}

/* Every message to the renewal thread since the last time; how many told of the fleet. */
static int told_of_the_fleet(void)
{
    struct message *m;
    int count = 0;

    while ((m = mailbox_take(&agent.to_renewal))) {
        count += m->kind == MSG_FLEET;
        free(m->fleet);
        free(m);
    }
    return count;
}

static bool is_kept(const char *digest)
{
    static struct fleet_memory memory;
    char found[FLEET_DIGEST_LEN + 1];

    fleet_memory_read(agent.fleet_path, &agent.clock, &memory);
    fleet_record_digest(memory.text, memory.length, found);
    return memory.length > 0 && strcmp(found, digest) == 0;
}

static int asked(int i, enum command_kind kind)
{
    int count = 0;

    for (int k = 0; k < links[i].asked; k++)
        count += links[i].commands[k].kind == kind;
    return count;
}

static int puts_asked(void)
{
    return asked(0, FLEET) + asked(1, FLEET) + asked(2, FLEET);
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static struct fleet_record fleet_with(int node, const char *address, enum fleet_state state)
{
    struct fleet_record record = fleet_of_links(state);

    snprintf(record.seat[node].address, sizeof(record.seat[node].address), "%s", address);
    fleet_record_name(&record, record.fleet);
    return record;
}

/* --- founding --------------------------------------------------------------------------------- */

static void it_is_founded_in_the_lists_order(HF_UNUSED void **state)
{
    char digest[FLEET_DIGEST_LEN + 1];

    all_arrive();
    assert_string_equal(order, "n1 n2 n3 n1! n2! n3! ");
    assert_int_equal(voting, NODES);
    assert_int_equal(told_of_the_fleet(), 1);
    for (int i = 0; i < NODES; i++) {
        memcpy(digest, servers[i].digest, sizeof(digest));
        assert_string_equal(servers[i].digest, servers[0].digest);
    }
    assert_true(is_kept(digest));
    assert_string_equal(nodes->fleet_shown.by_host, "host-a");
    go_on(3);
    assert_int_equal(puts_asked(), 6); /* nothing is put again */
}

/* One thing at a time: the second node is written to when the first has answered and was read. */
static void one_node_is_founded_after_the_other(HF_UNUSED void **state)
{
    for (int i = 0; i < NODES; i++)
        arrive(i);
    pass(0);
    for (int turns = 0; turns < 20 && !asked(0, FLEET); turns++)
        pass(100);
    assert_int_equal(newest(0)->kind, FLEET);
    assert_int_equal(newest(0)->record.state, FLEET_FOUNDING);
    assert_string_equal(newest(0)->stamp, servers[0].nonce);
    pass(50);
    assert_int_equal(puts_asked(), 1);
    (void)serve(0);
    pass(0);
    assert_int_equal(asked(1, FLEET), 0);
    assert_int_equal(newest(0)->kind, SENTINEL);
    (void)serve(0); /* it is read */
    pass(0);
    assert_int_equal(asked(1, FLEET), 1);
    assert_int_equal(asked(2, FLEET), 0);
    assert_int_equal(nodes_voting(nodes, its_time), 0);
}

/* Nobody goes by a record that is not complete. */
static void no_vote_counts_while_it_is_founded(HF_UNUSED void **state)
{
    struct fleet_record founding = fleet_of_links(FLEET_FOUNDING);

    for (int i = 0; i < NODES; i++)
        write_record(i, &founding, "host-b 0 1700000000000");
    for (int i = 0; i < NODES; i++)
        arrive(i);
    pass(0);
    assert_int_equal(nodes_voting(nodes, its_time), 0);
    assert_int_equal(told_of_the_fleet(), 0);
    assert_false(is_kept(servers[0].digest));
    settle(); /* somebody left it like that: it is carried on */
    assert_string_equal(order, "n1! n2! n3! ");
    assert_int_equal(voting, NODES);
}

static void it_is_founded_with_all_nodes(HF_UNUSED void **state)
{
    arrive(0);
    arrive(2);
    go_on(5);
    assert_int_equal(puts_asked(), 0);
    assert_int_equal(voting, 0);
    assert_says(nodes->fleet_shown.waits, "let node n2 answer");
    arrive(1);
    settle();
    assert_string_equal(order, "n1 n2 n3 n1! n2! n3! ");
}

/* By the node's clock, whatever ours says. */
static void a_put_has_a_deadline(HF_UNUSED void **state)
{
    int64_t attempt_us = config.timing.attempt.ns / HF_NS_PER_US, late;

    for (int i = 0; i < NODES; i++)
        servers[i].ahead_us = INT64_C(3600000000);
    for (int i = 0; i < NODES; i++)
        arrive(i);
    pass(0);
    assert_int_equal(newest(0)->kind, FLEET);
    late = answer_of(0, its_time).node_time.us + attempt_us;
    assert_in_range(newest(0)->deadline.us, late - attempt_us / 10, late);
    /* It comes too late: it is put again. */
    its_time = hf_time_add(its_time, hf_ns(2 * config.timing.attempt.ns));
    settle();
    assert_true(asked(0, FLEET) >= 3);
    assert_string_equal(order, "n1 n2 n3 n1! n2! n3! ");
}

static void a_put_without_an_answer_is_waited_for(HF_UNUSED void **state)
{
    struct link_reply reply;

    for (int i = 0; i < NODES; i++)
        arrive(i);
    pass(0);
    reply = answer_of(0, newest(0)->sent);
    reply.outcome = LINK_TIMEOUT;
    reply.final = false;
    newest(0)->fn(&links[0], &reply, newest(0)->arg);
    pass(500);
    assert_int_equal(puts_asked(), 1); /* it may still run */
    break_off(newest(0));
    pass(500);
    assert_int_equal(puts_asked(), 1); /* nor at once */
    pass(1000);
    assert_int_equal(asked(0, FLEET), 2);
    assert_int_equal(asked(1, FLEET), 0);
}

/* The founding of other addresses is under way: the put finds another stamp than the one that was seen. */
static void another_founder_is_not_overrun(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(2, "10.0.0.1:7777", FLEET_FOUNDING);

    for (int i = 0; i < NODES; i++)
        arrive(i);
    pass(0);
    assert_int_equal(asked(0, FLEET), 1);
    write_record(0, &theirs, "host-b 0 1700000000000");
    settle();
    go_on(3);
    assert_string_equal(order, "");
    assert_int_equal(puts_asked(), 1);
    assert_int_equal(voting, 0);
    assert_says(nodes->fleet_shown.waits, "give all hosts the same addresses");
}

/* --- adoption --------------------------------------------------------------------------------- */

/* (!) Private seats are this host's servers then: one node's word sends no link there. */
static void one_node_makes_this_host_no_founder(HF_UNUSED void **state)
{
    struct fleet_record r = fleet_of_links(FLEET_COMPLETE);
    char by[96];

    snprintf(by, sizeof(by), "%s 0 1700000000000", agent.host);
    write_record(0, &r, by);
    all_arrive();
    assert_true(nodes->fleet_view.known);
    assert_false(nodes->fleet_here);
    for (int i = 0; i < NODES; i++) {
        goes_down(i, HF_NODE_ERR_BROKEN);
        write_record(i, &r, by);
    }
    all_arrive();
    assert_true(nodes->fleet_here);
}

static void nothing_counts_before_it_goes_by_a_record(HF_UNUSED void **state)
{
    arrive(0);
    settle();
    assert_int_equal(voting, 0);
    assert_int_equal(told_of_the_fleet(), 0);
    arrive(2);
    assert_int_equal(nodes_voting(nodes, its_time), 0);
    settle();
    assert_int_equal(voting, 2); /* q of them have it */
    assert_int_equal(told_of_the_fleet(), 1);
    assert_true(is_kept(servers[0].digest));
    arrive(1);
    settle();
    assert_int_equal(voting, 3);
    assert_int_equal(told_of_the_fleet(), 0);
    assert_int_equal(puts_asked(), 0);
    assert_string_equal(nodes->fleet_shown.by_host, "host-b");
    assert_true(nodes->fleet_shown.known);
}

/* (!) An agent never goes back: what it cannot keep it does not go by. */
static void a_record_that_cannot_be_kept_is_not_gone_by(HF_UNUSED void **state)
{
    assert_int_equal(mkdir(trash, 0700), 0); /* in its place */
    all_arrive();
    pass(3000);
    assert_int_equal(voting, 0);
    assert_int_equal(told_of_the_fleet(), 0);
    assert_false(nodes->fleet_shown.known);
    assert_int_equal(rmdir(trash), 0);
    pass(1000);
    assert_int_equal(voting, 3);
    assert_int_equal(told_of_the_fleet(), 1);
    assert_true(is_kept(servers[0].digest));
}

static struct fleet_record record_with_longer_ttl(void)
{
    struct fleet_record next = fleet_of_links(FLEET_COMPLETE);

    memcpy(next.before, next.seat, sizeof(next.before));
    next.before_count = next.count;
    next.ttl_max_before_ms = next.ttl_max_ms++;
    next.version = 2;
    next.state = FLEET_CHANGING;
    return next;
}

/* What a node has of a change is told as that, and not as a record that is incomplete. */
static void a_change_on_a_node_has_words_of_its_own(HF_UNUSED void **state)
{
    struct fleet_record next = record_with_longer_ttl();

    (void)unlink(trash);
    assert_int_equal(mkdir(trash, 0700), 0); /* this agent cannot go by it */
    write_record(0, &next, "host-b 0 1700000000000");
    all_arrive();
    assert_int_equal(nodes->fleet_shown.node[0].word, FLEET_WORD_CHANGING);
    assert_int_equal(nodes->fleet_shown.node[1].word, FLEET_WORD_OURS);
    fleet_record_complete(&next);
    write_record(0, &next, "host-b 0 1700000000000");
    go_on(2);
    assert_int_equal(nodes->fleet_shown.node[0].word, FLEET_WORD_LATER);
    assert_int_equal(rmdir(trash), 0);
}

/* Another host has begun a change. */
static void start_again(void)
{
    struct fleet_record next = record_with_longer_ttl();

    go_on(2);
    write_record(0, &next, "host-b 0 1700000000000");
    write_record(1, &next, "host-b 0 1700000000000");
    go_on(2);
    assert_true(nodes->fleet_view.leaving);
}

static void the_next_run_knows_until_when_no_lease_was_longer(HF_UNUSED void **state)
{
    const hf_time begun = its_time;

    agent.fleet_shown = hf_time_sub(its_time, hf_ms(500000));
    all_arrive();
    start_again();
    assert_true(hf_time_before(begun, agent.fleet_shown));
    assert_int_equal(agent.fleet_shown.ns, fleet_shown(&nodes->fleet_view).ns);
}

/* (!) What is kept of it is of an earlier run, by the quarantine of that one. */
static void of_a_node_that_was_not_met_no_later_instant_is_known(HF_UNUSED void **state)
{
    const hf_time before = hf_time_sub(its_time, hf_ms(500000));

    agent.fleet_shown = before;
    arrive(0);
    arrive(1);
    strcpy(links[2].peer, ELSEWHERE);
    flush(2);
    arrive(2); /* another server */
    settle();
    goes_down(2, HF_NODE_ERR_BROKEN);
    strcpy(links[2].peer, "10.0.0.1:7002");
    start_again();
    assert_int_equal(agent.fleet_shown.ns, before.ns);
}

static void a_memory_counts_from_the_first_answer(HF_UNUSED void **state)
{
    arrive(1);
    assert_int_equal(told_of_the_fleet(), 0);
    arrive(2);
    settle();
    assert_int_equal(voting, 2);
}

/* --- whose answers count ---------------------------------------------------------------------- */

static void another_digest_does_not_count_from_then_on(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(0, "10.0.0.1:7777", FLEET_COMPLETE);
    struct link_reply reply;

    all_arrive();
    assert_int_equal(voting, 3);
    write_record(1, &theirs, "host-b 0 1700000000000");
    reply = answer_of(1, its_time);
    nodes_on_reply(nodes, 1, &reply);
    assert_int_equal(nodes_voting(nodes, its_time), 2); /* at once */
    forget_record(2);
    reply = answer_of(2, its_time);
    nodes_on_reply(nodes, 2, &reply);
    assert_int_equal(nodes_voting(nodes, its_time), 1);
}

/* (!) One foreign node harms nobody. */
static void a_foreign_node_is_refused_by_itself(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(0, "10.0.0.1:7777", FLEET_COMPLETE);

    write_record(1, &theirs, "host-b 0 1700000000000");
    all_arrive();
    assert_int_equal(voting, 2);
    assert_string_equal(fleet, ""); /* acquires go on */
    assert_int_equal(count_heard("fleet1"), 1);
    assert_int_equal(count_heard("fleet"), 1);
    assert_says(last_refusal, "another fleet");
    assert_int_equal(puts_asked(), 0);
    assert_int_equal(nodes->fleet_shown.node[1].word, FLEET_WORD_FOREIGN);
    go_on(3);
    assert_int_equal(asked(1, FLEET), 0);
    assert_int_equal(count_heard("fleet1"), 1);
    /* It is ours again. */
    forget_record(1);
    go_on(2);
    assert_string_equal(order, "n2! ");
    assert_int_equal(voting, 3);
    assert_int_equal(count_heard("taken-back1"), 1);
}

/* The same without a memory: two of three say which fleet this is. */
static void a_foreign_node_is_refused_once_the_fleet_is_known(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(0, "10.0.0.1:7777", FLEET_COMPLETE);

    write_record(0, &theirs, "host-b 0 1700000000000");
    all_arrive();
    assert_int_equal(voting, 2);
    assert_int_equal(told_of_the_fleet(), 1);
    assert_true(is_kept(servers[1].digest));
    assert_int_equal(count_heard("fleet0"), 1);
    assert_string_equal(fleet, "");
}

/* Its locks would not be the fleet's: this host has another ttl_max. */
static void a_record_that_differs_from_the_configuration_is_said(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_of_links(FLEET_COMPLETE);

    theirs.ttl_max_ms = 30000;
    for (int i = 0; i < NODES; i++)
        write_record(i, &theirs, "host-b 0 1700000000000");
    all_arrive();
    assert_says(fleet, "30000");
    assert_says(fleet, "all agents of a fleet need the same constants");
    assert_true(nodes->fleet_shown.known);
    assert_says(nodes->fleet_shown.differs, "30000");
    go_on(3);
    assert_says(fleet, "30000");
}

/* A sentinel of its constants would be another fleet's to the other hosts. */
static void a_host_that_differs_makes_no_sentinel(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_of_links(FLEET_COMPLETE);

    theirs.ttl_max_ms = 30000;
    for (int i = 0; i < NODES; i++)
        write_record(i, &theirs, "host-b 0 1700000000000");
    all_arrive();
    flush(2);
    go_on(5);
    assert_string_equal(servers[2].nonce, "");
    assert_int_equal(asked(2, SENTINEL), 0);
}

/* --- nodes that forgot ------------------------------------------------------------------------ */

/* (!) From a member that showed it since, never from memory. */
static void an_empty_node_gets_what_another_member_shows(HF_UNUSED void **state)
{
    hf_time before;

    all_arrive();
    pass(10);
    before = its_time;
    pass(10);
    flush(2);
    probe(2, its_time);
    assert_int_equal(nodes_voting(nodes, its_time), 2);
    settle(); /* it gets a sentinel */
    assert_true(servers[2].nonce[0]);
    assert_int_equal(puts_asked(), 0);
    assert_true(links[0].probes > 0 || links[1].probes > 0); /* a member is asked */
    pass(10);
    probe(0, before); /* sent before: it proves nothing */
    settle();
    assert_int_equal(puts_asked(), 0);
    probe(0, its_time);
    pass(0);
    assert_int_equal(asked(2, FLEET), 1);
    assert_string_equal(newest(2)->stamp, servers[2].nonce);
    assert_int_equal(newest(2)->record.state, FLEET_COMPLETE);
    settle();
    assert_string_equal(order, "n3! ");
    assert_string_equal(servers[2].digest, servers[0].digest);
    assert_true(fleet_counts(&nodes->fleet_view, 2));
    assert_int_equal(voting, 2); /* it is in quarantine */
}

/* (!) It answers as fast as it is asked. */
static void a_node_that_never_shows_the_record_is_given_it_in_its_time(HF_UNUSED void **state)
{
    int puts;

    all_arrive();
    servers[2].forgets = true;
    forget_record(2);
    for (int k = 0; k < 60; k++) {
        pass(1);
        probe(0, its_time);
        probe(2, its_time);
        for (int i = 0; i < NODES; i++)
            (void)serve(i);
    }
    puts = asked(2, FLEET);
    assert_in_range(puts, 2, 20);
    assert_says(nodes->node[2].row.error, "does not show it");
    for (int k = 0; k < 40; k++) {
        pass(100);
        probe(0, its_time);
        probe(2, its_time);
        for (int i = 0; i < NODES; i++)
            (void)serve(i);
    }
    assert_in_range(asked(2, FLEET) - puts, 2, 6); /* still it is not given up */
}

/* (!) Nor is one asked without a pause that tells of another record in each answer. */
static void a_record_that_changes_all_the_time_is_read_in_its_time(HF_UNUSED void **state)
{
    int reads;

    all_arrive();
    reads = asked(2, SENTINEL);
    for (int k = 0; k < 60; k++) {
        struct link_reply reply = answer_of(2, its_time);

        snprintf(reply.digest, sizeof(reply.digest), "%08x", 0x12345678 + k);
        nodes_on_reply(nodes, 2, &reply);
        pass(1);
        (void)serve(2);
    }
    assert_in_range(asked(2, SENTINEL) - reads, 2, 20);
}

static void where_all_forgot_it_is_founded_again_with_all(HF_UNUSED void **state)
{
    all_arrive();
    goes_down(0, HF_NODE_ERR_BROKEN);
    for (int i = 0; i < NODES; i++)
        flush(i);
    go_on(5);
    assert_int_equal(puts_asked(), 0);
    assert_says(nodes->fleet_shown.waits, "let node n1 answer");
    arrive(0);
    go_on(2);
    assert_string_equal(order, "n1! n2! n3! ");
    for (int i = 0; i < NODES; i++) {
        assert_string_equal(servers[i].digest, the_digest);
        assert_true(fleet_counts(&nodes->fleet_view, i));
    }
    assert_int_equal(voting, 0);
}

/* --- seats ------------------------------------------------------------------------------------ */

static int make_lost(HF_UNUSED void **state)
{
    make_servers();
    strcpy(config.nodes[1].text, "db2.example:7001"); /* which leads elsewhere */
    strcpy(config.nodes[1].host, "db2.example");
    config.nodes[1].numeric = false;
    strcpy(config.nodes[1].user, "holdfast");
    strcpy(config.nodes[1].password, "secret");
    give_all_the_record();
    strcpy(links[1].peer, ELSEWHERE);
    return make_nodes();
}

/* (!) At another server than the fleet's: nothing of it counts, and nothing of it is kept. */
static void a_link_that_is_elsewhere_goes_to_its_seat(HF_UNUSED void **state)
{
    const struct node_address *address;

    arrive(1);
    settle();
    assert_int_equal(links[1].configured, 0);
    arrive(0);
    arrive(2);
    assert_true(nodes->node[1].trust.contacted);
    settle(); /* the record is known from here on */
    assert_int_equal(links[1].configured, 1);
    address = links[1].options.address;
    assert_string_equal(address->text, "10.0.0.1:7001");
    assert_string_equal(address->id, "n2");
    assert_int_equal(address->port, 7001);
    assert_string_equal(address->user, "holdfast");
    assert_string_equal(address->password, "secret");
    assert_int_equal(voting, 2);
    assert_false(nodes->node[1].trust.contacted);
    assert_false(nodes->node[1].trust.nonce_seen);
    assert_false(nodes->node[1].trust.clock_known);
    pass(3000);
    assert_int_equal(links[1].configured, 1); /* once */
    goes_down(1, HF_NODE_ERR_BROKEN);
    strcpy(links[1].peer, address->text);
    servers[1].run = 7;
    arrive(1);
    settle();
    assert_int_equal(voting, 2); /* until a member has shown its record since */
    assert_true(links[0].probes > 0);
    pass(1);
    probe(0, its_time);
    settle();
    assert_int_equal(voting, 3);
    assert_int_equal(count_heard("restarted1"), 0); /* it is met for the first time */
    assert_int_equal(links[1].configured, 1);
}

static int make_named(HF_UNUSED void **state)
{
    make_servers();
    strcpy(config.nodes[1].text, "db2.example:7001");
    strcpy(config.nodes[1].host, "db2.example");
    config.nodes[1].numeric = false;
    give_all_the_record();
    go_by_the_record();
    return make_nodes();
}

/* The name of n2 leads to another server for a while. */
static void lead_astray(void)
{
    const struct stand_in own = servers[1];

    goes_down(1, HF_NODE_ERR_BROKEN);
    strcpy(links[1].peer, ELSEWHERE);
    flush(1);
    servers[1].run = 9;
    arrive(1);
    settle();
    assert_int_equal(voting, 2);
    assert_int_equal(links[1].configured, 1);
    goes_down(1, HF_NODE_ERR_BROKEN);
    strcpy(links[1].peer, "10.0.0.1:7001");
    servers[1] = own;
}

/* Another server's run_id and sentinel are no news of the node. */
static void what_is_known_of_the_seats_server_stays_known(HF_UNUSED void **state)
{
    all_arrive();
    assert_int_equal(voting, 3);
    heard[0] = '\0';
    lead_astray();
    arrive(1);
    settle();
    assert_int_equal(voting, 3);
    assert_int_equal(count_heard("restarted1") + count_heard("forgot1"), 0);
    assert_int_equal(count_heard("quarantine1"), 0);
}

/* (!) What the seat's server did meanwhile is found by what was known of it. */
static void what_the_seats_server_forgot_meanwhile_is_found(HF_UNUSED void **state)
{
    all_arrive();
    heard[0] = '\0';
    lead_astray();
    flush(1);
    servers[1].run = 8;
    arrive(1);
    settle();
    assert_int_equal(voting, 2);
    assert_int_equal(count_heard("restarted1"), 1);
}

/* Where a link is away its next connection goes to the seat; one that the configuration led there stays. */
static void a_link_that_is_away_looks_at_its_seat(HF_UNUSED void **state)
{
    strcpy(links[1].peer, "10.0.0.1:7001");
    arrive(0);
    arrive(2);
    settle();
    assert_int_equal(links[1].configured, 0); /* it may yet come up where it should be */
    goes_down(1, HF_NODE_ERR_RESOLVE);
    settle();
    assert_int_equal(links[0].configured, 0);
    assert_int_equal(links[2].configured, 0);
    assert_int_equal(links[1].configured, 1);
    assert_ptr_equal(links[0].options.address, &config.nodes[0]);
    assert_string_equal(links[1].options.address->text, "10.0.0.1:7001");
    arrive(1);
    settle();
    assert_int_equal(voting, 3);
}

static int make_behind_a_proxy(HF_UNUSED void **state)
{
    make_servers();
    give_all_the_record();
    strcpy(config.nodes[1].as, config.nodes[1].text);
    strcpy(config.nodes[2].as, "10.0.0.1:7777");
    for (int i = 1; i < NODES; i++) { /* no seat is where the link goes */
        snprintf(config.nodes[i].text, sizeof(config.nodes[i].text), "proxy.example:%d", 7100 + i);
        strcpy(config.nodes[i].host, "proxy.example");
        config.nodes[i].port = 7100 + i;
        config.nodes[i].numeric = false;
    }
    strcpy(links[2].peer, config.nodes[2].as);
    return make_nodes();
}

/* The operator says where this host reaches whom: a link stays there, and counts as that seat or as none. */
static void as_is_never_overruled(HF_UNUSED void **state)
{
    arrive(0);
    arrive(1);
    settle();
    arrive(2);
    settle();
    pass(2000);
    assert_int_equal(voting, 2);
    assert_int_equal(links[1].configured + links[2].configured, 0);
    assert_ptr_equal(links[2].options.address, &config.nodes[2]);
    goes_down(2, HF_NODE_ERR_BROKEN);
    goes_down(1, HF_NODE_ERR_BROKEN);
    pass(2000);
    assert_int_equal(links[1].configured + links[2].configured, 0);
}

/* --- --reset-fleet ------------------------------------------------------------------------------- */

static void anew_the_records_of_before_are_replaced_once(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(2, "10.0.0.1:7777", FLEET_COMPLETE);
    char digest[FLEET_DIGEST_LEN + 1];

    for (int i = 0; i < NODES; i++)
        write_record(i, &theirs, "host-b 0 1700000000000");
    memcpy(digest, servers[0].digest, sizeof(digest));
    arrive(0);
    arrive(1);
    settle();
    pass(2000);
    settle();
    assert_string_equal(servers[0].digest, digest); /* which servers these are is not known yet */
    arrive(2);
    settle();
    pass(2000);
    settle();
    for (int i = 0; i < NODES; i++) {
        assert_string_not_equal(servers[i].digest, digest);
        assert_string_equal(servers[i].digest, servers[0].digest);
    }
    assert_string_equal(order, "");
    assert_int_equal(voting, 0); /* they forgot, by our word: they are in quarantine */
    go_on(80);
    assert_string_equal(order, "n1 n2 n3 n1! n2! n3! ");
    assert_int_equal(voting, NODES);
    /* Later it is as on any day. */
    write_record(1, &theirs, "host-b 0 1700000000000");
    go_on(5);
    assert_string_equal(servers[1].digest, digest);
    assert_int_equal(voting, 2);
}

/* (!) A record that came meanwhile may be what the other hosts have founded anew. */
static void anew_what_was_not_read_is_not_replaced(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(2, "10.0.0.1:7777", FLEET_COMPLETE);
    struct link_reply reply;
    char judged[64];

    for (int i = 0; i < NODES; i++)
        write_record(i, &theirs, "host-b 0 1700000000000");
    for (int i = 0; i < NODES; i++)
        arrive(i);
    pass(0);
    assert_int_equal(links[0].asked, 0);
    snprintf(judged, sizeof(judged), "%s", stamp_of(0));
    for (int i = 0; i < 2; i++)
        give_the_record(i);
    reply = answer_of(0, its_time);
    links[0].up = false; /* it cannot be asked for the new one */
    nodes_on_reply(nodes, 0, &reply);
    links[0].up = true;
    pass(1000);
    assert_true(links[0].asked > 0);
    for (int k = 0; k < links[0].asked; k++)
        assert_string_not_equal(links[0].commands[k].stamp, stamp_of(0));
    assert_string_equal(links[0].commands[0].stamp, judged);
    go_on(2);
    assert_int_equal(voting, 2); /* n3 was made anew */
}

/* The operator's word is about the fleet's servers, and not about one that a link came to by mistake. */
static void anew_a_server_elsewhere_keeps_its_record(HF_UNUSED void **state)
{
    struct fleet_record theirs = fleet_with(1, ELSEWHERE, FLEET_COMPLETE);
    char digest[FLEET_DIGEST_LEN + 1];

    give_all_the_record();
    all_arrive();
    assert_int_equal(voting, 3);
    goes_down(1, HF_NODE_ERR_BROKEN);
    strcpy(links[1].peer, ELSEWHERE);
    write_record(1, &theirs, "host-b 0 1700000000000");
    memcpy(digest, servers[1].digest, sizeof(digest));
    arrive(1);
    settle();
    go_on(3);
    assert_string_equal(servers[1].digest, digest);
    assert_int_equal(asked(1, SENTINEL), 0);
}

static void anew_a_record_of_these_servers_stays(HF_UNUSED void **state)
{
    give_all_the_record();
    all_arrive();
    go_on(3);
    assert_int_equal(voting, NODES);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(asked(i, SENTINEL) + asked(i, FLEET), 0);
}

int main(void)
{
#define ROW(make, test) cmocka_unit_test_setup_teardown(test, make, remove_all)
    const struct CMUnitTest tests[] = {
        ROW(make_new, it_is_founded_in_the_lists_order),
        ROW(make_new, one_node_is_founded_after_the_other),
        ROW(make_new, no_vote_counts_while_it_is_founded),
        ROW(make_new, it_is_founded_with_all_nodes),
        ROW(make_new, a_put_has_a_deadline),
        ROW(make_new, a_put_without_an_answer_is_waited_for),
        ROW(make_new, another_founder_is_not_overrun),
        ROW(make_founded, one_node_makes_this_host_no_founder),
        ROW(make_founded, nothing_counts_before_it_goes_by_a_record),
        ROW(make_founded, a_record_that_cannot_be_kept_is_not_gone_by),
        ROW(make_known, a_change_on_a_node_has_words_of_its_own),
        ROW(make_known, the_next_run_knows_until_when_no_lease_was_longer),
        ROW(make_known, of_a_node_that_was_not_met_no_later_instant_is_known),
        ROW(make_known, a_memory_counts_from_the_first_answer),
        ROW(make_known, another_digest_does_not_count_from_then_on),
        ROW(make_known, a_foreign_node_is_refused_by_itself),
        ROW(make_founded, a_foreign_node_is_refused_once_the_fleet_is_known),
        ROW(make_new, a_record_that_differs_from_the_configuration_is_said),
        ROW(make_new, a_host_that_differs_makes_no_sentinel),
        ROW(make_known, an_empty_node_gets_what_another_member_shows),
        ROW(make_known, a_node_that_never_shows_the_record_is_given_it_in_its_time),
        ROW(make_known, a_record_that_changes_all_the_time_is_read_in_its_time),
        ROW(make_known, where_all_forgot_it_is_founded_again_with_all),
        ROW(make_lost, a_link_that_is_elsewhere_goes_to_its_seat),
        ROW(make_lost, a_link_that_is_away_looks_at_its_seat),
        ROW(make_named, what_is_known_of_the_seats_server_stays_known),
        ROW(make_named, what_the_seats_server_forgot_meanwhile_is_found),
        ROW(make_behind_a_proxy, as_is_never_overruled),
        ROW(make_anew, anew_the_records_of_before_are_replaced_once),
        ROW(make_anew, anew_what_was_not_read_is_not_replaced),
        ROW(make_anew, anew_a_server_elsewhere_keeps_its_record),
        ROW(make_anew, anew_a_record_of_these_servers_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

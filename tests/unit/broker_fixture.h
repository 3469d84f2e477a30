/* One room of the broker with the test in place of the thread: the clock stands still until the test moves it, the
 * loop has no thread, and what goes to the renewal thread lies in a mailbox. The linker takes these clock and loop in
 * place of agent/base's. Include once, after cmocka.h. */
#ifndef HOLDFAST_TESTS_BROKER_FIXTURE_H
#define HOLDFAST_TESTS_BROKER_FIXTURE_H

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "shm/compiler.h"
#include "tests/unit/shm_fixture.h"

#define NODES      3
#define QUORUM     2
#define CAPACITY   4096 /* the least */
#define TTL_MS     3000
#define TTL_MAX_MS 60000
#define BIG_LOG    2000

static struct config config;
static struct agent agent;

/* --- clock ------------------------------------------------------------------------------------ */

static hf_time its_time = {1000 * HF_NS_PER_SEC};

hf_time clock_now(void)
{
    return its_time;
}

hf_wall clock_wall(void)
{
    return (hf_wall){1700000000000 + its_time.ns / HF_NS_PER_MS};
}

/* --- loop ------------------------------------------------------------------------------------- */

#define MOST 256

struct loop {
    struct heap timers;
    struct heap_item *items[4 * MOST];
    struct loop_fd *watched[MOST];
};

static struct loop the_loop = {.timers = {.items = the_loop.items, .room = 4 * MOST}};
static struct loop *const loop = &the_loop;

/* How often a room wanted to know the time: once for each waiter that is told. */
static unsigned looks;

/* The turn that is running began so long ago. */
static hf_dur turn_has_taken;

hf_time loop_now(HF_UNUSED const struct loop *l)
{
    looks++;
    return hf_time_sub(its_time, turn_has_taken);
}

int loop_timer_set(struct loop *l, struct loop_timer *timer, hf_time at)
{
    assert_true(l->timers.count + 1 < l->timers.room);
    if (heap_has(&timer->item))
        heap_move(&l->timers, &timer->item, at);
    else
        heap_insert(&l->timers, &timer->item, at);
    return HF_OK;
}

void loop_timer_cancel(struct loop *l, struct loop_timer *timer)
{
    heap_remove(&l->timers, &timer->item);
}

int loop_fd_add(struct loop *l, struct loop_fd *watch, int fd, void (*fn)(struct loop_fd *))
{
    for (int i = 0; i < MOST; i++)
        if (!l->watched[i]) {
            l->watched[i] = watch;
            watch->fd = fd;
            watch->fn = fn;
            watch->priv = &l->watched[i];
            return HF_OK;
        }
    return HF_ENOMEM;
}

int loop_fd_watch(struct loop *l, struct loop_fd *watch, int fd, HF_UNUSED unsigned events,
                  void (*fn)(struct loop_fd *))
{
    return loop_fd_add(l, watch, fd, fn);
}

void loop_fd_remove(HF_UNUSED struct loop *l, struct loop_fd *watch)
{
    if (watch->priv)
        *(struct loop_fd **)watch->priv = NULL;
    watch->priv = NULL;
}

void loop_wake(HF_UNUSED struct loop *l) {}

/* What a room does last in each turn of the loop: after each thing that happens to it. NULL: nothing. */
static HF_UNUSED void (*last_in_turn)(void);

static HF_UNUSED void end_turn(void)
{
    if (last_in_turn)
        last_in_turn();
}

/* What is due runs, at its time. */
static HF_UNUSED void pass(int ms)
{
    hf_time end = hf_time_add(its_time, hf_ms(ms));
    struct heap_item *first;

    while ((first = heap_first(&loop->timers)) && hf_time_reached(end, first->at)) {
        struct loop_timer *timer = HF_CONTAINER(first, struct loop_timer, item);

        its_time = hf_time_max(its_time, first->at);
        heap_remove(&loop->timers, first);
        timer->fn(timer, its_time);
        end_turn();
    }
    its_time = end;
}

/* Every descriptor that is readable by now is told once. */
static HF_UNUSED void turn(void)
{
    for (int i = 0; i < MOST; i++) {
        struct loop_fd *watch = loop->watched[i];
        struct pollfd poller = {.fd = watch ? watch->fd : -1, .events = POLLIN};

        if (watch && poll(&poller, 1, 0) == 1)
            watch->fn(watch);
    }
}

/* --- agent ------------------------------------------------------------------------------------ */

static HF_UNUSED void make_agent(void)
{
    char why[WHY_SIZE], text[64];

    log_init(LOG_LEVEL_ERROR);
    memset(&agent, 0, sizeof(agent));
    memset(&config, 0, sizeof(config));
    config.node_count = NODES;
    config.ttl_ms = TTL_MS;
    config.ttl_max_ms = TTL_MAX_MS;
    config_count_all(&config);
    config.capacity = CAPACITY;
    config.clients_max = 16;
    config.groups_max = 8;
    config.group = (gid_t)-1;
    snprintf(config.key_format, sizeof(config.key_format), "%%s");
    snprintf(config.list_hash, sizeof(config.list_hash), "cafe");
    for (int i = 0; i < NODES; i++) {
        snprintf(text, sizeof(text), "n%d=10.0.0.1:%d", i + 1, 7000 + i);
        assert_int_equal(node_address_parse(text, &config.nodes[i], why, sizeof(why)), HF_OK);
    }
    assert_int_equal(
        timing_derive(hf_ms(TTL_MS), hf_ms(TTL_MAX_MS), &config.timing, why, sizeof(why)), HF_OK);
    agent.config = &config;
    agent.table = fixture_table(CAPACITY);
    snprintf(agent.host, sizeof(agent.host), "host-a");
    mailbox_init(&agent.to_renewal, loop);
}

static HF_UNUSED void unmake_agent(void)
{
    mailbox_fini(&agent.to_renewal);
    hf_table_close(&agent.table);
    loop->timers.count = 0; /* what they were part of is gone */
}

static HF_UNUSED uint64_t counter(enum hf_counter which)
{
    return hf_counter_read(&agent.table, which);
}

/* The next message to the renewal thread, which is the caller's; fails unless it is of that kind. */
static HF_UNUSED struct message *posted(enum message_kind kind)
{
    struct message *m = mailbox_take(&agent.to_renewal);

    assert_non_null(m);
    assert_int_equal(m->kind, kind);
    return m;
}

static HF_UNUSED void was_posted(enum message_kind kind)
{
    free(posted(kind));
}

static HF_UNUSED void nothing_was_posted(void)
{
    assert_null(mailbox_take(&agent.to_renewal));
}

/* --- what goes up, in its order --------------------------------------------------------------- */

static char heard[BIG_LOG];

static HF_UNUSED void hear(const char *word)
{
    size_t used = strlen(heard);

    snprintf(heard + used, sizeof(heard) - used, "%s%s", used ? " " : "", word);
}

/* All that was heard since the last time, one blank between words. */
static HF_UNUSED void assert_heard(const char *words)
{
    assert_string_equal(heard, words);
    heard[0] = '\0';
}

static HF_UNUSED int count_heard(const char *word)
{
    int count = 0;

    for (const char *at = heard; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

#endif

/* Three real nodes, and questions to them past the agent. Include once, after cmocka.h. */
#ifndef HOLDFAST_TESTS_NODES_FIXTURE_H
#define HOLDFAST_TESTS_NODES_FIXTURE_H

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hiredis/hiredis.h>

#include "agent/base/clock.h"
#include "agent/base/address.h"
#include "agent/redis/link.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/redis_server.h"
#include "tests/support/tokens.h"

#define NODES      3
#define TTL_MAX_MS 3000 /* a node is of age after 608 ms */
#define NONCE      "0123456789abcdef0123456789abcdef"
#define FAR_MS     20000 /* longer than any test waits for what it wants to see */

static struct redis_server nodes[NODES];

/* An answer as text: a string, an integer's digits, "" for nil. Static storage. */
static const char *ask(int node, const char *format, ...)
{
    static char text[8192];
    redisContext *c = redisConnectUnix(nodes[node].socket);
    redisReply *reply;
    va_list args;

    assert_non_null(c);
    assert_int_equal(c->err, 0);
    va_start(args, format);
    reply = redisvCommand(c, format, args);
    va_end(args);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, sizeof(text), "%lld", reply->integer);
    else
        snprintf(text, sizeof(text), "%s",
                 reply->type == REDIS_REPLY_NIL || !reply->str ? "" : reply->str);
    freeReplyObject(reply);
    redisFree(c);
    return text;
}

static long ask_number(int node, const char *command, const char *key)
{
    return atol(ask(node, "%s %s", command, key));
}

/* How often the node ran `command` ("pexpire") since its start or the last CONFIG RESETSTAT. */
static HF_UNUSED long calls_of(int node, const char *command)
{
    char field[64];
    const char *at;

    snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    at = strstr(ask(node, "INFO commandstats"), field);
    return at ? atol(at + strlen(field)) : 0;
}

/* Nodes (by bit) on which the key holds that value. */
static uint32_t holders_of(const char *key, const char *value)
{
    uint32_t held = 0;

    for (int i = 0; i < NODES; i++)
        if (nodes[i].pid > 0 && strcmp(ask(i, "GET %s", key), value) == 0)
            held |= UINT32_C(1) << i;
    return held;
}

static HF_UNUSED void put_everywhere(const char *key, const char *value, long ttl_ms)
{
    for (int i = 0; i < NODES; i++)
        ask(i, "SET %s %s PX %ld", key, value, ttl_ms);
}

/* The sentinel, as an agent would have made it an hour ago. */
static HF_UNUSED void put_sentinel(int node, const char *nonce)
{
    long long now = (long long)time(NULL) - 3600;

    ask(node,
        "HSET holdfast:node nonce %s created_us %lld created_wall_ms %lld ttl_max_ms %d nodes "
        "3 list_hash cafe",
        nonce, now * 1000000, now * 1000, TTL_MAX_MS);
}

static HF_UNUSED void sleep_ms(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static int start_nodes(void)
{
    signal(SIGPIPE, SIG_IGN);
    memset(nodes, 0, sizeof(nodes));
    for (int i = 0; i < NODES; i++)
        if (!redis_server_start(&nodes[i], NULL))
            return -1;
    return 0;
}

static void remove_nodes(void)
{
    for (int i = 0; i < NODES; i++)
        redis_server_remove(&nodes[i]);
}

static void node_address(int node, struct node_address *ret_address)
{
    char why[256];

    if (node_address_parse(nodes[node].socket, ret_address, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
}

#endif

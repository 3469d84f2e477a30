#include "tests/sim/fake_hiredis.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "agent/redis/script.h"
#include "agent/redis/command.h"
#include "agent/base/token.h"
#include "tests/sim/checks.h"
#include "tests/sim/watches.h"
#include "tests/sim/vnode.h"

#define FD_FIRST     2000000
#define PROXY_ERROR  "ERR the server behind this proxy is away"
#define SCRIPT_LEAST 1024 /* bytes: what is longer is a script's text */

/* What link.c puts its guard around; nothing reads through it here. */
static redisReplyObjectFunctions no_functions;

static struct sim_connection *connections;
static int connection_count;
static uint64_t message_count;

void fake_reset(void)
{
    connections = NULL;
    connection_count = 0;
    message_count = 0;
    watches_reset();
}

struct sim_connection *connections_first(void)
{
    return connections;
}

/* --- formatting ------------------------------------------------------------------------------- */

static size_t length_of(const char *const *argv, const size_t *lengths, int i)
{
    if (!lengths)
        return strlen(argv[i]);
    return lengths[i] == COMMAND_TOKEN ? TOKEN_LEN : lengths[i];
}

/* Behind `c` lie its arrays and its words. Returns where it ends. */
static char *command_make(struct command *c, int argc, const char *const *argv,
                          const size_t *lengths)
{
    char *at;

    c->argc = argc;
    c->argv = (const char **)(c + 1);
    c->length = (size_t *)(c->argv + argc);
    at = (char *)(c->length + argc);
    for (int i = 0; i < argc; i++) {
        c->length[i] = length_of(argv, lengths, i);
        if (c->length[i] > SCRIPT_LEAST) {
            c->argv[i] = argv[i];
            continue;
        }
        c->argv[i] = at;
        if (lengths && lengths[i] == COMMAND_TOKEN)
            token_text((const struct token *)(const void *)argv[i], at);
        else
            memcpy(at, argv[i], c->length[i]);
        at[c->length[i]] = '\0';
        at += c->length[i] + 1;
    }
    return at;
}

size_t command_room(int argc, const char **argv, const size_t *lengths)
{
    size_t room = sizeof(struct command) + (size_t)argc * (sizeof(char *) + sizeof(size_t));

    for (int i = 0; i < argc; i++)
        room += length_of(argv, lengths, i) + 1;
    return room;
}

size_t command_write(char *ret_command, int argc, const char **argv, const size_t *lengths)
{
    struct command *c = (struct command *)(void *)ret_command;

    return (size_t)(command_make(c, argc, argv, lengths) - ret_command);
}

void *hi_malloc(size_t size);
void *hi_malloc(size_t size)
{
    return malloc(size);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Acquire, heal, or what puts the fleet's record. */
static bool command_sets(const struct command *c)
{
    int script = strcmp(c->argv[0], "EVALSHA") == 0 ? atoi(c->argv[1]) : -1;

    return script == SCRIPT_ACQUIRE || script == SCRIPT_HEAL || script == SCRIPT_FLEET;
}

static void reply_free(struct redisReply *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; i < reply->elements; i++)
        reply_free(reply->element[i]);
    sim_free(reply);
}

static void message_free(struct sim_message *m)
{
    reply_free(m->reply);
    sim_free(m);
}

/* It travels on for a while, and runs, though its connection breaks before. */
static sim_ns stray(struct sim_message *m, sim_ns at)
{
    struct sim_connection *c = m->connection;

    if (sim.settling || !(sim.plan.faulty_nodes >> c->node->number & 1) ||
        !command_sets(&m->command) || !rng_chance(&sim.rng, 0.05))
        return at;
    at += rng_log(&sim.rng, 5 * SIM_MS, 150 * SIM_MS);
    c->strays = true;
    sim_at(&c->connect, sim.now + rng_below(&sim.rng, at - sim.now));
    return at;
}

static void message_send(struct sim_message *m)
{
    struct sim_connection *c = m->connection;
    sim_ns at = net_arrival(c->host, c->node, NET_THERE);

    if (sim.plan.fault[FAULT_STRAY])
        at = stray(m, at);

    m->sent = true;
    m->sent_at = sim.now;
    m->sent_now = host_now(c->host);
    if (at < c->there_at)
        at = c->there_at;
    c->there_at = at;
    sim_at(&m->event, at);
}

static void flush(struct sim_connection *c)
{
    if (c->state != CONN_OPEN || c->client_gone)
        return;
    for (struct sim_message *m = c->first; m; m = m->next)
        if (!m->sent)
            message_send(m);
}

void fake_flush_all(struct loop *loop)
{
    for (struct sim_connection **at = &connections; *at;) {
        struct sim_connection *c = *at;

        if (c->client_gone) {
            *at = c->next;
            continue;
        }
        at = &c->next;
        if (c->loop == loop)
            flush(c);
    }
}

/* The connection ends at a proxy, which has one of its own to the server that runs now. False: there is none. */
static bool pass_proxy(struct sim_connection *c)
{
    if (c->node_life == c->node->life)
        return true;
    if (!c->node->proxied || !c->node->running)
        return false;
    watches_forget(c);
    c->node_life = c->node->life;
    c->redirect = 0;
    c->name[0] = '\0';
    c->caching = false;
    return true;
}

/* Lost with the connection, or it came to another process than the one it was for: that resets. */
static void travelled_in_vain(struct sim_message *m)
{
    struct sim_connection *c = m->connection;

    if (c->client_gone) {
        message_free(m);
    } else if (!c->cut && c->node->running) {
        c->cut = true;
        sim_at(&c->connect, net_arrival(c->host, c->node, NET_BACK));
    }
}

static void on_arrival(struct sim_event *event)
{
    struct sim_message *m = HF_CONTAINER(event, struct sim_message, event);
    struct sim_connection *c = m->connection;

    if (!m->executed) {
        if (!m->lost && !c->cut && c->node->proxied && !c->node->running) {
            m->reply = reply_text(REDIS_REPLY_ERROR, PROXY_ERROR, strlen(PROXY_ERROR));
            message_answered(m);
        } else if (!m->lost && pass_proxy(c))
            vnode_receive(c->node, m);
        else
            travelled_in_vain(m);
        return;
    }
    if (c->client_gone)
        message_free(m);
    else if (!c->cut)
        loop_io(c->loop, &m->io);
}

void message_answered(struct sim_message *m)
{
    struct sim_connection *c = m->connection;
    sim_ns at;

    m->executed = true;
    if (c->client_gone)
        message_free(m);
    if (c->client_gone || c->cut)
        return;
    at = net_arrival(c->host, c->node, NET_BACK);
    if (at < c->back_at)
        at = c->back_at;
    c->back_at = at;
    sim_at(&m->event, at);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* As hiredis does it: every callback with NULL, then the disconnect callback. The memory stays
 * until the end of the schedule. */
static void client_end(struct sim_connection *c, int status)
{
    bool connected = c->context.c.flags & REDIS_CONNECTED;

    if (c->client_gone)
        return;
    c->client_gone = true;
    loop_io_drop(c->loop, &c->io);
    sim_cancel(&c->connect);
    c->context.c.flags |= REDIS_IN_CALLBACK;
    for (struct sim_message *m = c->first, *next; m; m = next) {
        next = m->next;
        loop_io_drop(c->loop, &m->io);
        m->fn(&c->context, NULL, m->arg);
        if (!m->sent || (m->executed && !m->event.place))
            message_free(m); /* else it still travels */
    }
    c->context.c.flags &= ~REDIS_IN_CALLBACK;
    if (c->context.onDisconnect && connected)
        c->context.onDisconnect(&c->context, status);
    if (c->context.ev.cleanup)
        c->context.ev.cleanup(c->context.ev.data);
    c->first = NULL;
    c->last = &c->first;
}

void redisAsyncFree(redisAsyncContext *context)
{
    struct sim_connection *c = HF_CONTAINER(context, struct sim_connection, context);

    context->c.flags |= REDIS_FREEING;
    if (!(context->c.flags & REDIS_IN_CALLBACK))
        client_end(c, REDIS_OK);
}

static void after_callback(struct sim_connection *c)
{
    c->context.c.flags &= ~REDIS_IN_CALLBACK;
    if (c->context.c.flags & REDIS_FREEING)
        client_end(c, REDIS_OK);
}

static void end_with_error(struct sim_connection *c)
{
    c->context.err = c->context.c.err = REDIS_ERR_EOF;
    snprintf(c->context.c.errstr, sizeof(c->context.c.errstr), "Server closed the connection");
    c->context.errstr = c->context.c.errstr;
    client_end(c, REDIS_ERR);
}

void fake_agent_gone(struct sim_host *host)
{
    for (struct sim_connection *c = connections; c; c = c->next) {
        if (c->host != host || c->client_gone)
            continue;
        c->client_gone = true;
        sim_cancel(&c->connect);
    }
    watches_agent_gone(host);
}

void connection_break(struct sim_connection *c, bool told)
{
    bool lost = false;

    if (c->client_gone || c->cut || c->state != CONN_OPEN)
        return;
    c->cut = true;
    for (struct sim_message *m = c->first; m; m = m->next) {
        lost = lost || rng_chance(&sim.rng, 0.4);
        m->lost = m->lost || lost;
        if (m->executed)
            sim_cancel(&m->event); /* the answer */
    }
    if (told)
        sim_at(&c->connect, net_arrival(c->host, c->node, NET_BACK));
}

void connections_node_gone(struct vnode *node)
{
    for (struct sim_connection *c = connections; c; c = c->next) {
        if (c->node != node || c->client_gone || c->cut || node->proxied)
            continue;
        if (c->state == CONN_OPEN) {
            c->cut = true;
            sim_at(&c->connect, net_arrival(c->host, c->node, NET_BACK));
        }
    }
    watches_node_gone(node);
}

void connections_hurry(void)
{
    for (struct sim_connection *c = connections; c; c = c->next) {
        if (c->client_gone)
            continue;
        c->there_at = c->back_at = 0;
        if (c->connect.place)
            sim_at(&c->connect, net_arrival(c->host, c->node, NET_THERE));
        for (struct sim_message *m = c->first; m; m = m->next) {
            sim_ns *last = m->executed ? &c->back_at : &c->there_at;

            if (!m->event.place)
                continue;
            *last = *last > sim.now ? *last : sim.now;
            *last += SIM_US;
            sim_at(&m->event, *last);
        }
    }
    watches_hurry();
}

/* --- connecting ------------------------------------------------------------------------------- */

static void on_io(struct sim_io *io)
{
    struct sim_connection *c = HF_CONTAINER(io, struct sim_connection, io);

    if (c->client_gone)
        return;
    if (c->state == CONN_OPEN && c->cut) {
        end_with_error(c);
        return;
    }
    c->context.c.flags |= REDIS_IN_CALLBACK;
    if (c->failed) {
        snprintf(c->context.c.errstr, sizeof(c->context.c.errstr), "Connection refused");
        c->context.errstr = c->context.c.errstr;
        c->context.err = c->context.c.err = REDIS_ERR_IO;
        c->context.onConnect(&c->context, REDIS_ERR);
        c->context.c.flags &= ~REDIS_IN_CALLBACK;
        client_end(c, REDIS_ERR);
        return;
    }
    c->context.c.flags |= REDIS_CONNECTED;
    c->context.onConnect(&c->context, REDIS_OK);
    after_callback(c);
}

/* The connection is made, refused, or seen to have ended. */
static void on_connect_event(struct sim_event *event)
{
    struct sim_connection *c = HF_CONTAINER(event, struct sim_connection, connect);

    if (c->client_gone)
        return;
    if (c->state == CONN_CONNECTING) {
        if (!vnode_listens(c->node) && !c->node->proxied) {
            if (c->node->unreachable)
                return; /* no answer at all */
            c->failed = true;
        }
        c->state = CONN_OPEN;
        c->node_life = c->node->life;
    }
    if (c->strays && !c->cut) {
        sim_trace("a connection of h%d to n%d breaks, with something on its way", c->host->number,
                  c->node->number);
        c->cut = true;
    }
    loop_io(c->loop, &c->io);
}

redisAsyncContext *redisAsyncConnect(const char *address, int port)
{
    struct sim_connection *c = sim_alloc(sizeof(*c));

    (void)address;
    c->number = connection_count++;
    c->host = sim.frame->host;
    c->loop = loop_current();
    c->node = vnode_at(port);
    c->last = &c->first;
    c->io.fn = on_io;
    c->connect.fn = on_connect_event;
    c->context.c.fd = FD_FIRST + c->number;
    c->reader.fn = &no_functions;
    c->context.c.reader = &c->reader;
    c->next = connections;
    connections = c;
    sim_at(&c->connect, net_arrival(c->host, c->node, NET_THERE));
    return &c->context;
}

redisAsyncContext *redisAsyncConnectUnix(const char *path)
{
    (void)path;
    return NULL;
}

int redisAsyncSetConnectCallback(redisAsyncContext *context, redisConnectCallback *fn)
{
    context->onConnect = fn;
    return REDIS_OK;
}

int redisAsyncSetDisconnectCallback(redisAsyncContext *context, redisDisconnectCallback *fn)
{
    context->onDisconnect = fn;
    return REDIS_OK;
}

/* --- commands --------------------------------------------------------------------------------- */

static void on_message_io(struct sim_io *io)
{
    struct sim_message *m = HF_CONTAINER(io, struct sim_message, io);
    struct sim_connection *c = m->connection;

    if (c->client_gone)
        return;
    if (c->first != m) {
        sim_violation("simulator", "an answer out of order");
        return;
    }
    c->first = m->next;
    if (!c->first)
        c->last = &c->first;
    c->context.c.flags |= REDIS_IN_CALLBACK;
    checks_answered(m);
    m->fn(&c->context, m->reply, m->arg);
    message_free(m);
    after_callback(c);
}

int redisAsyncFormattedCommand(redisAsyncContext *context, redisCallbackFn *fn, void *arg,
                               const char *command, size_t length)
{
    struct sim_connection *c = HF_CONTAINER(context, struct sim_connection, context);
    const struct command *given;
    struct sim_message *m;

    if (context->c.flags & (REDIS_DISCONNECTING | REDIS_FREEING))
        return REDIS_ERR;
    sim_preempt();
    m = sim_alloc(sizeof(*m) + length);
    m->event.fn = on_arrival;
    m->io.fn = on_message_io;
    m->connection = c;
    m->fn = fn;
    m->arg = arg;
    m->serial = message_count++;
    given = (const struct command *)command;
    (void)command_make(&m->command, given->argc, given->argv, given->length);
    checks_sent(c, &m->command);
    *c->last = m;
    c->last = &m->next;
    sim.commands++;
    loop_io_later(c->loop);
    return REDIS_OK;
}

void redisAsyncHandleWrite(redisAsyncContext *context)
{
    flush(HF_CONTAINER(context, struct sim_connection, context));
}

void redisAsyncHandleRead(redisAsyncContext *context)
{
    (void)context;
}

/* Whoever looks it up wants to connect there again. */
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
    (void)fd;
    memset(address, 0, *size);
    return 0;
}

int __wrap_getnameinfo(const struct sockaddr *address, socklen_t size, char *ret_host,
                       socklen_t host_size, char *ret_service, socklen_t service_size, int flags);
int __wrap_getnameinfo(const struct sockaddr *address, socklen_t size, char *ret_host,
                       socklen_t host_size, char *ret_service, socklen_t service_size, int flags)
{
    (void)address;
    (void)size;
    (void)ret_service;
    (void)service_size;
    (void)flags;
    snprintf(ret_host, host_size, "10.0.0.1");
    return 0;
}

/* All nodes speak the protocol that agents speak. */
struct link;
bool __wrap_knock_wanted(const struct link *link);
bool __wrap_knock_wanted(const struct link *link)
{
    (void)link;
    return false;
}

/* FIONREAD: whether answers lie unread. */
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
    struct sim_connection *c = connections;
    va_list args;
    int *ret_bytes;

    va_start(args, request);
    ret_bytes = va_arg(args, int *);
    va_end(args);
    while (c && c->context.c.fd != fd)
        c = c->next;
    *ret_bytes = c && c->first && c->first->io.queued;
    return 0;
}

/* --- replies ---------------------------------------------------------------------------------- */

struct redisReply *reply_text(int type, const char *text, size_t length)
{
    redisReply *reply = sim_alloc(sizeof(*reply) + length + 1);

    reply->type = type;
    reply->str = (char *)(reply + 1);
    reply->len = length;
    memcpy(reply->str, text, length);
    return reply;
}

struct redisReply *reply_number(long long number)
{
    redisReply *reply = sim_alloc(sizeof(*reply));

    reply->type = REDIS_REPLY_INTEGER;
    reply->integer = number;
    return reply;
}

struct redisReply *reply_nil(void)
{
    redisReply *reply = sim_alloc(sizeof(*reply));

    reply->type = REDIS_REPLY_NIL;
    return reply;
}

struct redisReply *reply_array(size_t elements)
{
    redisReply *reply = sim_alloc(sizeof(*reply) + elements * sizeof(redisReply *));

    reply->type = REDIS_REPLY_ARRAY;
    reply->elements = elements;
    reply->element = (redisReply **)(reply + 1);
    return reply;
}

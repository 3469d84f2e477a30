/* One thread per node. It waits for no longer than the patience, however slowly a peer speaks. */
#include "agent/redis/node_look.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/base/clock.h"
#include "agent/redis/bounds.h"
#include "agent/redis/link_internal.h"
#include "agent/redis/remedy.h"
#include "agent/redis/tls.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define POLL_MS 2

enum glance_state { LOOKING, DONE, LEFT };

/* The thread's until DONE, the asker's from then on. Who comes second frees it. */
struct glance {
    _Atomic int state;
    struct node_address address;
    hf_dur patience;
    bool wants_keys;
    hf_time began;
    redisContext *context;
    struct bounds bounds;
    struct tls *tls; /* NULL: plain */
    bool answered;   /* to any command */
    bool late;       /* the time is over */
    bool garbled;    /* what it says cannot be read */
    struct node_look look;
};

/* --- the thread ------------------------------------------------------------------------------- */

static void fail(struct glance *g, enum node_look_outcome outcome, const char *text)
{
    char shown[LINK_TEXT_MAX];

    link_show_text(g->address.password, shown, text);
    g->look.outcome = outcome;
    snprintf(g->look.text, sizeof(g->look.text), "%s", shown);
}

static void fail_by_time(struct glance *g)
{
    char text[64];

    snprintf(text, sizeof(text), "no answer within %.0f s", (double)hf_dur_ms(g->patience) / 1000);
    fail(g, NODE_LOOK_AWAY, text);
}

/* By its certificate, by ours, or by the lack of TLS it will be refused for ever. */
static void fail_by_tls(struct glance *g)
{
    enum hf_node_error error = tls_error(g->tls);

    fail(g, error == HF_NODE_ERR_BROKEN ? NODE_LOOK_AWAY : NODE_LOOK_REFUSED,
         tls_error_text(g->tls));
}

static redisContext *dial(const struct glance *g, hf_dur patience)
{
    const struct node_address *a = &g->address;
    const struct timeval most = {.tv_sec = patience.ns / HF_NS_PER_SEC,
                                 .tv_usec = patience.ns % HF_NS_PER_SEC / HF_NS_PER_US};
    redisContext *context = a->unix_socket ? redisConnectUnixWithTimeout(a->host, most)
                                           : redisConnectWithTimeout(a->host, a->port, most);

    if (context && !context->err)
        (void)redisSetTimeout(context, most);
    return context;
}

/* (!) A descriptor that blocks has a time for each read, of which a peer can make as many as it likes. */
static bool unblock(redisContext *context)
{
    int flags = fcntl(context->fd, F_GETFL);

    context->flags &= ~REDIS_BLOCK;
    return flags >= 0 && fcntl(context->fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* A peer that says nothing may speak the other protocol. True: it does, and the look has failed. */
static bool fail_by_protocol(struct glance *g)
{
    enum hf_node_error error = HF_NODE_ERR_NONE;
    unsigned char first;
    size_t length;
    const void *words = tls_knock(&g->address, &length);
    redisContext *other = g->address.unix_socket ? NULL : dial(g, hf_ns(g->patience.ns / 4));

    if (other && !other->err && send(other->fd, words, length, MSG_NOSIGNAL) == (ssize_t)length &&
        recv(other->fd, &first, 1, 0) == 1)
        error = tls_knocked(&g->address, first);
    if (other)
        redisFree(other);
    if (error != HF_NODE_ERR_NONE)
        fail(g, NODE_LOOK_REFUSED, tls_knocked_text(error));
    return error != HF_NODE_ERR_NONE;
}

static void fail_without_answer(struct glance *g)
{
    const redisContext *c = g->context;

    if (g->bounds.beyond)
        fail(g, NODE_LOOK_REFUSED, bounds_text(&g->bounds));
    else if (g->garbled)
        fail(g, NODE_LOOK_REFUSED, "what answers there is no Redis");
    else if (g->late)
        fail_by_time(g);
    else if (g->tls)
        fail_by_tls(g);
    else if (g->answered || !fail_by_protocol(g))
        fail(g, NODE_LOOK_AWAY, c->errstr);
}

/* (!) The text of AUTH's error may repeat the password, or part of it. */
static void fail_by_error(struct glance *g, const char *command, const char *text)
{
    enum hf_node_error error = reply_error_class(text);
    bool passes = error == HF_NODE_ERR_LOADING || error == HF_NODE_ERR_BUSY;
    char remedy[REMEDY_SIZE] = "", shown[LINK_TEXT_MAX];

    if (strcmp(command, "AUTH") == 0)
        text = "user or password is wrong, or none is wanted";
    else
        (void)remedy_of(command, text, g->look.facts.run_id[0], remedy);
    link_show_text(g->address.password, shown, text);
    g->look.outcome = passes ? NODE_LOOK_AWAY : NODE_LOOK_REFUSED;
    if (*remedy)
        snprintf(g->look.text, sizeof(g->look.text), "%s (%s: %.120s)", remedy, command, shown);
    else
        snprintf(g->look.text, sizeof(g->look.text), "%s: %.120s", command, shown);
}

/* Waits until the descriptor is ready for that step. False: the time is over, or the connection. */
static bool await(struct glance *g, enum tls_step step, hf_time until)
{
    struct pollfd ready = {.fd = g->context->fd, .events = step == TLS_WRITE ? POLLOUT : POLLIN};
    hf_time now = clock_now();

    if (step != TLS_READ && step != TLS_WRITE)
        return step == TLS_DONE;
    g->late = !hf_time_before(now, until);
    if (!g->late)
        (void)poll(&ready, 1, (int)hf_dur_ms(hf_time_since(until, now)) + 1);
    return !g->late;
}

static enum tls_step write_some(struct glance *g)
{
    int done = 0;

    if (g->tls)
        return tls_send(g->tls, &g->context->obuf);
    if (redisBufferWrite(g->context, &done) != REDIS_OK)
        return TLS_ENDED;
    return done ? TLS_DONE : TLS_WRITE;
}

static enum tls_step read_some(struct glance *g)
{
    const redisReader *reader = g->context->reader;
    size_t before = reader->len;

    if (g->tls)
        return tls_feed(g->tls, g->context->reader);
    if (redisBufferRead(g->context) != REDIS_OK)
        return TLS_ENDED;
    return reader->len > before ? TLS_DONE : TLS_READ;
}

/* NULL: no answer came. */
static redisReply *command(struct glance *g, int count, const char **words)
{
    redisContext *c = g->context;
    hf_time until = hf_time_add(g->began, g->patience);
    enum tls_step step = TLS_WRITE;
    void *answer = NULL;

    if (redisAppendCommandArgv(c, count, words, NULL) != REDIS_OK)
        return NULL;
    while (step != TLS_DONE)
        if (!await(g, step = write_some(g), until))
            return NULL;
    for (;;) {
        g->garbled = redisReaderGetReply(c->reader, &answer) != REDIS_OK;
        if (answer || g->garbled || !bounds_hold(&g->bounds, c->reader))
            break;
        if (!await(g, read_some(g), until))
            return NULL;
    }
    g->answered |= answer != NULL;
    return answer;
}

/* NULL: the look has failed. */
static redisReply *ask(struct glance *g, int count, const char **words)
{
    redisReply *answer = command(g, count, words);

    if (!answer) {
        fail_without_answer(g);
    } else if (answer->type == REDIS_REPLY_ERROR) {
        fail_by_error(g, words[0], answer->str);
        freeReplyObject(answer);
        answer = NULL;
    }
    return answer;
}

static bool log_in(struct glance *g)
{
    const struct node_address *a = &g->address;
    const char *full[] = {"AUTH", a->user, a->password}, *plain[] = {"AUTH", a->password};
    char db[12];
    const char *select[] = {"SELECT", db};
    redisReply *answer = NULL;

    if (a->password[0]) {
        answer =
            a->user[0] ? ask(g, (int)HF_LENGTH(full), full) : ask(g, (int)HF_LENGTH(plain), plain);
        if (!answer)
            return false;
        freeReplyObject(answer);
    }
    if (a->db == 0)
        return true;
    snprintf(db, sizeof(db), "%d", a->db);
    answer = ask(g, (int)HF_LENGTH(select), select);
    if (answer)
        freeReplyObject(answer);
    return answer;
}

/* Each by a command that changes nothing; another error than that of a missing right is no matter here. */
static bool may_all(struct glance *g)
{
    const char *words[ACL_WORDS], *user = g->address.user[0] ? g->address.user : "default";
    char text[ACL_TEXT], lacking[NODE_LOOK_TEXT];
    struct acl_lack lack = {0};
    int count;

    for (int i = 0; (count = acl_ask(i, words)) > 0; i++) {
        redisReply *answer = command(g, count, words);

        if (!answer) {
            fail_without_answer(g);
            return false;
        }
        if (answer->type == REDIS_REPLY_ERROR)
            acl_note(&lack, i, answer->str);
        freeReplyObject(answer);
    }
    if (acl_is_complete(&lack))
        return true;
    snprintf(lacking, sizeof(lacking), "ACL SETUSER %s %s: its user lacks these rights", user,
             acl_text(&lack, text));
    if (!acl_suffices(&lack)) {
        fail(g, NODE_LOOK_REFUSED, lacking);
        return false;
    }
    memcpy(g->look.lacks, lacking, sizeof(lacking));
    return true;
}

static bool read_facts(struct glance *g)
{
    const char *info[] = {"INFO"};
    redisReply *answer = ask(g, (int)HF_LENGTH(info), info);
    bool good;

    if (!answer)
        return false;
    good = reply_decode_info(answer, &g->look.facts);
    if (!good)
        fail(g, NODE_LOOK_REFUSED,
             remedy_of_info(answer->type == REDIS_REPLY_STRING ? answer->str : ""));
    freeReplyObject(answer);
    return good;
}

static void read_record(struct glance *g, const redisReply *record)
{
    g->look.recorded = record->type == REDIS_REPLY_STRING
                           ? fleet_record_read(record->str, (size_t)record->len, &g->look.record)
                           : HF_ENOTHELD;
}

static void read_peer(struct glance *g)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);

    if (g->address.as[0])
        memcpy(g->look.peer, g->address.as, sizeof(g->look.peer));
    else if (g->address.unix_socket)
        memcpy(g->look.peer, g->address.host, sizeof(g->look.peer));
    else if (getpeername(g->context->fd, (struct sockaddr *)&peer, &length) == 0)
        node_address_seat_of((struct sockaddr *)&peer, length, g->look.peer);
}

static bool read_sentinel(struct glance *g)
{
    const char *words[] = {"HMGET", LINK_SENTINEL_KEY, LINK_SENTINEL_FIELDS};
    redisReply *answer;
    bool good;

    if (g->look.facts.replica || g->look.facts.cluster)
        return true; /* it is refused anyway, and may not answer */
    answer = ask(g, (int)HF_LENGTH(words), words);
    if (!answer)
        return false;
    good = reply_decode_sentinel(answer, &g->look.sentinel);
    if (good)
        read_record(g, answer->element[answer->elements - 1]);
    freeReplyObject(answer);
    if (!good)
        fail(g, NODE_LOOK_REFUSED, "its key " LINK_SENTINEL_KEY " is no agent's");
    return good;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* [cursor, [keys...]] */
static bool is_page(const redisReply *answer)
{
    return answer->type == REDIS_REPLY_ARRAY && answer->elements == 2 &&
           answer->element[0]->type == REDIS_REPLY_STRING &&
           answer->element[1]->type == REDIS_REPLY_ARRAY;
}

static void take_key(struct glance *g, const redisReply *keys)
{
    if (keys->elements > 0 && keys->element[0]->type == REDIS_REPLY_STRING)
        snprintf(g->look.key, sizeof(g->look.key), "%s", keys->element[0]->str);
}

/* A server with very many keys of others is not looked through to its end, nor one where this user may not. */
static bool look_for_keys(struct glance *g)
{
    char cursor[24] = "0";
    const char *scan[] = {"SCAN", cursor, "MATCH", LINK_KEYS_OF_AGENTS, "COUNT", "500"};
    hf_time until = hf_time_add(g->began, hf_ns(g->patience.ns / 2));
    bool good;

    do {
        redisReply *answer = command(g, (int)HF_LENGTH(scan), scan);

        if (!answer) {
            fail_without_answer(g);
            return false;
        }
        good = is_page(answer);
        if (good) {
            snprintf(cursor, sizeof(cursor), "%s", answer->element[0]->str);
            take_key(g, answer->element[1]);
        }
        freeReplyObject(answer);
    } while (good && !g->look.key[0] && strcmp(cursor, "0") != 0 &&
             hf_time_before(clock_now(), until));
    return true;
}

static bool may_have_keys(const struct glance *g)
{
    return g->wants_keys && !g->look.facts.replica && !g->look.facts.cluster;
}

/* Handshakes for half of the patience: who says nothing in TLS is then asked in plain. */
static bool secure(struct glance *g)
{
    hf_time until = hf_time_add(g->began, hf_ns(g->patience.ns / 2));
    enum tls_step step;
    int rc;

    if (!g->address.tls)
        return true;
    rc = tls_open(NULL, &g->address, g->context->fd, &g->tls);
    if (rc < 0) {
        fail(g, NODE_LOOK_REFUSED,
             rc == HF_EINVAL ? "the agent has no tls_ca_file" : "out of memory");
        return false;
    }
    do
        step = tls_shake(g->tls);
    while (step != TLS_DONE && await(g, step, until));
    if (step == TLS_DONE)
        return true;
    if (step == TLS_ENDED)
        fail_by_tls(g);
    else if (tls_heard(g->tls) || !fail_by_protocol(g))
        fail_by_time(g);
    return false;
}

static void look(struct glance *g)
{
    g->context = dial(g, g->address.tls ? hf_ns(g->patience.ns / 2) : g->patience);
    if (!g->context) {
        fail(g, NODE_LOOK_AWAY, "out of memory");
        return;
    }
    bounds_guard(&g->bounds, g->context->reader, BOUNDS_LINK);
    if (g->context->err || !unblock(g->context))
        fail(g, NODE_LOOK_AWAY, g->context->errstr);
    else if (secure(g) && log_in(g) && may_all(g) && read_facts(g) && read_sentinel(g) &&
             (!may_have_keys(g) || look_for_keys(g))) {
        read_peer(g);
        g->look.outcome = NODE_LOOK_ANSWERED;
    }
    tls_close(g->tls);
    redisFree(g->context);
}

static void free_glance(struct glance *g)
{
    explicit_bzero(&g->address, sizeof(g->address)); /* a password */
    free(g);
}

static void *look_in_thread(void *arg)
{
    struct glance *g = arg;

    look(g);
    if (atomic_exchange(&g->state, DONE) == LEFT)
        free_glance(g);
    return NULL;
}

/* --- the asker -------------------------------------------------------------------------------- */

static struct glance *begin(const struct node_address *address, hf_dur patience, bool wants_keys)
{
    struct glance *g = calloc(1, sizeof(*g));
    pthread_t thread;

    if (!g)
        return NULL;
    g->look.recorded = HF_ENOTHELD;
    atomic_init(&g->state, LOOKING);
    g->address = *address;
    g->patience = patience;
    g->wants_keys = wants_keys;
    g->began = clock_now();
    if (pthread_create(&thread, NULL, look_in_thread, g) != 0) {
        free_glance(g);
        return NULL;
    }
    (void)pthread_detach(thread);
    return g;
}

static bool all_done(struct glance *const *glances, int count)
{
    for (int i = 0; i < count; i++)
        if (glances[i] && atomic_load(&glances[i]->state) != DONE)
            return false;
    return true;
}

static void end(struct glance *g, hf_dur patience, struct node_look *ret_look)
{
    if (!g) {
        snprintf(ret_look->text, sizeof(ret_look->text), "out of memory");
    } else if (atomic_exchange(&g->state, LEFT) == DONE) {
        *ret_look = g->look;
        free_glance(g);
    } else {
        snprintf(ret_look->text, sizeof(ret_look->text), "no answer within %.0f s",
                 (double)hf_dur_ms(patience) / 1000);
    }
}

static void look_at(const struct node_address *addresses, int count, hf_dur patience,
                    bool wants_keys, struct node_look *ret_looks)
{
    hf_time until = hf_time_add(clock_now(), patience);
    struct glance *glances[HF_NODES_MAX];

    for (int i = 0; i < count; i++)
        glances[i] = begin(&addresses[i], patience, wants_keys);
    while (!all_done(glances, count) && hf_time_before(clock_now(), until))
        (void)poll(NULL, 0, POLL_MS);
    for (int i = 0; i < count; i++) {
        ret_looks[i] = (struct node_look){.outcome = NODE_LOOK_AWAY};
        end(glances[i], patience, &ret_looks[i]);
    }
}

void nodes_look(const struct node_address *addresses, int count, hf_dur patience,
                struct node_look *ret_looks)
{
    look_at(addresses, count, patience, false, ret_looks);
}

void node_look_new(const struct node_address *address, hf_dur patience, struct node_look *ret_look)
{
    look_at(address, 1, patience, true, ret_look);
}

/* The floor: a bare quorum lock on N Redis masters, as fast as one thread with N non-blocking
 * connections and poll() can be. "plain" is SET NX PX and the token-checked DEL, with no fence, no
 * deadline and no sentinel; "scripts" runs the scripts that ship. NODE is a port on 127.0.0.1 or
 * the path of a unix socket. Keys expire by their TTL. */
#include "tools/bench/measure.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/scripts.h"

#define NODES_MAX 9
#define KEY_SIZE  (LIBRARY_NAME_LEN + 1)
#define SHUFFLE   7368787L /* a prime: times it, modulo the number of keys, no two are alike */
#define TTL_MS    "30000"

static const char plain_release[] =
    "return redis.call('get',KEYS[1])==ARGV[1] and redis.call('del',KEYS[1]) or 0";
static const char plain_renew[] =
    "local c=redis.call local r={} for i=1,#KEYS do if c('get',KEYS[i])==ARGV[i+1] then "
    "r[i]=c('pexpire',KEYS[i],ARGV[1]) else r[i]=0 end end return r";
static const char token[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char tag[] =
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"; /* nobody asks for the token's own */
static const char bench_nonce[] = "00000000000000000000000000000000";

/* What io_uring sends and receives. */
struct ring_io {
    size_t length; /* to be sent */
    bool receives;
    char out[4096], in[4096];
};

struct floor {
    bool scripts;
    struct uring *ring; /* NULL: write(), poll() and read() */
    struct ring_io io[NODES_MAX];
    int n, q;
    redisContext *node[NODES_MAX];
    long owed[NODES_MAX]; /* unanswered commands */
    char acquire_sha[41], release_sha[41], renew_sha[41];
    char nonce[NODES_MAX][64];
    uint64_t fence;
    double pace_us, next_us; /* between two askings, and when the next may begin; 0: at once */
    double cpu_before[NODES_MAX];
};

static double floor_node_cpu_us(redisContext *c)
{
    redisReply *r = redisCommand(c, "INFO cpu");
    double user = 0, sys = 0;
    const char *p;

    if (r && r->str) {
        if ((p = strstr(r->str, "used_cpu_user:")))
            user = strtod(p + strlen("used_cpu_user:"), NULL);
        if ((p = strstr(r->str, "used_cpu_sys:")))
            sys = strtod(p + strlen("used_cpu_sys:"), NULL);
    }
    freeReplyObject(r);
    return (user + sys) * 1e6;
}

static void floor_load(redisContext *c, char ret_sha[41], const char *text)
{
    redisReply *r = redisCommand(c, "SCRIPT LOAD %s", text);

    if (!r || r->type != REDIS_REPLY_STRING)
        measure_die("SCRIPT LOAD: %s", r ? r->str : c->errstr);
    snprintf(ret_sha, 41, "%s", r->str);
    freeReplyObject(r);
}

static void floor_set_blocking(redisContext *c, bool blocking)
{
    int flags = fcntl(c->fd, F_GETFL);

    fcntl(c->fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
    if (blocking)
        c->flags |= REDIS_BLOCK;
    else
        c->flags &= ~REDIS_BLOCK;
}

static void floor_open_nodes(struct floor *f, int count, char **names)
{
    struct timeval now;

    if (count < 1 || count > NODES_MAX)
        measure_die("1 to %d nodes are needed, not %d", NODES_MAX, count);
    f->n = count;
    f->q = count / 2 + 1;
    gettimeofday(&now, NULL);
    f->fence = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_usec / 1000;
    for (int i = 0; i < count; i++) {
        redisContext *c = names[i][0] == '/'
                              ? redisConnectUnix(names[i])
                              : redisConnect("127.0.0.1", (int)measure_number(names[i], 1));
        redisReply *r;

        if (!c || c->err)
            measure_die("node %s: %s", names[i], c ? c->errstr : "out of memory");
        f->node[i] = c;
        if (f->scripts) {
            floor_load(c, f->acquire_sha, script_acquire);
            floor_load(c, f->release_sha, script_release);
            floor_load(c, f->renew_sha, script_renew);
            /* A node that an agent uses has a sentinel; on any other one is made. */
            r = redisCommand(c, "HSETNX holdfast:node nonce %s", bench_nonce);
            freeReplyObject(r);
            r = redisCommand(c, "HGET holdfast:node nonce");
            snprintf(f->nonce[i], sizeof(f->nonce[i]), "%s", r && r->str ? r->str : "");
            freeReplyObject(r);
        } else {
            floor_load(c, f->release_sha, plain_release);
            floor_load(c, f->renew_sha, plain_renew);
        }
        f->cpu_before[i] = floor_node_cpu_us(c);
        floor_set_blocking(c, false);
    }
}

static double floor_nodes_cpu_us(struct floor *f)
{
    double sum = 0;

    for (int i = 0; i < f->n; i++) {
        floor_set_blocking(f->node[i], true);
        sum += floor_node_cpu_us(f->node[i]) - f->cpu_before[i];
    }
    return sum / f->n;
}

static void floor_flush(struct floor *f)
{
    for (int i = 0; i < f->n; i++) {
        int done = f->ring != NULL;

        if (f->io[i].length)
            uring_send(f->ring, f->node[i]->fd, f->io[i].out, f->io[i].length);
        f->io[i].length = 0;
        while (!done)
            if (redisBufferWrite(f->node[i], &done) != REDIS_OK)
                measure_die("write: %s", f->node[i]->errstr);
    }
}

static void floor_take_replies(struct floor *f, int i)
{
    void *r;

    while (f->owed[i] && redisReaderGetReply(f->node[i]->reader, &r) == REDIS_OK && r) {
        if (((redisReply *)r)->type == REDIS_REPLY_ERROR)
            measure_die("node: %s", ((redisReply *)r)->str);
        freeReplyObject(r);
        f->owed[i]--;
    }
}

static void floor_on_received(void *arg, unsigned i, size_t length)
{
    struct floor *f = arg;

    f->io[i].receives = false;
    if (redisReaderFeed(f->node[i]->reader, f->io[i].in, length) != REDIS_OK)
        measure_die("read: %s", f->node[i]->reader->errstr);
    floor_take_replies(f, (int)i);
}

static void floor_pump_ring(struct floor *f)
{
    for (int i = 0; i < f->n; i++) {
        if (f->io[i].receives || !f->owed[i])
            continue;
        uring_receive(f->ring, f->node[i]->fd, f->io[i].in, sizeof(f->io[i].in), (unsigned)i);
        f->io[i].receives = true;
    }
    uring_wait(f->ring, floor_on_received, f);
}

static void floor_pump(struct floor *f)
{
    struct pollfd p[NODES_MAX];

    if (f->ring) {
        floor_pump_ring(f);
        return;
    }

    for (int i = 0; i < f->n; i++)
        p[i] = (struct pollfd){f->node[i]->fd, POLLIN, 0};
    poll(p, (nfds_t)f->n, -1);
    for (int i = 0; i < f->n; i++) {
        if (!p[i].revents)
            continue;
        if (redisBufferRead(f->node[i]) != REDIS_OK)
            measure_die("read: %s", f->node[i]->errstr);
        floor_take_replies(f, i);
    }
}

/* Until `want` nodes have no more than `most` commands unanswered. */
static void floor_await(struct floor *f, int want, long most)
{
    for (;;) {
        int ready = 0;

        for (int i = 0; i < f->n; i++)
            ready += f->owed[i] <= most;
        if (ready >= want)
            return;
        floor_pump(f);
    }
}

static void floor_append(struct floor *f, int i, const char *format, ...)
{
    struct ring_io *io = &f->io[i];
    va_list args;

    va_start(args, format);
    if (f->ring) {
        char *command;
        int length = redisvFormatCommand(&command, format, args);

        if (length < 0 || io->length + (size_t)length > sizeof(io->out))
            measure_die("a command is too long");
        memcpy(io->out + io->length, command, (size_t)length);
        io->length += (size_t)length;
        redisFreeCommand(command);
    } else {
        redisvAppendCommand(f->node[i], format, args);
    }
    va_end(args);
    f->owed[i]++;
}

static void floor_append_acquire(struct floor *f, int i, const char *key)
{
    if (f->scripts)
        floor_append(f, i,
                     "EVALSHA %s 3 holdfast:node %s holdfast:fence:%s %s " TTL_MS
                     " 4000000000000000 %s %" PRIu64 " %s %" PRIu64 "\n1\n0\n0\nbench\nbench\n",
                     f->acquire_sha, key, key, token, f->nonce[i], f->fence, tag, f->fence);
    else
        floor_append(f, i, "SET %s %s NX PX " TTL_MS, key, token);
}

static void floor_append_release(struct floor *f, int i, const char *key)
{
    if (f->scripts)
        floor_append(f, i, "EVALSHA %s 2 holdfast:node %s %s", f->release_sha, key, token);
    else
        floor_append(f, i, "EVALSHA %s 1 %s %s", f->release_sha, key, token);
}

static void floor_report(struct floor *f, const char *what, const char *figures, double count,
                         double cpu_us)
{
    printf("{\"bench\":\"floor\",\"kind\":\"%s\",\"what\":\"%s\",\"nodes\":%d,%s,\"client_cpu_us\":"
           "%.2f,\"node_cpu_us\":%.2f}\n",
           f->scripts ? "scripts" : "plain", what, f->n, figures, cpu_us / count,
           floor_nodes_cpu_us(f) / count);
}

/* What a lock waits for: a quorum, as the agent; all nodes (redsync); or one node after the other (redlock-py and -cpp).
 * The last is FAN_QUORUM through io_uring. */
enum fan { FAN_QUORUM, FAN_ALL, FAN_IN_TURN, FAN_URING };
static const char *const fans[] = {"lat", "all", "turn", "uring"};

/* Nodes that rest in between, as with an agent, have colder caches. */
static void floor_keep_pace(struct floor *f)
{
    double now_us = measure_now_us();

    if (now_us < f->next_us)
        usleep((unsigned)(f->next_us - now_us));
    f->next_us = measure_now_us() + f->pace_us;
}

static void floor_ask_all(struct floor *f, enum fan fan,
                          void (*ask)(struct floor *, int, const char *), const char *key)
{
    if (f->pace_us > 0)
        floor_keep_pace(f);
    for (int i = 0; i < f->n; i++) {
        ask(f, i, key);
        if (fan == FAN_IN_TURN) {
            floor_flush(f);
            floor_await(f, f->n, 0);
        }
    }
    floor_flush(f);
    floor_await(f, fan == FAN_QUORUM || fan == FAN_URING ? f->q : f->n, 0);
}

static void floor_latency(struct floor *f, long cycles, enum fan fan)
{
    double *samples = malloc(sizeof(*samples) * (size_t)cycles);
    double cpu = measure_cpu_us();
    char figures[96];

    for (long k = 0; k < cycles; k++) {
        double start = measure_now_us();
        char key[KEY_SIZE];

        snprintf(key, sizeof(key), "floor:%ld", k);
        f->fence++;
        floor_ask_all(f, fan, floor_append_acquire, key);
        floor_ask_all(f, fan, floor_append_release, key);
        samples[k] = measure_now_us() - start;
    }
    cpu = measure_cpu_us() - cpu;
    floor_await(f, f->n, 0);
    snprintf(figures, sizeof(figures), "\"p50_us\":%.1f,\"p99_us\":%.1f",
             measure_percentile(samples, (size_t)cycles, 0.5),
             measure_percentile(samples, (size_t)cycles, 0.99));
    floor_report(f, f->pace_us > 0 ? "pace" : fans[fan], figures, (double)cycles, cpu);
    free(samples);
}

/* Only one acquire: to all nodes and back from a quorum. */
static void floor_round_trip(struct floor *f, long cycles, long pause_us)
{
    double *samples = malloc(sizeof(*samples) * (size_t)cycles);
    double cpu = measure_cpu_us();
    char figures[96];

    for (long k = 0; k < cycles; k++) {
        double start;
        char key[KEY_SIZE];

        snprintf(key, sizeof(key), "floor:%d:%ld", (int)getpid(), k);
        f->fence++;
        measure_pause(pause_us);
        start = measure_now_us();
        for (int i = 0; i < f->n; i++)
            floor_append_acquire(f, i, key);
        floor_flush(f);
        floor_await(f, f->q, 0);
        samples[k] = measure_now_us() - start;
        floor_await(f, f->n, 0);
    }
    cpu = measure_cpu_us() - cpu;
    snprintf(figures, sizeof(figures), "\"pause_us\":%ld,\"p50_us\":%.1f,\"p99_us\":%.1f", pause_us,
             measure_percentile(samples, (size_t)cycles, 0.5),
             measure_percentile(samples, (size_t)cycles, 0.99));
    floor_report(f, "rtt", figures, (double)cycles, cpu);
    free(samples);
}

static void floor_throughput(struct floor *f, long cycles, long width)
{
    double start = measure_now_us(), cpu = measure_cpu_us();
    char figures[96];

    for (long k = 0; k < cycles; k += width) {
        for (int phase = 0; phase < 2; phase++) {
            for (long w = 0; w < width; w++) {
                char key[KEY_SIZE];

                snprintf(key, sizeof(key), "floor:%ld", k + w);
                f->fence++;
                for (int i = 0; i < f->n; i++)
                    phase ? floor_append_release(f, i, key) : floor_append_acquire(f, i, key);
            }
            floor_flush(f);
            floor_await(f, f->n, 0);
        }
    }
    snprintf(figures, sizeof(figures), "\"width\":%ld,\"cycles_per_s\":%.0f", width,
             (double)cycles / (measure_now_us() - start) * 1e6);
    floor_report(f, "tput", figures, (double)cycles, measure_cpu_us() - cpu);
}

/* One renew script for keys number `from` and the `count - 1` that come after it, on every node. The order is that in
 * which they were set, so that they are side by side in a node's memory, or any other, as leases fall due. */
static void floor_append_renew(struct floor *f, long from, long count, long keys_in_all,
                               bool shuffled)
{
    size_t most = (size_t)(3 * count) + 8;
    const char **argv = malloc(most * sizeof(*argv));
    size_t *lengths = malloc(most * sizeof(*lengths));
    char(*keys)[KEY_SIZE] = malloc((size_t)count * KEY_SIZE);
    char key_count[16];
    int n = 0;

    snprintf(key_count, sizeof(key_count), "%ld", count + f->scripts);
    argv[n++] = "EVALSHA";
    argv[n++] = f->renew_sha;
    argv[n++] = key_count;
    if (f->scripts)
        argv[n++] = "holdfast:node";
    for (long k = 0; k < count; k++) {
        library_name(keys[k], "floor/renewal",
                     shuffled ? (from + k) * SHUFFLE % keys_in_all : from + k);
        argv[n++] = keys[k];
    }
    if (!f->scripts)
        argv[n++] = "600000";
    for (long k = 0; k < count; k++)
        argv[n++] = token;
    if (f->scripts) {
        argv[n++] = "0"; /* not tracked */
        argv[n++] = "600000";
    }
    for (int k = 0; k < n; k++)
        lengths[k] = strlen(argv[k]);
    for (int i = 0; i < f->n; i++) {
        redisAppendCommandArgv(f->node[i], n, argv, lengths);
        f->owed[i]++;
    }
    free(argv);
    free(lengths);
    free(keys);
}

/* `order`: renew, as fast as possible; shuffled; paced:MS, shuffled and spread over so many milliseconds. */
static void floor_renewal(struct floor *f, long keys, long batch, const char *order)
{
    bool shuffled = strcmp(order, "renew") != 0, paced = strncmp(order, "paced:", 6) == 0;
    double span_us = paced ? (double)measure_number(order + 6, 1) * 1e3 : 0, start, cpu;
    char figures[96];

    for (long k = 0; k < keys; k++) {
        char key[KEY_SIZE];

        library_name(key, "floor/renewal", k);
        for (int i = 0; i < f->n; i++) {
            redisAppendCommand(f->node[i], "SET %s %s PX 600000", key, token);
            /* As a grant leaves it: a renewal that has to make the record costs more. */
            redisAppendCommand(f->node[i], "HSET holdfast:fence:%s fence 1 until 0", key);
            f->owed[i] += 2;
        }
        if (k % 500 == 499 || k == keys - 1) {
            floor_flush(f);
            floor_await(f, f->n, 0);
        }
    }
    for (int i = 0; i < f->n; i++) {
        floor_set_blocking(f->node[i], true);
        f->cpu_before[i] = floor_node_cpu_us(f->node[i]);
        floor_set_blocking(f->node[i], false);
    }
    start = measure_now_us();
    cpu = measure_cpu_us();
    for (long k = 0; k < keys; k += batch) {
        double early_us = start + span_us * (double)k / (double)keys - measure_now_us();

        if (early_us > 0)
            usleep((unsigned)early_us);
        floor_append_renew(f, k, keys - k < batch ? keys - k : batch, keys, shuffled);
        floor_flush(f);
        floor_await(f, f->n, paced ? 0 : 3); /* a few in flight keep node and client busy at once */
    }
    floor_await(f, f->n, 0);
    snprintf(figures, sizeof(figures), "\"batch\":%ld,\"leases_per_s\":%.0f", batch,
             (double)keys / (measure_now_us() - start) * 1e6);
    floor_report(f, paced ? "paced" : order, figures, (double)keys, measure_cpu_us() - cpu);
}

static bool floor_has_pace(const char *word)
{
    return strncmp(word, "pace:", 5) == 0;
}

static int floor_fan_of(const char *word)
{
    if (floor_has_pace(word))
        return FAN_QUORUM;
    for (int fan = FAN_QUORUM; fan <= FAN_URING; fan++)
        if (strcmp(word, fans[fan]) == 0)
            return fan;
    return -1;
}

int bench_floor(int argc, char **argv)
{
    struct floor f = {0};
    int fan;

    if (argc < 5 || (strcmp(argv[1], "plain") != 0 && strcmp(argv[1], "scripts") != 0)) {
        fputs("usage: bench floor plain|scripts lat|all|turn|uring|pace:US CYCLES NODE... | rtt "
              "CYCLES "
              "PAUSE_US NODE... | tput CYCLES WIDTH NODE... | "
              "renew|shuffled|paced:MS KEYS BATCH NODE...\n",
              stderr);
        return 64;
    }
    f.scripts = strcmp(argv[1], "scripts") == 0;
    fan = floor_fan_of(argv[2]);
    floor_open_nodes(&f, argc - (fan < 0 ? 5 : 4), argv + (fan < 0 ? 5 : 4));
    if (fan == FAN_URING)
        f.ring = uring_open();
    if (floor_has_pace(argv[2])) {
        f.pace_us = (double)measure_number(argv[2] + 5, 1);
        (void)prctl(PR_SET_TIMERSLACK, 1000L);
    }
    if (fan >= 0)
        floor_latency(&f, measure_number(argv[3], 1), (enum fan)fan);
    else if (strcmp(argv[2], "rtt") == 0)
        floor_round_trip(&f, measure_number(argv[3], 1), measure_number(argv[4], 0));
    else if (strcmp(argv[2], "tput") == 0)
        floor_throughput(&f, measure_number(argv[3], 1), measure_number(argv[4], 1));
    else if (strcmp(argv[2], "renew") == 0 || strcmp(argv[2], "shuffled") == 0 ||
             strncmp(argv[2], "paced:", 6) == 0)
        floor_renewal(&f, measure_number(argv[3], 1), measure_number(argv[4], 1), argv[2]);
    else
        measure_die(
            "'%s' is none of lat, all, turn, uring, pace:US, rtt, tput, renew, shuffled, paced:MS",
            argv[2]);
    for (int i = 0; i < f.n; i++)
        redisFree(f.node[i]);
    return 0;
}

/* A process that takes one lock again and again and keeps a history of when it had it.
 *
 *   contender --name NAME --count N --history FILE [--ttl-ms N] [--hold-us N] [--pause-us N]
 *             [--spin-us N] [--no-lock]
 *
 * Prints "ready", starts when stdin ends, and writes a line for each hold, see history.py:
 *
 *   PID FENCE FIRST_NS LAST_NS CONTENDED
 *
 * FIRST_NS is the first CLOCK_BOOTTIME reading after the lease was held, LAST_NS the last one
 * before its release, CONTENDED 1 when another had the lock at first. After a release it pauses
 * for a random time below --pause-us. A lock that is taken is waited for in the agent's queue, or
 * with --spin-us tried again and again, which is a round on the nodes each time that no one of
 * this host has it. With --no-lock it does the same work without a lock, to prove that the
 * checker can see an overlap.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"

struct workload {
    const char *name, *history;
    int64_t count, hold_us, pause_us, spin_us;
    uint32_t ttl_ms;
    bool no_lock;
};

struct hold {
    uint64_t fence;
    int64_t first_ns, last_ns;
    bool contended;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void die(const char *what, int status)
{
    fprintf(stderr, "contender: %s: %s\n", what, status ? hf_last_message() : "failed");
    exit(1);
}

static int64_t number(const char *text)
{
    char *end;
    int64_t value = strtoll(text, &end, 10);

    if (*end || value < 0)
        die(text, 0);
    return value;
}

static struct workload parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"name", required_argument, NULL, 'n'},
        {"count", required_argument, NULL, 'c'},
        {"history", required_argument, NULL, 'h'},
        {"ttl-ms", required_argument, NULL, 't'},
        {"hold-us", required_argument, NULL, 'u'},
        {"pause-us", required_argument, NULL, 'p'},
        {"spin-us", required_argument, NULL, 's'},
        {"no-lock", no_argument, NULL, 'x'},
        {NULL, 0, NULL, 0},
    };
    struct workload work = {0};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            work.name = optarg;
            break;
        case 'c':
            work.count = number(optarg);
            break;
        case 'h':
            work.history = optarg;
            break;
        case 't':
            work.ttl_ms = (uint32_t)number(optarg);
            break;
        case 'u':
            work.hold_us = number(optarg);
            break;
        case 'p':
            work.pause_us = number(optarg);
            break;
        case 's':
            work.spin_us = number(optarg);
            break;
        case 'x':
            work.no_lock = true;
            break;
        default:
            exit(64);
        }
    }
    if (!work.name || !work.history || !work.count)
        die("--name, --count and --history are needed", 0);
    return work;
}

static void pause_below(int64_t us)
{
    struct timespec pause = {0};

    if (us <= 0)
        return;
    us = random() % us;
    pause.tv_sec = us / 1000000;
    pause.tv_nsec = us % 1000000 * 1000;
    nanosleep(&pause, NULL);
}

/* Busy, so that the hold is as long as asked for. */
static int64_t hold_until(int64_t end_ns)
{
    int64_t now;

    do {
        now = now_ns();
    } while (now < end_ns);
    return now;
}

static void hold_once(hf_client *client, const struct workload *work, struct hold *ret_hold)
{
    struct hf_acquire_options options = {.size = sizeof(options),
                                         .name = work->name,
                                         .name_len = strlen(work->name),
                                         .ttl_ms = work->ttl_ms};
    hf_lease *lease = NULL;
    struct hold hold = {0};
    int status;

    if (!work->no_lock) {
        /* A try first tells whether another has it. */
        status = hf_acquire_with(client, &options, &lease);
        hold.contended = status == HF_EBUSY;
        if (!work->spin_us)
            options.wait_ms = -1;
        while (status == HF_EBUSY || (status == HF_ENOQUORUM && work->spin_us)) {
            pause_below(work->spin_us);
            status = hf_acquire_with(client, &options, &lease);
        }
        if (status < 0)
            die("acquire", status);
    }
    hold.first_ns = now_ns();
    hold.last_ns = hold_until(hold.first_ns + work->hold_us * 1000);
    if (!work->no_lock) {
        hold.fence = hf_fence(lease);
        /* Held after the reading, so held at the reading. */
        if (!hf_held(lease))
            die("lost while held", HF_ELOST);
        status = hf_release(lease);
        if (status < 0)
            die("release", status);
    }
    *ret_hold = hold;
}

static void write_history(const char *path, const struct hold *holds, int64_t count)
{
    FILE *out = fopen(path, "w");

    if (!out)
        die(path, 0);
    for (int64_t i = 0; i < count; i++)
        fprintf(out, "%d %" PRIu64 " %" PRId64 " %" PRId64 " %d\n", (int)getpid(), holds[i].fence,
                holds[i].first_ns, holds[i].last_ns, holds[i].contended);
    if (fclose(out) != 0)
        die(path, 0);
}

int main(int argc, char **argv)
{
    struct workload work = parse(argc, argv);
    struct hold *holds = calloc((size_t)work.count, sizeof(*holds));
    hf_client *client = NULL;
    char byte;
    int status;

    if (!holds)
        die("memory", 0);
    if (!work.no_lock && (status = hf_connect(NULL, &client)) < 0)
        die("connect", status);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    srandom((unsigned)getpid());
    for (int64_t i = 0; i < work.count; i++) {
        hold_once(client, &work, &holds[i]);
        pause_below(work.pause_us);
    }
    write_history(work.history, holds, work.count);
    hf_disconnect(client);
    free(holds);
    return 0;
}

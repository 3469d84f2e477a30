/* A process that takes one lock again and again and keeps a history of when it had it.
 *
 *   contender --name NAME --history FILE [OPTION]...
 *     --count N      as many holds (default 1,000,000), or
 *     --for-ms N     until so long after the start
 *     --ttl-ms N     of its leases; default: the agent's
 *     --hold-us N    holds it so long, busily
 *     --long-us N    and one time in 16 a random time below this
 *     --pause-us N   pauses for a random time below this after a release
 *     --spin-us N    tries a lock that is taken again and again, with such pauses, instead of waiting in the
 *                    agent's queue: a round on the nodes each time that nobody of this host has it
 *     --rough        a refusal or a loss is no error, as when nodes and agents are being broken
 *     --no-lock      the same work without a lock, to prove that the checker can see an overlap
 *
 * Prints "ready", starts when stdin ends, and writes a line for each hold, see history.py:
 *
 *   PID FENCE FIRST_NS LAST_NS CONTENDED
 *
 * FIRST_NS and LAST_NS are the first and the last CLOCK_BOOTTIME reading of the hold; after each of them the lease
 * was still held. CONTENDED is 1 when another had the lock at first.
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
    int64_t count, for_ms, hold_us, long_us, pause_us, spin_us;
    uint32_t ttl_ms;
    bool rough, no_lock;
};

struct hold {
    uint64_t fence;
    int64_t first_ns, last_ns;
    bool contended;
};

static int64_t end_ns; /* with --for-ms: takes no lock from then on */

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
        {"name", required_argument, NULL, 'n'},    {"history", required_argument, NULL, 'h'},
        {"count", required_argument, NULL, 'c'},   {"for-ms", required_argument, NULL, 'f'},
        {"ttl-ms", required_argument, NULL, 't'},  {"hold-us", required_argument, NULL, 'u'},
        {"long-us", required_argument, NULL, 'l'}, {"pause-us", required_argument, NULL, 'p'},
        {"spin-us", required_argument, NULL, 's'}, {"rough", no_argument, NULL, 'r'},
        {"no-lock", no_argument, NULL, 'x'},       {NULL, 0, NULL, 0}};
    struct workload work = {.count = 1000000};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            work.name = optarg;
            break;
        case 'h':
            work.history = optarg;
            break;
        case 'c':
            work.count = number(optarg);
            break;
        case 'f':
            work.for_ms = number(optarg);
            break;
        case 't':
            work.ttl_ms = (uint32_t)number(optarg);
            break;
        case 'u':
            work.hold_us = number(optarg);
            break;
        case 'l':
            work.long_us = number(optarg);
            break;
        case 'p':
            work.pause_us = number(optarg);
            break;
        case 's':
            work.spin_us = number(optarg);
            break;
        case 'r':
            work.rough = true;
            break;
        case 'x':
            work.no_lock = true;
            break;
        default:
            exit(64);
        }
    }
    if (!work.name || !work.history)
        die("--name and --history are needed", 0);
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

/* Waits as the workload says. A try first tells whether another has it. */
static int take(hf_client *client, const struct workload *work, hf_lease **ret_lease,
                bool *ret_contended)
{
    struct hf_acquire_options options = {.size = sizeof(options),
                                         .name = work->name,
                                         .name_len = strlen(work->name),
                                         .ttl_ms = work->ttl_ms};
    int status = hf_acquire_with(client, &options, ret_lease);

    *ret_contended = status == HF_EBUSY;
    if (!work->spin_us)
        options.wait_ms = work->for_ms ? 500 : -1;
    /* A node that answers late on a busy machine may cost a try its quorum. */
    while ((status == HF_EBUSY || status == HF_ENOQUORUM) && now_ns() < end_ns) {
        pause_below(work->spin_us);
        status = hf_acquire_with(client, &options, ret_lease);
    }
    return status;
}

/* Busy; as long as the workload says, or as the lease lasts. False when it was lost at once. */
static bool hold(hf_lease *lease, const struct workload *work, struct hold *hold)
{
    int64_t us = work->long_us && random() % 16 == 0 ? random() % work->long_us : work->hold_us;
    int64_t now = now_ns(), until = now + us * 1000;

    hold->first_ns = now;
    hold->last_ns = 0;
    /* Held after a reading, so held at the reading. */
    while (work->no_lock || hf_held(lease)) {
        hold->last_ns = now;
        if (now >= until)
            break;
        now = now_ns();
    }
    return hold->last_ns != 0;
}

/* False when there was no hold. */
static bool cycle(hf_client *client, const struct workload *work, struct hold *ret_hold)
{
    struct hold h = {0};
    hf_lease *lease = NULL;
    int status = work->no_lock ? HF_OK : take(client, work, &lease, &h.contended);
    bool was_held;

    if (status < 0 && !work->rough)
        die("acquire", status);
    if (status < 0) {
        pause_below(10000);
        return false;
    }
    was_held = hold(lease, work, &h);
    if (!work->no_lock) {
        h.fence = hf_fence(lease);
        if (!work->rough && !hf_held(lease))
            die("lost while held", HF_ELOST);
        status = hf_release(lease);
        if (status < 0 && !work->rough)
            die("release", status);
    }
    *ret_hold = h;
    return was_held;
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
    int64_t count = 0;
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
    end_ns = work.for_ms ? now_ns() + work.for_ms * 1000000 : INT64_MAX;
    while (count < work.count && now_ns() < end_ns) {
        count += cycle(client, &work, &holds[count]);
        pause_below(work.pause_us);
    }
    write_history(work.history, holds, count);
    hf_disconnect(client);
    free(holds);
    return 0;
}

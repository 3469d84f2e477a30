/* A process that wants many locks all the time, looks at each without pause, and keeps a history.
 *
 *   keeper --prefix PREFIX --count N --history FILE [OPTION]...
 *     --first N     the locks are PREFIX followed by N... (default 0)
 *     --ttl-ms N    of its leases; default: the agent's
 *     --hold-ms N   gives each up after so long, and wants it again after --pause-ms; default: never
 *     --look-us N   pause between two looks at all of them (default 2000)
 *
 * Everything goes through one client and its event loop. Commands on stdin, answers on stdout:
 *
 *   report   for each lock "lock NAME FENCE UNTIL_NS", both 0 while it is not held, then "end"
 *   quit     gives everything up, prints "again N" and ends: so often a handle said "held" after it
 *            had said "not held"
 *
 * A line of history for each hold that is over, times in CLOCK_BOOTTIME nanoseconds:
 *
 *   NAME FENCE FIRST_NS LAST_NS UNTIL_NS END REASON
 *
 * FIRST_NS and LAST_NS are the first and the last clock reading after which a check said "held", UNTIL_NS
 * the latest validity that was told, END "lost", "released" or "kept" (until this process ended), REASON a loss's,
 * as it was told by the time the lock was had again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tests/support/program.h"

#define MS INT64_C(1000000)

struct lock {
    char name[64];
    hf_op *op;       /* wanted */
    hf_lease *lease; /* held at the last look */
    hf_lease *lost;  /* the one before, until the next is had */
    uint64_t fence;
    int64_t first_ns, last_ns, until_ns, again_ns;
    char reason[96];
};

static const char *prefix, *history_path;
static int64_t count, first, ttl_ms, hold_ms, pause_ms, look_us = 2000;
static hf_client *client;
static struct lock *locks;
static FILE *history;
static uint64_t resurrections;

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"prefix", required_argument, NULL, 'p'},
                                            {"count", required_argument, NULL, 'c'},
                                            {"history", required_argument, NULL, 'h'},
                                            {"first", required_argument, NULL, 'f'},
                                            {"ttl-ms", required_argument, NULL, 't'},
                                            {"hold-ms", required_argument, NULL, 'o'},
                                            {"pause-ms", required_argument, NULL, 'a'},
                                            {"look-us", required_argument, NULL, 'l'},
                                            {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int64_t number = strtoll(optarg ? optarg : "0", NULL, 10);

        switch (option) {
        case 'p':
            prefix = optarg;
            break;
        case 'h':
            history_path = optarg;
            break;
        case 'c':
            count = number;
            break;
        case 'f':
            first = number;
            break;
        case 't':
            ttl_ms = number;
            break;
        case 'o':
            hold_ms = number;
            break;
        case 'a':
            pause_ms = number;
            break;
        case 'l':
            look_us = number;
            break;
        default:
            exit(64);
        }
    }
    if (!prefix || !history_path || count <= 0)
        exit(64);
}

/* --- one lock --------------------------------------------------------------------------------- */

static void want(struct lock *l)
{
    struct hf_acquire_options options = {.size = sizeof(options),
                                         .name = l->name,
                                         .name_len = strlen(l->name),
                                         .ttl_ms = (uint32_t)ttl_ms,
                                         .wait_ms = -1};

    if (hf_acquire_start(client, &options, &l->op) < 0)
        die("acquire", hf_last_message());
}

static void write_hold(const struct lock *l, const char *end, const char *reason)
{
    fprintf(history, "%s %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %s %s\n", l->name,
            l->fence, l->first_ns, l->last_ns, l->until_ns, end, *reason ? reason : "-");
}

/* The lost one has been asked until now, and must not say "held" again. */
static void forget_lost(struct lock *l)
{
    if (!l->lost)
        return;
    if (l->first_ns)
        write_hold(l, "lost", l->reason);
    hf_lease_free(l->lost);
    l->lost = NULL;
}

static void look_at_lost(struct lock *l)
{
    const char *reason;

    if (hf_held(l->lost) || hf_state(l->lost) < HF_STATE_LOST)
        resurrections++;
    reason = hf_reason(l->lost);
    if (*reason)
        snprintf(l->reason, sizeof(l->reason), "%s", reason);
}

static void look_at_held(struct lock *l)
{
    int64_t now = now_ns(), until;

    /* Held after a reading, so held at the reading. */
    if (hf_held(l->lease)) {
        if (!l->first_ns)
            l->first_ns = now;
        l->last_ns = now;
        until = hf_valid_until_ns(l->lease);
        if (until > l->until_ns)
            l->until_ns = until;
        if (hold_ms && now >= l->first_ns + hold_ms * MS) {
            write_hold(l, "released", "");
            (void)hf_release(l->lease);
            l->lease = NULL;
            l->again_ns = now_ns() + random() % (pause_ms + 1) * MS;
        }
        return;
    }
    l->lost = l->lease;
    l->lease = NULL;
    l->reason[0] = '\0';
    want(l);
}

static void look_at_wanted(struct lock *l)
{
    hf_lease *lease = NULL;
    int status = hf_op_result(l->op, &lease);

    if (status == HF_EPENDING)
        return;
    l->op = NULL;
    if (l->lost)
        look_at_lost(l);
    forget_lost(l);
    if (status < 0) { /* the nodes, or the agent as it ends */
        l->again_ns = now_ns() + 50 * MS;
        return;
    }
    l->lease = lease;
    l->fence = hf_fence(lease);
    l->first_ns = l->last_ns = l->until_ns = 0;
    look_at_held(l);
}

static void look(struct lock *l)
{
    if (l->lost)
        look_at_lost(l);
    if (l->lease)
        look_at_held(l);
    else if (l->op)
        look_at_wanted(l);
    else if (now_ns() >= l->again_ns)
        want(l);
}

/* --- all of them ------------------------------------------------------------------------------ */

static void report(void)
{
    for (int64_t i = 0; i < count; i++) {
        struct lock *l = &locks[i];
        int64_t until = l->lease ? hf_valid_until_ns(l->lease) : 0;

        printf("lock %s %" PRIu64 " %" PRId64 "\n", l->name, until ? l->fence : 0, until);
    }
    puts("end");
    fflush(stdout);
}

static void give_all_up(void)
{
    for (int64_t i = 0; i < count; i++) {
        struct lock *l = &locks[i];

        forget_lost(l);
        if (l->op)
            hf_op_cancel(l->op);
        if (l->lease && l->first_ns)
            write_hold(l, "kept", "");
    }
    hf_disconnect(client);
    if (fclose(history) != 0)
        exit(1);
    printf("again %" PRIu64 "\n", resurrections);
}

/* False at `quit`, or when nobody is there any more. */
static bool command(void)
{
    char line[64];

    if (!fgets(line, sizeof(line), stdin) || strcmp(line, "quit\n") == 0)
        return false;
    report();
    return true;
}

int main(int argc, char **argv)
{
    struct pollfd polled[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};

    parse(argc, argv);
    setvbuf(stdin, NULL, _IONBF, 0);
    history = fopen(history_path, "w");
    locks = calloc((size_t)count, sizeof(*locks));
    if (!history || !locks)
        exit(1);
    if (hf_connect(NULL, &client) < 0)
        die("connect", hf_last_message());
    srandom((unsigned)getpid());
    polled[1].fd = hf_fd(client);
    for (int64_t i = 0; i < count; i++) {
        snprintf(locks[i].name, sizeof(locks[i].name), "%s%" PRId64, prefix, first + i);
        want(&locks[i]);
    }
    for (;;) {
        const struct timespec pause = {.tv_nsec = look_us * 1000};

        (void)ppoll(polled, 2, &pause, NULL);
        if (polled[0].revents && !command())
            break;
        if (polled[1].revents)
            (void)hf_dispatch(client);
        for (int64_t i = 0; i < count; i++)
            look(&locks[i]);
    }
    give_all_up();
    return 0;
}

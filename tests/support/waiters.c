/* Many processes that wait for one lock, round after round, and end most of their waits badly.
 *
 *   waiters NAME WAITERS STEADY ROUNDS SEED AGENT...
 *
 * WAITERS processes, by turns of the agents given, do ROUNDS rounds each. A round waits for the lock without limit, or for some
 * milliseconds, or cancels its wait after some, or disconnects, or is killed with SIGKILL at some moment, wherever it is then; the
 * next round is another process's. STEADY more processes per agent only wait and take the lock until the others are done: nobody may
 * keep them from it. Prints "ready", begins when stdin ends, and prints a line of JSON: how each round ended, and how long the
 * steady ones waited, in turns (wall time / grants).
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tests/support/program.h"

#define WAITERS_MAX 512
#define MOMENT_US   30000 /* what ends early does so within this */
#define HOLD_US     2000
#define PAUSE_US    5000

enum outcome { NONE, GRANTED, TIMED_OUT, CANCELLED, LEFT, KILLED, OUTCOMES };
static const char *const outcome_names[OUTCOMES] = {"none",      "granted", "timed_out",
                                                    "cancelled", "left",    "killed"};
enum way { PLAIN, LIMITED, CANCELS, LEAVES, DIES, WAYS };

struct waiter {
    pid_t pid;
    int agent;
    bool steady;
    /* Written by the waiter. */
    _Atomic uint32_t round, dying; /* the round it is in; whether that one is to be killed */
    uint32_t outcomes[OUTCOMES];
    uint32_t grants;
    int64_t longest_ns;
};

struct shared {
    _Atomic uint32_t start, stop;
    _Atomic uint64_t owner; /* pid and grant of who holds */
    _Atomic uint32_t overlaps;
    struct waiter waiter[WAITERS_MAX];
};

static struct shared *shared;
static const char *name;
static char **agents;
static int agent_count, rounds;

static long below(long most)
{
    return random() % most;
}

static hf_client *attach(int agent)
{
    hf_client *client = NULL;
    int status = hf_connect(agents[agent], &client);

    if (status < 0)
        die("connect", hf_last_message());
    return client;
}

/* --- one round -------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

static void die_at_some_moment(void)
{
    struct itimerval at = {.it_value = {.tv_usec = 1 + below(MOMENT_US)}};

    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &at, NULL);
}

/* Whoever else is inside has changed the owner by the end, unless it was before we came. */
static void use(struct waiter *w, hf_lease *lease)
{
    uint64_t me = (uint64_t)getpid() << 32 | ++w->grants, found;
    int status;

    atomic_store(&shared->owner, me);
    usleep((unsigned)below(HOLD_US));
    found = atomic_load(&shared->owner);
    if (hf_held(lease) && found != me)
        atomic_fetch_add(&shared->overlaps, 1);
    status = hf_release(lease);
    if (status < 0)
        die("release", hf_last_message());
}

static enum outcome wait_for_it(struct waiter *w, hf_client *client, int64_t wait_ms)
{
    hf_lease *lease;
    int64_t asked_ns = now_ns(), waited_ns;
    int status = hf_acquire(client, name, 0, wait_ms, &lease);

    if (status == HF_ETIMEDOUT || (status == HF_EBUSY && wait_ms == 0))
        return TIMED_OUT;
    if (status < 0)
        die("acquire", hf_last_message());
    waited_ns = now_ns() - asked_ns;
    if (waited_ns > w->longest_ns)
        w->longest_ns = waited_ns;
    use(w, lease);
    return GRANTED;
}

/* Begins a wait, and gives it up unless it is granted before that. */
static enum outcome give_up(struct waiter *w, hf_client **client, bool leave)
{
    struct hf_acquire_options options = {
        .size = sizeof(options), .name = name, .name_len = strlen(name), .wait_ms = -1};
    int64_t until_ns = now_ns() + below(MOMENT_US) * 1000;
    struct pollfd p = {.fd = hf_fd(*client), .events = POLLIN};
    hf_lease *lease;
    hf_op *op;
    int status = hf_acquire_start(*client, &options, &op);

    if (status < 0)
        die("start", hf_last_message());
    while ((status = hf_op_result(op, &lease)) == HF_EPENDING && now_ns() < until_ns) {
        poll(&p, 1, 1);
        hf_dispatch(*client);
    }
    if (status == HF_OK) {
        use(w, lease);
        return GRANTED;
    }
    if (status != HF_EPENDING)
        die("result", hf_last_message());
    if (!leave) {
        hf_op_cancel(op);
        return CANCELLED;
    }
    hf_disconnect(*client);
    *client = attach(w->agent);
    return LEFT;
}

static enum outcome round_of(struct waiter *w, hf_client **client)
{
    switch ((enum way)below(WAYS)) {
    case LIMITED:
        return wait_for_it(w, *client, below(MOMENT_US) / 1000);
    case CANCELS:
        return give_up(w, client, false);
    case LEAVES:
        return give_up(w, client, true);
    case DIES:
        atomic_store(&w->dying, 1);
        die_at_some_moment();
        for (;;) { /* it may be granted many times before */
            wait_for_it(w, *client, -1);
            usleep((unsigned)below(PAUSE_US));
        }
    case PLAIN:
    case WAYS:
        break;
    }
    return wait_for_it(w, *client, -1);
}

/* --- processes -------------------------------------------------------------------------------- */

static _Noreturn void live(struct waiter *w, unsigned seed)
{
    hf_client *client = attach(w->agent);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srandom(seed);
    while (!atomic_load(&shared->start))
        usleep(1000);
    while (w->steady ? !atomic_load(&shared->stop) : atomic_load(&w->round) < (uint32_t)rounds) {
        w->outcomes[w->steady ? wait_for_it(w, client, -1) : round_of(w, &client)]++;
        atomic_fetch_add(&w->round, 1);
        usleep((unsigned)below(PAUSE_US));
    }
    hf_disconnect(client);
    _exit(0);
}

static void spawn(struct waiter *w)
{
    unsigned seed = (unsigned)random();
    pid_t pid = fork();

    if (pid < 0)
        die("fork", strerror(errno));
    if (pid == 0)
        live(w, seed);
    w->pid = pid;
}

/* A process that was killed in a round that was to be is followed by another. Returns whether its waiter is done. */
static bool ended(struct waiter *w, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || !atomic_load(&w->dying)) {
        fprintf(stderr, "waiters: process %d ended with status %#x\n", (int)w->pid,
                (unsigned)status);
        exit(1);
    }
    atomic_store(&w->dying, 0);
    w->outcomes[KILLED]++;
    if (atomic_fetch_add(&w->round, 1) + 1 >= (uint32_t)rounds)
        return true;
    spawn(w);
    return false;
}

static void reap(int count, int unsteady)
{
    int left = count;

    while (left) {
        int status;
        pid_t pid = wait(&status);

        for (int i = 0; i < count; i++)
            if (shared->waiter[i].pid == pid && ended(&shared->waiter[i], status)) {
                left--;
                unsteady -= !shared->waiter[i].steady;
            }
        if (!unsteady)
            atomic_store(&shared->stop, 1);
    }
}

static void report(int count, int64_t wall_ns)
{
    uint32_t grants = 0, sums[OUTCOMES] = {0}, steady = 0, least = UINT32_MAX;
    int64_t longest = 0;

    for (int i = 0; i < count; i++) {
        struct waiter *w = &shared->waiter[i];

        grants += w->grants;
        for (int k = 0; k < OUTCOMES && !w->steady; k++)
            sums[k] += w->outcomes[k];
        if (!w->steady)
            continue;
        steady += w->outcomes[GRANTED];
        least = w->outcomes[GRANTED] < least ? w->outcomes[GRANTED] : least;
        longest = w->longest_ns > longest ? w->longest_ns : longest;
    }
    printf("{\"seconds\":%.2f,\"grants\":%" PRIu32 ",\"overlaps\":%" PRIu32
           ",\"steady_grants\":%" PRIu32 ",\"steady_least\":%" PRIu32
           ",\"steady_longest_ms\":%.1f,\"steady_longest_turns\":%.1f",
           (double)wall_ns / 1e9, grants, atomic_load(&shared->overlaps), steady, least,
           (double)longest / 1e6, (double)longest / (double)wall_ns * grants);
    for (int k = GRANTED; k < OUTCOMES; k++)
        printf(",\"%s\":%" PRIu32, outcome_names[k], sums[k]);
    puts("}");
}

int main(int argc, char **argv)
{
    int waiters, steady, count = 0;
    int64_t start_ns;
    char byte;

    if (argc < 7) {
        fputs("usage: waiters NAME WAITERS STEADY ROUNDS SEED AGENT...\n", stderr);
        return 64;
    }
    name = argv[1];
    waiters = atoi(argv[2]);
    steady = atoi(argv[3]);
    rounds = atoi(argv[4]);
    srandom((unsigned)atoi(argv[5]));
    agents = argv + 6;
    agent_count = argc - 6;
    if (waiters < 1 || waiters + steady * agent_count > WAITERS_MAX)
        return 64;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap", strerror(errno));
    for (; count < waiters + steady * agent_count; count++) {
        shared->waiter[count].agent = count % agent_count;
        shared->waiter[count].steady = count >= waiters;
        spawn(&shared->waiter[count]);
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    start_ns = now_ns();
    atomic_store(&shared->start, 1);
    reap(count, waiters);
    report(count, now_ns() - start_ns);
    return 0;
}

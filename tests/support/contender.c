/* A process that takes locks again and again, keeps a history of when it had them, and writes to what they guard.
 *
 *   contender --name NAME --history FILE [OPTION]...
 *     --count N      as many holds (default 1,000,000), or
 *     --for-ms N     until so long after the start
 *     --locks N      a random one of NAME-0, NAME-1, ... each time, instead of NAME
 *     --ttl-ms N     of its leases; default: the agent's
 *     --hold-us N    holds it so long
 *     --long-us N    and one time in 16 a random time below this
 *     --idle-us N    sleeps so long between two checks of a hold, instead of being busy
 *     --pause-us N   pauses for a random time below this after a release
 *     --spin-us N    tries a lock that is taken again and again, with such pauses, instead of waiting in the
 *                    agent's queue: a round on the nodes each time that nobody of this host has it
 *     --queue        waits in the agent's queue at once, without a try before
 *     --wait-ms N    gives up a wait after a random time below this, so that some end as the grant comes
 *     --lock N       NAME-N each time
 *     --patient      waits in the agent's queue without end, also with --rough
 *     --witness FILE what the locks guard, see witness.h; all contenders of a run have the same
 *     --careless N   one hold in N asks once whether it holds, and writes to the store until its end all the same
 *     --host N       of the records
 *     --rough        a refusal or a loss is no error, as when nodes and agents are being broken, and after half a
 *                    second of waiting it looks for another lock
 *     --no-lock      the same work without a lock, to prove that the checker can see an overlap
 *
 * Prints "ready", starts when stdin ends, and ends in good order at SIGTERM. FILE gets a record of each hold, from its
 * first moment on.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "shm/wordings.h"
#include "tests/support/program.h"
#include "tests/support/witness.h"

#define LOCKS_MAX   64
#define PATIENCE_MS 500

struct workload {
    const char *name, *history, *witness;
    int64_t count, for_ms, locks, hold_us, long_us, idle_us, pause_us, spin_us, careless, host,
        wait_ms, lock;
    uint32_t ttl_ms;
    bool rough, no_lock, patient, queue;
};

static struct workload work = {.count = 1000000, .lock = -1};
static struct witness *witnesses; /* LOCKS_MAX of them; NULL: none */
static struct record *records;    /* count of them, and room for sightings */
static int64_t records_max, record_count;
static uint64_t last_word;
static int64_t end_ns; /* with --for-ms: takes no lock from then on */
static volatile sig_atomic_t stopping, waiting;

static int64_t number(const char *text)
{
    char *end;
    int64_t value = strtoll(text, &end, 10);

    if (*end || value < 0)
        die(text, "a number is wanted");
    return value;
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"history", required_argument, NULL, 'h'},
                                            {"witness", required_argument, NULL, 'w'},
                                            {"ttl-ms", required_argument, NULL, 't'},
                                            {"rough", no_argument, NULL, 'r'},
                                            {"no-lock", no_argument, NULL, 'x'},
                                            {"patient", no_argument, NULL, 'p'},
                                            {"count", required_argument, NULL, 0},
                                            {"for-ms", required_argument, NULL, 0},
                                            {"locks", required_argument, NULL, 0},
                                            {"hold-us", required_argument, NULL, 0},
                                            {"long-us", required_argument, NULL, 0},
                                            {"idle-us", required_argument, NULL, 0},
                                            {"pause-us", required_argument, NULL, 0},
                                            {"spin-us", required_argument, NULL, 0},
                                            {"careless", required_argument, NULL, 0},
                                            {"host", required_argument, NULL, 0},
                                            {"wait-ms", required_argument, NULL, 0},
                                            {"lock", required_argument, NULL, 0},
                                            {"queue", no_argument, NULL, 'q'},
                                            {NULL, 0, NULL, 0}};
    int64_t *const numbers[] = {&work.count,    &work.for_ms,  &work.locks,    &work.hold_us,
                                &work.long_us,  &work.idle_us, &work.pause_us, &work.spin_us,
                                &work.careless, &work.host,    &work.wait_ms,  &work.lock};
    int option, which;

    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        switch (option) {
        case 0:
            *numbers[which - 7] = number(optarg);
            break;
        case 'n':
            work.name = optarg;
            break;
        case 'h':
            work.history = optarg;
            break;
        case 'w':
            work.witness = optarg;
            break;
        case 't':
            work.ttl_ms = (uint32_t)number(optarg);
            break;
        case 'r':
            work.rough = true;
            break;
        case 'x':
            work.no_lock = true;
            break;
        case 'p':
            work.patient = true;
            break;
        case 'q':
            work.queue = true;
            break;
        default:
            exit(64);
        }
    }
    if (!work.name || !work.history || work.locks > LOCKS_MAX || work.lock >= LOCKS_MAX) {
        fprintf(stderr, "contender: --name and --history are needed, there are %d locks at most\n",
                LOCKS_MAX);
        exit(64);
    }
}

static void pause_below(int64_t us)
{
    sleep_us(us > 0 ? random() % us : 0);
}

/* --- what the lock guards --------------------------------------------------------------------- */

static bool still_held(hf_lease *lease)
{
    return work.no_lock || hf_held(lease);
}

static void store_write(struct witness *witness, struct record *hold)
{
    uint64_t seen = atomic_load(&witness->fence);

    while (seen < hold->fence)
        if (atomic_compare_exchange_weak(&witness->fence, &seen, hold->fence))
            seen = hold->fence;
    if (seen == hold->fence) {
        atomic_fetch_add(&witness->accepted, 1);
    } else {
        atomic_fetch_add(&witness->refused, 1);
        hold->refused++;
    }
}

/* A foreign word counts only if this one is held after it was read. */
static void sighting(hf_lease *lease, const struct record *hold, uint64_t foreign)
{
    struct record *seen;

    if (!still_held(lease) || record_count == records_max)
        return;
    seen = &records[record_count++];
    *seen = *hold;
    seen->first_ns = seen->last_ns = now_ns();
    seen->word = foreign;
    seen->kind = RECORD_SIGHTING;
}

/* The first write takes the word over; each later one must find what the one before it left. */
static void witness_write(struct witness *witness, hf_lease *lease, struct record *hold, bool first)
{
    uint64_t expected = last_word;
    uint64_t word = last_word + 1;

    if (first) {
        hold->first_word = word;
        atomic_store(&witness->word, word);
    } else if (!atomic_compare_exchange_strong(&witness->word, &expected, word)) {
        sighting(lease, hold, expected);
        atomic_store(&witness->word, word);
    }
    last_word = word;
    if (still_held(lease))
        hold->word = word;
}

/* --- holds ------------------------------------------------------------------------------------ */

/* Waits as the workload says. A try first tells whether another has it. */
static int take(hf_client *client, const char *name, hf_lease **ret_lease, bool *ret_contended)
{
    struct hf_acquire_options options = {
        .size = sizeof(options), .name = name, .name_len = strlen(name), .ttl_ms = work.ttl_ms};
    bool patient = work.patient || !work.rough;
    int64_t until = patient ? INT64_MAX : now_ns() + PATIENCE_MS * 1000000;
    int status;

    if (work.wait_ms) {
        options.wait_ms = random() % work.wait_ms;
        return hf_acquire_with(client, &options, ret_lease);
    }
    if (work.queue)
        options.wait_ms = -1;
    waiting = work.queue;
    status = hf_acquire_with(client, &options, ret_lease);
    waiting = 0;
    *ret_contended = status == HF_EBUSY;
    if (!work.spin_us)
        options.wait_ms = patient ? -1 : PATIENCE_MS;
    /* A node that answers late on a busy machine may cost a try its quorum. */
    while ((status == HF_EBUSY || status == HF_ENOQUORUM) && now_ns() < until && !stopping) {
        pause_below(work.spin_us);
        waiting = options.wait_ms < 0;
        if (!stopping)
            status = hf_acquire_with(client, &options, ret_lease);
        waiting = 0;
    }
    return status;
}

/* As long as the workload says, or as the lease lasts. */
static void keep(hf_lease *lease, struct record *hold, struct witness *witness)
{
    int64_t us = work.long_us && random() % 16 == 0 ? random() % work.long_us : work.hold_us;
    int64_t now = now_ns(), until = now + us * 1000;
    bool careless = hold->flags & RECORD_CARELESS, first = true;

    hold->first_ns = now;
    /* Held after a reading, so held at the reading. */
    while ((careless && !first) || still_held(lease)) {
        hold->last_ns = now;
        hold->kind = RECORD_HOLD; /* the record is complete from here on */
        if (witness) {
            if (!careless)
                witness_write(witness, lease, hold, first);
            store_write(witness, hold);
        }
        first = false;
        if (now >= until || stopping)
            break;
        sleep_us(work.idle_us);
        now = now_ns();
    }
}

static void note_reason(hf_lease *lease, struct record *hold)
{
    const char *text = hf_reason(lease);

    if (*text) /* unless the agent said more: V passed without it */
        snprintf(hold->reason, sizeof(hold->reason), "unrenewed");
    else
        snprintf(hold->reason, sizeof(hold->reason), "state %d", hf_state(lease));
    for (uint32_t reason = 1; reason < 32; reason++)
        if (strcmp(text, hf_loss_text(reason)) == 0)
            snprintf(hold->reason, sizeof(hold->reason), "%s", hf_loss_word(reason));
}

static void let_go(hf_lease *lease, struct record *hold)
{
    int status;

    if (!hf_held(lease)) {
        if (!work.rough)
            die("while held", hf_strerror(HF_ELOST));
        hold->end_ns = now_ns();
        note_reason(lease, hold);
        hold->end = END_LOST;
        hf_release(lease);
        return;
    }
    status = hf_release(lease);
    if (status < 0 && !work.rough)
        die("release", hf_last_message());
    hold->end_ns = now_ns();
    hold->end = status == HF_OK ? END_RELEASED : status == HF_ELOST ? END_LOST : END_UNSURE;
    if (status == HF_ELOST)
        snprintf(hold->reason, sizeof(hold->reason), "released too late");
}

static void cycle(hf_client *client)
{
    struct record hold = {.pid = (uint32_t)getpid(), .host = (uint32_t)work.host};
    struct record *record = &records[record_count];
    hf_lease *lease = NULL;
    char name[80];
    bool contended = false;
    int status;

    if (work.lock >= 0)
        hold.lock = (uint32_t)work.lock;
    else if (work.locks)
        hold.lock = (uint32_t)(random() % work.locks);
    snprintf(name, sizeof(name), work.lock >= 0 || work.locks ? "%s-%u" : "%s", work.name,
             hold.lock);
    hold.ask_ns = now_ns();
    status = work.no_lock ? HF_OK : take(client, name, &lease, &contended);
    if (status < 0) {
        if (!work.rough)
            die("acquire", hf_last_message());
        pause_below(10000);
        return;
    }
    hold.fence = hf_fence(lease);
    hold.flags = (contended ? RECORD_CONTENDED : 0) |
                 (work.careless && random() % work.careless == 0 ? RECORD_CARELESS : 0);
    *record = hold;
    record_count++;
    keep(lease, record, witnesses ? &witnesses[hold.lock] : NULL);
    if (!work.no_lock)
        let_go(lease, record);
    if (record->kind == RECORD_NONE)
        record->kind = RECORD_UNUSED;
}

static void on_term(int number_of)
{
    (void)number_of;
    stopping = 1;
    if (waiting) /* for as long as it takes; its agent cancels for it */
        _exit(0);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_term, .sa_flags = SA_RESTART};
    hf_client *client = NULL;
    char byte;
    int status;

    parse(argc, argv);
    sigaction(SIGTERM, &action, NULL);
    records_max = work.count + 1000;
    records = map_file(work.history, (size_t)records_max * sizeof(*records));
    if (work.witness)
        witnesses = map_file(work.witness, LOCKS_MAX * sizeof(*witnesses));
    last_word = (uint64_t)getpid() << WITNESS_PID_SHIFT;
    while (!work.no_lock && (status = hf_connect(NULL, &client)) < 0) {
        if (!work.rough || stopping)
            die("connect", hf_last_message());
        sleep_us(20000);
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    srandom((unsigned)getpid());
    end_ns = work.for_ms ? now_ns() + work.for_ms * 1000000 : INT64_MAX;
    while (record_count < work.count && now_ns() < end_ns && !stopping) {
        cycle(client);
        pause_below(work.pause_us);
    }
    hf_disconnect(client);
    return 0;
}

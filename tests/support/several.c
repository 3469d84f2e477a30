/* A process that takes several locks at once, one slot of a counted lock, or a lock shared or alone, again and again, and
 * keeps a history of when it had which (witness.h). Of a set each lock has a record of its own. Who shares leaves records of
 * lock 1 and counts in witness 1, which who is alone watches; that one leaves records of lock 0 and writes into witness 0.
 *
 *   several --name NAME --history FILE --witness FILE [OPTION]...
 *     --set LIST     takes NAME-A, NAME-B, ... of "A,B,...": numbers below 64
 *     --slots N      takes a slot of NAME; lock I of the records is slot I
 *     --shared       shares NAME, with --slots N by so many
 *     --exclusive    has NAME alone
 *     --for-ms N     until so long after the start
 *     --hold-us N    holds it so long
 *     --pause-us N   pauses for a random time below this after a release
 *     --host N       of the records
 *     --wait-ms N    waits for a random time below this, and then tries again; default: without limit
 *     --rough        a refusal or a loss is no error, as when nodes and agents are being broken
 *     --no-lock      the same work without a lock, to prove that the checker can see an overlap
 *
 * Prints "ready", starts when stdin ends, and ends in good order at SIGTERM.
 */
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_sets.h"
#include "tests/support/program.h"
#include "tests/support/witness.h"

#define LOCKS_MAX     64
#define RECORDS_MAX   1000000
#define CONNECTS_MOST 300 /* with --rough: an agent that starts is waited for */

static const char *name, *history, *witness, *set;
static int64_t slots, for_ms, hold_us, pause_us, host, wait_ms;
static bool no_lock, rough, shared, exclusive;

static struct witness *witnesses; /* LOCKS_MAX of them */
static struct record *records;
static size_t record_count;
static unsigned set_locks[LOCKS_MAX];
static size_t set_size;
static volatile sig_atomic_t stopping;

static void parse_set(void)
{
    const char *at = set;
    char *end;

    while (at && *at && set_size < LOCKS_MAX) {
        unsigned long lock = strtoul(at, &end, 10);

        if (end == at || lock >= LOCKS_MAX)
            die(set, "numbers below 64 are wanted");
        set_locks[set_size++] = (unsigned)lock;
        at = *end == ',' ? end + 1 : end;
    }
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"history", required_argument, NULL, 'h'},
                                            {"witness", required_argument, NULL, 'w'},
                                            {"set", required_argument, NULL, 's'},
                                            {"no-lock", no_argument, NULL, 'x'},
                                            {"rough", no_argument, NULL, 'r'},
                                            {"shared", no_argument, NULL, 'S'},
                                            {"exclusive", no_argument, NULL, 'e'},
                                            {"slots", required_argument, NULL, 0},
                                            {"for-ms", required_argument, NULL, 0},
                                            {"hold-us", required_argument, NULL, 0},
                                            {"pause-us", required_argument, NULL, 0},
                                            {"host", required_argument, NULL, 0},
                                            {"wait-ms", required_argument, NULL, 0},
                                            {NULL, 0, NULL, 0}};
    int64_t *const numbers[] = {&slots, &for_ms, &hold_us, &pause_us, &host, &wait_ms};
    int option, which;

    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        if (option == 0)
            *numbers[which - 8] = strtoll(optarg, NULL, 10);
        else if (option == 'n')
            name = optarg;
        else if (option == 'h')
            history = optarg;
        else if (option == 'w')
            witness = optarg;
        else if (option == 's')
            set = optarg;
        else if (option == 'r')
            rough = true;
        else if (option == 'S')
            shared = true;
        else if (option == 'e')
            exclusive = true;
        else if (option == 'x')
            no_lock = true;
        else
            exit(64);
    }
    parse_set();
    if (!name || !history || !witness || slots > LOCKS_MAX ||
        (set_size > 0) + (slots > 0 && !shared) + shared + exclusive != 1) {
        fprintf(stderr, "several: --name, --history, --witness, and --set, --slots, --shared or "
                        "--exclusive are needed\n");
        exit(64);
    }
}

/* Gives the locks and their leases, or a status. */
static int take(hf_client *client, hf_lease **leases, unsigned *locks)
{
    struct hf_acquire_options options = {.size = sizeof(options),
                                         .wait_ms = rough     ? 500
                                                    : wait_ms ? random() % wait_ms
                                                              : -1};
    struct hf_name names[LOCKS_MAX];
    char texts[LOCKS_MAX][80];

    locks[0] = exclusive ? 0 : 1;
    if (set_size)
        memcpy(locks, set_locks, sizeof(set_locks));
    if (no_lock) {
        if (slots && !shared)
            locks[0] = (unsigned)(random() % slots);
        return HF_OK;
    }
    if (!set_size) {
        options.name = name;
        options.name_len = strlen(name);
        if (exclusive)
            return hf_acquire_exclusive(client, &options, leases);
        if (shared)
            return hf_acquire_shared(client, &options, (unsigned)slots, leases);
        return hf_acquire_slot(client, &options, (unsigned)slots, leases, locks);
    }
    for (size_t i = 0; i < set_size; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s-%u", name, set_locks[i]);
        names[i] = hf_str(texts[i]);
    }
    return hf_acquire_all(client, &options, names, set_size, leases);
}

static size_t lease_count(void)
{
    return exclusive ? HF_EXCLUSIVE_LEASES : set_size ? set_size : 1;
}

static void saw(const struct record *hold, int64_t now, uint64_t word)
{
    struct record *seen = &records[record_count++];

    *seen = *hold;
    seen->first_ns = seen->last_ns = now;
    seen->word = word;
    seen->kind = RECORD_SIGHTING;
}

/* Who shares sees nobody write who is alone; who is alone sees nobody come who shares. */
static uint64_t others_word(void)
{
    return shared ? atomic_load(&witnesses[0].word) : atomic_load(&witnesses[1].accepted);
}

/* Held at `now`, if it is after the reading; the records say so from then on, whatever becomes of this process. */
static void keep(struct record *hold, size_t count, hf_lease **leases)
{
    int64_t now = now_ns(), until = now + hold_us * 1000;
    uint64_t mine = (uint64_t)getpid() << WITNESS_PID_SHIFT | record_count;
    uint64_t others = others_word();

    for (size_t i = 0; i < count; i++) {
        hold[i].first_ns = now;
        if (shared)
            atomic_fetch_add(&witnesses[1].accepted, 1);
        else
            atomic_store(&witnesses[hold[i].lock].word, mine);
    }
    while (no_lock || hf_held_all(leases, lease_count())) {
        for (size_t i = 0; i < count; i++) {
            hold[i].last_ns = now;
            hold[i].kind = RECORD_HOLD;
        }
        if (now >= until || stopping)
            break;
        sleep_us(hold_us / 4);
        now = now_ns();
    }
    for (size_t i = 0; i < count && !shared; i++) {
        uint64_t word = atomic_load(&witnesses[hold[i].lock].word);

        if (word != mine && (no_lock || hf_held(leases[i])))
            saw(&hold[i], now, word);
    }
    if ((shared || exclusive) && others != others_word() &&
        (no_lock || hf_held_all(leases, lease_count())))
        saw(hold, now, others_word());
}

/* One hold. */
static void cycle(hf_client *client)
{
    hf_lease *leases[HF_EXCLUSIVE_LEASES];
    unsigned locks[LOCKS_MAX];
    size_t count = set_size ? set_size : 1;
    struct record *hold = &records[record_count];
    int64_t ask_ns = now_ns(), end_ns;
    int status;

    status = take(client, leases, locks);
    if (status == HF_ETIMEDOUT && wait_ms)
        return;
    if (status < 0 && rough) {
        sleep_us(10000);
        return;
    }
    if (status < 0)
        die("acquire", hf_last_message());
    for (size_t i = 0; i < count; i++)
        hold[i] = (struct record){
            .pid = (uint32_t)getpid(),
            .host = (uint32_t)host,
            .lock = locks[i],
            .fence = no_lock ? 0 : hf_fence(leases[exclusive ? HF_EXCLUSIVE_NAME : i]),
            .ask_ns = ask_ns};
    record_count += count;
    keep(hold, count, leases);
    status = no_lock ? HF_OK : hf_release_all(leases, lease_count());
    if (status < 0 && !rough)
        die("release", hf_last_message());
    end_ns = now_ns();
    for (size_t i = 0; i < count; i++) {
        hold[i].end_ns = end_ns;
        hold[i].end = END_RELEASED;
    }
}

static void on_term(int number)
{
    (void)number;
    stopping = 1;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_term, .sa_flags = SA_RESTART};
    hf_client *client = NULL;
    int64_t end_ns;
    char byte;
    int status;

    parse(argc, argv);
    sigaction(SIGTERM, &action, NULL);
    records = map_file(history, RECORDS_MAX * sizeof(*records));
    witnesses = map_file(witness, LOCKS_MAX * sizeof(*witnesses));
    for (int i = 0; !no_lock && (status = hf_connect(NULL, &client)) < 0; i++) {
        if (!rough || i == CONNECTS_MOST)
            die("connect", hf_last_message());
        sleep_us(100000);
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    srandom((unsigned)getpid());
    end_ns = for_ms ? now_ns() + for_ms * 1000000 : INT64_MAX;
    while (record_count + 3 * LOCKS_MAX < RECORDS_MAX && now_ns() < end_ns && !stopping) {
        cycle(client);
        sleep_us(pause_us > 0 ? random() % pause_us : 0);
    }
    hf_disconnect(client);
    return 0;
}

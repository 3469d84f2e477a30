/* Watches a running agent's stores (preloaded: everystore) and judges every state that killing it
 * would have left.
 *
 *   torture_agent LOG SHM_NAME DIR COPY_SHM_NAME COPY_DIR SUMS -- HOLDFASTD_ARGUMENT...
 *
 * LOG is the file that HOLDFAST_STORES names to the agent, SUMS the SHA1 of the scripts acquire,
 * raise, heal, renew, release and sentinel. One command a line on stdin, one answer on stdout:
 *
 *   watch                     "ok" once it watches
 *   stop                      "ok moments=N acquires=N renewals=N releases=N"
 *   judge [fall] [NAME...]    judges them; NAMEs are of leases that stand all the time, `fall` says
 *                             that V moved back. "ok points=N", or "bad" and what is wrong
 *   again EVERY               of every EVERYth moment the recovery's stores are judged, too
 *   scribble COUNT            the next agent finds a damaged table, so many times; "ok points=N"
 *   control                   spoils a moment in each way there is: "ok caught=N of=N"
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/status.h"
#include "agent/core/ballot.h"
#include "tests/torture/agent_judge.h"
#include "tests/torture/agent_wire.h"
#include "tests/support/config.h"

#define MOMENTS_MAX 2000

static struct judge judge;
static struct wire wire;
static struct store_log *stores;
static struct words words_before; /* the watching */

/* False after ten seconds. */
static bool wait_for(const _Atomic uint32_t *word, uint32_t value)
{
    for (int i = 0; i < 10000; i++) {
        if (atomic_load(word) == value)
            return true;
        usleep(1000);
    }
    return false;
}

static bool agent_lives(void)
{
    const struct hf_table_header *header = judge.live_table.at;

    return kill((pid_t)atomic_load(&header->pid), 0) == 0;
}

static void make_log(const char *path)
{
    struct region region[REGIONS_MAX];
    int count = judge_regions(&judge, region), fd;
    size_t size = store_log_size(region, count, MOMENTS_MAX);
    char temporary[4096];

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
        (stores = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        perror(temporary);
        exit(2);
    }
    close(fd);
    store_log_init(stores, region, count, MOMENTS_MAX);
    if (rename(temporary, path) != 0) {
        perror(path);
        exit(2);
    }
}

static void do_watch(void)
{
    judge_begin(&judge);
    memset(wire.tokens, 0, sizeof(wire.tokens));
    atomic_store(&stores->count, 0);
    atomic_store(&stores->wanted, 1);
    printf(wait_for(&stores->watching, 1) ? "ok\n" : "bad it does not answer\n");
}

/* What was sent is judged at once: it counts for the answer. */
static void do_stop(void)
{
    atomic_store(&stores->wanted, 0);
    if (agent_lives())
        (void)wait_for(&stores->watching, 0);
    atomic_store(&stores->watching, 0);
    if (atomic_load(&stores->overflown))
        judge_says(&judge, "more than %d stores", MOMENTS_MAX);
    for (uint32_t i = 0; i < atomic_load(&stores->count); i++) {
        const struct moment *m = store_log_moment(stores, i);

        if (m->wire_size == 0)
            continue;
        judge_restore(&judge, stores, i);
        wire_judge(&wire, &judge, m->wire, m->wire_size);
    }
    printf("ok moments=%u acquires=%u renewals=%u releases=%u\n", atomic_load(&stores->count),
           wire.tokens[SCRIPT_ACQUIRE], wire.tokens[SCRIPT_RENEW], wire.tokens[SCRIPT_RELEASE]);
}

static void keep_names(char *words)
{
    judge.names = 0;
    judge.may_fall = false;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        if (strcmp(word, "fall") == 0)
            judge.may_fall = true;
        else if (judge.names < NAMES_MAX)
            snprintf(judge.name[judge.names++], sizeof(judge.name[0]), "%s", word);
}

static bool say_wrong(uint32_t i)
{
    if (!*judge.wrong)
        return false;
    printf("bad killed after store %u of %u, at %#llx: %s\n", i, atomic_load(&stores->count) - 1,
           (unsigned long long)store_log_moment(stores, i)->ip, judge.wrong);
    return true;
}

static void do_judge(char *words)
{
    if (say_wrong(0)) /* on the wire */
        return;
    keep_names(words);
    words_before = judge.words;
    for (uint32_t i = 0; i < atomic_load(&stores->count); i++) {
        judge_restore(&judge, stores, i);
        judge_follow(&judge);
        judge_state(&judge);
        if (!*judge.wrong)
            judge_recovery(&judge);
        if (say_wrong(i))
            return;
    }
    printf("ok points=%u\n", atomic_load(&stores->count));
}

static void do_again(unsigned every)
{
    unsigned points = 0;

    judge.words = words_before;
    for (uint32_t i = 0; i < atomic_load(&stores->count); i++) {
        judge_restore(&judge, stores, i);
        judge_follow(&judge);
        if (i % every == 0)
            points += judge_recovery_stores(&judge, 16);
        if (say_wrong(i))
            return;
    }
    printf("ok points=%u\n", points);
}

/* Anything but the header: that is judged before a table is kept. Most of the rest is room that nobody
 * looks at. */
static void scribble(unsigned seed)
{
    uint8_t *at = judge.copy_table.at;
    struct region region[REGIONS_MAX];
    int first = 2, last = judge_regions(&judge, region) - 2; /* slots to text */

    srandom(seed);
    for (long n = 1 + random() % 64; n > 0; n--) {
        /* Half of it where it hurts most. */
        const struct region *r = &region[n % 2 ? first : first + random() % (last - first + 1)];

        at[r->offset + (size_t)random() % r->size] = (uint8_t)random();
        if (n % 8 == 0)
            at[HF_TABLE_HEADER + (size_t)random() % (judge.copy_table.size - HF_TABLE_HEADER)] =
                (uint8_t)random();
    }
}

static void do_scribble(unsigned count)
{
    judge.scribbled = true;
    for (unsigned seed = 1; seed <= count; seed++) {
        judge_restore(&judge, stores, 0);
        judge.words = words_before;
        scribble(seed);
        judge_recovery(&judge);
        if (*judge.wrong) {
            printf("bad scribbled with seed %u: %s\n", seed, judge.wrong);
            return;
        }
    }
    judge.scribbled = false;
    printf("ok points=%u\n", count);
}

/* --- spoiled states: each must be caught ------------------------------------------------------ */

static struct hf_slot *slot_held(void)
{
    struct hf_slot *slots = (void *)((char *)judge.copy_table.at +
                                     ((char *)judge.reader.slots - (char *)judge.reader.header));

    for (uint32_t i = 0; i < judge.config.capacity; i++)
        if (atomic_load(&slots[i].check) != 0)
            return &slots[i];
    return NULL;
}

static void raise_the_word(struct hf_slot *slot)
{
    atomic_fetch_add(&slot->check, 100);
}

static void give_the_word_another_generation(struct hf_slot *slot)
{
    atomic_fetch_add(&slot->check, UINT64_C(1) << HF_CHECK_GEN_SHIFT);
}

static void show_another_holder(struct hf_slot *slot)
{
    atomic_fetch_add(&slot->pid, 1);
}

static void show_another_name(struct hf_slot *slot)
{
    char *text = (char *)judge.copy_table.at +
                 ((char *)judge.reader.text - (char *)judge.reader.header) +
                 (size_t)atomic_load(&slot->text_off) * HF_TEXT_UNIT;

    text[0] ^= 1;
}

static void free_the_record(struct hf_slot *slot)
{
    struct hf_slot *slots = (void *)((char *)judge.copy_table.at +
                                     ((char *)judge.reader.slots - (char *)judge.reader.header));
    struct journal_lease none = {.state = JOURNAL_FREE};

    journal_put(judge.journal, (uint32_t)(slot - slots), &none);
}

static void damage_the_record(struct hf_slot *slot)
{
    char *at = judge.copy_journal.at;

    (void)slot;
    for (size_t i = 4096; i < judge.copy_journal.size; i++)
        at[i] ^= 1;
}

static void (*const spoil[])(struct hf_slot *) = {
    raise_the_word,      give_the_word_another_generation,
    show_another_holder, show_another_name,
    free_the_record,     damage_the_record,
};

static void do_control(void)
{
    unsigned caught = 0;
    const struct words words = judge.words;
    int facts = judge.facts;

    judge.words = words_before;
    for (size_t i = 0; i < HF_LENGTH(spoil); i++) {
        struct hf_slot *slot;

        judge_restore(&judge, stores, 0);
        slot = slot_held();
        if (!slot)
            break;
        spoil[i](slot);
        judge_state(&judge);
        caught += *judge.wrong != '\0';
        judge.facts = facts;
        *judge.wrong = '\0';
    }
    judge.words = words;
    printf("ok caught=%u of=%zu\n", caught, HF_LENGTH(spoil));
}

/* --- the program ------------------------------------------------------------------------------ */

static void serve(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "watch") == 0)
        do_watch();
    else if (strcmp(line, "stop") == 0)
        do_stop();
    else if (strncmp(line, "judge", 5) == 0)
        do_judge(line + 5);
    else if (strncmp(line, "again ", 6) == 0)
        do_again((unsigned)atoi(line + 6));
    else if (strncmp(line, "scribble ", 9) == 0)
        do_scribble((unsigned)atoi(line + 9));
    else if (strcmp(line, "control") == 0)
        do_control();
    else
        printf("err command\n");
    fflush(stdout);
}

static bool take_scripts(char *list)
{
    int n = 0;

    for (char *sha = strtok(list, ","); sha && n < SCRIPTS; sha = strtok(NULL, ","))
        snprintf(wire.sha[n++], sizeof(wire.sha[0]), "%s", sha);
    return n == SCRIPTS;
}

int main(int argc, char **argv)
{
    char line[4096], why[1024] = "";
    int code = 0;

    if (argc < 9 || strcmp(argv[7], "--") != 0 || !take_scripts(argv[6])) {
        fprintf(stderr, "usage: see the source\n");
        return 64;
    }
    snprintf(judge.live_shm, sizeof(judge.live_shm), "%s", argv[2]);
    snprintf(judge.live_dir, sizeof(judge.live_dir), "%s", argv[3]);
    snprintf(judge.copy_shm, sizeof(judge.copy_shm), "%s", argv[4]);
    snprintf(judge.copy_dir, sizeof(judge.copy_dir), "%s", argv[5]);
    if (config_load(argc - 7, argv + 7, &judge.config, &code, why, sizeof(why)) < 0 ||
        host_read(&judge.host, why, sizeof(why)) < 0) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    if (judge.config.capacity > SLOTS_MAX) {
        fprintf(stderr, "more than %d slots\n", SLOTS_MAX);
        return 2;
    }
    judge.n = judge.config.node_count;
    judge.q = ballot_quorum(judge.n);
    judge_open(&judge);
    make_log(argv[1]);
    while (fgets(line, sizeof(line), stdin))
        serve(line);
    judge_close(&judge);
    return 0;
}

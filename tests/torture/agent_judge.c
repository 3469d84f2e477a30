#include "tests/support/journal.h"
#include "tests/torture/agent_judge.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/core/timing.h"
#include "agent/state/journal_layout.h"
#include "shm/index.h"
#include "shm/process.h"
#include "shm/status.h"
#include "tests/torture/agent_recover.h"

void judge_says(struct judge *j, const char *format, ...)
{
    va_list args;

    if (*j->wrong)
        return;
    va_start(args, format);
    vsnprintf(j->wrong, sizeof(j->wrong), format, args);
    va_end(args);
}

/* --- files ------------------------------------------------------------------------------------ */

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static struct whole map_whole(int fd)
{
    struct whole r;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || hf_file_id(fd, &r.file) < 0)
        die("open");
    r.size = (size_t)st.st_size;
    r.at = mmap(NULL, r.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r.at == MAP_FAILED)
        die("mmap");
    close(fd);
    return r;
}

static int make_like(int fd, const struct whole *like, mode_t mode)
{
    if (fd < 0 || fchmod(fd, mode) != 0 || ftruncate(fd, (off_t)like->size) != 0)
        die("copy");
    return fd;
}

/* All of it but room that has no memory: that is most of it. */
static void copy_table(void *to, const void *from)
{
    const struct hf_table_header *h = from;
    size_t slots = atomic_load(&h->capacity) * sizeof(struct hf_slot);
    size_t area = atomic_load(&h->index_size) * sizeof(hf_index_entry);
    size_t text = (size_t)atomic_load(&h->capacity) * HF_TEXT_MOST;

    memcpy(to, from, HF_TABLE_HEADER);
    for (int i = 0; i < HF_SECTIONS_MAX; i++) {
        const struct hf_section *s = &h->sections[i];
        size_t size = s->type == HF_SECTION_SLOTS   ? slots
                      : s->type == HF_SECTION_INDEX ? area
                      : s->type == HF_SECTION_TEXT  ? text
                                                    : s->length;

        memcpy((char *)to + s->offset, (const char *)from + s->offset, size);
        if (s->type == HF_SECTION_INDEX)
            memcpy((char *)to + s->offset + s->length / 2,
                   (const char *)from + s->offset + s->length / 2, size);
    }
}

/* The next agent finds its own files, and no copies. */
static void own_copies(const struct judge *j)
{
    struct hf_table_header *table = j->copy_table.at;
    struct state_file_header *journal = j->copy_journal.at;

    table->file = j->copy_table.file;
    journal->file = j->copy_journal.file;
}

static struct journal *records_of(const struct judge *j, const char *dir)
{
    struct journal *journal;
    uint32_t found;
    char why[400];

    if (journal_open(dir, j->config.capacity, j->n, j->config.list_hash, &j->host.clock, &journal,
                     &found, why, sizeof(why)) != HF_OK) {
        fprintf(stderr, "%s\n", why);
        exit(2);
    }
    (void)flock(journal->fd, LOCK_UN); /* the agents that recover own it, one after the other */
    return journal;
}

void judge_open(struct judge *j)
{
    char path[600], why[400];

    snprintf(path, sizeof(path), "%s/journal", j->live_dir);
    j->live_journal = map_whole(open(path, O_RDWR | O_CLOEXEC));
    j->live_table = map_whole(shm_open(j->live_shm, O_RDWR | O_CLOEXEC, 0));
    j->table_bytes = malloc(j->live_table.size);
    j->journal_bytes = malloc(j->live_journal.size);
    if (!j->table_bytes || !j->journal_bytes)
        die("malloc");

    snprintf(path, sizeof(path), "%s/journal", j->copy_dir);
    j->copy_journal = map_whole(
        make_like(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), &j->live_journal, 0600));
    j->copy_table = map_whole(make_like(
        shm_open(j->copy_shm, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), &j->live_table, 0644));
    memcpy(j->copy_journal.at, j->live_journal.at, j->live_journal.size);
    copy_table(j->copy_table.at, j->live_table.at);
    own_copies(j);
    j->journal = records_of(j, j->copy_dir);
    if (hf_table_open(j->copy_shm, geteuid(), &j->reader, why, sizeof(why)) != HF_OK) {
        fprintf(stderr, "%s\n", why);
        exit(2);
    }
}

void judge_close(struct judge *j)
{
    hf_table_close(&j->reader);
    journal_remove(j->journal);
    shm_unlink(j->copy_shm);
}

static struct region of_table(const struct judge *j, const void *from, size_t size)
{
    size_t offset = (size_t)((const char *)from - (const char *)j->reader.header);

    return (struct region){(char *)j->copy_table.at + offset, size, MAPPING_TABLE, offset};
}

int judge_regions(const struct judge *j, struct region ret_regions[REGIONS_MAX])
{
    const struct hf_table *t = &j->reader;
    size_t area = atomic_load(&t->header->index_size) * sizeof(*t->index);
    int n = 0;

    /* Not the beats: they are every thread's. */
    ret_regions[n++] = of_table(j, t->header, offsetof(struct hf_table_header, main_beat_ns));
    ret_regions[n++] = of_table(j, &t->header->index_seq,
                                sizeof(*t->header) - offsetof(struct hf_table_header, index_seq));
    ret_regions[n++] = of_table(j, t->slots, hf_table_capacity(t) * sizeof(*t->slots));
    ret_regions[n++] = of_table(j, t->index, area);
    ret_regions[n++] = of_table(j, t->index + t->index_room, area);
    ret_regions[n++] = of_table(j, t->text, (size_t)hf_table_capacity(t) * HF_TEXT_MOST);
    ret_regions[n++] =
        (struct region){j->copy_journal.at, j->copy_journal.size, MAPPING_JOURNAL, 0};
    return n;
}

void judge_begin(struct judge *j)
{
    copy_table(j->table_bytes, j->live_table.at);
    memcpy(j->journal_bytes, j->live_journal.at, j->live_journal.size);
    *j->wrong = '\0';
}

/* The log's own pointers are of the agent. */
static void put(const struct judge *j, const struct store_log *log, uint32_t i)
{
    const uint8_t *from = store_log_moment(log, i)->bytes;

    for (uint32_t r = 0; r < log->regions; from += log->region[r++].size) {
        const struct region *region = &log->region[r];
        char *to = region->mapping == MAPPING_TABLE ? j->copy_table.at : j->copy_journal.at;

        memcpy(to + region->offset, from, region->size);
    }
    own_copies(j);
}

void judge_restore(const struct judge *j, const struct store_log *log, uint32_t i)
{
    copy_table(j->copy_table.at, j->table_bytes);
    memcpy(j->copy_journal.at, j->journal_bytes, j->live_journal.size);
    put(j, log, i);
}

/* --- a state ---------------------------------------------------------------------------------- */

/* Not `since`: a readopted lease began when its round did, a moment before its grant. */
static bool same_lease(const struct hf_slot_view *a, const struct hf_slot_view *b)
{
    return a->pid == b->pid && a->uid == b->uid && a->fence == b->fence && a->ttl_ms == b->ttl_ms &&
           a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0 &&
           strcmp(a->note, b->note) == 0 && strcmp(a->comm, b->comm) == 0;
}

static bool is_of(const struct hf_slot_view *view, const struct journal_identity *id,
                  const struct journal_lease *rec)
{
    return view->pid == id->who.pid && view->uid == id->who.uid && view->fence == rec->fence &&
           view->ttl_ms == id->ttl_ms && view->name_len == id->name_len &&
           memcmp(view->name, id->name, id->name_len) == 0 &&
           strcmp(view->note, id->who.note) == 0 && strcmp(view->comm, id->who.comm) == 0;
}

/* Whoever reads a lease reads one that was granted, and all of it. */
static void judge_view(struct judge *j, const struct hf_slot_view *view,
                       const struct journal_identity *id, const struct journal_lease *rec)
{
    struct fact *f;

    for (int i = 0; i < j->facts; i++) {
        f = &j->fact[i];
        if (f->slot != view->slot || f->generation != view->generation)
            continue;
        if (!same_lease(&f->view, view))
            judge_says(j, "slot %u, generation %u: name %.*s, pid %u: not the lease that it was",
                       view->slot, view->generation, view->name_len, (const char *)view->name,
                       view->pid);
        return;
    }
    if (!rec || rec->generation != view->generation || !is_of(view, id, rec)) {
        judge_says(j, "slot %u: generation %u, name %.*s, pid %u: the journal has no such lease",
                   view->slot, view->generation, view->name_len, (const char *)view->name,
                   view->pid);
    } else if (j->facts < FACTS_MAX) {
        f = &j->fact[j->facts++];
        *f = (struct fact){view->slot, view->generation, *view};
    }
}

static void judge_word(struct judge *j, uint32_t slot, uint64_t word, const struct journal_lease *r)
{
    uint32_t generation = (uint32_t)(word >> HF_CHECK_GEN_SHIFT);

    if (word == 0)
        return;
    if (generation != 0 && generation == j->words.over[slot])
        judge_says(j, "slot %u: the word of generation %u stands again", slot, generation);
    if (!r || (!journal_is_held(r->state) && r->state != JOURNAL_ENDING))
        judge_says(j, "slot %u: the word stands, and the journal has it in state %d", slot,
                   r ? (int)r->state : 0);
    else if (r->state == JOURNAL_HANDOFF && r->generation == generation + 1)
        return; /* of the one who gave it up: it falls next, and never stands again */
    else if (r->generation != generation)
        judge_says(j, "slot %u: the word is of generation %u, the journal's of %u", slot,
                   generation, r->generation);
    else if (journal_is_held(r->state) && !j->may_fall &&
             word > hf_check_pack(generation, validity_qth(r->d, j->n, j->q)))
        judge_says(j, "slot %u: the word stands beyond what the journal has from the nodes", slot);
}

void judge_follow(struct judge *j)
{
    for (uint32_t slot = 0; slot < j->config.capacity; slot++) {
        uint64_t word = atomic_load(&j->reader.slots[slot].check);

        if (word != 0)
            j->words.stood[slot] = (uint32_t)(word >> HF_CHECK_GEN_SHIFT);
        else
            j->words.over[slot] = j->words.stood[slot];
    }
}

void judge_state(struct judge *j)
{
    for (uint32_t slot = 0; slot < j->config.capacity; slot++) {
        uint64_t word = atomic_load_explicit(&j->reader.slots[slot].check, memory_order_acquire);
        struct journal_identity id;
        struct journal_lease rec;
        struct hf_slot_view view;
        int kept = journal_get(j->journal, slot, &id, &rec);
        int status = hf_slot_read(&j->reader, slot, &view);

        if (kept != HF_OK && kept != HF_ENOTHELD)
            judge_says(j, "slot %u: its record cannot be read", slot);
        judge_word(j, slot, word, kept == HF_OK ? &rec : NULL);
        if (status == HF_OK)
            judge_view(j, &view, &id, kept == HF_OK ? &rec : NULL);
        else if (status != HF_ENOTHELD && status != HF_ETABLE)
            judge_says(j, "slot %u: read with status %d", slot, status);
    }
    for (int i = 0; i < j->names; i++) {
        struct hf_slot_view view;
        size_t len = strlen(j->name[i]);
        int status = hf_index_find(&j->reader, j->name[i], len, &view);

        if (status == HF_OK && (view.name_len != len || memcmp(view.name, j->name[i], len) != 0))
            judge_says(j, "looked for %s and found %.*s", j->name[i], view.name_len,
                       (const char *)view.name);
        if (status == HF_ENOTHELD)
            judge_says(j, "%s stands, and is not found", j->name[i]);
    }
}

/* --- the next agent --------------------------------------------------------------------------- */

/* Without any record the next agent makes a table of its own. */
static bool anything_left(const struct judge *j)
{
    struct journal_identity id;
    struct journal_lease rec;

    for (uint32_t slot = 0; slot < j->config.capacity; slot++)
        if (journal_get(j->journal, slot, &id, &rec) != HF_ENOTHELD)
            return true;
    return false;
}

void judge_recovery(struct judge *j)
{
    int status = 0, from[2];
    ssize_t got;
    pid_t pid;

    if (!anything_left(j))
        return;
    if (pipe2(from, O_CLOEXEC) != 0)
        die("pipe");
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        recover(j);
        recover_judge(j);
        (void)!write(from[1], j->wrong, strlen(j->wrong));
        _exit(*j->wrong != '\0');
    }
    close(from[1]);
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    if (status != 0) {
        char text[sizeof(j->wrong)] = "";

        got = read(from[0], text, sizeof(text) - 1);
        judge_says(j, "recovered: %s (wait status %#x)", got > 0 ? text : "it ended", status);
    }
    close(from[0]);
}

static struct store_log *recovery;

static void recover_in_child(void *arg)
{
    mappings_forget();
    stores_watch_mapped(recovery);
    recover(arg);
    stores_unwatch();
}

unsigned judge_recovery_stores(struct judge *j, unsigned every)
{
    struct region region[REGIONS_MAX];
    int regions = judge_regions(j, region);
    struct store_log *log;
    unsigned count;

    if (!anything_left(j))
        return 0;
    log = stores_of(recover_in_child, j, region, regions, &recovery);
    if (!log) {
        judge_says(j, "the recovery did not end well");
        return 0;
    }
    count = atomic_load(&log->count);
    for (uint32_t i = 0; i < count && !*j->wrong; i++) {
        put(j, log, i);
        judge_state(j);
        if (!*j->wrong && i % every == 0)
            judge_recovery(j);
        if (*j->wrong) {
            char text[sizeof(j->wrong)];

            snprintf(text, sizeof(text), "%.300s", j->wrong);
            *j->wrong = '\0';
            judge_says(j, "killed again in the recovery, after store %u of %u, at %#llx: %s", i,
                       count - 1, (unsigned long long)store_log_moment(log, i)->ip, text);
        }
    }
    stores_free(log);
    return count;
}

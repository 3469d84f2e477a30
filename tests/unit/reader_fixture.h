/* What the tests of the reading subcommands share: a table made by the test, as an agent makes it,
 * and what a subcommand printed. */
#ifndef HOLDFAST_TESTS_READER_FIXTURE_H
#define HOLDFAST_TESTS_READER_FIXTURE_H

#include "shm_fixture.h"

#include <sys/stat.h>
#include <time.h>

#include "shm/index.h"
#include "tools/reader/reader.h"

static inline hf_time fixture_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (hf_time){now.tv_sec * HF_NS_PER_SEC + now.tv_nsec};
}

static inline uint64_t fixture_inode(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static inline uint64_t fixture_timens(void)
{
    return fixture_inode("/proc/self/ns/time");
}

/* A table that nobody else sees, as reader_open() gives it. */
static inline struct reader fixture_reader(uint32_t capacity)
{
    struct reader reader = {.table = fixture_table(capacity), .version = "0.1.0", .host = "host7"};

    strcpy(reader.place.agent, "test");
    atomic_store(&reader.table.header->nodes, 3);
    reader.table.header->pid = (uint32_t)getpid();
    reader.table.header->pidns_inode = fixture_inode("/proc/self/ns/pid");
    return reader;
}

/* Every thread of the agent gave a sign of life so long ago. */
static inline void fixture_beat(struct hf_table *table, int64_t age_ms)
{
    int64_t at = hf_time_sub(fixture_now(), hf_ms(age_ms)).ns;

    atomic_store(&table->header->main_beat_ns, at);
    atomic_store(&table->header->broker_beat_ns, at);
    atomic_store(&table->header->renewal_beat_ns, at);
}

struct fixture_lease {
    const char *name; /* of `len` bytes; 0: a C string */
    size_t len;
    const char *note;
    int64_t left_ms;
    enum hf_slot_state state;
    enum hf_loss_reason reason;
    uint32_t pid;
};

/* Puts a lease of this process's user on the slot, findable by its name. */
static inline void fixture_lease(struct hf_table *table, struct hf_text_pool *pool, uint32_t slot,
                                 struct fixture_lease lease)
{
    size_t len = lease.len ? lease.len : strlen(lease.name);
    const char *note = lease.note ? lease.note : "";
    hf_time now = fixture_now();
    struct hf_slot_identity id = {
        .generation = 1,
        .pid = lease.pid ? lease.pid : (uint32_t)getpid(),
        .uid = geteuid(),
        .ttl_ms = 30000,
        .name_len = (uint8_t)len,
        .note_len = (uint8_t)strlen(note),
        .comm_len = 4,
        .fence = UINT64_C(117652638140596224),
        .since = hf_time_sub(now, hf_ms(1500)),
    };

    assert_int_equal(
        hf_text_put(pool, lease.name, len, note, strlen(note), "comm", 4, &id.text_off), 0);
    hf_slot_publish(&table->slots[slot], &id, hf_time_add(now, hf_ms(lease.left_ms)), 2);
    if (lease.state >= HF_SLOT_LOST) {
        hf_slot_withdraw(&table->slots[slot]);
        hf_slot_end(&table->slots[slot], lease.state, lease.reason);
    } else if (lease.state > HF_SLOT_HELD) {
        hf_slot_mark(&table->slots[slot], lease.state, 0, lease.reason);
    }
    assert_int_equal(hf_index_add(table, lease.name, len, slot), 0);
}

/* What `stdout` got between begin and end; to be freed. */
static inline int fixture_capture_begin(void)
{
    int saved = dup(STDOUT_FILENO), fd = memfd_create("stdout", MFD_CLOEXEC);

    fflush(stdout);
    assert_true(saved >= 0 && fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
    close(fd);
    return saved;
}

static inline char *fixture_capture_end(int saved)
{
    off_t size;
    char *text;

    fflush(stdout);
    size = lseek(STDOUT_FILENO, 0, SEEK_END);
    text = calloc(1, (size_t)size + 1);
    assert_int_equal(pread(STDOUT_FILENO, text, (size_t)size, 0), size);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    return text;
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static inline void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("\"%s\" is in:\n%s", part, text);
}

#endif

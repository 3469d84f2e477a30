/* A journal in a directory of its own, and a hand in its file: bytes are found by what was put into
 * them, so that no test knows the layout. */
#ifndef HOLDFAST_TESTS_JOURNAL_FIXTURE_H
#define HOLDFAST_TESTS_JOURNAL_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/clock.h"
#include "agent/state/journal.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/journal.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(void **state HF_UNUSED)

#define CAPACITY   64
#define NODES      3
#define LIST       "0123456789abcdef0123456789abcdef01234567"

static const struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}}, other_boot[1] = {{{1, 2, 4}, 0}};

static char dir[64], path[80];
static struct journal *journal;
static uint32_t found;
static char why[400];

/* The bytes of the file, to be freed; NULL: there is none. */
static inline uint8_t *read_image(size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    uint8_t *bytes;

    if (fd < 0)
        return NULL;
    assert_int_equal(fstat(fd, &st), 0);
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return NULL;
    }
    *ret_size = (size_t)st.st_size;
    bytes = malloc(*ret_size + 1);
    assert_non_null(bytes);
    assert_true(read(fd, bytes, *ret_size) == st.st_size);
    close(fd);
    return bytes;
}

/* What journal_dry_run() says must be what journal_open() does, and the file stays as it was. */
static inline struct journal_view look_as(uint32_t capacity, int nodes, const char *list,
                                          const struct boot_clock *boot, char ret_why[400])
{
    struct journal_view view = {0};
    size_t size = 0, size_after = 0;
    uint8_t *before = read_image(&size), *after;

    ret_why[0] = '\0';
    if (journal_dry_run(dir, capacity, nodes, list, boot, &view, ret_why, 400) != HF_OK) {
        view.refused = true; /* it cannot be opened */
        assert_null(view.journal);
    }
    after = read_image(&size_after);
    assert_int_equal(size_after, size);
    assert_int_equal(!after, !before);
    if (before)
        assert_memory_equal(after, before, size);
    free(before);
    free(after);
    return view;
}

static inline int open_as(uint32_t capacity, int nodes, const char *list,
                          const struct boot_clock *boot)
{
    char looked[400];
    struct journal_view view = look_as(capacity, nodes, list, boot, looked);
    int rc;

    assert_null(journal);
    found = UINT32_MAX;
    why[0] = '\0';
    rc = journal_open(dir, capacity, nodes, list, boot, &journal, &found, why, sizeof(why));
    if (rc == HF_ETABLE) { /* not for want of room, which is known by then only */
        assert_true(view.refused);
        assert_string_equal(looked, why);
    } else if (rc == HF_OK) {
        bool kept = view.journal && !view.other_list;

        assert_false(view.refused);
        assert_int_equal(kept, journal_is_kept(journal));
        assert_int_equal(kept ? view.live : 0, found);
        if (kept)
            assert_int_equal(journal_slots_live(view.journal), journal_slots_live(journal));
    }
    journal_close(view.journal);
    return rc;
}

static inline void close_journal(void)
{
    journal_close(journal);
    journal = NULL;
}

static inline void reopen_as(uint32_t capacity)
{
    close_journal();
    assert_int_equal(open_as(capacity, NODES, LIST, this_boot), HF_OK);
}

/* As the next agent does. */
static inline void reopen(void)
{
    close_journal();
    if (open_as(CAPACITY, NODES, LIST, this_boot) != HF_OK)
        fail_msg("%s", why);
}

static inline int set_up(void **state HF_UNUSED)
{
    scratch_path_tmpfs(dir, sizeof(dir));
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/journal", dir);
    return open_as(CAPACITY, NODES, LIST, this_boot);
}

static inline int tear_down(void **state HF_UNUSED)
{
    close_journal();
    (void)unlink(path);
    return rmdir(dir); /* fails when anything else was left */
}

/* --- the file by hand; no journal is open --------------------------------------------------------
 */

struct image {
    uint8_t *bytes;
    size_t size;
};

static inline struct image map_image(void)
{
    struct image image;
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    image.size = (size_t)st.st_size;
    image.bytes = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(image.bytes != MAP_FAILED);
    close(fd);
    return image;
}

/* --- what is put ---------------------------------------------------------------------------------
 */

/* Every field can be told from `number`. */
static inline struct journal_identity numbered_identity(uint32_t number)
{
    struct journal_identity id;

    memset(&id, 0, sizeof(id));
    memcpy(id.token.bytes, &number, sizeof(number));
    id.token.bytes[TOKEN_BYTES - 1] = 0xca;
    id.ttl_ms = number + 1;
    id.who.max_hold_ms = number + 2;
    id.who.pid = number + 3;
    id.who.uid = number + 4;
    id.who.birth = number + 5;
    id.who.pidns_inode = number + 6;
    id.who.cookie_hash = number + 7;
    id.who.request_id = number;
    id.who.since.ns = number + INT64_C(8);
    id.who.since_wall.ms = number + INT64_C(9);
    id.who.is_job = number & 1;
    id.name_len = (uint8_t)(HF_NAME_MAX - number % 7);
    memset(id.name, 'a' + (int)(number % 26), id.name_len);
    id.who.note_len = (uint8_t)snprintf(id.who.note, sizeof(id.who.note), "note-%0122u", number);
    id.who.comm_len = (uint8_t)snprintf(id.who.comm, sizeof(id.who.comm), "comm-%010u", number);
    return id;
}

static inline void assert_identity(const struct journal_identity *got, uint32_t number)
{
    struct journal_identity want = numbered_identity(number);

    assert_memory_equal(&got->token, &want.token, sizeof(want.token));
    assert_int_equal(got->ttl_ms, want.ttl_ms);
    assert_int_equal(got->who.max_hold_ms, want.who.max_hold_ms);
    assert_int_equal(got->who.pid, want.who.pid);
    assert_int_equal(got->who.uid, want.who.uid);
    assert_int_equal(got->who.birth, want.who.birth);
    assert_int_equal(got->who.pidns_inode, want.who.pidns_inode);
    assert_int_equal(got->who.cookie_hash, want.who.cookie_hash);
    assert_int_equal(got->who.request_id, want.who.request_id);
    assert_int_equal(got->who.since.ns, want.who.since.ns);
    assert_int_equal(got->who.since_wall.ms, want.who.since_wall.ms);
    assert_int_equal(got->who.is_job, want.who.is_job);
    assert_int_equal(got->name_len, want.name_len);
    assert_memory_equal(got->name, want.name, want.name_len);
    assert_int_equal(got->who.note_len, want.who.note_len);
    assert_string_equal(got->who.note, want.who.note);
    assert_int_equal(got->who.comm_len, want.who.comm_len);
    assert_string_equal(got->who.comm, want.who.comm);
}

/* The d_i are of now and later: the lease is one that somebody may believe in. */
static inline struct journal_lease numbered_lease(enum journal_state state, uint32_t generation,
                                                  uint64_t number)
{
    struct journal_lease lease = {.state = state,
                                  .slot_state = HF_SLOT_LOSING,
                                  .generation = generation,
                                  .fence = UINT64_C(0x5aa5000000000000) + number};

    for (int i = 0; i < HF_NODES_MAX; i++)
        lease.d[i] = i < NODES ? (hf_time){INT64_MAX / 4 + (int64_t)number * 16 + i} : HF_TIME_PAST;
    return lease;
}

static inline void assert_lease(const struct journal_lease *got, enum journal_state state,
                                uint32_t generation, uint64_t number)
{
    struct journal_lease want = numbered_lease(state, generation, number);

    assert_int_equal(got->state, want.state);
    assert_int_equal(got->slot_state, want.slot_state);
    assert_int_equal(got->generation, want.generation);
    assert_int_equal(got->fence, want.fence);
    for (int i = 0; i < HF_NODES_MAX; i++)
        assert_int_equal(got->d[i].ns, want.d[i].ns);
}

static inline void put_lease(uint32_t slot, enum journal_state state, uint32_t generation,
                             uint64_t number)
{
    struct journal_lease lease = numbered_lease(state, generation, number);

    journal_put(journal, slot, &lease);
}

static inline void put_identity(uint32_t slot, uint32_t number)
{
    struct journal_identity identity = numbered_identity(number);

    journal_put_identity(journal, slot, &identity);
}

/* A lease HELD in `slot`; all of it can be told from `number`, which is its generation, too. */
static inline void hold(uint32_t slot, uint32_t number)
{
    put_identity(slot, number);
    put_lease(slot, JOURNAL_INTENT, number, number);
    put_lease(slot, JOURNAL_HELD, number, number);
}

static inline int get(uint32_t slot)
{
    struct journal_identity identity;
    struct journal_lease lease;

    return journal_get(journal, slot, &identity, &lease);
}

#endif

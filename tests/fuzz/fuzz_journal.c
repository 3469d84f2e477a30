/* A journal as an agent finds it: damaged, or not of its making. It is refused in words, or what
 * comes out of it is what a writer put in.
 *
 * The input patches a good journal. Nothing tells such damage, so what comes out may be wrong: it must do no harm.
 * A cut alone changes no word: then nothing but the writer's own words may come out. */
#include "agent/base/clock.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state/journal.h"
#include "shm/status.h"
#include "tests/support/journal.h"

#define CAPACITY 4
#define NODES    3
#define LIST     "0123456789abcdef0123456789abcdef01234567"

static const struct boot_clock boot[1] = {{{1, 2, 3}, 0}};
static char dir[32], path[48];
static uint8_t *good, *image;
static size_t good_size;
static struct journal_identity put_identity;

static void remove_files(void)
{
    unlink(path);
    rmdir(dir);
}

static int open_it(struct journal **ret_journal, uint32_t *ret_found)
{
    char why[500] = "";
    int rc =
        journal_open(dir, CAPACITY, NODES, LIST, boot, ret_journal, ret_found, why, sizeof(why));

    if (rc < 0)
        FUZZ_CHECK(rc == HF_ETABLE && why[0] && strnlen(why, sizeof(why)) < sizeof(why));
    return rc;
}

static struct journal_lease lease_of(uint32_t generation)
{
    struct journal_lease lease = {.state = JOURNAL_HELD,
                                  .slot_state = HF_SLOT_HELD,
                                  .generation = generation,
                                  .fence = UINT64_C(117652638140596224)};

    for (int i = 0; i < HF_NODES_MAX; i++)
        lease.d[i] = i < NODES ? (hf_time){INT64_MAX / 4 + i} : HF_TIME_PAST;
    return lease;
}

static void make_good(void)
{
    struct journal *journal;
    struct stat st;
    uint32_t found;
    int fd;

    snprintf(dir, sizeof(dir), "/dev/shm/holdfast-fuzz-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/journal", dir);
    FUZZ_CHECK(mkdir(dir, 0700) == 0);
    atexit(remove_files);
    FUZZ_CHECK(open_it(&journal, &found) == HF_OK && found == 0);
    memset(&put_identity, 0, sizeof(put_identity));
    put_identity.token.bytes[0] = 7;
    put_identity.name_len = 4;
    memcpy(put_identity.name, "cron", 4);
    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        struct journal_lease lease = lease_of(slot + 1);

        journal_put_identity(journal, slot, &put_identity);
        lease.state = JOURNAL_INTENT;
        journal_put(journal, slot, &lease);
        lease.state = JOURNAL_HELD;
        journal_put(journal, slot, &lease);
    }
    journal_close(journal);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && fstat(fd, &st) == 0);
    good_size = (size_t)st.st_size;
    good = malloc(good_size);
    image = malloc(good_size);
    FUZZ_CHECK(good && image && read(fd, good, good_size) == (ssize_t)good_size);
    close(fd);
}

/* What is told must be what stood in one of the writer's own puts. */
static void check_believed(const struct journal *journal)
{
    struct journal_identity identity;
    struct journal_lease lease;

    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        int rc = journal_get(journal, slot, &identity, &lease);
        struct journal_lease want = lease_of(slot + 1);

        FUZZ_CHECK(rc == HF_OK || rc == HF_ENOTHELD || rc == HF_ETABLE);
        if (rc != HF_OK)
            continue;
        FUZZ_CHECK(memcmp(&identity, &put_identity, sizeof(identity)) == 0);
        FUZZ_CHECK(lease.state == JOURNAL_HELD || lease.state == JOURNAL_INTENT);
        FUZZ_CHECK(lease.generation == want.generation && lease.fence == want.fence &&
                   lease.slot_state == want.slot_state);
        FUZZ_CHECK(memcmp(lease.d, want.d, sizeof(want.d)) == 0);
    }
}

static void check_bounds(const struct journal *journal)
{
    struct journal_identity identity;
    struct journal_lease lease;

    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        if (journal_get(journal, slot, &identity, &lease) == HF_OK) {
            FUZZ_CHECK(lease.state > JOURNAL_FREE && lease.state <= JOURNAL_ENDING);
            FUZZ_CHECK(identity.name_len > 0 && identity.who.note_len <= HF_NOTE_MAX &&
                       identity.who.comm_len <= HF_COMM_MAX);
        }
        FUZZ_CHECK(journal_generation(journal, slot) <= HF_GEN_MAX);
    }
}

static void use(struct journal *journal)
{
    struct journal_lease lease = lease_of(9), got;
    struct journal_identity identity;

    if (journal_slots(journal) < CAPACITY)
        return; /* the number of slots is damaged: nothing is put beyond it */
    /* Whatever was there, what is put now is what comes out. */
    journal_put_identity(journal, 1, &put_identity);
    journal_put(journal, 1, &lease);
    FUZZ_CHECK(journal_get(journal, 1, &identity, &got) == HF_OK && got.generation == 9);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    uint8_t how = fuzz_u8(&in);
    bool whole = how & 4;
    struct journal *journal;
    size_t image_size;
    uint32_t found;
    int fd;

    if (!good)
        make_good();
    memcpy(image, good, good_size);
    image_size = how & 2 ? fuzz_u32(&in) % (good_size + 1) : good_size;
    while (in.left > 0 && !whole) {
        uint32_t offset = fuzz_u16(&in) % (uint32_t)good_size;
        size_t length = fuzz_u8(&in) % 48u + 1, most = good_size - offset;

        fuzz_take(&in, image + offset, length < most ? length : most);
    }
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0 && pwrite(fd, image, image_size, 0) == (ssize_t)image_size);
    close(fd);
    if (open_it(&journal, &found) < 0)
        return 0;
    check_bounds(journal);
    if (whole) {
        check_believed(journal);
        use(journal);
    }
    journal_close(journal);
    return 0;
}

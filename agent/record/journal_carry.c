/* The journal of one list of nodes becomes that of the next one, with all its leases. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/record/journal_layout.h"
#include "agent/record/list_change.h"
#include "shm/status.h"

static void carry_half(const struct journal *from, const struct journal *to, uint32_t slot,
                       int number, const struct list_change *change)
{
    const struct lease_half *was = half_of(from, slot, number);
    union {
        struct lease_half half;
        char bytes[2 * HALF_LINE];
    } next;

    memset(next.bytes, 0, sizeof(next.bytes));
    next.half.seq = half_seq(was);
    next.half.state = was->state;
    next.half.slot_state = was->slot_state;
    next.half.generation = was->generation;
    next.half.fence = was->fence;
    for (int i = 0; i < to->nodes; i++)
        next.half.d_ns[i] = change->from[i] < 0 ? HF_TIME_PAST.ns : was->d_ns[change->from[i]];
    memcpy((char *)halves_of(to, slot) + (size_t)number * to->half_size, next.bytes, to->half_size);
}

static bool carry_was_written(const struct journal *j, uint32_t slot)
{
    return half_seq(half_of(j, slot, 0)) != 0 || half_seq(half_of(j, slot, 1)) != 0;
}

static void carry_slots(const struct journal *from, const struct journal *to,
                        const struct list_change *change)
{
    uint32_t slots = slots_of(from);

    atomic_store(&page_of(to)->table, atomic_load(&page_of(from)->table));
    atomic_store(&page_of(to)->slots, slots);
    for (uint32_t slot = 0; slot < slots; slot++) {
        for (int number = 0; number < 2 && carry_was_written(from, slot); number++)
            carry_half(from, to, slot, number, change);
        memcpy(record_of(to, slot), record_of(from, slot), sizeof(struct lease_record));
    }
}

/* (!) The file of the next list is whole before it takes the place of the other. */
static int carry_replace(const struct journal *from, const struct boot_file_header *want,
                         const struct list_change *change, char *why, size_t why_size)
{
    struct journal to;
    void *map;
    int fd, rc = boot_file_begin(from->path, "the journal of another list of nodes", want, &fd, why,
                                 why_size);

    if (rc < 0)
        return rc;
    rc = boot_file_map(from->path, fd, want->size, &map, why, why_size);
    close(fd);
    if (rc < 0) {
        boot_file_abandon(from->path);
        return rc;
    }
    journal_place(&to, map, from->capacity, want->nodes);
    carry_slots(from, &to, change);
    (void)munmap(map, want->size);
    return boot_file_commit(from->path, why, why_size);
}

static int carry_file(struct journal *from, int fd, const struct boot_clock *clock,
                      const struct list_change *change, char *why, size_t why_size)
{
    struct boot_file_header have, want = journal_header(0, change->nodes, change->hash, clock);
    struct stat st;
    void *map;
    int rc;

    if (boot_file_judge(fd, &want, &have) != BOOT_FILE_GOOD || have.nodes > HF_NODES_MAX ||
        !list_change_is_due(change, &have) || fstat(fd, &st) < 0)
        return HF_OK; /* journal_find() judges it */
    rc = boot_file_view(from->path, fd, (size_t)st.st_size, &map, why, why_size);
    if (rc < 0)
        return rc;
    journal_place(from, map, HF_SLOTS_MAX, have.nodes);
    want = journal_header(slots_of(from), change->nodes, change->hash, clock);
    if (journal_page_fits(from, (uint64_t)st.st_size))
        rc = carry_replace(from, &want, change, why, why_size);
    (void)munmap(map, (size_t)st.st_size);
    return rc;
}

int journal_carry(const char *dir, const struct boot_clock *clock, const struct list_change *change,
                  char *why, size_t why_size)
{
    struct journal from = {0};
    int fd, rc;

    snprintf(from.path, sizeof(from.path), "%s/journal", dir);
    fd = open(from.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? HF_OK : boot_file_say("open", from.path, why, why_size);
    rc = boot_file_own(from.path, fd, why, why_size);
    if (rc == HF_OK)
        rc = carry_file(&from, fd, clock, change, why, why_size);
    close(fd);
    return rc;
}

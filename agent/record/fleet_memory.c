#include "agent/record/fleet_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/record/boot_file.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define MEMORY_MAGIC UINT64_C(0x315445454c464648) /* "HFFLEET1" */

static struct boot_file_header memory_header_of(const struct boot_clock *clock)
{
    static const uint32_t facts[] = {
        sizeof(struct fleet_memory),
        offsetof(struct fleet_memory, length),
        offsetof(struct fleet_memory, went_by),
        offsetof(struct fleet_memory, by),
        offsetof(struct fleet_memory, here),
        offsetof(struct fleet_memory, from),
        offsetof(struct fleet_memory, list_count),
        offsetof(struct fleet_memory, list),
        sizeof(struct fleet_seat),
    };
    struct boot_file_header h = {.magic = MEMORY_MAGIC,
                                 .fingerprint = boot_file_fingerprint(facts, HF_LENGTH(facts)),
                                 .size = BOOT_FILE_HEADER + sizeof(struct fleet_memory)};

    h.clock = *clock;
    return h;
}

static bool memory_read_whole(int fd, struct fleet_memory *ret_memory)
{
    struct fleet_memory *m = ret_memory;

    if (pread(fd, m, sizeof(*m), BOOT_FILE_HEADER) != (ssize_t)sizeof(*m) || m->length == 0 ||
        m->length >= sizeof(m->text) || m->list_count < 0 || m->list_count > HF_NODES_MAX)
        return false;
    m->text[m->length] = m->went_by[sizeof(m->went_by) - 1] = m->by[sizeof(m->by) - 1] = '\0';
    for (int i = 0; i < m->list_count; i++)
        m->list[i].id[HF_NODE_TEXT_MAX] = m->list[i].address[HF_NODE_TEXT_MAX] = '\0';
    return true;
}

/* False: a file of this boot, or of nobody knows when, that cannot be taken up. */
static bool memory_take_up(const char *path, int fd, const struct boot_clock *clock,
                           struct fleet_memory *ret_memory)
{
    const struct boot_file_header want = memory_header_of(clock);
    struct boot_file_header have;

    switch (boot_file_judge(fd, &want, &have)) {
    case BOOT_FILE_COPY:
        log_warn("%s is a copy: the fleet's record is taken from its nodes", path);
        return true;
    case BOOT_FILE_OF_ANOTHER_BOOT:
        return true;
    case BOOT_FILE_OF_ANOTHER_CLOCK:
        log_warn("%s was written in another time namespace: the fleet's record is taken from its "
                 "nodes",
                 path);
        return true;
    case BOOT_FILE_GOOD:
        return memory_read_whole(fd, ret_memory);
    case BOOT_FILE_OF_ANOTHER_LAYOUT:
    case BOOT_FILE_DAMAGED:
    case BOOT_FILE_FOREIGN:
        break;
    }
    return false;
}

static void memory_forget(struct fleet_memory *memory)
{
    memset(memory, 0, sizeof(*memory));
    memory->from = HF_TIME_PAST;
}

void fleet_memory_read(const char *path, const struct boot_clock *clock,
                       struct fleet_memory *ret_memory)
{
    bool good;
    int fd;

    memory_forget(ret_memory);
    if (!*path)
        return;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return;
    good = fd >= 0 && memory_take_up(path, fd, clock, ret_memory);
    if (fd >= 0)
        close(fd);
    if (good)
        return;
    memory_forget(ret_memory);
    log_warn("%s cannot be read: the fleet's record is taken from its nodes", path);
}

int fleet_memory_keep(const char *path, const struct boot_clock *clock,
                      const struct fleet_memory *memory, char *why, size_t why_size)
{
    const struct boot_file_header want = memory_header_of(clock);

    if (!*path)
        return HF_OK;
    if (!memory)
        return boot_file_remove(path, why, why_size);
    return boot_file_replace(path, "the fleet's record", &want, memory, sizeof(*memory), why,
                             why_size);
}

#include "agent/state/fleet_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/state/state_file.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define MEMORY_MAGIC UINT64_C(0x315445454c464648) /* "HFFLEET1" */

static struct state_file_header memory_header_of(const struct boot_clock *clock)
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
    struct state_file_header h = {.magic = MEMORY_MAGIC,
                                  .fingerprint = state_file_fingerprint(facts, HF_LENGTH(facts)),
                                  .size = STATE_FILE_HEADER + sizeof(struct fleet_memory)};

    h.clock = *clock;
    return h;
}

static bool memory_read_whole(int fd, struct fleet_memory *ret_memory)
{
    struct fleet_memory *m = ret_memory;

    if (pread(fd, m, sizeof(*m), STATE_FILE_HEADER) != (ssize_t)sizeof(*m) || m->length == 0 ||
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
    const struct state_file_header want = memory_header_of(clock);
    struct state_file_header have;

    switch (state_file_judge(fd, &want, &have)) {
    case STATE_FILE_COPY:
        log_warn("%s is a copy: the fleet's record is taken from its nodes", path);
        return true;
    case STATE_FILE_OF_ANOTHER_BOOT:
        return true;
    case STATE_FILE_OF_ANOTHER_CLOCK:
        log_warn("%s was written in another time namespace: the fleet's record is taken from its "
                 "nodes",
                 path);
        return true;
    case STATE_FILE_GOOD:
        return memory_read_whole(fd, ret_memory);
    case STATE_FILE_OF_ANOTHER_LAYOUT:
    case STATE_FILE_DAMAGED:
    case STATE_FILE_FOREIGN:
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
    const struct state_file_header want = memory_header_of(clock);

    if (!*path)
        return HF_OK;
    if (!memory)
        return state_file_remove(path, why, why_size);
    return state_file_replace(path, "the fleet's record", &want, memory, sizeof(*memory), why,
                              why_size);
}

/* --- which record a start goes by ------------------------------------------------------------- */

bool fleet_start_find(const struct config *c, const char *dir, const struct boot_clock *clock,
                      struct fleet_memory *ret_memory, struct fleet_record *ret_record)
{
    char path[600];

    memset(ret_memory, 0, sizeof(*ret_memory));
    if (c->ephemeral || c->reset_fleet)
        return false;
    snprintf(path, sizeof(path), "%.590s/fleet", dir);
    fleet_memory_read(path, clock, ret_memory);
    return ret_memory->length &&
           fleet_record_read(ret_memory->text, ret_memory->length, ret_record) == HF_OK &&
           config_is_of(c, ret_record, ret_memory->went_by);
}

void fleet_start(struct config *c, const char *dir, const struct boot_clock *clock)
{
    struct fleet_memory *memory = malloc(sizeof(*memory));
    struct fleet_record *record = malloc(sizeof(*record));

    if (memory && record && fleet_start_find(c, dir, clock, memory, record))
        config_go_by(c, record,
                     hf_time_reached(clock_now(), config_settles(c, record, memory->from)),
                     memory->here);
    free(record);
    free(memory);
}

/* --- another list of nodes -------------------------------------------------------------------- */

static int list_change_place_of(const struct fleet_seat *list, int count,
                                const struct fleet_seat *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].id, seat->id) == 0 && strcmp(list[i].address, seat->address) == 0)
            return i;
    return -1;
}

bool list_change_find(struct list_change *change, const struct fleet_seat *before, int before_count,
                      const struct fleet_seat *seats, int count)
{
    bool differs = before_count != count;

    change->nodes_before = before_count;
    change->nodes = count;
    for (int i = 0; i < HF_NODES_MAX; i++) {
        change->from[i] = i < count ? list_change_place_of(before, before_count, &seats[i]) : -1;
        differs |= i < count && change->from[i] != i;
    }
    return differs;
}

bool list_change_is_due(const struct list_change *change, const struct state_file_header *header)
{
    return (int)header->nodes == change->nodes_before &&
           strcmp(header->list_hash, change->hash_before) == 0;
}

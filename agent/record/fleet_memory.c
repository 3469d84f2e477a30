#include "agent/record/fleet_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/crc32.h"
#include "agent/base/log.h"
#include "agent/record/boot_file.h"
#include "shm/status.h"

#define MEMORY_MAGIC   UINT64_C(0x315445454c464648) /* "HFFLEET1" */
#define MEMORY_VERSION 2

/* What both versions begin with. */
struct memory_head {
    uint32_t length; /* of the text, without its NUL */
    uint32_t crc;    /* of all that is in use; the length first */
};

/* Version 1 had the text right behind the head. */
struct memory {
    struct memory_head head;
    int64_t from_ns;
    uint32_t list_count, here;
    char by[sizeof(((struct fleet_memory *)NULL)->by)];
    char went_by[48]; /* with what aligns the text */
    char text[FLEET_TEXT_SIZE];
    struct {
        char id[HF_NODE_TEXT_MAX + 1], address[HF_NODE_TEXT_MAX + 1];
    } list[HF_NODES_MAX];
};

#define FILE_SIZE       (BOOT_FILE_HEADER + sizeof(struct memory))
#define FILE_SIZE_FIRST (BOOT_FILE_HEADER + sizeof(struct memory_head) + FLEET_TEXT_SIZE)

static uint32_t text_crc(const struct memory_head *head, const char *text)
{
    return crc32c(crc32c(0, &head->length, sizeof(head->length)), text, head->length);
}

static uint32_t memory_crc(const struct memory *m)
{
    uint32_t crc = text_crc(&m->head, m->text);

    crc =
        crc32c(crc, &m->from_ns, offsetof(struct memory, text) - offsetof(struct memory, from_ns));
    return crc32c(crc, m->list, sizeof(m->list));
}

static struct boot_file_header header_of(const struct boot_clock *clock)
{
    struct boot_file_header h = {
        .magic = MEMORY_MAGIC, .fingerprint = MEMORY_VERSION, .size = FILE_SIZE};

    h.clock = *clock;
    return h;
}

static bool has_text(const struct memory_head *head)
{
    return head->length > 0 && head->length < FLEET_TEXT_SIZE;
}

static bool read_whole(int fd, struct memory *ret_memory)
{
    return pread(fd, ret_memory, sizeof(*ret_memory), BOOT_FILE_HEADER) ==
               (ssize_t)sizeof(*ret_memory) &&
           has_text(&ret_memory->head) && ret_memory->list_count <= HF_NODES_MAX &&
           ret_memory->head.crc == memory_crc(ret_memory);
}

static bool read_first(int fd, struct memory *ret_memory)
{
    struct memory *m = ret_memory;
    const off_t text_at = BOOT_FILE_HEADER + sizeof(m->head);

    m->from_ns = HF_TIME_PAST.ns;
    m->list_count = m->here = 0;
    m->by[0] = m->went_by[0] = '\0';
    return pread(fd, &m->head, sizeof(m->head), BOOT_FILE_HEADER) == (ssize_t)sizeof(m->head) &&
           pread(fd, m->text, sizeof(m->text), text_at) == (ssize_t)sizeof(m->text) &&
           has_text(&m->head) && m->head.crc == text_crc(&m->head, m->text);
}

static void give(const struct memory *m, struct fleet_memory *ret_memory)
{
    memcpy(ret_memory->text, m->text, m->head.length);
    ret_memory->text[m->head.length] = '\0';
    ret_memory->length = m->head.length;
    ret_memory->from = (hf_time){m->from_ns};
    ret_memory->here = m->here;
    snprintf(ret_memory->by, sizeof(ret_memory->by), "%.*s", (int)sizeof(m->by) - 1, m->by);
    snprintf(ret_memory->went_by, sizeof(ret_memory->went_by), "%.*s",
             (int)sizeof(ret_memory->went_by) - 1, m->went_by);
    ret_memory->list_count = (int)m->list_count;
    for (uint32_t i = 0; i < m->list_count; i++) {
        struct fleet_seat *seat = &ret_memory->list[i];

        snprintf(seat->id, sizeof(seat->id), "%.*s", HF_NODE_TEXT_MAX, m->list[i].id);
        snprintf(seat->address, sizeof(seat->address), "%.*s", HF_NODE_TEXT_MAX,
                 m->list[i].address);
    }
}

/* False: a file of this boot, or of nobody knows when, that cannot be taken up. */
static bool take_up(const char *path, int fd, const struct boot_clock *clock, struct memory *room,
                    struct fleet_memory *ret_memory)
{
    const struct boot_file_header want = header_of(clock);
    struct boot_file_header have;
    bool whole = false;

    switch (boot_file_judge(fd, &want, &have)) {
    case BOOT_FILE_OF_ANOTHER_BOOT:
        return true;
    case BOOT_FILE_OF_ANOTHER_CLOCK:
        log_warn("%s was written in another time namespace: the fleet's record is taken from its "
                 "nodes",
                 path);
        return true;
    case BOOT_FILE_GOOD:
        whole = read_whole(fd, room);
        break;
    case BOOT_FILE_OF_ANOTHER_LAYOUT:
        whole = have.fingerprint == 1 && have.size == FILE_SIZE_FIRST && read_first(fd, room);
        break;
    case BOOT_FILE_DAMAGED:
    case BOOT_FILE_FOREIGN:
        break;
    }
    if (whole)
        give(room, ret_memory);
    return whole;
}

void fleet_memory_read(const char *path, const struct boot_clock *clock,
                       struct fleet_memory *ret_memory)
{
    struct memory *room;
    bool good = false;
    int fd;

    memset(ret_memory, 0, sizeof(*ret_memory));
    ret_memory->from = HF_TIME_PAST;
    if (!*path)
        return;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return;
    room = malloc(sizeof(*room));
    if (fd >= 0) {
        good = room && take_up(path, fd, clock, room, ret_memory);
        close(fd);
    }
    free(room);
    if (!good)
        log_warn("%s cannot be read: the fleet's record is taken from its nodes", path);
}

static void fill(struct memory *m, const struct fleet_memory *memory)
{
    m->head.length = (uint32_t)memory->length;
    m->from_ns = memory->from.ns;
    m->here = memory->here;
    snprintf(m->by, sizeof(m->by), "%s", memory->by);
    snprintf(m->went_by, sizeof(m->went_by), "%s", memory->went_by);
    m->list_count = (uint32_t)memory->list_count;
    memcpy(m->text, memory->text, memory->length);
    for (int i = 0; i < memory->list_count; i++) {
        snprintf(m->list[i].id, sizeof(m->list[i].id), "%s", memory->list[i].id);
        snprintf(m->list[i].address, sizeof(m->list[i].address), "%s", memory->list[i].address);
    }
    m->head.crc = memory_crc(m);
}

int fleet_memory_keep(const char *path, const struct boot_clock *clock,
                      const struct fleet_memory *memory, char *why, size_t why_size)
{
    const struct boot_file_header want = header_of(clock);
    struct memory *m;
    int rc;

    if (!*path)
        return HF_OK;
    if (!memory)
        return boot_file_remove(path, why, why_size);
    m = calloc(1, sizeof(*m));
    if (!m) {
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    fill(m, memory);
    rc = boot_file_replace(path, "the fleet's record", &want, m, sizeof(*m), why, why_size);
    free(m);
    return rc;
}

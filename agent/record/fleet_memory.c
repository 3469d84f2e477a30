#include "agent/record/fleet_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/crc32.h"
#include "agent/base/log.h"
#include "agent/record/boot_file.h"
#include "shm/status.h"

#define MEMORY_MAGIC   UINT64_C(0x315445454c464648) /* "HFFLEET1" */
#define MEMORY_VERSION 1

struct memory {
    uint32_t length; /* of the text, without its NUL */
    uint32_t crc;    /* of the text's bytes, the length first */
    char text[FLEET_TEXT_SIZE];
};

#define FILE_SIZE (BOOT_FILE_HEADER + sizeof(struct memory))

static uint32_t memory_crc(const struct memory *m)
{
    return crc32c(crc32c(0, &m->length, sizeof(m->length)), m->text, m->length);
}

static struct boot_file_header header_of(const uint8_t boot_id[16])
{
    struct boot_file_header h = {
        .magic = MEMORY_MAGIC, .fingerprint = MEMORY_VERSION, .size = FILE_SIZE};

    memcpy(h.boot_id, boot_id, sizeof(h.boot_id));
    return h;
}

static bool is_whole(int fd, struct memory *ret_memory)
{
    return pread(fd, ret_memory, sizeof(*ret_memory), BOOT_FILE_HEADER) ==
               (ssize_t)sizeof(*ret_memory) &&
           ret_memory->length > 0 && ret_memory->length < FLEET_TEXT_SIZE &&
           ret_memory->crc == memory_crc(ret_memory);
}

/* False: a file of this boot, or of nobody knows when, that cannot be taken up. */
static bool take_up(int fd, const uint8_t boot_id[16], char ret_text[FLEET_TEXT_SIZE],
                    size_t *ret_length)
{
    const struct boot_file_header want = header_of(boot_id);
    struct boot_file_header have;
    struct memory m;

    switch (boot_file_judge(fd, &want, &have)) {
    case BOOT_FILE_OF_ANOTHER_BOOT:
        return true;
    case BOOT_FILE_GOOD:
        if (!is_whole(fd, &m))
            return false;
        memcpy(ret_text, m.text, m.length);
        ret_text[m.length] = '\0';
        *ret_length = m.length;
        return true;
    case BOOT_FILE_OF_ANOTHER_LAYOUT:
    case BOOT_FILE_DAMAGED:
    case BOOT_FILE_FOREIGN:
        break;
    }
    return false;
}

void fleet_memory_read(const char *path, const uint8_t boot_id[16], char ret_text[FLEET_TEXT_SIZE],
                       size_t *ret_length)
{
    bool good = false;
    int fd;

    ret_text[0] = '\0';
    *ret_length = 0;
    if (!*path)
        return;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return;
    if (fd >= 0) {
        good = take_up(fd, boot_id, ret_text, ret_length);
        close(fd);
    }
    if (!good)
        log_warn("%s cannot be read: the fleet's record is taken from its nodes", path);
}

int fleet_memory_keep(const char *path, const uint8_t boot_id[16], const char *text, size_t length,
                      char *why, size_t why_size)
{
    const struct boot_file_header want = header_of(boot_id);
    struct memory m = {.length = (uint32_t)length};

    if (!*path)
        return HF_OK;
    if (length == 0)
        return boot_file_remove(path, why, why_size);
    memcpy(m.text, text, length);
    m.crc = memory_crc(&m);
    return boot_file_replace(path, "the fleet's record", &want, &m, sizeof(m), why, why_size);
}

#include "agent/record/carry_room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/record/journal_layout.h"
#include "shm/status.h"

#define MORE (4 * HF_SLOTS_STEP)

/* As many slots as have room now, and those that may get it until the journal is carried over. */
static int carry_room_take_for_journal(const char *path, int nodes, char *why, size_t why_size)
{
    struct journal_page page;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), rc = HF_OK;

    if (fd < 0)
        return errno == ENOENT ? HF_OK : boot_file_say("open", path, why, why_size);
    if (pread(fd, &page, sizeof(page), JOURNAL_PAGE) == (ssize_t)sizeof(page)) {
        uint32_t slots = page.slots < HF_SLOTS_MAX ? page.slots : HF_SLOTS_MAX;

        slots += slots < MORE ? slots : MORE;
        rc = boot_file_reserve(path, "the journal of the next list of nodes",
                               journal_size_for(slots, nodes), why, why_size);
    }
    close(fd);
    return rc;
}

int carry_room_take(const char *dir, int nodes, char *why, size_t why_size)
{
    char path[BOOT_FILE_PATH];
    struct stat st;
    int rc;

    snprintf(path, sizeof(path), "%s/journal", dir);
    rc = carry_room_take_for_journal(path, nodes, why, why_size);
    if (rc == HF_OK) {
        snprintf(path, sizeof(path), "%s/nodes", dir);
        if (lstat(path, &st) == 0) /* it has one size for all lists */
            rc = boot_file_reserve(path, "what is known of the next list of nodes",
                                   (size_t)st.st_size, why, why_size);
    }
    if (rc < 0)
        carry_room_give(dir);
    return rc;
}

void carry_room_give(const char *dir)
{
    char path[BOOT_FILE_PATH];

    snprintf(path, sizeof(path), "%s/journal", dir);
    boot_file_unreserve(path);
    snprintf(path, sizeof(path), "%s/nodes", dir);
    boot_file_unreserve(path);
}

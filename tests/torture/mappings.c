/* Where a program maps its table and journal for writing: stands before libc's mmap(), in the
 * program itself or preloaded. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/torture/stores.h"

static void *base[MAPPINGS];
static struct store_log *pending;

void mappings_forget(void)
{
    memset(base, 0, sizeof(base));
}

static void watch_if_all_are_there(void)
{
    if (!pending || !base[MAPPING_TABLE] || !base[MAPPING_JOURNAL])
        return;
    for (uint32_t r = 0; r < pending->regions; r++)
        pending->region[r].at =
            (char *)base[pending->region[r].mapping] + pending->region[r].offset;
    stores_watch(pending);
    pending = NULL;
}

void stores_watch_mapped(struct store_log *log)
{
    pending = log;
    watch_if_all_are_there();
}

static void note(void *at, int protection, int flags, int fd)
{
    char link[64], path[4096];
    ssize_t len;

    if (at == MAP_FAILED || fd < 0 || !(protection & PROT_WRITE) || !(flags & MAP_SHARED))
        return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    if (len <= 0)
        return;
    path[len] = '\0';
    if (strncmp(path, "/dev/shm/holdfast", 17) == 0)
        base[MAPPING_TABLE] = at;
    else if (len > 8 && strcmp(path + len - 8, "/journal") == 0)
        base[MAPPING_JOURNAL] = at;
    else
        return;
    watch_if_all_are_there();
}

static void *map(void *addr, size_t length, int protection, int flags, int fd, long offset)
{
    void *at = (void *)syscall(SYS_mmap, addr, length, protection, flags, fd, offset);

    note(at, protection, flags, fd);
    return at;
}

/* By the linker's names: which of the two a program calls is its headers' affair. */
#define EXPORT __attribute__((visibility("default")))
EXPORT void *plain_mmap(void *, size_t, int, int, int, long) __asm__("mmap");
EXPORT void *large_mmap(void *, size_t, int, int, int, long) __asm__("mmap64");

void *plain_mmap(void *addr, size_t length, int protection, int flags, int fd, long offset)
{
    return map(addr, length, protection, flags, fd, offset);
}

void *large_mmap(void *addr, size_t length, int protection, int flags, int fd, long offset)
{
    return map(addr, length, protection, flags, fd, offset);
}

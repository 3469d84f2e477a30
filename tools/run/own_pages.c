#include "tools/run/guardian.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- groups without an OOM killer ------------------------------------------------------------- */

/* The path of the group in v1's memory hierarchy: "4:memory:/a/b". False: there is none. */
static bool own_pages_group(const char *groups, char ret_path[PATH_MAX])
{
    FILE *file = fopen(groups, "re");
    char line[PATH_MAX + 256];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'), *path;

        line[strcspn(line, "\n")] = '\0';
        if (!controllers || !(path = strchr(++controllers, ':')))
            continue;
        *path++ = '\0';
        for (char *rest = controllers, *word; !found && (word = strsep(&rest, ","));)
            found = strcmp(word, "memory") == 0;
        if (found)
            snprintf(ret_path, PATH_MAX, "%s", path);
    }
    if (file)
        (void)fclose(file);
    return found;
}

/* 1: it has no OOM killer; 0: it has; -1: not to be read. */
static int own_pages_unkilled(const char *root, const char *path)
{
    char name[2 * PATH_MAX], line[64];
    FILE *file;
    int disabled = -1;

    snprintf(name, sizeof(name), "%s%s/memory.oom_control", root, path);
    file = fopen(name, "re");
    if (!file)
        return -1;
    while (disabled < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "oom_kill_disable ", 17) == 0)
            disabled = line[17] == '1';
    (void)fclose(file);
    return disabled;
}

bool own_pages_at_once(const char *groups, const char *root)
{
    char path[PATH_MAX];
    bool read = false;

    if (!own_pages_group(groups, path))
        return false;
    /* In a container the hierarchy may begin further down: then the root's file is this group's. */
    for (char *end = path + strlen(path);; end = strrchr(path, '/')) {
        int unkilled;

        if (end)
            *end = '\0';
        unkilled = own_pages_unkilled(root, path);
        if (unkilled == 1)
            return true;
        read |= unkilled == 0;
        if (!end || !*path)
            return !read;
    }
}

/* --- pages ------------------------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void own_pages(void) {}

#else

#define MOST 512 /* mappings; program, libc and loader have 14 */

struct own_pages_range {
    void *start;
    size_t length;
    int protection;
    bool of_file;
};

/* "START-END rwxp OFFSET DEVICE INODE PATH". What is shared is an agent's table, or memory. */
static bool own_pages_read(const char *line, struct own_pages_range *ret_range)
{
    unsigned long start, end, inode;
    char mode[5];
    int path = 0;

    /* NOLINTNEXTLINE(cert-err34-c): a line of the kernel's */
    if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &start, &end, mode, &inode, &path) != 4 ||
        mode[0] != 'r' || mode[3] != 'p')
        return false;
    *ret_range = (struct own_pages_range){
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): as the kernel writes it */
        .start = (void *)(uintptr_t)start,
        .length = end - start,
        .of_file = inode && strncmp(line + path, "/memfd:", 7) != 0,
        .protection =
            PROT_READ | (mode[1] == 'w' ? PROT_WRITE : 0) | (mode[2] == 'x' ? PROT_EXEC : 0),
    };
    return true;
}

/* The number of them. */
static int own_pages_find(struct own_pages_range ranges[MOST])
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352]; /* a path is shorter than 4096 */
    int count = 0;

    if (!maps)
        return 0;
    while (count < MOST && fgets(line, sizeof(line), maps))
        count += own_pages_read(line, &ranges[count]);
    (void)fclose(maps);
    return count;
}

/* (!) In between nothing may write there: no stdio, no allocation. The kernel exchanges the mapping at once, code that runs in it
 * goes on in the copy. */
static void own_pages_move_one(const struct own_pages_range *range)
{
    int fd = memfd_create("holdfast-pages", MFD_CLOEXEC);
    size_t done = 0;

    while (fd >= 0 && done < range->length) {
        ssize_t n =
            pwrite(fd, (const char *)range->start + done, range->length - done, (off_t)done);

        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (fd >= 0 && done == range->length)
        (void)mmap(range->start, range->length, range->protection, MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (fd >= 0)
        close(fd);
}

/* Those of files, which the kernel does not promise to keep. Each goes into memory of its own: the limit on a file's size (ulimit -f) is
 * for that, too, and what is larger stays where it is. */
static void own_pages_move(const struct own_pages_range *ranges, int count)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
        return;
    for (int i = 0; i < count; i++)
        if (ranges[i].of_file && ranges[i].length <= limit.rlim_cur)
            own_pages_move_one(&ranges[i]);
}

void own_pages(void)
{
    struct own_pages_range *ranges = calloc(MOST, sizeof(*ranges));
    int count = ranges ? own_pages_find(ranges) : 0, kept = 0;

    for (int i = 0; i < count; i++)
        kept += mlock(ranges[i].start, ranges[i].length) == 0 || !ranges[i].of_file;
    if (kept < count)
        own_pages_move(ranges, count);
    free(ranges);
}

#endif

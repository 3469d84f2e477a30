#include "agent/process/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/status.h"

#define OFFSETS_FILE "/proc/self/timens_offsets"
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

static int host_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The UUID text without its dashes. */
static bool host_parse_boot_id(const char *text, uint8_t ret_id[16])
{
    for (int digits = 0; digits < 32; text++) {
        int value = host_hex_value(*text);

        if (*text == '-')
            continue;
        if (value < 0)
            return false;
        if (digits % 2 == 0)
            ret_id[digits / 2] = (uint8_t)(value << 4);
        else
            ret_id[digits / 2] |= (uint8_t)value;
        digits++;
    }
    return true;
}

static bool host_read_boot_id(uint8_t ret_id[16])
{
    char text[64] = "";
    int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return false;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    return got > 0 && host_parse_boot_id(text, ret_id);
}

/* 0 where the kernel has no such namespace: then it is the same for all processes. */
static uint64_t host_namespace_inode(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* A process that is to enter a time namespace with its next fork has one for its children already, and the kernel tells the
 * offsets of that one. */
static bool host_is_in_its_time_namespace(void)
{
    return host_namespace_inode("/proc/self/ns/time") ==
           host_namespace_inode("/proc/self/ns/time_for_children");
}

/* "boottime SECONDS NANOSECONDS" */
static bool host_parse_offset(const char *line, int64_t *ret_offset_ns)
{
    static const char clock[] = "boottime ";
    const char *from = line + sizeof(clock) - 1;
    char *behind_seconds, *behind;
    int64_t seconds, nanoseconds;

    if (strncmp(line, clock, sizeof(clock) - 1) != 0)
        return false;
    seconds = strtoll(from, &behind_seconds, 10);
    nanoseconds = strtoll(behind_seconds, &behind, 10);
    if (behind_seconds == from || behind == behind_seconds)
        return false;
    *ret_offset_ns = seconds * HF_NS_PER_SEC + nanoseconds;
    return true;
}

/* 0 where the kernel has no time namespaces. */
static bool host_read_offset(int64_t *ret_offset_ns)
{
    FILE *file = fopen(OFFSETS_FILE, "re");
    char line[128];
    bool found = false;

    *ret_offset_ns = 0;
    if (!file)
        return errno == ENOENT;
    while (!found && fgets(line, sizeof(line), file)) {
        found = host_parse_offset(line, ret_offset_ns);
    }
    (void)fclose(file);
    return found;
}

int host_read(struct host *ret_host, char *why, size_t why_size)
{
    struct host h = {.timens_inode = host_namespace_inode("/proc/self/ns/time"),
                     .pidns_inode = host_namespace_inode("/proc/self/ns/pid")};

    if (!host_read_boot_id(h.clock.boot_id)) {
        snprintf(why, why_size, "cannot read %s: is /proc mounted?", BOOT_ID_FILE);
        return HF_ESYS;
    }
    if (!host_is_in_its_time_namespace()) {
        snprintf(why, why_size,
                 "this process is in another time namespace than its children; start holdfastd as "
                 "a child, with unshare --fork");
        return HF_ESYS;
    }
    if (!host_read_offset(&h.clock.offset_ns)) {
        snprintf(why, why_size,
                 "cannot read %s, so the offset of CLOCK_BOOTTIME is not known; "
                 "mount /proc",
                 OFFSETS_FILE);
        return HF_ESYS;
    }
    if (h.pidns_inode == 0) {
        snprintf(why, why_size, "cannot read /proc/self/ns/pid: %s; is /proc mounted?",
                 strerror(errno));
        return HF_ESYS;
    }
    if (gethostname(h.name, sizeof(h.name) - 1) < 0)
        strcpy(h.name, "?");
    *ret_host = h;
    return HF_OK;
}

int64_t host_raise_descriptors(void)
{
    struct rlimit limit;
    rlim_t before;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return INT64_MAX;
    before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (before != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = before;
    return limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
}

void host_keep_secrets(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0);
}

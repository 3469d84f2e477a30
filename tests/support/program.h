/* What the programs of the scenarios share. */
#ifndef HOLDFAST_TESTS_PROGRAM_H
#define HOLDFAST_TESTS_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* CLOCK_BOOTTIME, as in everything that they write. */
static inline int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void sleep_us(int64_t us)
{
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    if (us > 0)
        nanosleep(&pause, NULL);
}

/* `why`: hf_last_message(), or strerror(errno). */
static inline _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

/* The file, made if need be, is as large as said then; what was not written is 0 and takes no room. */
static inline void *map_file(const char *path, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    void *map;

    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        die(path, strerror(errno));
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die(path, strerror(errno));
    close(fd);
    return map;
}

#endif

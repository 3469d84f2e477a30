#include "tools/run/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int beat_make_memory(const struct hf_job_memory **ret_memory)
{
    const struct hf_job_memory first = {.magic = HF_JOB_MAGIC};
    int fd = memfd_create("holdfast-job", MFD_ALLOW_SEALING), error;
    void *map = MAP_FAILED;

    if (fd < 0)
        return -1;
    errno = EIO;
    if (write(fd, &first, sizeof(first)) == (ssize_t)sizeof(first) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        map = mmap(NULL, sizeof(first), PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) {
        *ret_memory = map;
        return fd;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

int beat_make(struct beat *beat, int64_t heartbeat_ns)
{
    char text[64];
    int fd;

    *beat = (struct beat){.look_every_ns = heartbeat_ns / 4};
    if (!heartbeat_ns)
        return 0;
    fd = beat_make_memory(&beat->memory);
    if (fd < 0)
        return -1;
    snprintf(text, sizeof(text), "%d", fd);
    setenv("HOLDFAST_BEAT_FD", text, 1);
    snprintf(text, sizeof(text), "/proc/%d/fd/%d", (int)getpid(), fd);
    setenv("HOLDFAST_BEAT_PATH", text, 1);
    return 0;
}

int64_t beat_pass_on(struct beat *beat, const struct lease_group *leases, int64_t now_ns)
{
    uint32_t beats;

    if (!beat->memory)
        return INT64_MAX;
    beats = __atomic_load_n(&beat->memory->beats, __ATOMIC_RELAXED);
    if (beats != beat->seen) {
        beat->seen = beats;
        lease_group_beat(leases);
    }
    return leases->count ? now_ns + beat->look_every_ns : INT64_MAX;
}

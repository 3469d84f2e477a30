#include "agent/state/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/assert.h"
#include "shm/status.h"

/* A killed agent's lock ends with its last mapping, perhaps after its process was reaped. */
#define OWN_MOST  1000 /* ms */
#define OWN_EVERY 5

_Static_assert(sizeof(struct state_file_header) <= STATE_FILE_HEADER, "one page");

uint64_t state_file_fingerprint(const uint32_t *facts, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ facts[i]) * UINT64_C(0x100000001b3);
    return hash;
}

int state_file_say(const char *doing, const char *path, char *why, size_t why_size)
{
    int error = errno;

    snprintf(why, why_size, "cannot %s %s: %s", doing, path, strerror(error));
    errno = error;
    return HF_ESYS;
}

static int state_file_say_owned(const char *path, int fd, char *why, size_t why_size)
{
    struct state_file_header h;

    if (pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) && h.pid)
        snprintf(why, why_size,
                 "a living agent writes %s: pid %u; stop it, or give this one another --name", path,
                 (unsigned)h.pid);
    else
        snprintf(why, why_size,
                 "a living agent writes %s; stop it, or give this one another --name", path);
    return HF_EBUSY;
}

int state_file_own(const char *path, int fd, char *why, size_t why_size)
{
    for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited_ms += OWN_EVERY) {
        if (errno != EWOULDBLOCK)
            return state_file_say("lock", path, why, why_size);
        if (waited_ms >= OWN_MOST)
            return state_file_say_owned(path, fd, why, why_size);
        (void)poll(NULL, 0, OWN_EVERY);
    }
    return HF_OK;
}

void state_file_sign(void *map)
{
    ((struct state_file_header *)map)->pid = (uint32_t)getpid();
}

struct beside {
    char path[STATE_FILE_PATH + 8];
};

static struct beside state_file_beside(const char *path)
{
    struct beside temporary;

    snprintf(temporary.path, sizeof(temporary.path), "%s.new", path);
    return temporary;
}

static struct beside state_file_room_beside(const char *path)
{
    struct beside room;

    snprintf(room.path, sizeof(room.path), "%s.room", path);
    return room;
}

static int state_file_say_no_room(const char *path, const char *what, size_t size, int error,
                                  char *why, size_t why_size)
{
    snprintf(why, why_size, "no room for %s of %zu KiB at %s: %s; make room or lower the capacity",
             what, size / 1024, path, strerror(error));
    errno = error;
    return HF_ESYS;
}

int state_file_take(int fd, size_t from, size_t to)
{
    int error;

    hf_assert(fd >= 0 && from <= to, "fd %d, from %zu to %zu", fd, from, to);
    do
        error = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    while (error == EINTR);
    return error;
}

int state_file_reserve(const char *path, const char *what, size_t size, char *why, size_t why_size)
{
    const struct beside room = state_file_room_beside(path);
    int fd, error;

    (void)unlink(room.path);
    fd = open(room.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return state_file_say("make", room.path, why, why_size);
    error = state_file_take(fd, 0, size);
    close(fd);
    if (!error)
        return HF_OK;
    (void)unlink(room.path);
    return state_file_say_no_room(path, what, size, error, why, why_size);
}

void state_file_unreserve(const char *path)
{
    (void)unlink(state_file_room_beside(path).path);
}

/* Nobody has written to reserved room, of which there may be more than is needed now. */
static void state_file_use_reserved(const char *path, size_t size)
{
    const struct beside room = state_file_room_beside(path), temporary = state_file_beside(path);
    struct stat st;

    if (lstat(room.path, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= size)
        (void)rename(room.path, temporary.path);
}

void state_file_abandon(const char *path)
{
    int error = errno;

    (void)unlink(state_file_beside(path).path);
    errno = error;
}

int state_file_begin(const char *path, const char *what, const struct state_file_header *want,
                     int *ret_fd, char *why, size_t why_size)
{
    const struct beside at = state_file_beside(path);
    const char *temporary = at.path;
    struct state_file_header header = *want;
    int fd, error;

    (void)unlink(temporary);
    state_file_use_reserved(path, want->size);
    fd = open(temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return state_file_say("make", temporary, why, why_size);
    if (state_file_own(temporary, fd, why, why_size) < 0)
        goto error_file;
    error = state_file_take(fd, 0, want->size);
    if (error) {
        (void)state_file_say_no_room(path, what, want->size, error, why, why_size);
        goto error_file;
    }
    header.pid = (uint32_t)getpid();
    if (hf_file_id(fd, &header.file) < 0 ||
        pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header)) {
        (void)state_file_say("write", temporary, why, why_size);
        goto error_file;
    }
    *ret_fd = fd;
    return HF_OK;

error_file:
    error = errno;
    (void)unlink(temporary);
    close(fd);
    errno = error;
    return HF_ESYS;
}

int state_file_commit(const char *path, char *why, size_t why_size)
{
    if (rename(state_file_beside(path).path, path) == 0)
        return HF_OK;
    (void)state_file_say("write", path, why, why_size);
    state_file_abandon(path);
    return HF_ESYS;
}

int state_file_make(const char *path, const char *what, const struct state_file_header *want,
                    int *ret_fd, char *why, size_t why_size)
{
    int fd, rc = state_file_begin(path, what, want, &fd, why, why_size);

    if (rc < 0)
        return rc;
    rc = state_file_commit(path, why, why_size);
    if (rc < 0) {
        int error = errno;

        close(fd);
        errno = error;
        return rc;
    }
    *ret_fd = fd;
    return HF_OK;
}

int state_file_replace(const char *path, const char *what, const struct state_file_header *want,
                       const void *data, size_t size, char *why, size_t why_size)
{
    int fd, rc;

    hf_assert(STATE_FILE_HEADER + size <= want->size, "%zu bytes of %llu", size,
              (unsigned long long)want->size);
    rc = state_file_begin(path, what, want, &fd, why, why_size);
    if (rc < 0)
        return rc;
    if (pwrite(fd, data, size, STATE_FILE_HEADER) == (ssize_t)size) {
        rc = state_file_commit(path, why, why_size);
    } else {
        rc = state_file_say("write", path, why, why_size);
        state_file_abandon(path);
    }
    close(fd);
    return rc;
}

int state_file_remove(const char *path, char *why, size_t why_size)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return state_file_say("remove", path, why, why_size);
    return HF_OK;
}

int state_file_map(const char *path, int fd, size_t size, void **ret_map, char *why,
                   size_t why_size)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return state_file_say("map", path, why, why_size);
    (void)madvise(map, size, MADV_DONTDUMP); /* tokens */
    *ret_map = map;
    return HF_OK;
}

void state_file_lock(void *map, size_t from, size_t to)
{
    hf_assert(map && from <= to, "from %zu to %zu", from, to);
    if (to <= STATE_FILE_LOCKED)
        (void)mlock((char *)map + from, to - from);
}

int state_file_view(const char *path, int fd, size_t size, void **ret_map, char *why,
                    size_t why_size)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return state_file_say("map", path, why, why_size);
    *ret_map = map;
    return HF_OK;
}

enum state_file_worth state_file_judge(int fd, const struct state_file_header *want,
                                       struct state_file_header *ret_header)
{
    struct state_file_header *h = ret_header;
    struct hf_file_id file;
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 ||
        (st.st_mode & 077))
        return STATE_FILE_FOREIGN;
    if (pread(fd, h, sizeof(*h), 0) != (ssize_t)sizeof(*h) || h->magic != want->magic ||
        h->size > (uint64_t)st.st_size)
        return STATE_FILE_DAMAGED;
    /* From another boot: its holders and its clock are gone. */
    if (memcmp(h->clock.boot_id, want->clock.boot_id, sizeof(h->clock.boot_id)) != 0)
        return STATE_FILE_OF_ANOTHER_BOOT;
    if (hf_file_id(fd, &file) < 0 || memcmp(&h->file, &file, sizeof(file)) != 0)
        return STATE_FILE_COPY;
    if (h->fingerprint != want->fingerprint)
        return STATE_FILE_OF_ANOTHER_LAYOUT;
    if (h->clock.offset_ns != want->clock.offset_ns)
        return STATE_FILE_OF_ANOTHER_CLOCK;
    return STATE_FILE_GOOD;
}

/* --- records in two halves -------------------------------------------------------------------- */

uint64_t half_seq(const void *half)
{
    return atomic_load_explicit(&((const struct half_head *)half)->seq, memory_order_acquire);
}

static int half_newer(const void *halves, size_t size)
{
    return half_seq((const char *)halves + size) > half_seq(halves);
}

/* The memory fence keeps what the caller copied before this, where it asks once more. */
int half_newest(const void *halves, size_t size)
{
    int newer;

    atomic_thread_fence(memory_order_acquire);
    newer = half_newer(halves, size);
    return half_seq((const char *)halves + (size_t)newer * size) ? newer : HF_ENOTHELD;
}

/* (!) The older half is filled first and its seq is stored last: until that store the other half
 * counts, wherever the program is killed. The memory fence keeps the seq of an earlier put before
 * the stores of this one. */
void half_commit(void *halves, size_t size, const void *body)
{
    int newer = half_newer(halves, size);
    char *half = halves, *idle = half + (size_t)!newer * size;
    uint64_t next = half_seq(half + (size_t)newer * size) + 1;

    hf_assert(size > sizeof(struct half_head), "size %zu", size);
    atomic_thread_fence(memory_order_release);
    memcpy(idle + sizeof(struct half_head), (const char *)body + sizeof(struct half_head),
           size - sizeof(struct half_head));
    atomic_store_explicit(&((struct half_head *)(void *)idle)->seq, next, memory_order_release);
}

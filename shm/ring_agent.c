/* The agent's side of a client's rings. It reads once all that the client can write, and then
 * judges the copy. */
#include "shm/assert.h"
#include "shm/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/status.h"
#include "shm/row.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* A memfd for its owner only, and without memory: shmem charges a page to whoever touches it first. */
static int agent_make_memfd(const char *name, off_t size)
{
    int error, fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (fchmod(fd, 0600) == 0 && ftruncate(fd, size) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The same memfd as another open file. (!) The kernel counts those that open() made, and not the one of memfd_create(). */
static int agent_reopen(int fd, int flags)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

static void *agent_map_all(int fd, size_t size, int protection)
{
    void *map = mmap(NULL, size, protection, MAP_SHARED, fd, 0);

    return map == MAP_FAILED ? NULL : map;
}

/* The client writes this one; nobody changes its size. Mapped for writing until hf_ring_admit(). */
static const struct hf_requests_page *agent_make_requests(int *ret_fd)
{
    int fd = agent_make_memfd("holdfast-requests", HF_REQUESTS_BYTES), clients = -1;
    void *map = NULL;

    if (fd < 0)
        return NULL;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        clients = agent_reopen(fd, O_RDWR);
    if (clients >= 0)
        map = agent_map_all(fd, HF_REQUESTS_BYTES, PROT_READ | PROT_WRITE);
    if (map) {
        *ret_fd = clients;
    } else {
        int error = errno;

        if (clients >= 0)
            close(clients);
        errno = error;
    }
    close(fd);
    return map;
}

/* Mapped for writing before the seal that prevents later writable mappings. */
static struct hf_completions_page *agent_make_completions(int *ret_fd)
{
    int fd = agent_make_memfd("holdfast-completions", HF_RING_BYTES), readonly = -1;
    void *map;

    if (fd < 0)
        return NULL;
    map = agent_map_all(fd, HF_RING_BYTES, PROT_READ | PROT_WRITE);
    if (map && fcntl(fd, F_ADD_SEALS,
                     F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        readonly = agent_reopen(fd, O_RDONLY);
    if (map && readonly < 0) {
        int error = errno;

        munmap(map, HF_RING_BYTES);
        errno = error;
        map = NULL;
    }
    close(fd);
    if (map)
        *ret_fd = readonly;
    return map;
}

int hf_ring_agent_create(struct hf_ring_agent *ret_ring, int *ret_requests_fd,
                         int *ret_completions_fd)
{
    struct hf_ring_agent ring = {0};
    int requests_fd, completions_fd;

    ring.in = agent_make_requests(&requests_fd);
    if (!ring.in)
        return HF_ESYS;
    ring.beats = (const _Atomic uint32_t *)((const char *)ring.in + HF_RING_BYTES);
    ring.out = agent_make_completions(&completions_fd);
    if (!ring.out) {
        int error = errno;

        close(requests_fd);
        hf_ring_agent_destroy(&ring);
        errno = error;
        return HF_ESYS;
    }
    *ret_ring = ring;
    *ret_requests_fd = requests_fd;
    *ret_completions_fd = completions_fd;
    return 0;
}

void hf_ring_agent_destroy(struct hf_ring_agent *ring)
{
    if (ring->in)
        munmap((void *)ring->in, HF_RING_BYTES);
    if (ring->out)
        munmap(ring->out, HF_RING_BYTES);
    if (ring->beats)
        hf_beats_unmap(ring->beats);
    *ring = (struct hf_ring_agent){0};
}

const _Atomic uint32_t *hf_ring_take_beats(struct hf_ring_agent *ring)
{
    const _Atomic uint32_t *beats = ring->beats;

    hf_assert(beats, "tail %u", (unsigned)ring->completion_tail);
    ring->beats = NULL;
    return beats;
}

void hf_beats_unmap(const _Atomic uint32_t *beats)
{
    munmap((void *)beats, HF_BEATS_BYTES);
}

int hf_ring_witness(const int clients[2], int ret_own[2])
{
    for (int i = 0; i < 2; i++) {
        ret_own[i] = agent_reopen(clients[i], O_RDWR);
        if (ret_own[i] < 0) {
            if (i)
                close(ret_own[0]);
            return HF_ESYS;
        }
    }
    return 0;
}

static bool agent_is_allocated(int fd, size_t size)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 >= size;
}

/* The kernel frees clean pages when memory is short, and the next look would allocate them anew, for the agent. */
static void agent_make_dirty(void *map, size_t size)
{
    const volatile uint32_t none = 0; /* clang takes an "or" with a 0 that it knows for a load */
    const uint32_t bits = none;

    for (size_t at = 0; at < size; at += HF_RING_HEADER)
        atomic_fetch_or((_Atomic uint32_t *)((char *)map + at), bits);
}

int hf_ring_admit(struct hf_ring_agent *ring, const int own[2])
{
    const int seals = fcntl(own[0], F_GET_SEALS);

    /* (!) Neither takes the inode's lock, which a client that writes to its file can hold for ever. */
    if (seals < 0 || !(seals & F_SEAL_FUTURE_WRITE))
        return HF_EPENDING;
    if (!agent_is_allocated(own[0], HF_REQUESTS_BYTES) ||
        !agent_is_allocated(own[1], HF_RING_BYTES))
        return HF_EPROTO;
    agent_make_dirty((void *)ring->in, HF_REQUESTS_BYTES);
    agent_make_dirty(ring->out, HF_RING_BYTES);
    return mprotect((void *)ring->in, HF_REQUESTS_BYTES, PROT_READ) == 0 ? 0 : HF_ESYS;
}

bool hf_ring_is_shared(const int own[2])
{
    for (int i = 0; i < 2; i++) {
        if (fcntl(own[i], F_SETLEASE, F_WRLCK) < 0 && errno == EAGAIN)
            return true;
        (void)fcntl(own[i], F_SETLEASE, F_UNLCK);
    }
    return false;
}

int hf_ring_take(struct hf_ring_agent *ring, struct hf_request_entry *ret_entry)
{
    uint32_t tail = atomic_load_explicit(&ring->in->tail, memory_order_acquire);
    uint32_t waiting = tail - ring->request_head;

    if (waiting == 0)
        return 0;
    if (waiting > HF_RING_ENTRIES)
        return HF_EPROTO;
    hf_words_load(ret_entry, hf_ring_place(ring->in, ring->request_head), HF_ENTRY_SIZE);
    ring->request_head++;
    atomic_store_explicit(&ring->out->request_head, ring->request_head, memory_order_release);
    return 1;
}

int hf_ring_room(const struct hf_ring_agent *ring)
{
    uint32_t head = atomic_load(&ring->in->completion_head);
    uint32_t unread = ring->completion_tail - head;

    return unread > HF_RING_ENTRIES ? HF_EPROTO : (int)(HF_RING_ENTRIES - unread);
}

int hf_ring_put(struct hf_ring_agent *ring, const struct hf_completion_entry *entry)
{
    int room = hf_ring_room(ring);

    if (room <= 0)
        return room < 0 ? room : HF_EFULL;
    hf_assert(room <= HF_RING_ENTRIES, "room %d, tail %u", room, (unsigned)ring->completion_tail);
    hf_words_store((void *)hf_ring_place(ring->out, ring->completion_tail), entry, HF_ENTRY_SIZE);
    ring->completion_tail++;
    atomic_store(&ring->out->tail, ring->completion_tail); /* see hf_ring_reap() */
    return 0;
}

void hf_ring_signal(struct hf_ring_agent *ring)
{
    atomic_fetch_add(&ring->out->wake, 1);
    /* (!) Bounded: a client may have thousands of sleepers. Those that wake up wake the others. */
    syscall(SYS_futex, &ring->out->wake, FUTEX_WAKE, HF_RING_WAKES, NULL, NULL, 0);
}

bool hf_ring_polled(const struct hf_ring_agent *ring)
{
    /* After the store of the tail, both sequentially consistent; hf_ring_poll() does the reverse. */
    return atomic_load(&ring->in->polls) != 0;
}

bool hf_ring_arm(struct hf_ring_agent *ring)
{
    /* Store, then load, both sequentially consistent; hf_ring_submit() does the reverse. */
    atomic_store(&ring->out->need_wake, 1);
    if (atomic_load(&ring->in->tail) == ring->request_head)
        return true;
    hf_ring_disarm(ring);
    return false;
}

void hf_ring_disarm(struct hf_ring_agent *ring)
{
    atomic_store_explicit(&ring->out->need_wake, 0, memory_order_relaxed);
}

/* The client's side of its rings. */
#include "shm/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/status.h"
#include "shm/row.h"

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

/* Of the right size and sealed to keep it: then no access can raise SIGBUS. */
static bool client_is_sealed(int fd, off_t size, int seals)
{
    struct stat st;
    int has = fcntl(fd, F_GET_SEALS);

    return has >= 0 && (has & seals) == seals && fstat(fd, &st) == 0 && st.st_size == size;
}

/* (!) To the last page, for hf_ring_admit(). The completions, which only the agent may write, by looking at them. */
static int client_allocate(int requests_fd, const void *completions)
{
    int error;

    do
        error = posix_fallocate(requests_fd, 0, HF_REQUESTS_BYTES);
    while (error == EINTR);
    if (error) {
        errno = error;
        return HF_ESYS;
    }
    if (madvise((void *)completions, HF_RING_BYTES, MADV_POPULATE_READ) == 0)
        return 0;
    if (errno != EINVAL)
        return HF_ESYS;
    for (size_t at = 0; at < HF_RING_BYTES; at += HF_RING_HEADER) /* before Linux 5.14 */
        (void)atomic_load((const _Atomic uint32_t *)((const char *)completions + at));
    return 0;
}

/* No holes from here on, and no other mapping for writing. An agent before 1.6 has sealed them against further seals. */
static bool client_seal(int requests_fd)
{
    return fcntl(requests_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0 ||
           (fcntl(requests_fd, F_GET_SEALS) & F_SEAL_SEAL);
}

static int client_unmap_both(void *out, void *in)
{
    int error = errno;

    munmap(out, HF_RING_BYTES);
    if (in)
        munmap(in, HF_RING_BYTES);
    errno = error;
    return HF_ESYS;
}

static int client_map_all(int requests_fd, int completions_fd, void *beats,
                          struct hf_ring_client *ret_ring)
{
    const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
    void *out, *in;

    if (!client_is_sealed(requests_fd, HF_REQUESTS_BYTES, size_seals) ||
        !client_is_sealed(completions_fd, HF_RING_BYTES, size_seals | F_SEAL_FUTURE_WRITE))
        return HF_EPROTO;
    out = mmap(NULL, HF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, requests_fd, 0);
    if (out == MAP_FAILED)
        return HF_ESYS;
    in = mmap(NULL, HF_RING_BYTES, PROT_READ, MAP_SHARED, completions_fd, 0);
    if (in == MAP_FAILED)
        return client_unmap_both(out, NULL);
    if (client_allocate(requests_fd, in) < 0)
        return client_unmap_both(out, in);
    /* After all that can fail for want of memory: that must leave the old words in place. Atomic for threads that beat: a
     * store goes to the old words or to the new ones. */
    if (beats && mmap(beats, HF_BEATS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      requests_fd, HF_RING_BYTES) == MAP_FAILED)
        return client_unmap_both(out, in);
    if (!client_seal(requests_fd))
        return client_unmap_both(out, in);
    *ret_ring = (struct hf_ring_client){.out = out, .in = in};
    return 0;
}

int hf_ring_client_map(int requests_fd, int completions_fd, void *beats,
                       struct hf_ring_client *ret_ring)
{
    int status = client_map_all(requests_fd, completions_fd, beats, ret_ring), error = errno;

    close(requests_fd);
    close(completions_fd);
    errno = error;
    return status;
}

void hf_ring_client_unmap(struct hf_ring_client *ring)
{
    if (ring->out)
        munmap(ring->out, HF_RING_BYTES);
    if (ring->in)
        munmap((void *)ring->in, HF_RING_BYTES);
    *ring = (struct hf_ring_client){0};
}

int hf_ring_submit(struct hf_ring_client *ring, const struct hf_request_entry *entry,
                   bool *ret_wake)
{
    uint32_t head = atomic_load_explicit(&ring->in->request_head, memory_order_acquire);
    uint32_t waiting = ring->request_tail - head;

    if (waiting >= HF_RING_ENTRIES)
        return waiting == HF_RING_ENTRIES ? HF_EFULL : HF_EPROTO;
    hf_words_store((void *)hf_ring_place(ring->out, ring->request_tail), entry, HF_ENTRY_SIZE);
    ring->request_tail++;
    /* Store, then load, both sequentially consistent; hf_ring_arm() does the reverse. */
    atomic_store(&ring->out->tail, ring->request_tail);
    *ret_wake = atomic_load(&ring->in->need_wake) != 0;
    return 0;
}

void hf_ring_poll(struct hf_ring_client *ring)
{
    atomic_store(&ring->out->polls, 1);
}

int hf_ring_reap(struct hf_ring_client *ring, struct hf_completion_entry *ret_entry)
{
    uint32_t tail = atomic_load(&ring->in->tail);
    uint32_t unread = tail - ring->completion_head;

    if (unread == 0)
        return 0;
    if (unread > HF_RING_ENTRIES)
        return HF_EPROTO;
    hf_words_load(ret_entry, hf_ring_place(ring->in, ring->completion_head), HF_ENTRY_SIZE);
    ring->completion_head++;
    /* Sequentially consistent, like the next load of the tail and the agent's two accesses in
     * hf_ring_put(): an agent that saw no room has posted everything that is read until the ring is
     * empty. */
    atomic_store(&ring->out->completion_head, ring->completion_head);
    return 1;
}

uint32_t hf_ring_wake_value(const struct hf_ring_client *ring)
{
    return atomic_load(&ring->in->wake);
}

bool hf_ring_wait(const struct hf_ring_client *ring, uint32_t seen, hf_dur timeout)
{
    struct timespec limit = {
        .tv_sec = timeout.ns / HF_NS_PER_SEC,
        .tv_nsec = timeout.ns % HF_NS_PER_SEC,
    };

    if (timeout.ns <= 0)
        return false;
    return syscall(SYS_futex, &ring->in->wake, FUTEX_WAIT, seen, &limit, NULL, 0) < 0 &&
           errno == EINTR;
}

void hf_ring_wake_others(const struct hf_ring_client *ring)
{
    (void)syscall(SYS_futex, &ring->in->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

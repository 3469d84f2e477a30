#include "tools/bench/measure.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES 64
#define SENT    UINT64_MAX /* the tag of a send */

struct uring {
    int fd;
    unsigned queued, sends; /* not submitted; without a result */
    _Atomic unsigned *sq_tail, *cq_head, *cq_tail;
    unsigned *sq_array, sq_mask, cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
};

static void *uring_map(int fd, size_t size, off_t what)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);

    if (at == MAP_FAILED)
        measure_die("io_uring: mmap: %s", strerror(errno));
    return at;
}

struct uring *uring_open(void)
{
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                         IORING_SETUP_CQSIZE,
                                .cq_entries = 4 * ENTRIES};
    struct uring *ring = calloc(1, sizeof(*ring));
    uint8_t *sq, *cq;

    ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring->fd < 0)
        measure_die("io_uring_setup: %s", strerror(errno));
    sq = uring_map(ring->fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    cq = uring_map(ring->fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
                   IORING_OFF_CQ_RING);
    ring->sqes =
        uring_map(ring->fd, p.sq_entries * sizeof(struct io_uring_sqe), (off_t)IORING_OFF_SQES);
    ring->sq_tail = (_Atomic unsigned *)(sq + p.sq_off.tail);
    ring->sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    ring->sq_array = (unsigned *)(sq + p.sq_off.array);
    ring->cq_head = (_Atomic unsigned *)(cq + p.cq_off.head);
    ring->cq_tail = (_Atomic unsigned *)(cq + p.cq_off.tail);
    ring->cq_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    return ring;
}

static void uring_put(struct uring *ring, const struct io_uring_sqe *sqe)
{
    unsigned tail = atomic_load_explicit(ring->sq_tail, memory_order_relaxed);
    unsigned at = tail & ring->sq_mask;

    if (ring->queued == ENTRIES)
        measure_die("io_uring: more than %d at once", ENTRIES);
    ring->sqes[at] = *sqe;
    ring->sq_array[at] = at;
    atomic_store_explicit(ring->sq_tail, tail + 1, memory_order_release);
    ring->queued++;
}

void uring_send(struct uring *ring, int fd, const void *data, size_t length)
{
    const struct io_uring_sqe sqe = {.opcode = IORING_OP_SEND,
                                     .fd = fd,
                                     .addr = (uintptr_t)data,
                                     .len = (uint32_t)length,
                                     .msg_flags = MSG_NOSIGNAL | MSG_WAITALL,
                                     .user_data = SENT};

    uring_put(ring, &sqe);
    ring->sends++;
}

void uring_receive(struct uring *ring, int fd, void *to, size_t size, unsigned tag)
{
    const struct io_uring_sqe sqe = {.opcode = IORING_OP_RECV,
                                     .fd = fd,
                                     .addr = (uintptr_t)to,
                                     .len = (uint32_t)size,
                                     .user_data = tag};

    uring_put(ring, &sqe);
}

void uring_wait(struct uring *ring, void (*fn)(void *arg, unsigned tag, size_t length), void *arg)
{
    unsigned received = 0;

    while (!received || ring->sends) {
        unsigned head = atomic_load_explicit(ring->cq_head, memory_order_relaxed);
        int submitted = (int)syscall(SYS_io_uring_enter, ring->fd, ring->queued,
                                     ring->sends + !received, IORING_ENTER_GETEVENTS, NULL, 0);

        if (submitted < 0 && errno != EINTR)
            measure_die("io_uring_enter: %s", strerror(errno));
        ring->queued -= submitted > 0 ? (unsigned)submitted : 0;
        while (head != atomic_load_explicit(ring->cq_tail, memory_order_acquire)) {
            struct io_uring_cqe cqe = ring->cqes[head++ & ring->cq_mask];

            atomic_store_explicit(ring->cq_head, head, memory_order_release);
            if (cqe.res <= 0)
                measure_die("io_uring: %s", cqe.res ? strerror(-cqe.res) : "a node has hung up");
            if (cqe.user_data == SENT) {
                ring->sends--;
            } else {
                received++;
                fn(arg, (unsigned)cqe.user_data, (size_t)cqe.res);
            }
        }
    }
}

/* Sends and receives on a few sockets through one io_uring, by the system calls themselves: what a lock would cost that
 * way (tools/bench/floor.c). One thread. */
#ifndef HOLDFAST_TOOLS_BENCH_URING_H
#define HOLDFAST_TOOLS_BENCH_URING_H

#include <stddef.h>

struct uring;

/* Ends the program with a message where the kernel has none, or forbids it. */
struct uring *uring_open(void);
/* With the next uring_wait(). `data` stays until that has returned. */
void uring_send(struct uring *ring, int fd, const void *data, size_t length);
/* Likewise: up to `size` bytes into `to`, which stays until uring_wait() returned `tag` (0 to 63). */
void uring_receive(struct uring *ring, int fd, void *to, size_t size, unsigned tag);
/* Submits all, and waits until every send is done and one receive is: one system call, most times. Calls fn(arg, tag, length)
 * for each receive that is done. */
void uring_wait(struct uring *ring, void (*fn)(void *arg, unsigned tag, size_t length), void *arg);

#endif

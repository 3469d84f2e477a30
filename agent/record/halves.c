#include "agent/record/halves.h"

#include <string.h>

#include "shm/assert.h"
#include "shm/status.h"

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

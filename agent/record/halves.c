#include "agent/record/halves.h"

#include <string.h>

#include "agent/base/crc32.h"
#include "shm/status.h"

#define HALF_BODY (offsetof(struct half_head, crc) + sizeof(uint32_t))

uint64_t half_seq(const void *half)
{
    return atomic_load_explicit(&((const struct half_head *)half)->seq, memory_order_acquire);
}

static uint32_t half_crc(const void *half, size_t size, uint64_t seq)
{
    uint32_t crc = crc32c(0, &seq, sizeof(seq));

    return crc32c(crc, (const char *)half + HALF_BODY, size - HALF_BODY);
}

bool half_good(const void *half, size_t size)
{
    uint64_t seq = half_seq(half);

    return seq && ((const struct half_head *)half)->crc == half_crc(half, size, seq);
}

void half_seal(void *half, size_t size)
{
    ((struct half_head *)half)->crc = half_crc(half, size, half_seq(half));
}

int half_newest(const void *halves, size_t size)
{
    const char *half[2] = {halves, (const char *)halves + size};
    uint64_t seq[2] = {half_seq(half[0]), half_seq(half[1])};
    int newer = seq[1] > seq[0];

    if (half_good(half[newer], size))
        return newer;
    if (half_good(half[!newer], size))
        return !newer;
    return seq[0] == 0 && seq[1] == 0 ? HF_ENOTHELD : HF_ETABLE;
}

/* (!) The older half is filled first and its seq is stored last: until that store the other half
 * counts, wherever the program is killed. The memory fence keeps the seq of an earlier put before
 * the stores of this one. */
void half_commit(void *halves, size_t size, const void *body)
{
    char *half[2] = {halves, (char *)halves + size};
    uint64_t seq[2] = {half_seq(half[0]), half_seq(half[1])};
    int newer = seq[1] > seq[0];
    struct half_head *idle = (struct half_head *)half[!newer];
    uint64_t next = seq[newer] + 1;

    atomic_thread_fence(memory_order_release);
    memcpy((char *)idle + HALF_BODY, (const char *)body + HALF_BODY, size - HALF_BODY);
    idle->crc = half_crc(body, size, next);
    atomic_store_explicit(&idle->seq, next, memory_order_release);
}

/* (!) half_commit() goes by seq alone: a damaged half with a high seq would make it write over the good
 * half, and a seq that wraps to 0 would mean no record. */
void half_mend(void *halves, size_t size)
{
    struct half_head *half[2] = {halves, (struct half_head *)(void *)((char *)halves + size)};
    int good = half_newest(halves, size);

    if (good >= 0 && !half_good(half[!good], size)) {
        atomic_store_explicit(&half[!good]->seq, 0, memory_order_relaxed);
    } else if (good == HF_ETABLE) { /* one half still shows that a record was here */
        atomic_store_explicit(&half[0]->seq, 1, memory_order_relaxed);
        atomic_store_explicit(&half[1]->seq, 0, memory_order_relaxed);
    }
}

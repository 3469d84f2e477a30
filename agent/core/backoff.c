#include "agent/core/backoff.h"

#include "shm/assert.h"

#define CONTEND_LEAST hf_ms(50)
#define CONTEND_MOST  hf_ms(250)

void backoff_init(struct backoff *b, hf_dur first, hf_dur max)
{
    hf_assert(first.ns > 0 && first.ns <= max.ns, "first %lld, max %lld", (long long)first.ns,
              (long long)max.ns);
    *b = (struct backoff){.first = first, .max = max, .next = first};
}

void backoff_reset(struct backoff *b)
{
    b->next = b->first;
}

hf_dur backoff_step(struct backoff *b, uint32_t random)
{
    hf_dur delay = draw_between(hf_ns(b->next.ns / 2), b->next, random);

    hf_assert(b->next.ns > 0 && b->next.ns <= b->max.ns, "next %lld, max %lld",
              (long long)b->next.ns, (long long)b->max.ns);
    b->next = b->next.ns > b->max.ns / 2 ? b->max : hf_ns(b->next.ns * 2);
    return delay;
}

hf_dur backoff_next(hf_dur first, hf_dur max, uint8_t *count, uint32_t random)
{
    struct backoff b = {.first = first, .max = max, .next = first};

    for (unsigned i = 0; i < *count && b.next.ns < max.ns; i++)
        b.next = b.next.ns > max.ns / 2 ? max : hf_ns(b.next.ns * 2);
    if (*count < UINT8_MAX)
        ++*count;
    return backoff_step(&b, random);
}

hf_dur backoff_contend(int64_t pttl_ms, uint32_t random)
{
    hf_dur delay = draw_between(CONTEND_LEAST, CONTEND_MOST, random);

    /* Compared in milliseconds: a foreign PTTL may be too large for nanoseconds. */
    if (pttl_ms >= 0 && pttl_ms < hf_dur_ms(CONTEND_MOST))
        delay = hf_dur_min(delay, hf_ms(pttl_ms + 1));
    return delay;
}

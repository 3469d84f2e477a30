#include "agent/core/refresh.h"

#include "shm/assert.h"

/* A build that only tests use has laps of seconds: tests/CMakeLists.txt. */
#ifdef HF_TEST_LAP_MS
#define LAP       hf_ms(HF_TEST_LAP_MS)
#define FIRST_LAP hf_ms(HF_TEST_LAP_MS / 2)
#else
#define LAP       hf_ms(24 * 3600 * INT64_C(1000))
#define FIRST_LAP hf_ms(3600 * INT64_C(1000))
#endif
#define BEHIND_MOST hf_ms(1000)

void refresh_init(struct refresh *r, uint32_t slots, uint32_t random, hf_time now)
{
    hf_assert(slots > 0, "random %u", (unsigned)random);
    *r = (struct refresh){.slots = slots, .next = random % slots, .first = slots, .due = now};
}

bool refresh_take(struct refresh *r, hf_time now, uint32_t *ret_slot)
{
    hf_dur step = hf_ns((r->first ? FIRST_LAP : LAP).ns / r->slots);

    if (!hf_time_reached(now, r->due))
        return false;
    hf_assert(r->next < r->slots && r->first <= r->slots, "next %u, first %u, slots %u",
              (unsigned)r->next, (unsigned)r->first, (unsigned)r->slots);
    *ret_slot = r->next;
    r->next = (r->next + 1) % r->slots;
    r->first -= r->first > 0;
    r->due = hf_time_max(hf_time_add(r->due, step), hf_time_sub(now, BEHIND_MOST));
    return true;
}

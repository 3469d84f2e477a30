#include "agent/core/turns.h"

#include <stddef.h>

#include "agent/core/bucket.h"
#include "shm/assert.h"

#define BURST 20 /* at once: this part of what one second allows */

static void turns_check(const struct turns_user *user)
{
    hf_assert((user->count == 0) == TAILQ_EMPTY(&user->wants), "count %u", (unsigned)user->count);
}

void turns_init(struct turns *t, uint32_t per_second)
{
    hf_assert(per_second > 0 && per_second <= HF_NS_PER_SEC, "per_second %u", (unsigned)per_second);
    t->each = hf_ns(HF_NS_PER_SEC / per_second);
    t->ahead = hf_ns(HF_NS_PER_SEC / BURST);
    t->spent = HF_TIME_PAST;
    TAILQ_INIT(&t->ring);
}

hf_time turns_next(const struct turns *t, hf_time now)
{
    return bucket_next(t->spent, t->ahead, now);
}

bool turns_wanted(const struct turns *t)
{
    return !TAILQ_EMPTY(&t->ring);
}

void turns_want(struct turns *t, struct turns_user *user, struct turns_want *want)
{
    hf_assert(!want->user, "count %u", (unsigned)want->user->count);
    if (user->count == 0) {
        TAILQ_INIT(&user->wants);
        TAILQ_INSERT_TAIL(&t->ring, user, ring);
    }
    TAILQ_INSERT_TAIL(&user->wants, want, of_user);
    want->user = user;
    user->count++;
    turns_check(user);
}

void turns_drop(struct turns *t, struct turns_want *want)
{
    struct turns_user *user = want->user;

    if (!user)
        return;
    hf_assert(user->count > 0, "no want is queued");
    TAILQ_REMOVE(&user->wants, want, of_user);
    want->user = NULL;
    if (--user->count == 0)
        TAILQ_REMOVE(&t->ring, user, ring);
    turns_check(user);
}

struct turns_want *turns_take(struct turns *t)
{
    struct turns_user *user = TAILQ_FIRST(&t->ring);
    struct turns_want *want;

    if (!user)
        return NULL;
    turns_check(user);
    want = TAILQ_FIRST(&user->wants);
    TAILQ_REMOVE(&t->ring, user, ring);
    TAILQ_INSERT_TAIL(&t->ring, user, ring);
    turns_drop(t, want);
    return want;
}

void turns_spend(struct turns *t, uint32_t commands, hf_time now)
{
    hf_assert(t->each.ns > 0, "commands %u", (unsigned)commands);
    bucket_use(&t->spent, hf_ns(t->each.ns * commands), now);
}

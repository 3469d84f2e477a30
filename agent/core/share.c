#include "agent/core/share.h"

#include <stddef.h>
#include <string.h>

#include "shm/assert.h"

unsigned share_of(const struct shares *s, uint32_t who)
{
    uint64_t mixed = (s->key ^ who) * UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (unsigned)(mixed >> 32) % SHARES;
}

bool share_take(struct shares *s, unsigned share, unsigned burst, hf_dur each, hf_time now)
{
    hf_assert(share < SHARES && burst >= 1 && each.ns > 0, "share %u, burst %u, each %lld", share,
              burst, (long long)each.ns);
    return bucket_take(&s->used_to[share], each, burst, now);
}

/* --- subordinate uids ------------------------------------------------------------------------- */

static const char *subuids_parse_number(const char *at, uint32_t *ret_number)
{
    uint64_t number = 0;
    const char *begins = at;

    for (; *at >= '0' && *at <= '9' && number <= UINT32_MAX; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    *ret_number = (uint32_t)number;
    return at == begins || number > UINT32_MAX ? NULL : at;
}

bool subuids_parse(const char *line, char ret_name[SUBUIDS_NAME_MAX + 1], uint32_t *ret_first,
                   uint32_t *ret_count)
{
    const char *at = memchr(line, ':', strlen(line));
    size_t length = at ? (size_t)(at - line) : 0;
    uint32_t first, count;

    if (length == 0 || length > SUBUIDS_NAME_MAX || !(at = subuids_parse_number(at + 1, &first)) ||
        *at != ':' || !(at = subuids_parse_number(at + 1, &count)) || (*at && *at != '\n') ||
        count == 0)
        return false;
    memcpy(ret_name, line, length);
    ret_name[length] = '\0';
    *ret_first = first;
    *ret_count = count;
    return true;
}

bool subuids_add(struct subuids *subuids, uint32_t first, uint32_t count, uint32_t owner)
{
    hf_assert(subuids->count >= 0 && subuids->count <= SUBUIDS_MAX, "ranges %d", subuids->count);
    if (subuids->count == SUBUIDS_MAX)
        return false;
    subuids->range[subuids->count++] =
        (struct subuid_range){.first = first, .count = count, .owner = owner};
    return true;
}

uint32_t subuids_owner(const struct subuids *subuids, uint32_t uid)
{
    for (int i = 0; i < subuids->count; i++)
        if (uid - subuids->range[i].first < subuids->range[i].count &&
            uid >= subuids->range[i].first)
            return subuids->range[i].owner;
    return uid;
}

/* --- turns ------------------------------------------------------------------------------------ */

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

/* What each of many may use of something scarce: some at once, then one after the other. Those who use it are told apart by a
 * keyed hash, so two may have one share, and nobody can choose with whom. Pure. */
#ifndef HOLDFAST_AGENT_CORE_SHARE_H
#define HOLDFAST_AGENT_CORE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

#define SHARES 64

struct shares {
    uint64_t key;            /* random */
    hf_time used_to[SHARES]; /* zeroed before first use; each use moves it on by `each` */
};

unsigned share_of(const struct shares *shares, uint32_t who); /* below SHARES */
/* Uses one of that share, if one is left: `burst` at once, and one more after each `each`. */
bool share_take(struct shares *shares, unsigned share, unsigned burst, hf_dur each, hf_time now);

#endif

/* All chance of a schedule comes from its seed. */
#include "tests/sim/sim.h"

/* splitmix64 */
uint64_t rng_next(struct sim_rng *rng)
{
    uint64_t x = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

int64_t rng_below(struct sim_rng *rng, int64_t end)
{
    return (int64_t)((unsigned __int128)rng_next(rng) * (uint64_t)end >> 64);
}

bool rng_chance(struct sim_rng *rng, double p)
{
    return (double)(rng_next(rng) >> 11) < p * 9007199254740992.0;
}

int64_t rng_between(struct sim_rng *rng, int64_t low, int64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

int64_t rng_log(struct sim_rng *rng, int64_t low, int64_t high)
{
    /* By halves, without libm: its last bit need not be the same everywhere. */
    int bits = 0;
    int64_t top;

    while (low << bits < high)
        bits++;
    top = low << rng_between(rng, 0, bits ? bits - 1 : 0);
    top = rng_between(rng, top, 2 * top);
    return top < high ? top : high;
}

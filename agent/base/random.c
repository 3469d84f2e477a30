#include "agent/base/random.h"

#include <sys/random.h>

uint32_t random_u32(void)
{
    uint32_t r = 0;

    (void)!getrandom(&r, sizeof(r), 0);
    return r;
}

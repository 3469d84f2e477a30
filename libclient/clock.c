/* The library's only clock: it runs on in suspend, as leases do. */
#include "libclient/internal.h"

int64_t hfc_now(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_BOOTTIME, &t) < 0)
        return HFC_NEVER; /* every validity is over */
    return (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
}

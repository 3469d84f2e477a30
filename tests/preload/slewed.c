/* Preloaded into holdfast, a host's clock that is kept as HOLDFAST_SLEWED says: "TICK FREQ STATUS", as
 * adjtimex() tells it; "refused" for one that does not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

int adjtimex(struct timex *timex)
{
    const char *text = getenv("HOLDFAST_SLEWED");
    unsigned modes = timex->modes;

    memset(timex, 0, sizeof(*timex));
    if (modes != 0 || !text ||
        sscanf(text, "%ld %ld %d", &timex->tick, &timex->freq, &timex->status) != 3) {
        errno = EPERM;
        return -1;
    }
    return timex->status & STA_UNSYNC ? TIME_ERROR : TIME_OK;
}

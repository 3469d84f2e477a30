/* doctor: how this host's clock is kept. Read only: modes = 0. */
#include "tools/doctor/doctor_looks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#define PPM INT64_C(1000000)
/* A lease's validity allows for rates that differ by 1 % (agent/core/timing.h): half for the holder's
 * host, half for a node. 0.99 T on a clock that is 0.5 % slow ends before T on one that is 0.5 % fast. */
#define RATE_MOST (5 * PPM / 1000)

/* How much faster the kernel lets the clock run than its oscillator, in ppm. Correcting a good
 * oscillator takes a few hundred. */
static int64_t clock_rate_ppm(const struct timex *timex)
{
    return (int64_t)timex->tick * sysconf(_SC_CLK_TCK) - PPM + timex->freq / 65536;
}

void doctor_clock_look(struct doctor *doctor)
{
    struct timex timex = {.modes = 0};
    int state = adjtimex(&timex);
    int64_t ppm;

    if (state < 0) {
        doctor_report(doctor, FINDING_NOTE, "host.clock", NULL,
                      "how this host's clock is kept cannot be read: %s", strerror(errno));
        return;
    }
    ppm = clock_rate_ppm(&timex);
    /* CLOCK_BOOTTIME, by which leases end, is slewed along. */
    if (llabs(ppm) > RATE_MOST)
        doctor_report(
            doctor, FINDING_WARN, "host.clock",
            "let the time service slew more slowly, here and on the nodes' hosts (chrony: "
            "maxslewrate 4500)",
            "this host's clock is being slewed by %.2f %%; locks allow for 0.5 %% on each "
            "host",
            (double)ppm * 100 / PPM);
    else
        doctor_report(doctor, FINDING_OK, "host.clock", NULL,
                      "this host's clock runs at its own rate and %+lld ppm", (long long)ppm);
    if (state == TIME_ERROR || timex.status & STA_UNSYNC)
        doctor_report(doctor, FINDING_NOTE, "host.clock", NULL,
                      "no time service keeps this host's clock, as far as the kernel knows; locks "
                      "need none, but once a majority of the nodes has forgotten its fences, new "
                      "ones are higher only if clocks agree");
}

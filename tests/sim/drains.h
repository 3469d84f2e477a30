/* Operators who drain hosts and undrain them, as `holdfast drain` does; and what must hold then: from the answer on the
 * host grants nothing, whatever was under way, also after its agent was killed or ended. */
#ifndef HOLDFAST_TESTS_SIM_DRAINS_H
#define HOLDFAST_TESTS_SIM_DRAINS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_host;

void drains_begin(void);
/* The faults are over: all hosts are undrained. */
void drains_end(void);
/* Its agents forget. */
void drains_host_rebooted(const struct sim_host *host);
/* The host's agent answers an operator. */
void drains_answered(const struct sim_host *host, bool undrain);
/* It answers an acquire with a lease that was granted at `since_ns`, by the host's clock; `readopted`: by an agent before. */
void drains_check(const struct sim_host *host, int resource, int64_t since_ns, bool readopted);

#endif

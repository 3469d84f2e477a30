/* Random numbers that need not be secret: delays and places in a turn. */
#ifndef HOLDFAST_AGENT_BASE_RANDOM_H
#define HOLDFAST_AGENT_BASE_RANDOM_H

#include <stdint.h>

/* Any thread. From the kernel; 0 if it has none yet. */
uint32_t random_u32(void);

#endif

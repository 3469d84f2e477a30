/* The time of day. What is decided is decided by CLOCK_BOOTTIME; this is for people. */
#ifndef HOLDFAST_TOOLS_COMMON_WALL_H
#define HOLDFAST_TOOLS_COMMON_WALL_H

#include <stdint.h>

/* Unix time in milliseconds. */
int64_t wall_now_ms(void);

#endif

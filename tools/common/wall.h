/* The time of day, for people only: decisions use CLOCK_BOOTTIME. */
#ifndef HOLDFAST_TOOLS_COMMON_WALL_H
#define HOLDFAST_TOOLS_COMMON_WALL_H

#include <stdint.h>

/* Unix time in milliseconds. */
int64_t wall_now_ms(void);

#endif

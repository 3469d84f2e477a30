/* CRC-32C (Castagnoli), eight bytes a step. Pure; any thread. */
#ifndef HOLDFAST_AGENT_CRC32_H
#define HOLDFAST_AGENT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, the result for what stands before; 0 to begin. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

#endif

/* CRC-32C (Castagnoli), as in iSCSI and ext4. It finds torn records and proves nothing about
 * intent. Pure. */
#ifndef HOLDFAST_AGENT_BASE_CRC32_H
#define HOLDFAST_AGENT_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `crc`, which is 0 for the first piece. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

#endif

#include "agent/base/crc32.h"

#include <string.h>

/* A nibble at a time: the table is one cache line, and records are short. */
static uint32_t by_table(uint32_t crc, const uint8_t *p, size_t length)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

    while (length--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
/* Every x86-64 since 2008 has an instruction for exactly this sum. */
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p,
                                                                 size_t length)
{
    uint64_t sum = crc, word;

    for (; length >= sizeof(word); p += sizeof(word), length -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        sum = __builtin_ia32_crc32di(sum, word);
    }
    crc = (uint32_t)sum;
    while (length--)
        crc = __builtin_ia32_crc32qi(crc, *p++);
    return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~by_instruction(~crc, data, length);
#endif
    return ~by_table(~crc, data, length);
}

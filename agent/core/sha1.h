/* SHA-1, for names that every host has to work out alike. It need not resist attackers: whoever can write to a
 * node can write anything. Pure. */
#ifndef HOLDFAST_AGENT_CORE_SHA1_H
#define HOLDFAST_AGENT_CORE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_BLOCK   64
#define SHA1_HEX_LEN 40

struct sha1 {
    uint32_t h[5];
    uint64_t length; /* bytes */
    uint8_t block[SHA1_BLOCK];
};

void sha1_begin(struct sha1 *sha1);
void sha1_add(struct sha1 *sha1, const void *data, size_t length);
/* Lower-case hex. Nothing can be added any more. */
void sha1_end(struct sha1 *sha1, char ret_hex[SHA1_HEX_LEN + 1]);

#endif

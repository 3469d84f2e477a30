#include "agent/core/sha1.h"

static uint32_t sha1_rotate(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static void sha1_block(struct sha1 *s)
{
    static const uint32_t k[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
               (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = sha1_rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t t = sha1_rotate(a, 5) + f + e + k[i / 20] + w[i];

        e = d;
        d = c;
        c = sha1_rotate(b, 30);
        b = a;
        a = t;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

void sha1_begin(struct sha1 *s)
{
    *s = (struct sha1){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void sha1_add(struct sha1 *s, const void *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        s->block[s->length++ % SHA1_BLOCK] = ((const uint8_t *)data)[i];
        if (s->length % SHA1_BLOCK == 0)
            sha1_block(s);
    }
}

void sha1_end(struct sha1 *s, char ret_hex[SHA1_HEX_LEN + 1])
{
    uint64_t bits = s->length * 8;
    uint8_t tail[8];

    for (int i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha1_add(s, "\x80", 1);
    while (s->length % SHA1_BLOCK != SHA1_BLOCK - sizeof(tail))
        sha1_add(s, "", 1);
    sha1_add(s, tail, sizeof(tail));
    for (int i = 0; i < SHA1_HEX_LEN; i++)
        ret_hex[i] = "0123456789abcdef"[s->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    ret_hex[SHA1_HEX_LEN] = '\0';
}

/* SipHash-2-4 (Aumasson and Bernstein, 2012), cut to 32 bits. */
#include "shm/index.h"

#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t hash_rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void hash_sip_rounds(struct sip *s, unsigned rounds)
{
    while (rounds--) {
        s->v0 += s->v1;
        s->v1 = hash_rotate(s->v1, 13) ^ s->v0;
        s->v0 = hash_rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = hash_rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = hash_rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = hash_rotate(s->v1, 17) ^ s->v2;
        s->v2 = hash_rotate(s->v2, 32);
    }
}

static void hash_sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    hash_sip_rounds(s, 2);
    s->v0 ^= word;
}

/* Little endian, as in the paper, so that the result is the same on every machine. */
static uint64_t hash_load_le(const uint8_t *bytes, size_t len)
{
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

uint32_t hf_name_hash(const uint8_t key[16], const void *name, size_t name_len)
{
    const uint8_t *bytes = name;
    uint64_t k0 = hash_load_le(key, 8), k1 = hash_load_le(key + 8, 8), hash;
    struct sip s = {
        k0 ^ UINT64_C(0x736f6d6570736575),
        k1 ^ UINT64_C(0x646f72616e646f6d),
        k0 ^ UINT64_C(0x6c7967656e657261),
        k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = name_len & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8)
        hash_sip_word(&s, hash_load_le(bytes + i, 8));
    hash_sip_word(&s, (uint64_t)name_len << 56 | hash_load_le(bytes + whole, name_len - whole));
    s.v2 ^= 0xff;
    hash_sip_rounds(&s, 4);
    hash = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    return (uint32_t)hash;
}

#include "agent/base/token.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shm/hex.h"
#include "shm/status.h"

typedef uint8_t bytes16 __attribute__((vector_size(16)));

static bytes16 digits_of(bytes16 nibbles)
{
    return nibbles + '0' + ((bytes16)(nibbles > 9) & ('a' - '0' - 10));
}

/* 16 bytes as 32 digits. */
static inline void put_16(const uint8_t *bytes, char *text)
{
    bytes16 all, high, low, first, last;

    memcpy(&all, bytes, sizeof(all));
    high = digits_of(all >> 4);
    low = digits_of(all & 15);
    first =
        __builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    last = __builtin_shufflevector(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                   15, 31);
    memcpy(text, &first, sizeof(first));
    memcpy(text + sizeof(first), &last, sizeof(last));
}

void token_text(const struct token *token, char ret_text[TOKEN_LEN])
{
    enum { REST = TOKEN_BYTES - sizeof(bytes16) };

    put_16(token->bytes, ret_text);
    put_16(token->bytes + REST, ret_text + 2 * REST); /* overlapping digits are the same */
}

int token_read(const char *text, struct token *ret_token)
{
    struct token token;
    int rc = hf_hex_bytes(text, TOKEN_BYTES, token.bytes);

    if (rc == HF_OK)
        *ret_token = token;
    return rc;
}

void token_draw(struct token_pool *pool, struct token *ret_token)
{
    uint8_t *bytes;

    if (pool->left < sizeof(*ret_token)) {
        /* So few bytes never come in parts. Once the kernel's pool is ready, the call never fails
         * (getrandom(2)). */
        if (getrandom(pool->bytes, sizeof(pool->bytes), 0) != sizeof(pool->bytes))
            abort();
        pool->left = sizeof(pool->bytes);
    }
    pool->left -= sizeof(*ret_token);
    bytes = pool->bytes + pool->left;
    memcpy(ret_token, bytes, sizeof(*ret_token));
    explicit_bzero(bytes, sizeof(*ret_token)); /* a token is a secret */
}

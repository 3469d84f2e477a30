#include "agent/base/token.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shm/assert.h"
#include "shm/text.h"
#include "shm/status.h"

/* In memory a word is two digits, the first one in its low byte. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "put_8() needs another order of digits");

/* Of the vector extensions only those that GCC 9 and clang 10 have. */
typedef uint8_t bytes8 __attribute__((vector_size(8)));
typedef uint16_t words8 __attribute__((vector_size(16)));
typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* 8 bytes as 16 digits. */
static inline void token_put_8(const uint8_t *bytes, char *text)
{
    bytes8 all;
    bytes16 digits;
    words8 words;

    memcpy(&all, bytes, sizeof(all));
    words = __builtin_convertvector(all, words8);
    digits = (bytes16)((words >> 4) | ((words & 15) << 8));
    digits = digits + '0' + ((bytes16)(digits > 9) & ('a' - '0' - 10));
    memcpy(text, &digits, sizeof(digits));
}

void token_text(const struct token *token, char ret_text[TOKEN_LEN])
{
    enum { REST = TOKEN_BYTES - sizeof(bytes8) };

    token_put_8(token->bytes, ret_text);
    token_put_8(token->bytes + 8, ret_text + 16);
    token_put_8(token->bytes + REST, ret_text + 2 * REST); /* overlapping digits are the same */
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
        ssize_t got = getrandom(pool->bytes, sizeof(pool->bytes), 0);

        hf_assert(got == sizeof(pool->bytes), "getrandom: %zd", got);
        pool->left = sizeof(pool->bytes);
    }
    hf_assert(pool->left <= sizeof(pool->bytes), "left %zu", (size_t)pool->left);
    pool->left -= sizeof(*ret_token);
    bytes = pool->bytes + pool->left;
    memcpy(ret_token, bytes, sizeof(*ret_token));
    explicit_bzero(bytes, sizeof(*ret_token)); /* a token is a secret */
}

/* --- random numbers that need not be secret --------------------------------------------------- */

uint32_t random_u32(void)
{
    uint32_t r = 0;

    (void)!getrandom(&r, sizeof(r), 0);
    return r;
}

/* The value of a key on a node while we hold it: random bytes, drawn anew for each acquire round
 * (token_draw()). Nodes and the journal have them as hex digits, the agent's memory as bytes, in
 * each lease. A token is a secret: it is never logged, and is wiped when its memory is given back.
 * Any thread. (!) Every agent of a fleet writes this form: a value of another form is no agent's
 * (force.lua). */
#ifndef HOLDFAST_AGENT_BASE_TOKEN_H
#define HOLDFAST_AGENT_BASE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#define TOKEN_BYTES 20
#define TOKEN_LEN   (2 * TOKEN_BYTES) /* hex characters */

struct token {
    uint8_t bytes[TOKEN_BYTES];
};

/* Random bytes drawn ahead of need, used from the end: one getrandom(2), of at most 256 bytes,
 * fills it. Zeroed before first use; one thread. */
struct token_pool {
    uint8_t bytes[12 * TOKEN_BYTES];
    size_t left;
};

void token_draw(struct token_pool *pool, struct token *ret_token);
/* In lower case, without a NUL. Called for each key of each renewal: takes a nanosecond or two. */
void token_text(const struct token *token, char ret_text[TOKEN_LEN]);
/* HF_OK; or HF_EINVAL: `text` is not TOKEN_LEN hex digits in lower case. */
int token_read(const char *text, struct token *ret_token);

/* Random numbers that need not be secret: delays and places in a turn. */

/* Any thread. From the kernel; 0 if it has none yet. */
uint32_t random_u32(void);

#endif

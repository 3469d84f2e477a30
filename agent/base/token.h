/* What a node has in a key while we hold it: random bytes, drawn anew for each acquire round
 * (token_draw()). Nodes and the journal have them as hex digits, the agent's memory as bytes: a lease
 * has one. A secret: never logged, and wiped where it is given back. Any thread.
 * (!) Every agent of a fleet writes this form: what has another is no agent's (force.lua). */
#ifndef HOLDFAST_AGENT_BASE_TOKEN_H
#define HOLDFAST_AGENT_BASE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#define TOKEN_BYTES 20
#define TOKEN_LEN   (2 * TOKEN_BYTES) /* hex characters */

struct token {
    uint8_t bytes[TOKEN_BYTES];
};

/* Random bytes ahead of need, used from the end: up to 256 come at once (getrandom(2)). All zero to begin with; one
 * thread. */
struct token_pool {
    uint8_t bytes[12 * TOKEN_BYTES];
    size_t left;
};

void token_draw(struct token_pool *pool, struct token *ret_token);
/* Lower case, and no NUL behind it. Made for each key of each renewal: takes a nanosecond or two. */
void token_text(const struct token *token, char ret_text[TOKEN_LEN]);
/* HF_OK, or HF_EINVAL: not TOKEN_LEN digits of lower case. */
int token_read(const char *text, struct token *ret_token);

#endif

/* Two tokens, as nodes have them and as the agent does. */
#ifndef HOLDFAST_TESTS_TOKENS_H
#define HOLDFAST_TESTS_TOKENS_H

#include "agent/base/token.h"

#define TOKEN "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const struct token token_bytes = {{[0 ... TOKEN_BYTES - 1] = 0xaa}};
static const struct token other_bytes = {{[0 ... TOKEN_BYTES - 1] = 0xbb}};

#endif

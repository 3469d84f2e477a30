#include "agent/core/pattern.h"

#include "shm/escape.h"

/* A byte of a name is its own value. */
enum sign { SIGN_END = -1, SIGN_WRONG = -2, SIGN_ONE = 256, SIGN_ANY = 257 };

struct reader {
    const char *at, *end;
};

static int pattern_sign(struct reader *r)
{
    if (r->at == r->end)
        return SIGN_END;
    if (*r->at == '*' || *r->at == '?')
        return *r->at++ == '*' ? SIGN_ANY : SIGN_ONE;
    if (*r->at == '\\' && r->end - r->at > 1 && (r->at[1] == '*' || r->at[1] == '?')) {
        r->at += 2;
        return (unsigned char)r->at[-1];
    }
    {
        int byte = hf_unescape_byte(&r->at);

        return byte < 0 ? SIGN_WRONG : byte;
    }
}

static int pattern_name_sign(struct reader *r)
{
    return r->at == r->end ? SIGN_END : (unsigned char)*r->at++;
}

/* One sign of a pattern that is no `*`. */
static bool pattern_covers_sign(int sign, int other)
{
    return sign == other || (sign == SIGN_ONE && other != SIGN_ANY);
}

/* Linear in practice: only the last `*` is ever tried again. */
static bool pattern_covers_rest(struct reader pattern, struct reader other,
                                int (*next)(struct reader *))
{
    struct reader after_star = {0}, retry = {0};

    while (other.at != other.end) {
        struct reader ahead = pattern, rest = other;
        int sign = pattern_sign(&ahead), seen = next(&rest);

        if (sign == SIGN_ANY) {
            pattern = after_star = ahead;
            retry = other;
        } else if (sign >= 0 && pattern_covers_sign(sign, seen)) {
            pattern = ahead;
            other = rest;
        } else if (after_star.at) {
            (void)next(&retry);
            pattern = after_star;
            other = retry;
        } else {
            return false;
        }
    }
    while (pattern.at != pattern.end && *pattern.at == '*')
        pattern.at++;
    return pattern.at == pattern.end;
}

bool pattern_is_good(const char *pattern, size_t len)
{
    struct reader r = {pattern, pattern + len};
    int sign;

    do
        sign = pattern_sign(&r);
    while (sign >= 0);
    return sign == SIGN_END;
}

bool pattern_matches(const char *pattern, size_t len, const void *name, size_t name_len)
{
    const char *bytes = name;

    return pattern_covers_rest((struct reader){pattern, pattern + len},
                               (struct reader){bytes, bytes + name_len}, pattern_name_sign);
}

bool pattern_covers(const char *pattern, size_t len, const char *other, size_t other_len)
{
    return pattern_covers_rest((struct reader){pattern, pattern + len},
                               (struct reader){other, other + other_len}, pattern_sign);
}

#include "shm/nstime.h"

#include <stddef.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/status.h"

#define SCALE_MOST INT64_C(1000000) /* six digits of a fraction count */

static const struct {
    const char *suffix;
    int64_t ms;
} units[] = {
    {"", 1000},       {"ms", 1},          {"s", 1000},
    {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
};

/* isdigit() depends on the locale. */
static bool duration_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal digits only: strtod would take "inf", "0x10" and the locale's comma. */
int hf_duration_parse(const char *text, int64_t most_ms, int64_t *ret_ms, bool *ret_part)
{
    int64_t whole = 0, fraction = 0, scale = 1;
    const char *p = text;

    if (!duration_is_digit(*p) && !(*p == '.' && duration_is_digit(p[1])))
        return HF_EINVAL;
    for (; duration_is_digit(*p); p++) {
        whole = whole * 10 + (*p - '0');
        if (whole > most_ms)
            return HF_EINVAL;
    }
    if (*p == '.' && !duration_is_digit(*++p))
        return HF_EINVAL;
    for (; duration_is_digit(*p); p++) {
        if (scale == SCALE_MOST)
            continue;
        fraction = fraction * 10 + (*p - '0');
        scale *= 10;
    }
    for (size_t i = 0; i < HF_LENGTH(units); i++)
        if (strcmp(p, units[i].suffix) == 0) {
            if (whole > most_ms / units[i].ms)
                return HF_EINVAL;
            *ret_ms = whole * units[i].ms + fraction * units[i].ms / scale;
            *ret_part = fraction * units[i].ms % scale != 0;
            return HF_OK;
        }
    return HF_EINVAL;
}

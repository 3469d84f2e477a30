#include "agent/redis/decimal.h"

bool decimal_read(const char *text, size_t length, uint64_t most, uint64_t *ret_number)
{
    uint64_t number = 0;

    /* 19 digits are no more than 64 bits hold. */
    if (length == 0 || length > 19)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = 10 * number + (uint64_t)(text[i] - '0');
    }
    if (number > most)
        return false;
    *ret_number = number;
    return true;
}

const char *decimal_write(char *room, size_t size, int64_t number)
{
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char *at = room + size;

    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    return at;
}

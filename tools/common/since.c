#include "tools/common/since.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "libclient/holdfast.h"
#include "tools/common/args.h"

#define YEAR_LEAST 1970
#define YEAR_MOST  9999

static bool since_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Exactly `digits` of them; strptime(3) would take blanks and fewer. */
static bool since_take_number(const char **text, int digits, int least, int most, int *ret_number)
{
    int number = 0;

    for (int i = 0; i < digits; i++, ++*text) {
        if (!since_is_digit(**text))
            return false;
        number = number * 10 + (**text - '0');
    }
    *ret_number = number;
    return number >= least && number <= most;
}

static bool since_take_char(const char **text, char c)
{
    if (**text != c)
        return false;
    ++*text;
    return true;
}

static bool since_take_date(const char **text, struct tm *tm)
{
    struct tm check;

    if (!since_take_number(text, 4, YEAR_LEAST, YEAR_MOST, &tm->tm_year) ||
        !since_take_char(text, '-') || !since_take_number(text, 2, 1, 12, &tm->tm_mon) ||
        !since_take_char(text, '-') || !since_take_number(text, 2, 1, 31, &tm->tm_mday))
        return false;
    tm->tm_year -= 1900;
    tm->tm_mon--;
    check = *tm;
    timegm(&check); /* makes the 30th of February a day of March */
    return check.tm_mday == tm->tm_mday;
}

static bool since_take_clock(const char **text, struct tm *tm, int *ret_ms)
{
    if (!since_take_number(text, 2, 0, 23, &tm->tm_hour) || !since_take_char(text, ':') ||
        !since_take_number(text, 2, 0, 59, &tm->tm_min))
        return false;
    if (!since_take_char(text, ':'))
        return true;
    if (!since_take_number(text, 2, 0, 59, &tm->tm_sec))
        return false;
    if (!since_take_char(text, '.'))
        return true;
    for (int i = 0, worth = 100; i < 3 && since_is_digit(**text); i++, worth /= 10, ++*text)
        *ret_ms += worth * (**text - '0');
    return (*text)[-1] != '.';
}

/* A year, else an hour comes first. */
static bool since_has_date(const char *text)
{
    return strlen(text) > 4 && text[4] == '-';
}

static bool since_read_time(const char *text, int64_t now_wall_ms, int64_t *ret_wall_ms)
{
    bool dated = since_has_date(text), utc = *text && text[strlen(text) - 1] == 'Z';
    time_t now = (time_t)(now_wall_ms / 1000), at;
    struct tm tm = {0}, today;
    int ms = 0;

    if (!(utc ? gmtime_r(&now, &today) : localtime_r(&now, &today)))
        return false;
    tm = (struct tm){.tm_year = today.tm_year, .tm_mon = today.tm_mon, .tm_mday = today.tm_mday};
    if (dated && !since_take_date(&text, &tm))
        return false;
    if (!dated || since_take_char(&text, ' ') || since_take_char(&text, 'T'))
        if (!since_take_clock(&text, &tm, &ms))
            return false;
    if ((utc && !since_take_char(&text, 'Z')) || *text)
        return false;
    tm.tm_isdst = -1;
    at = utc ? timegm(&tm) : mktime(&tm);
    *ret_wall_ms = (int64_t)at * 1000 + ms;
    return true;
}

enum since_verdict since_read(const char *text, int64_t now_wall_ms, int64_t *ret_wall_ms)
{
    int64_t span_ms, at_ms;

    if (args_duration_ms(text, &span_ms) == HF_OK) {
        *ret_wall_ms = now_wall_ms - span_ms;
        return SINCE_OK;
    }
    if (!since_read_time(text, now_wall_ms, &at_ms))
        return SINCE_NONSENSE;
    if (at_ms > now_wall_ms)
        return SINCE_FUTURE;
    *ret_wall_ms = at_ms;
    return SINCE_OK;
}

/* --- now -------------------------------------------------------------------------------------- */

int64_t wall_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

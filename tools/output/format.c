#include "tools/output/format.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "shm/nstime.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"

const char *format_user(char *out, size_t size, uint32_t uid)
{
    /* Most of a long list is of one user, and a look-up may ask a server. */
    static char last[FORMAT_USER_SIZE];
    static uint32_t last_uid;
    const struct passwd *entry;

    if (!*last || last_uid != uid) {
        entry = getpwuid(uid);
        if (entry && *entry->pw_name)
            text_escape_str(last, sizeof(last), entry->pw_name);
        else
            snprintf(last, sizeof(last), "%" PRIu32, uid);
        last_uid = uid;
    }
    snprintf(out, size, "%s", last);
    return out;
}

const char *format_rtt(char *out, size_t size, int64_t ns)
{
    int64_t us = ns / HF_NS_PER_US;

    if (ns <= 0)
        snprintf(out, size, "-");
    else if (us < INT64_C(1000000))
        snprintf(out, size, "%" PRId64 ".%02" PRId64 "ms", us / 1000, us % 1000 / 10);
    else
        text_span(out, size, us / 1000);
    return out;
}

const char *format_offset(char *out, size_t size, int64_t us)
{
    char span[TEXT_SPAN_SIZE];

    snprintf(out, size, "%s%s", us < 0 ? "" : "+", text_span(span, sizeof(span), us / 1000));
    return out;
}

void format_forget(void)
{
    __fpurge(stdout);
    clearerr(stdout);
}

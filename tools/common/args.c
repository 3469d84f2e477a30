#include "tools/common/args.h"

#include <ctype.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libclient/holdfast.h"
#include "shm/nstime.h"
#include "tools/common/text.h"

#define DURATION_MAX_MS (INT64_C(100) * 366 * 24 * 3600 * 1000)

int args_duration_ms(const char *text, int64_t *ret_ms)
{
    int64_t ms;
    bool part;

    if (hf_duration_parse(text, DURATION_MAX_MS, &ms, &part) != HF_OK)
        return HF_EINVAL;
    *ret_ms = ms + part;
    return HF_OK;
}

/* strtoull would take blanks and signs. */
int args_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *p = text;

    for (; isdigit((unsigned char)*p); p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (number > (UINT64_MAX - digit) / 10)
            return HF_EINVAL;
        number = number * 10 + digit;
    }
    if (p == text || *p || number < least || number > most)
        return HF_EINVAL;
    *ret_number = number;
    return HF_OK;
}

int args_signal(const char *text, int *ret_signal)
{
    if (isdigit((unsigned char)*text)) {
        uint64_t number;

        if (args_number(text, 1, (uint64_t)SIGRTMAX, &number) != HF_OK)
            return HF_EINVAL;
        *ret_signal = (int)number;
        return HF_OK;
    }
    if (!strncasecmp(text, "SIG", 3))
        text += 3;
    for (int i = 1; i < NSIG; i++) {
        const char *name = sigabbrev_np(i);

        if (name && !strcasecmp(text, name)) {
            *ret_signal = i;
            return HF_OK;
        }
    }
    return HF_EINVAL;
}

const char *args_name_problem(const char *name)
{
    static const char reserved[] = "holdfast:";

    if (name[0] == '\0')
        return "give a name of 1 to 255 bytes: it is empty";
    if (strlen(name) > 255)
        return "use a name of at most 255 bytes";
    if (!strncmp(name, reserved, sizeof(reserved) - 1))
        return "use another name: those that begin with \"holdfast:\" are reserved";
    return NULL;
}

int args_usage(const char *subcommand, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "holdfast %s: ", subcommand);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; see holdfast %s --help\n", subcommand);
    return EXIT_USAGE;
}

static int args_unexpected(char **argv, const char *operand)
{
    char shown[TEXT_NAME_SIZE];

    return args_usage(argv[0], "unexpected argument '%s'",
                      text_escape_str(shown, sizeof(shown), operand));
}

int args_only_name(int argc, char **argv, const char **ret_name)
{
    const char *problem;

    if (optind >= argc)
        return args_usage(argv[0], "a NAME is missing");
    if (optind + 1 < argc)
        return args_unexpected(argv, argv[optind + 1]);
    problem = args_name_problem(argv[optind]);
    if (problem)
        return args_usage(argv[0], "%s", problem);
    *ret_name = argv[optind];
    return EXIT_OK;
}

int args_none(int argc, char **argv)
{
    return optind < argc ? args_unexpected(argv, argv[optind]) : EXIT_OK;
}

/* --- exit codes ------------------------------------------------------------------------------- */

int exit_code_of(int status)
{
    switch (status) {
    case HF_OK:
        return EXIT_OK;
    case HF_EINVAL:
    case HF_ENAME:
    case HF_ETTL:
        return EXIT_USAGE;
    case HF_EPERM:
        return EXIT_DENIED;
    case HF_EBUSY:
    case HF_ETIMEDOUT:
        return EXIT_BUSY;
    case HF_ENOAGENT:
    case HF_ESHUTDOWN:
    case HF_ENOQUORUM:
    case HF_EFULL:
    case HF_ELIMIT:
    case HF_EDRAINED:
        return EXIT_UNAVAILABLE;
    case HF_EFLEET:
        return EXIT_CONFIG;
    case HF_ENOTHELD:
        return EXIT_NOT_HELD;
    case HF_ELOST:
        return EXIT_LOST;
    default:
        return EXIT_FAILED;
    }
}

#include "agent/check/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/log.h"

#define TEXT_MOST 2048

/* The text may quote any bytes of a file, or of a node. */
static void find_say(FILE *out, const struct findings *f, int line, const char *kind,
                     const char *format, va_list args)
{
    char text[TEXT_MOST], shown[TEXT_MOST];

    vsnprintf(text, sizeof(text), format, args);
    if (f && line)
        fprintf(out, "%s:%d: ", f->report->file, line);
    else if (f)
        fprintf(out, "%s: ", f->report->file);
    fprintf(out, "%s%s\n", kind, log_name(text, strlen(text), shown, sizeof(shown)));
    (void)fflush(out);
}

void find_fault(struct findings *f, int line, const char *format, ...)
{
    va_list args;

    f->faults++;
    va_start(args, format);
    find_say(stderr, f, line, "", format, args);
    va_end(args);
}

void find_warning(struct findings *f, int line, const char *format, ...)
{
    va_list args;

    f->warnings++;
    va_start(args, format);
    find_say(stderr, f, line, "warning: ", format, args);
    va_end(args);
}

void find_fact(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    find_say(stdout, NULL, 0, "", format, args);
    va_end(args);
}

static const char *find_plural(int count)
{
    return count == 1 ? "" : "s";
}

void findings_end(const struct findings *f)
{
    const char *file = f->report->file;

    if (f->faults)
        fprintf(stderr, "%s: %d fault%s: do not use it\n", file, f->faults, find_plural(f->faults));
    else if (f->no_quorum)
        fprintf(stderr, "%s: no quorum: with these nodes no lock can be had now\n", file);
    else if (f->warnings)
        printf("%s: good, with %d warning%s\n", file, f->warnings, find_plural(f->warnings));
    else
        printf("%s: good\n", file);
    (void)fflush(stdout);
}

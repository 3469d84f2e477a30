#include "agent/config/config_report.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/config_load.h"
#include "shm/status.h"

/* What is about the file as a whole may follow from what is wrong in its lines. */
static int config_report_place_of(const struct config_fault *fault)
{
    if (!fault->of_file)
        return 0;
    return fault->line ? fault->line : INT_MAX;
}

void config_report_add(struct config_report *r, bool of_file, int line, const char *text)
{
    struct config_fault fault = {.of_file = of_file, .line = line};
    int kept = r->fault_count < CONFIG_FAULTS_MAX ? r->fault_count : CONFIG_FAULTS_MAX, at = kept;

    snprintf(fault.text, sizeof(fault.text), "%s", text);
    r->fault_count++;
    while (at > 0 && config_report_place_of(&r->faults[at - 1]) > config_report_place_of(&fault))
        at--;
    if (at == CONFIG_FAULTS_MAX)
        return;
    if (kept == CONFIG_FAULTS_MAX)
        kept--;
    memmove(&r->faults[at + 1], &r->faults[at], (size_t)(kept - at) * sizeof(r->faults[0]));
    r->faults[at] = fault;
}

const char *config_fault_text(const struct config_report *r, const struct config_fault *fault,
                              char *buffer, size_t size)
{
    if (!fault->of_file || !r->file[0])
        snprintf(buffer, size, "%s", fault->text);
    else if (fault->line)
        snprintf(buffer, size, "%s:%d: %s", r->file, fault->line, fault->text);
    else
        snprintf(buffer, size, "%s: %s", r->file, fault->text);
    return buffer;
}

static int config_report_add_fault(struct config_load *l, bool of_file, int line,
                                   const char *format, va_list args)
{
    char text[sizeof(l->report->faults[0].text)];

    vsnprintf(text, sizeof(text), format, args);
    config_report_add(l->report, of_file, line, text);
    return HF_EINVAL;
}

int config_wrong(struct config_load *l, const char *format, ...)
{
    va_list args;
    int rc;

    va_start(args, format);
    rc = config_report_add_fault(l, false, 0, format, args);
    va_end(args);
    return rc;
}

int config_wrong_line(struct config_load *l, int line, const char *format, ...)
{
    va_list args;
    int rc;

    va_start(args, format);
    rc = config_report_add_fault(l, true, line, format, args);
    va_end(args);
    return rc;
}

int config_wrong_row(struct config_load *l, enum config_id row, const char *format, ...)
{
    bool of_file = l->report->file[0] && l->origin[row] != ORIGIN_COMMAND_LINE;
    va_list args;
    int rc;

    va_start(args, format);
    rc = config_report_add_fault(l, of_file, l->report->line[row], format, args);
    va_end(args);
    return rc;
}

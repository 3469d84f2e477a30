#include "agent/config/config_report.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* What is about the file as a whole may follow from what is wrong in its lines. */
static int place_of(const struct config_fault *fault)
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
    while (at > 0 && place_of(&r->faults[at - 1]) > place_of(&fault))
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

/* How `holdfast doctor` reports. */
#ifndef HOLDFAST_TOOLS_DOCTOR_DOCTOR_REPORT_H
#define HOLDFAST_TOOLS_DOCTOR_DOCTOR_REPORT_H

#include <stdbool.h>

#include "tools/output/json.h"

enum finding_level {
    FINDING_OK,
    FINDING_NOTE, /* worth knowing; needs no action */
    FINDING_WARN, /* works, but with less safety or room than it should */
    FINDING_FAIL, /* does not work */
};

struct doctor {
    bool clean;            /* remove leftovers of dead agents */
    struct json_out *json; /* NULL: for people */
    unsigned warnings, failures;
};

/* Reports one finding at once. `check` is its stable id; `remedy` says what to do, NULL for ok and
 * notes. */
void doctor_report(struct doctor *doctor, enum finding_level level, const char *check,
                   const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif

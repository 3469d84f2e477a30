/* A configuration of which only the first fault counts. */
#ifndef HOLDFAST_TESTS_SUPPORT_CONFIG_H
#define HOLDFAST_TESTS_SUPPORT_CONFIG_H

#include <stdlib.h>

#include "agent/config/config_report.h"

/* The first fault is in `why`, and in `ret_exit` what a start would end with. */
static inline int config_load(int argc, char **argv, struct config *ret_config, int *ret_exit,
                              char *why, size_t why_size)
{
    struct config_report *report = malloc(sizeof(*report));
    int rc;

    if (!report)
        abort();
    rc = config_read(argc, argv, ret_config, report);
    *ret_exit = report->exit;
    if (report->fault_count)
        (void)config_fault_text(report, &report->faults[0], why, why_size);
    free(report);
    return rc;
}

#endif

/* The name of a status, "HF_EBUSY"; "HF_E?" for any other number. */
#ifndef HOLDFAST_TESTS_STATUS_NAME_H
#define HOLDFAST_TESTS_STATUS_NAME_H

#include "shm/status.h"

static inline const char *status_name(int status)
{
    switch (status) {
#define STATUS_CASE(name, value, text)                                                             \
    case name:                                                                                     \
        return #name;
        HF_STATUS_TABLE(STATUS_CASE)
#undef STATUS_CASE
    default:
        return "HF_E?";
    }
}

#endif

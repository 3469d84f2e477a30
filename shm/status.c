#include "shm/status.h"

const char *hf_status_text(int status)
{
    switch (status) {
#define HF_STATUS_CASE(name, value, text)                                                          \
    case name:                                                                                     \
        return text;
        HF_STATUS_TABLE(HF_STATUS_CASE)
#undef HF_STATUS_CASE
    default:
        return "unknown status";
    }
}

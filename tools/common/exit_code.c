#include "tools/common/exit_code.h"

#include "libclient/holdfast.h"

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
    case HF_EGOING:
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

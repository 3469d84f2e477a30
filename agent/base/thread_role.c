#include "agent/base/thread_role.h"

_Thread_local enum thread_role_taken thread_role_now;

const char *thread_role_name(void)
{
    static const char *const names[] = {
        [THREAD_ROLE_NONE] = "starting or another",
        [THREAD_ROLE_MAIN] = "main",
        [THREAD_ROLE_BROKER] = "broker",
        [THREAD_ROLE_RENEWAL] = "renewal",
    };

    return names[thread_role_now];
}

#include "agent/process/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "shm/status.h"

int helper_start(void *(*function)(void *arg), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int rc;

    if (pthread_attr_init(&attr) != 0)
        return HF_ENOMEM;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, function, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc == 0 ? HF_OK : HF_ENOMEM;
}

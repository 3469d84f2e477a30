#include "tools/run/signals.h"

#include <unistd.h>

int signals_take(struct signals *signals)
{
    const struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t blocked, read_;

    sigfillset(&blocked);
    sigemptyset(&read_);
    /* With SIGCHLD ignored, children would be reaped unnoticed. */
    if (sigaction(SIGCHLD, &by_default, &signals->caller_chld) < 0)
        return -1;
    for (int i = 1; i <= SIGRTMAX; i++) {
        struct sigaction action;

        /* Blocked signals are queued even when ignored: ignored ones must not be read. */
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&read_, i);
    }
    if (sigprocmask(SIG_SETMASK, &blocked, &signals->caller_mask) < 0)
        return -1;
    signals->fd = signalfd(-1, &read_, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? -1 : 0;
}

void signals_give_back(const struct signals *signals)
{
    sigaction(SIGCHLD, &signals->caller_chld, NULL);
    sigprocmask(SIG_SETMASK, &signals->caller_mask, NULL);
}

bool signals_next(const struct signals *signals, struct signalfd_siginfo *ret_info)
{
    while (read(signals->fd, ret_info, sizeof(*ret_info)) == (ssize_t)sizeof(*ret_info))
        if (ret_info->ssi_signo != SIGPIPE || ret_info->ssi_pid != (uint32_t)getpid())
            return true; /* else our own reader is gone, and write() has said so */
    return false;
}

bool signals_ends(int signal)
{
    switch (signal) {
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return false;
    default:
        return true;
    }
}

bool signals_from_terminal(const struct signalfd_siginfo *info)
{
    return info->ssi_code == SI_KERNEL;
}

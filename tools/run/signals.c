#include "tools/run/signals.h"

#include <unistd.h>

/* (!) The limit is meant for the job: a guardian that it ends is none. Root may raise the hard one, too. */
static void signals_raise_cpu(struct rlimit *ret_before)
{
    struct rlimit more = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};

    if (getrlimit(RLIMIT_CPU, ret_before) < 0)
        *ret_before = more;
    if (setrlimit(RLIMIT_CPU, &more) == 0)
        return;
    more.rlim_cur = more.rlim_max = ret_before->rlim_max;
    (void)setrlimit(RLIMIT_CPU, &more);
}

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
    signals_raise_cpu(&signals->caller_cpu);
    signals->fd = signalfd(-1, &read_, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? -1 : 0;
}

void signals_give_back(const struct signals *signals)
{
    (void)setrlimit(RLIMIT_CPU, &signals->caller_cpu);
    sigaction(SIGCHLD, &signals->caller_chld, NULL);
    sigprocmask(SIG_SETMASK, &signals->caller_mask, NULL);
}

/* The kernel's word to this process about what it did itself: its reader is gone, its file too large, its processor time used up. The
 * call that failed has said so. (!) Passed on it would end the job. */
static bool signals_is_own(const struct signalfd_siginfo *info)
{
    switch (info->ssi_signo) {
    case SIGPIPE:
    case SIGXFSZ: /* as if this process had sent them */
        return info->ssi_pid == (uint32_t)getpid();
    case SIGXCPU:
        return info->ssi_code == SI_KERNEL;
    default:
        return false;
    }
}

bool signals_next(const struct signals *signals, struct signalfd_siginfo *ret_info)
{
    while (read(signals->fd, ret_info, sizeof(*ret_info)) == (ssize_t)sizeof(*ret_info))
        if (!signals_is_own(ret_info))
            return true;
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

/* The signals of a guardian: all are blocked and read from a descriptor; the job gets mask, dispositions and the limit on
 * processor time as the caller had them. A signal that the caller ignores (nohup) stays ignored. A fault of the process
 * itself, such as SIGSEGV, still ends it: the kernel does not heed the mask then. */
#ifndef HOLDFAST_TOOLS_RUN_SIGNALS_H
#define HOLDFAST_TOOLS_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

struct signals {
    int fd; /* signalfd, non-blocking; what it reads is of this process, also after fork() */
    sigset_t caller_mask;
    struct sigaction caller_chld;
    struct rlimit caller_cpu;
};

/* 0, or -1 with errno. */
int signals_take(struct signals *signals);

/* In a child, before exec: restores mask, dispositions and limit. Async-signal-safe. */
void signals_give_back(const struct signals *signals);

/* (!) Who has a lock to judge reads so many at most between two judgements: signals may come as fast as they are read. */
#define SIGNALS_AT_ONCE 16

/* The next signal, or false. What the kernel tells this process of its own writes and limits is none. */
bool signals_next(const struct signals *signals, struct signalfd_siginfo *ret_info);

/* Whether a process without handlers would end by `signal`. */
bool signals_ends(int signal);

/* Whether the terminal sent it, so that the whole foreground group already has it. */
bool signals_from_terminal(const struct signalfd_siginfo *info);

#endif

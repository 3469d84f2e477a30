#include "agent/dev/dev.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/dev/dev_nodes.h"
#include "shm/status.h"

struct wrapper {
    struct dev_nodes nodes;
    struct relay relay;
    int signals; /* signalfd */
    sigset_t mask_of_agent;
    pid_t agent; /* 0: it has ended, by `status` */
    int status;
};

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* --- signals ---------------------------------------------------------------------------------- */

/* From before the fork on: none is lost, and none ends the wrapper before the agent. */
static bool dev_take_over_signals(struct wrapper *w)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        (void)sigaddset(&set, passed_on[i]);
    (void)sigaddset(&set, SIGCHLD);
    w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signals < 0)
        return false;
    (void)sigprocmask(SIG_BLOCK, &set, &w->mask_of_agent);
    return true;
}

static void dev_reap(struct wrapper *w)
{
    if (w->agent > 0 && waitpid(w->agent, &w->status, WNOHANG) == w->agent)
        w->agent = 0;
    dev_nodes_reap(&w->nodes);
}

static void dev_take_signals(struct wrapper *w)
{
    struct signalfd_siginfo info;

    while (read(w->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            dev_reap(w);
        else if (w->agent > 0)
            (void)kill(w->agent, (int)info.ssi_signo);
    }
}

/* --- the agent -------------------------------------------------------------------------------- */

static void dev_become_agent(struct wrapper *w, pid_t wrapper, int (*agent)(void *arg), void *arg)
{
    /* (!) The wrapper may be gone before the first of these two lines. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != wrapper)
        _exit(EXIT_FAILURE);
    close(w->signals);
    relay_adopt(&w->relay);
    (void)sigprocmask(SIG_SETMASK, &w->mask_of_agent, NULL);
    exit(agent(arg));
}

static int dev_start_agent(struct wrapper *w, int (*agent)(void *arg), void *arg)
{
    pid_t wrapper = getpid(), pid = fork();

    if (pid < 0)
        return HF_ESYS;
    if (pid == 0)
        dev_become_agent(w, wrapper, agent, arg);
    w->agent = pid;
    return HF_OK;
}

static void dev_wait_for_agent(struct wrapper *w)
{
    struct pollfd polls[] = {{.fd = w->signals, .events = POLLIN},
                             {.fd = w->relay.fd, .events = POLLIN}};

    dev_reap(w); /* those that ended before SIGCHLD was ours */
    while (w->agent > 0) {
        (void)poll(polls, sizeof(polls) / sizeof(polls[0]), -1);
        dev_take_signals(w);
        relay_pass(&w->relay);
    }
}

static void dev_end_by(int number)
{
    const struct rlimit none = {0};
    sigset_t set;

    (void)setrlimit(RLIMIT_CORE, &none); /* the agent's tells more */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)signal(number, SIG_DFL);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(number);
    _exit(128 + number);
}

/* --- all of it -------------------------------------------------------------------------------- */

void dev_clean(const char *dir)
{
    dev_nodes_clean(dir);
}

int dev_run(struct config *config, const char *dir, int (*agent)(void *arg), void *arg,
            int *ret_exit, char *why, size_t why_size)
{
    struct wrapper w = {.signals = -1};
    int rc;

    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored, the kernel keeps no exit status */
    rc = dev_nodes_start(config, dir, &w.nodes, why, why_size);
    if (rc < 0)
        return rc;
    if (!relay_open(w.nodes.dir, &w.relay)) {
        snprintf(why, why_size, "--dev cannot make a socket in %s: %s", w.nodes.dir,
                 strerror(errno));
        rc = HF_ESYS;
        goto error_nodes;
    }
    if (!dev_take_over_signals(&w) || dev_start_agent(&w, agent, arg) < 0) {
        snprintf(why, why_size, "--dev cannot start the agent: %s", strerror(errno));
        rc = HF_ESYS;
        goto error_relay;
    }
    dev_wait_for_agent(&w);
    if (WIFSIGNALED(w.status))
        log_error("the agent was ended by signal %d (%s)", WTERMSIG(w.status),
                  strsignal(WTERMSIG(w.status)));

error_relay:
    if (w.signals >= 0)
        close(w.signals);
    relay_close(&w.relay);
error_nodes:
    dev_nodes_stop(&w.nodes);
    if (rc == HF_OK && WIFSIGNALED(w.status))
        dev_end_by(WTERMSIG(w.status));
    if (rc == HF_OK)
        *ret_exit = WEXITSTATUS(w.status);
    return rc;
}

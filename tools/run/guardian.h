/* One guardian of a job, the outer or the inner (tools/run/guardians.h): their common state and actions. */
#ifndef HOLDFAST_TOOLS_RUN_GUARDIAN_H
#define HOLDFAST_TOOLS_RUN_GUARDIAN_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "libclient/holdfast_run.h"
#include "tools/run/beat.h"
#include "tools/run/cgroup.h"
#include "tools/run/hold.h"
#include "tools/run/signals.h"
#include "tools/run/timeline.h"
#include "tools/run/tree.h"
#include "tools/run/witness.h"

struct guardian_plan {
    const char *name;    /* of all locks, escaped, for messages */
    char *const *argv;   /* the job */
    const char *on_lost; /* NULL: stop_signal */
    int stop_signal;
    int64_t ttl_ns;
    int64_t heartbeat_ns; /* the job must beat so often; 0: it need not */
    int64_t once_per_ms;  /* the job is to run once in a period; 0: always */
    int64_t
        once_until_ns; /* so long too few nodes are waited for; an instant of timeline_now_ns() */
    int done_code;     /* it has run in this period */
    bool retry_failed; /* it has not run then if it fails; with 126 or 127 never */
    bool no_new_privs; /* the job gets no rights from set-uid programs */
    bool verbose;
    const struct signals *signals;
};

/* The guardians' shared page; every field except `exit_code` may be read at any time. */
struct guardian_shared {
    atomic_int started;       /* the job was; else there is nothing to stop, or to tell of */
    atomic_llong once_before; /* for hold_once_take_back() */
    atomic_int stopping;      /* the stop signal was sent, or the hook started */
    atomic_int killing;       /* SIGKILL was sent because time was up */
    atomic_int exec_failed;   /* errno of the job's exec */
    atomic_int hook_failed;   /* errno of the hook's exec */
    atomic_int reaped;        /* the tree is empty; exit_code is valid */
    atomic_int gave_up;       /* a process of the tree does not die; exit_code is valid */
    atomic_int released;      /* the agent knows that the tree is reaped */
    atomic_llong hunted_ns;   /* when the inner one last reaped or ended a pass of killing */
    atomic_int
        outer_ready;  /* the outer one waits for no page any more; asked for by `pages_at_once` */
    atomic_int group; /* the job's own process group; 0: it is in the guardians' */
    int exit_code;
    int job_status; /* likewise; of waitpid(), -1 unknown */
};

/* Either of the two. */
struct guardian {
    const struct guardian_plan *plan;
    struct guardian_shared *shared;
    struct cgroup cgroup;
    struct hold hold;
    struct timeline timeline;
    struct tree tree;
    tree_reaped_fn *on_reaped; /* called for each process that killing has reaped */
    void *on_reaped_arg;
    struct beat beat;
    int timer_fd;
    int link_fd;                 /* to the other: signals to forward, or the job's stops */
    int peer_fd;                 /* pidfd of the other */
    pid_t group, session;        /* the outer one's, which the inner one leaves */
    struct witness witness;      /* the outer one's */
    int inner_link_fd, outer_fd; /* the inner one's, until the fork */
    bool peer_gone;
    bool pages_at_once; /* before the job starts: own_pages_at_once() */
    int64_t
        pages_at_ns; /* when it asks for its pages (own_pages.h); 0: it has not waited yet; INT64_MAX: it has asked */
    int64_t kill_since_ns, kill_next_ns; /* 0: not killing */
    struct {
        pid_t pid; /* 0: in the control group only */
        unsigned long long start;
        int64_t since_ns; /* 0: there is none */
    } stubborn;           /* what was sent SIGKILL and lives */
    bool complained;
    int64_t traced_since_ns,
        traced_next_ns; /* only the dead are left, and others trace them; 0: not so */
};

/* It waits for no page of its own from here on. */
void guardian_own_pages(struct guardian *g);

/* What an errno of preparing a guardian means, with the remedy where there is one. */
const char *guardian_problem(int error);

/* Judges the lease now. */
enum timeline_phase guardian_judge(struct guardian *g, int64_t now_ns);

/* Kills living processes, when another pass is due, and reaps; reports once a process that does not
 * die. */
void guardian_kill_tree(struct guardian *g, int64_t now_ns);

/* Kills the whole tree because of the lock; the agent's history shows the first time. */
void guardian_kill_in_time(struct guardian *g, int64_t now_ns);

/* Whether one and the same process has resisted for long enough. */
bool guardian_kill_failed(const struct guardian *g, int64_t now_ns);

/* Whether no process of the job runs any more; `empty`: none is left either. A dead one that another process traces is that one's to
 * reap, whenever it pleases: after a second it is told, and keeps no lock. */
bool guardian_is_over(struct guardian *g, bool empty, int64_t now_ns);

/* Reports that a process survives and that the lock is therefore not released. */
void guardian_say_left(const struct guardian *g);

/* Sleeps until `until_ns`, a signal, a message or the death of the other, or news of the lease;
 * serves that news. */
void guardian_wait(struct guardian *g, int64_t until_ns);

/* Tells the agent that the tree is reaped. Takes a bounded time. Frees the leases. */
void guardian_release(struct guardian *g);

/* The messages on link_fd. */
enum guardian_word {
    GUARDIAN_SIGNAL = 0xff,    /* outer to inner: these bits are a signal for the job */
    GUARDIAN_OF_GROUP = 0x100, /* all processes of the guardians' group got it */
    GUARDIAN_STOPPED = 0x200   /* inner to outer: the job was stopped from the terminal */
};
void guardian_tell(const struct guardian *g, int word);
bool guardian_hear(const struct guardian *g, int *ret_word);

#endif

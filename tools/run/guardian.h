/* One guardian of a job, the outer or the inner (tools/run/guardian.h): their common state and actions. */
#ifndef HOLDFAST_TOOLS_RUN_GUARDIAN_H
#define HOLDFAST_TOOLS_RUN_GUARDIAN_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libclient/holdfast_run.h"
#include "tools/run/job.h"
#include "tools/run/lease_group.h"
#include "tools/run/signals.h"
#include "tools/run/timeline.h"
#include "tools/run/tree.h"

/* Relays a job's heartbeat from its memory to the agent.
 *
 * The outer guardian makes the memory (libclient/holdfast_run.h, struct hf_job_memory), which the job
 * inherits, and beats when it has changed, and only then: when the guardian hangs, no beat comes
 * through, and the lock is lost.
 */

#define BEAT_LEAST_MS 100 /* the agent's own minimum */

struct beat {
    const struct hf_job_memory *memory; /* NULL: the job need not beat */
    int64_t look_every_ns;
    uint32_t seen;
};

/* `heartbeat_ns` 0: none. Puts HOLDFAST_BEAT_FD and HOLDFAST_BEAT_PATH into the environment; the
 * descriptor stays open across exec. 0, or -1 with errno. */
int beat_make(struct beat *beat, int64_t heartbeat_ns);

/* Tells the agent if the job has beaten since the last call. Returns the latest time for the next
 * call. */
int64_t beat_pass_on(struct beat *beat, const struct lease_group *leases, int64_t now_ns);

/* A process in the guardians' process group. It tells whether a signal went to the whole group, or to
 * the outer guardian alone. Nothing else can: siginfo is the same for both. And it stands in for an outer guardian that is
 * stopped with the job from the terminal: it has that one go on when the inner guardian dies or does nothing. It has all signals
 * blocked, runs only when it is asked, and ends with its parent. */

struct guardian_shared;

struct witness {
    pid_t pid; /* a child; 0 none */
    int link_fd;
    uint64_t seen; /* a bit for each signal that it has had and nobody has asked for */
};

/* Without one, every signal counts as sent to the outer guardian alone. */
void witness_begin(struct witness *witness, const struct signals *signals);

/* Asks it for what it has had. Waits some milliseconds at most. */
void witness_look(struct witness *witness);
/* Whether `signal`, which this process has read before that, went to the group; once for each. */
bool witness_saw(struct witness *witness, int signal);

/* Before this process stops itself. It is sent SIGCONT once `inner` is gone, or late. `shared` was there when the witness began. False:
 * nobody stands in. */
bool witness_stand_in(struct witness *witness, pid_t inner, struct guardian_shared *shared);
/* This process goes on. */
void witness_stand_down(struct witness *witness);

/* Kills it, so that this process may be without children. */
void witness_end(struct witness *witness);
/* The same, and waits for its end. */
void witness_free(struct witness *witness);

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

/* Between two looks where no descriptor can be waited for: a job of the same user may forbid its guardians all (prlimit(2)). */
#define GUARDIAN_NAP_US (10 * 1000)

/* The guardians' shared page; every field except `exit_code` may be read at any time. */
struct guardian_shared {
    atomic_int started;       /* the job was; else there is nothing to stop, or to tell of */
    atomic_llong once_before; /* for lease_group_once_take_back() */
    atomic_int stopping;      /* the stop signal was sent, or the hook started */
    atomic_int killing;       /* SIGKILL was sent because time was up */
    atomic_int exec_failed;   /* errno of the job's exec */
    atomic_int hook_failed;   /* errno of the hook's exec */
    atomic_int reaped;        /* the tree is empty; exit_code is valid */
    atomic_int gave_up;       /* a process of the tree does not die; exit_code is valid */
    atomic_int released;      /* the agent knows that the tree is reaped */
    atomic_int left_to_outer; /* the inner one ends without a job, and releases nothing */
    atomic_llong hunted_ns;   /* when the inner one last reaped or ended a pass of killing */
    /* An inner one that has not judged the lease anew by then, or begun with what is before the job, is late. */
    atomic_llong late_ns;
    atomic_int
        outer_ready;  /* the outer one waits for no page any more; asked for by `pages_at_once` */
    atomic_int job;   /* the number that its first process has, or had; 0: there is none yet */
    atomic_int group; /* the job's own process group; 0: it is in the guardians' */
    int exit_code;
    int lost,
        cut_short;  /* likewise: the lock was being lost; that, or the other guardian was gone */
    int job_status; /* likewise; of waitpid(), -1 unknown */
};

/* Either of the two. */
struct guardian {
    const struct guardian_plan *plan;
    struct guardian_shared *shared;
    struct cgroup cgroup;
    struct lease_group leases;
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
        pages_at_ns; /* when it asks for its pages (own_pages.c); 0: it has not waited yet; INT64_MAX: it has asked */
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

/* Whoever watches the inner guardian before its job runs takes it for late so long after it began with something: to join the lease, to
 * have its pages, to ask the nodes once. What takes longer loses the lease. */
int64_t guardian_patience_ns(const struct guardian *g);

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

/* Whether the job is due: one that is to run once in a period asks the nodes, the last thing before it starts. */

/* The inner guardian: the job's parent. */

/* Never returns. `tickets` are for the outer guardian's leases; `g` was set up before the fork. */
_Noreturn void guardian_inner(struct guardian *g, const struct hf_ticket *tickets);

/* The outer guardian: the process that the user sees. */

/* Called once the inner guardian, process `inner`, runs. Returns the exit code. */
int guardian_outer(struct guardian *g, pid_t inner);

/* The two guardians of a job.
 *
 *   outer   the process that the user sees: forwards signals, gives the exit code, backs up inner
 *    |- inner   starts the job, stops it by the timeline, reaps the tree, releases
 *    |   `- job ...
 *    `- witness   tells signals to the process group from those to the outer one alone
 *
 * The inner one has a session of its own, so no signal to one process group takes both. The job stays in the outer one's session, and
 * with a terminal in its process group, where the shell and the terminal look for it. Without one it has a group of its own.
 *
 * Both are child subreapers; each has its own session with the agent and its own timers on the
 * validity. If one dies the other kills the whole tree; only then is the lock released. While there
 * is something to kill, neither waits for the agent, for a reader of its messages, or for a process
 * that does not end.
 */

/* Sets up all that both need and that needs no lock yet, for use during the wait. The data that `plan`
 * points to may still change. 0, or -1 with errno. */
int guardians_prepare(struct guardian *g, const struct guardian_plan *plan);

/* To be called instead of guardians_run() when there is no lock. */
void guardians_free(struct guardian *g);

/* Runs the job under `leases` (taken with HF_ACQUIRE_JOB) to its end; its leases are released or left
 * to lapse. The caller has one thread. Returns the exit code; frees `g`. */
int guardians_run(struct guardian *g, const struct lease_group *leases);

/* The TTL that a timeline goes by. */

/* No agent extends a lease for longer than the fleet's ttl_max, which may have become smaller than the TTL that was `asked` for.
 * `told_ns`: what this returned last, for an agent that is away. */
int64_t ttl_now_ns(hf_client *client, int64_t asked_ns, int64_t told_ns);

/* Program and libraries in memory that nothing can take away. */

/* Has the kernel keep all code and data, and the stack (mlock, 3 MiB, of which processes of one program share most). (!) From then
 * on the process waits for no page of its own: neither for a file system that hangs, in an outage of the network say, nor for room
 * in a control group that the job has filled. Where the limit on locked memory (`ulimit -l`) is too low for that, code and data
 * are moved from their files into memory (2.6 MiB of the process's own), which a process needs to be alone for: no second thread.
 * A forked process asks for itself. Builds with a sanitizer do nothing. */
void own_pages(void);
/* Whether this process is in a memory control group (v1) that has no OOM killer, by the files `groups` (/proc/self/cgroup) and
 * those below `root` (the hierarchy's mount): whoever fills it has the others wait for the first page that they touch. Where that
 * cannot be read, it is true. */
bool own_pages_at_once(const char *groups, const char *root);
#define OWN_PAGES_GROUPS "/proc/self/cgroup"
#define OWN_PAGES_ROOT   "/sys/fs/cgroup/memory"

#endif

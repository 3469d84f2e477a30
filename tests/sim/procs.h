/* The processes of the hosts: holders that use the library, and wrappers that run a job. They see
 * what a real one sees: completions, the check word, the state of the slot. */
#ifndef HOLDFAST_TESTS_SIM_PROCS_H
#define HOLDFAST_TESTS_SIM_PROCS_H

#include "agent/broker/clients/sessions.h"
#include "tests/sim/checks.h"
#include "tests/sim/sim.h"
#include "tools/run/timeline.h"

#define PROCS_MAX     48
#define CANCELLED_MAX 8
#define QUEUED_MAX    64 /* more than a process asks for while its agent is stopped */

enum proc_state {
    PROC_IDLE,
    PROC_WAITING, /* for the answer to its acquire */
    PROC_HOLDING, /* it has a handle, or a job */
    PROC_LEAVING, /* its release is unanswered */
};

struct guardian_model { /* one of the two of a run */
    struct timeline timeline;
    struct sim_event look;
    struct sim_proc *proc;
    bool alive, cleared; /* cleared: its handle said "not held" */
    int group;           /* its process group, an enum sim_group */
    sim_ns stopped_until;
};

/* The process groups of a run: tools/run/guardian.h. The job's first process is in RUN's if there is a terminal, else in JOB's. */
enum sim_group { GROUP_RUN, GROUP_INNER, GROUP_JOB, SIM_GROUPS };

struct hand;

struct sim_proc {
    int number;
    struct sim_host *host;
    bool alive;
    uint32_t pid;
    uint64_t start_time;
    uint64_t cookie; /* its hash; 0: none yet */
    sim_ns stopped_until;
    enum proc_state state;
    struct session *session; /* with the agent that runs now; NULL */
    bool attaching;
    int resource;
    struct hf_request_entry request; /* the unanswered one: sent again after a reconnect */
    bool requested;
    struct hf_request_entry unwanted; /* a release that nobody waits for any more; id 0: none */
    struct hf_request_entry queue[QUEUED_MAX]; /* in the ring */
    int queued;
    uint64_t next_id;
    uint64_t cancelled[CANCELLED_MAX]; /* the last ones: told again to the next agent */
    int cancels;
    uint32_t slot;
    struct claim *claim;
    struct hand *hand; /* of a program that shares (sharers.h): it asks as it is told; NULL */
    bool probe;        /* at the end: its resource must be granted */
    sim_ns until;      /* HOLDING: it gives up by itself then */
    struct sim_event act, attach;
    /* a run */
    bool run, job_alive, told_to_stop, reaped;
    struct sim_event job;
    struct guardian_model guardian[2]; /* the inner one, the outer one */
    int job_group;
};

extern struct sim_proc *procs[PROCS_MAX];
extern int proc_count;

void procs_begin(void);
/* 0: there is no such process on that host. */
uint64_t proc_start_time(const struct sim_host *host, uint32_t pid);
int proc_pidfd(uint32_t pid);
void procs_agent_gone(struct sim_host *host);
void procs_agent_listens(struct sim_host *host);
void procs_kill_all(struct sim_host *host);
void procs_suspend(struct sim_host *host, sim_ns until);
/* One more process: it asks for it at that time. */
void proc_come(struct sim_host *host, int resource, sim_ns at);
/* Its host's clock runs otherwise from now on. */
void procs_rate_changed(const struct sim_host *host);
void proc_kill(struct sim_proc *proc);
void proc_stop(struct sim_proc *proc, sim_ns until);
/* It goes away while something is on its way to it: cancels, or is killed. NULL: there is none that may. */
struct sim_proc *proc_waiting(const struct sim_host *host, uint32_t pid);
/* It takes r0 if it can, at once, and keeps it: in a scene, where processes do nothing by themselves. */
void proc_asks(struct sim_proc *proc, uint32_t ttl_ms);
void proc_turn_away(struct sim_proc *proc);
void proc_guardian_kill(struct sim_proc *proc, int which);
/* SIGKILL to all processes of a group. */
void proc_group_kill(struct sim_proc *proc, int group);
void proc_guardian_stop(struct sim_proc *proc, int which, sim_ns until);
/* The end of the faults: whoever holds gives up, and each resource is asked for once more. */
void procs_settle(void);
bool procs_settled(void);

/* --- for sharers.c ---------------------------------------------------------------------------- */

struct sim_proc *proc_hand(struct sim_host *host, struct hand *hand);
void proc_asks_for(struct sim_proc *proc, int resource, uint32_t ttl_ms, int64_t deadline_ns);
/* Its request, or its lease, is not wanted any more. */
void proc_cancels(struct sim_proc *proc);
void proc_leaves(struct sim_proc *proc);
void proc_ends(struct sim_proc *proc);

/* From sessions.c. */
void proc_attached(struct sim_proc *proc, struct session *session);
void proc_detached(struct sim_proc *proc);
void proc_answer(struct sim_proc *proc, const struct hf_completion_entry *entry);
void proc_signal(struct sim_proc *proc);

#endif

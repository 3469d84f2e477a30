/* The simulator: several hosts, their agents, processes and nodes in one process and one thread, on
 * a clock and a network that a seed decides.
 *
 * What runs is the product's own objects; replaced are the event loop, the clock, the network and
 * what the kernel would do (README.md). Every instant here is "true" time in nanoseconds since the
 * schedule began; each host and each node has a clock of its own that runs a little faster or
 * slower.
 */
#ifndef HOLDFAST_TESTS_SIM_H
#define HOLDFAST_TESTS_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/base/thread.h"
#include "shm/compiler.h"
#include "shm/layout.h"
#include "shm/nstime.h"

#define SIM_HOSTS     3
#define SIM_NODES     5
#define SIM_SERVERS   20 /* nodes, and what else runs at other addresses */
#define SIM_RESOURCES 3

typedef int64_t sim_ns;

#define SIM_US        INT64_C(1000)
#define SIM_MS        INT64_C(1000000)
#define SIM_SEC       INT64_C(1000000000)
#define SIM_NEVER     (INT64_MAX / 4)

#define SIM_RATE_MOST INT64_C(4500000) /* ppb that a clock may be fast or slow */

struct sim_host;
struct sim_proc;
struct vnode;
struct loop;

/* --- chance: sim_random.c --------------------------------------------------------------------- */

struct sim_rng {
    uint64_t state;
};
uint64_t rng_next(struct sim_rng *rng);
int64_t rng_below(struct sim_rng *rng, int64_t end); /* 0..end-1 */
bool rng_chance(struct sim_rng *rng, double p);
int64_t rng_between(struct sim_rng *rng, int64_t low, int64_t high); /* both inclusive */
/* Spread evenly over the orders of magnitude between the two, both > 0. */
int64_t rng_log(struct sim_rng *rng, int64_t low, int64_t high);

/* --- memory: sim_heap.c ----------------------------------------------------------------------- */

/* Where the product's malloc() takes from: an agent that is killed leaves nothing to be freed one
 * by one. */
struct sim_heap;
struct sim_heap *sim_heap_new(size_t size);
void sim_heap_reset(struct sim_heap *heap);
extern struct sim_heap *sim_heap_now; /* NULL: the C library's */
/* A lua_Alloc. */
void *sim_lua_alloc(void *heap, void *block, size_t before, size_t size);
/* Of the simulator's own, until the end of the schedule; zeroed. */
void *sim_alloc(size_t size);
void sim_free(void *block);
void sim_alloc_reset(void);

/* --- events: sim_events.c --------------------------------------------------------------------- */

struct sim_event {
    sim_ns at;
    uint64_t order;
    uint32_t place; /* index + 1 in the queue; 0 not in it */
    void (*fn)(struct sim_event *event);
};
void sim_at(struct sim_event *event, sim_ns at); /* also to another instant */
void sim_cancel(struct sim_event *event);
void sim_events_reset(void);
/* Runs what is due until `until`, or until the schedule is over. */
void sim_run_until(sim_ns until);

/* --- clocks: sim_events.c --------------------------------------------------------------------- */

struct sim_clock {
    int64_t base_ns; /* at true time 0 */
    int64_t ppb;     /* so much faster than true time */
};
int64_t clock_at(const struct sim_clock *clock, sim_ns t);
/* The first instant at which the clock shows `ns` or more. */
sim_ns clock_when(const struct sim_clock *clock, int64_t ns);

/* --- the run of agents' code: sim_agents.c ---------------------------------------------------- */

/* One entry into an agent's code. A kill unwinds to it. */
struct sim_frame {
    jmp_buf env;
    struct sim_host *host;
    uint32_t incarnation;
    struct sim_frame *outer;
    struct sim_heap *heap_before;
    enum thread_role_taken role_before;
};

/* Runs fn(arg) as the host's agent; false when the agent was killed in it. */
bool sim_agent_run(struct sim_host *host, void (*fn)(void *), void *arg);
/* A place where the scheduler may take the CPU away, or somebody may send SIGSTOP or SIGKILL. */
void sim_preempt(void);
/* Where a kill by chance would be too rare. */
void sim_kill_here(double chance);
/* The thread gets no CPU until then. */
void sim_preempt_until(sim_ns until);
/* The agent of this frame is killed if that was decided for it. */
void sim_unwind_if_dead(void);

/* --- the world -------------------------------------------------------------------------------- */

enum sim_fault {
    FAULT_PAUSE,     /* a thread of an agent gets no CPU */
    FAULT_STOP,      /* SIGSTOP of an agent */
    FAULT_KILL,      /* kill -9 of an agent, restart later */
    FAULT_UPGRADE,   /* SIGTERM and start */
    FAULT_TABLE,     /* the table is removed while its agent is away */
    FAULT_REBOOT,    /* the host: agent and processes end, memory is lost, clocks begin again */
    FAULT_NODE_STOP, /* SIGSTOP of a node */
    FAULT_RESTART,   /* kill -9 of a node, restart later */
    FAULT_FLUSH,     /* FLUSHALL */
    FAULT_STEP,      /* a node's wall clock */
    FAULT_ERRORS,    /* a node answers with errors */
    FAULT_SCRIPTS,   /* SCRIPT FLUSH */
    FAULT_PARTITION, /* nothing passes in one direction or both */
    FAULT_BREAK,     /* connections are reset */
    FAULT_SLOW,      /* long delays */
    FAULT_PROC_KILL, /* a process */
    FAULT_PROC_STOP, /* SIGSTOP of a process */
    FAULT_WRAPPER,   /* one guardian of a run is stopped or killed */
    FAULT_STRAY,     /* a connection breaks while an acquire or a heal is long on its way */
    FAULT_SUSPEND,   /* a host and all that runs on it */
    FAULT_STORM, /* the host of a lease is cut off or stopped, and nodes forget or step (storms.c) */
    FAULTS
};

enum sim_seen { /* what the report counts: in how many schedules it happened */
                SEEN_GRANT,
                SEEN_CONTENDED,
                SEEN_HANDOFF,
                SEEN_LOSS,
                SEEN_HEAL,
                SEEN_QUARANTINE,
                SEEN_RESTART,
                SEEN_RECOVERY,
                SEEN_STEP,
                SEEN_KILL,
                SEEN_STALE_WRITE,
                SEEN_RUN_STOPPED,
                SEEN_UNDONE,
                SEEN_IN_DOUBT,
                SEEN_WOKEN,
                SEEN_FORCED,
                SEEN_SHARED,
                SEEN_ALONE,
                SEEN_LIE,
                SEEN_CLAIM,
                SEEN_GROUP_KILL,
                SEEN_ASTRAY_ACQUIRE, /* it reached a node whose clock was ahead or behind */
                SEEN_ASTRAY_RENEWAL,
                SEEN_ASTRAY_HEAL,
                SEEN_ASTRAY_RELEASE,
                SEEN_ASTRAY_FORCE,
                SEENS
};
extern const char *const sim_seen_names[SEENS];
extern const char *const sim_fault_names[FAULTS];

struct sim_plan {                               /* drawn from the seed first of all */
    int hosts, nodes, quorum, resources, procs; /* procs: per host */
    uint32_t ttl_ms, ttl_max_ms;
    bool young;       /* the nodes were started just before */
    bool founded;     /* they have the fleet's record, of an hour ago */
    bool tolerant;    /* faults on N - q nodes at most, none of agents: no lease may be lost */
    bool flushes;     /* nodes forget at any time, and nothing else happens: no lease may be lost */
    bool sleepers;    /* the fleet changes while a host sleeps, and servers go back to before it */
    bool gentle;      /* the fleet changes, and nothing else happens: no lease may be lost */
    bool lies;        /* it changes, one member lies, and no other one forgets */
    bool storm_steps; /* storms step clocks, too */
    bool amnesia;     /* faults that a quorum's keys need not survive */
    bool fault[FAULTS];
    int fault_count;
    int64_t preempt_every; /* clock reads, in the mean */
    sim_ns faults_until;
    sim_ns delay_low, delay_high; /* of the network */
    sim_ns far[SIM_HOSTS][2];     /* how much more for a host, there and back */
    uint32_t faulty_nodes;        /* bit per node that faults may touch */
    int64_t retention_ms;         /* of fence records; 0: as the scripts say */
    int scene; /* enum sim_scene: what happens is written (scenes.c), and no fault is drawn */
};

struct sim {
    uint64_t seed;
    bool trace;
    sim_ns now;
    struct sim_rng rng, product_rng;
    uint64_t digest; /* of all that happened */
    struct sim_plan plan;
    uint32_t wide;     /* bit per enum sim_wide (wide.h) */
    bool settling;     /* the faults are over */
    sim_ns settled_at; /* since then */
    bool agent_ended;  /* at least one, in whatever way */
    bool set_back;     /* a node's clock was */
    bool over;
    const char *violation; /* the broken check; NULL none */
    char violation_text[400];
    bool seen[SEENS];
    uint64_t commands, events, clock_reads;
    struct sim_frame *frame;
    int64_t preempt_in;
    struct sim_host *host[SIM_HOSTS];
    struct vnode *node[SIM_SERVERS]; /* first those of the list */
    int servers;
};
extern struct sim sim;

void sim_violation(const char *check, const char *format, ...) HF_PRINTF(2, 3);
void sim_trace_line(const char *format, ...) HF_PRINTF(1, 2);
#define sim_trace(...)                                                                             \
    do {                                                                                           \
        if (sim.trace)                                                                             \
            sim_trace_line(__VA_ARGS__);                                                           \
    } while (0)
static inline void sim_digest(uint64_t value)
{
    sim.digest = (sim.digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    sim.digest ^= sim.digest >> 29;
}

/* Draws the plan of sim.seed and runs it to its end. */
void sim_schedule(void);

#endif

/* One host: its clocks, its memory, and the agent that runs on it (or not). */
#ifndef HOLDFAST_TESTS_SIM_HOST_H
#define HOLDFAST_TESTS_SIM_HOST_H

#include "agent/base/clock.h"
#include "agent/agent.h"
#include "agent/config/config.h"
#include "agent/base/loop.h"
#include "tests/sim/sim.h"

enum host_phase {
    HOST_OFF,
    HOST_STARTING,
    HOST_ON,
    HOST_GOING, /* SIGTERM: the broker ends first, then the renewal thread */
    HOST_STOPPING,
};

struct sim_host {
    int number;
    enum host_phase phase;
    uint32_t incarnation; /* of its agent; a killed one's frames are told by it */
    uint32_t boots;
    struct sim_clock boot;
    int64_t wall_ms;                    /* wall clock minus CLOCK_BOOTTIME */
    sim_ns stopped_until, no_cpu_until; /* the agent */
    struct sim_heap *heap;
    struct config config;
    struct agent agent;
    struct loop *loop[2]; /* in the order of making: renewal, broker */
    int loops;
    struct broker *broker; /* once it listens */
    sim_ns listening_since;
    struct sim_event start, step;
    struct boot_clock clock;
    char dir[24];
};

void hosts_begin(void);
/* The host's CLOCK_BOOTTIME now. */
hf_time host_now(const struct sim_host *host);
/* Starts the agent, or does nothing when one runs. */
void host_start(struct sim_host *host);
/* SIGTERM; it starts again `back` after it has ended (SIM_NEVER: not by itself). */
void host_upgrade(struct sim_host *host, sim_ns back);
/* kill -9: of the running agent and of nothing else. */
void host_kill(struct sim_host *host);
/* Also its processes end and its memory is lost. */
void host_reboot(struct sim_host *host);
void host_start_later(struct sim_host *host, sim_ns after);
/* Removed from /dev/shm, while no agent runs. */
void host_lose_table(struct sim_host *host);
/* From all nodes. */
void host_cut_off(const struct sim_host *host, sim_ns until);
/* Cut off, its agent stopped, or killed and started again: one of the three. */
void host_put_away(struct sim_host *host, sim_ns until, struct sim_rng *rng);
/* The agent, all processes, jobs too; its clock goes on. */
void host_suspend(struct sim_host *host, sim_ns until);
/* After SIGSTOP. */
void host_continue(struct sim_host *host);
/* Its agent has an answer of the node that is not old. */
bool host_watches(const struct sim_host *host, int node);
/* A thread of its agent is inside its code, perhaps without CPU. */
bool host_is_running(const struct sim_host *host);
/* Both threads of its agent are linked to the node. */
bool host_is_linked(const struct sim_host *host, int node);
/* Every agent has all its links, of both threads. */
bool hosts_connected(void);
/* The broker of a new agent listens (sessions.c). */
void host_listens(struct sim_host *host, struct broker *broker);

/* --- loops: sim_loop.c ------------------------------------------------------------------------ */

struct sim_io { /* something that a loop finds when it looks at its descriptors */
    struct sim_io *next;
    bool queued;
    void (*fn)(struct sim_io *io);
};
void loop_io(struct loop *loop, struct sim_io *io);
/* Out of the queue, wherever it is. */
void loop_io_drop(struct loop *loop, struct sim_io *io);
/* Something will leave with the loop's next turn. */
void loop_io_later(struct loop *loop);
struct sim_host *loop_host(const struct loop *loop);
/* The loop that the running code belongs to; NULL none. */
struct loop *loop_current(void);
/* A process ended: loops that watch it see that. */
void loops_tell_end(struct sim_host *host, int pidfd);
void host_loop_stopped(struct sim_host *host, struct loop *loop);
/* All of a dead agent's. */
void loop_forget(struct loop *loop);
/* Again after a stop of the whole host's agent. */
void loop_resume(struct loop *loop);

#endif

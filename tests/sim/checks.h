/* What must hold at every moment. */
#ifndef HOLDFAST_TESTS_SIM_CHECKS_H
#define HOLDFAST_TESTS_SIM_CHECKS_H

#include "shm/slot.h"
#include "tests/sim/sim.h"

struct command;
struct sim_connection;
struct sim_message;
struct sim_proc;
struct vnode;

/* A handle: what its holder may believe. */
struct claim {
    struct claim *next;
    struct sim_proc *proc;
    struct sim_host *host;
    int resource;
    const struct hf_slot *slot;
    uint32_t slot_number, generation;
    uint64_t fence;
    sim_ns token_at; /* when its token was granted, to whoever had it first */
    bool used;       /* a process has it, or is about to read of it */
    bool ended;      /* the word was seen as 0, or as another's */
    bool expired;    /* the word was seen past its deadline */
    bool job;        /* a job runs under it */
    bool is_job;
    bool orphan;             /* its job outlives the process that the agent knows */
    sim_ns frozen_until;     /* suspended with its host */
    uint32_t losing_by;      /* incarnation of the agent then */
    sim_ns unrecorded_since; /* its fence record is missing on a quorum; 0: it is not */
    int64_t losing_ns; /* V when it was seen to be losing: it may not rise any more; 0 not yet */
};

void checks_begin(void);
/* After every event, and before time passes inside one. */
void checks_run(void);
/* The agent answers an acquire: the claim of that slot and generation, made when it is new. */
struct claim *checks_granted(struct sim_proc *proc, int resource, uint32_t slot_number,
                             uint32_t generation, uint64_t fence);
void checks_dropped(struct claim *claim);
/* The process ended. */
void claims_drop_all(const struct sim_proc *proc);
/* NULL: dropped, or never made. */
struct claim *claims_find(const struct sim_host *host, uint32_t slot, uint32_t generation);
/* Perhaps between a store that came too late and taking it back: the keys stand, but a reader sees the
 * lease twice. docs/SAFETY.md says so. */
void checks_killed_inside(const struct sim_host *host);
void checks_host_rebooted(struct sim_host *host);
bool claim_believes(const struct claim *claim);
/* The newest that is believed in; NULL: none. */
const struct claim *checks_some_valid(void);
/* The holder writes to what the lock protects; it arrives later. */
void checks_write(const struct claim *claim);

/* An agent has taken over what an earlier one held. */
void records_check_taken(const struct sim_host *host);

/* A command leaves a host. */
void checks_sent(const struct sim_connection *connection, const struct command *command);
/* Its answer is about to be read. */
void checks_answered(const struct sim_message *message);
/* A node wrote or extended a string key. */
void checks_stored(const struct vnode *node, const char *key, const char *value,
                   const struct sim_message *message);
/* When all is quiet: whether no key is left that nobody holds; with `must` it is a violation. */
bool checks_quiet(bool must);
/* Whether all that is left is of runs whose end nobody told: it lapses. */
bool checks_lapsing(void);
/* What the agent's counters say, before they are gone. */
void checks_counters(const struct sim_host *host);

#endif

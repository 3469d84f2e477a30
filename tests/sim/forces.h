/* Operators who end holds by force, as `holdfast release --force` does: they ask an agent who has the name, and some time
 * later order the end of that hold, by its fence or by its id. What the agent makes of that is the shipped
 * agent/broker/queries/query.c, forces.c and fanout.c. */
#ifndef HOLDFAST_TESTS_SIM_FORCES_H
#define HOLDFAST_TESTS_SIM_FORCES_H

#include <stdbool.h>
#include <stdint.h>

#define FORCER_PID 99 /* no process of the plan has it */

struct hf_completion_entry;
struct hf_request_entry;
struct forcer;
struct session;
struct sim_host;

/* Draws whether there are any; from numbers of their own, so that a seed's other faults stay as they
 * are. */
void forces_begin(void);

/* --- for drains.c ----------------------------------------------------------------------------- */

struct forcer *forcer_new(struct sim_host *host);
/* It drains or undrains that host, if there is an agent. */
void forcer_orders(struct forcer *forcer, bool undrain);

/* --- for sessions.c --------------------------------------------------------------------------- */

struct forcer *forcers_first(void);
struct forcer *forcer_next(const struct forcer *forcer);
/* False: it has nothing to ask that host's agent now. It asks once. */
bool forcer_wants(struct forcer *forcer, const struct sim_host *host,
                  struct hf_request_entry *ret_request);
struct session *forcer_session(const struct forcer *forcer); /* NULL: not attached */
void forcer_attached(struct forcer *forcer, struct session *session);
void forcer_detached(struct forcer *forcer);
void forcers_agent_gone(const struct sim_host *host);
void forcer_answer(struct forcer *forcer, const struct hf_completion_entry *entry);

/* --- for the checks --------------------------------------------------------------------------- */

/* Two values of a key stand for one hold: equal, or one is the mark of the other. */
bool forces_same_hold(const char *value, const char *other);
/* A mark, which nobody's release of another token takes away. */
bool forces_is_mark(const char *value);

#endif

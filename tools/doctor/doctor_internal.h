/* The checks of `holdfast doctor`: doctor_X_look() is in doctor_X.c. */
#ifndef HOLDFAST_TOOLS_DOCTOR_DOCTOR_INTERNAL_H
#define HOLDFAST_TOOLS_DOCTOR_DOCTOR_INTERNAL_H

#include <stdbool.h>

#include "tools/output/json.h"
#include "tools/reader/life.h"
#include "tools/reader/places.h"
#include "tools/reader/reader.h"

/* How `holdfast doctor` reports. */

enum finding_level {
    FINDING_OK,
    FINDING_NOTE, /* worth knowing; needs no action */
    FINDING_WARN, /* works, but with less safety or room than it should */
    FINDING_FAIL, /* does not work */
};

struct doctor {
    bool clean;            /* remove leftovers of dead agents */
    struct json_out *json; /* NULL: for people */
    unsigned warnings, failures;
};

/* Reports one finding at once. `check` is its stable id; `remedy` says what to do, NULL for ok and
 * notes. */
void doctor_report(struct doctor *doctor, enum finding_level level, const char *check,
                   const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The agent behind a table: life, signs of life, table, room, descriptors. */
void doctor_agent_look(struct doctor *doctor, const struct reader *reader, const struct life *life);

/* No table could be opened: the reason, and what it means. */
void doctor_agent_missing(struct doctor *doctor, int status, const char *why,
                          const struct place places[], int count);

/* Of an agent that does not live only what it last knew of their states. */
void doctor_nodes_look(struct doctor *doctor, const struct reader *reader, const struct life *life);

/* The record by which the agent goes, and whether the nodes are at the addresses that it names. Asks the agent, if it
 * lives. */
void doctor_fleet_look(struct doctor *doctor, const struct reader *reader, const struct life *life);

/* Who may take, see and force which names. Asks the agent, if it lives. */
void doctor_rules_look(struct doctor *doctor, const struct reader *reader, const struct life *life);

/* Whether this host's clock is slewed faster than leases allow for. */
void doctor_clock_look(struct doctor *doctor);

/* Tables and directories of agents that are dead. Removes them if `doctor->clean`. */
void doctor_leftovers_look(struct doctor *doctor, const struct place places[], int count);

/* Jobs that are stopped for good, because nobody that watched them may end them. */
void doctor_jobs_look(struct doctor *doctor);

#endif

/* What `holdfast doctor` looks at, and how it reports. */
#ifndef HOLDFAST_TOOLS_DOCTOR_FINDINGS_H
#define HOLDFAST_TOOLS_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/output/json.h"
#include "tools/reader/life.h"
#include "tools/reader/places.h"
#include "tools/reader/reader.h"

enum finding_level {
    FINDING_OK,
    FINDING_NOTE, /* worth knowing; nothing to be done */
    FINDING_WARN, /* works, but with less safety or room than it should */
    FINDING_FAIL, /* does not work */
};

struct doctor {
    bool clean;            /* remove what dead agents left */
    struct json_out *json; /* NULL: for people */
    unsigned warnings, failures;
};

/* Reports one finding as it is found. `check` is its stable id, `remedy` what to
 * do; NULL for ok and notes. */
void doctor_report(struct doctor *doctor, enum finding_level level, const char *check,
                   const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The agent behind a table: life, heartbeats, table, room, descriptors. */
void doctor_look_at_agent(struct doctor *doctor, const struct reader *reader,
                          const struct life *life);

/* No table could be opened: why, and what that means. */
void doctor_look_for_agent(struct doctor *doctor, int status, const char *why,
                           const struct place places[], int count);

void doctor_look_at_nodes(struct doctor *doctor, const struct reader *reader);

/* Whether this host's clock is slewed faster than leases allow for. */
void doctor_look_at_clock(struct doctor *doctor);

/* Tables and directories of agents that are dead. Removes them if `doctor->clean`. */
void doctor_look_for_leftovers(struct doctor *doctor, const struct place places[], int count);

/* What is not looked for, and not promised. */
void doctor_tell_limits(struct doctor *doctor);

/* The pid that DIR/lock names when it is a living process, else 0. */
pid_t doctor_locked_by(const struct place *place);

#endif

/* A member that says of the fleet what it likes: earlier records, changes that nobody asked for, the end of one that is under way; and
 * that it is another member's server. What it says of keys is true. */
#ifndef HOLDFAST_TESTS_SIM_LIARS_H
#define HOLDFAST_TESTS_SIM_LIARS_H

#include "tests/sim/sim.h"

struct fleet_record;
struct sim_host;
struct vnode;

void liars_begin(struct sim_rng *of);
/* An operator deletes what it says, and it lies no more. */
void liars_end(void);
bool liars_is_one(const struct vnode *node);
/* Nobody goes by what nobody asked for. */
void liars_check(const struct sim_host *host, const struct fleet_record *record);

#endif

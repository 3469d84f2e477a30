/* What operators wish of a fleet that changes, and the servers that they put up and take away for it. */
#ifndef HOLDFAST_TESTS_SIM_WISHES_H
#define HOLDFAST_TESTS_SIM_WISHES_H

#include "agent/core/fleet_change.h"
#include "tests/sim/sim.h"

void wishes_begin(struct sim_rng *rng);
/* A change of the fleet of that record; false: nothing comes to mind. With `gone` in it the server that leaves was just stopped for
 * good. */
bool wish_draw(const struct fleet_record *r, struct fleet_wish *ret_wish);
/* Of a change under way: a server that leaves is stopped for good, and the operator says so; false: none leaves. */
bool wish_gone(const struct fleet_record *r, struct fleet_wish *ret_wish);
/* Of a change under way: a member before it, be it one that stays. */
bool wish_gone_member(const struct fleet_record *r, struct sim_rng *of,
                      struct fleet_wish *ret_wish);
/* What stopped for good is replaced by empty servers, as far as somebody waits for it; `latest` NULL: nobody knows. */
void wishes_end(const struct fleet_record *latest);
/* An agent takes it: whether it may is counted here again. */
void wish_check(const struct fleet_record *r, const struct fleet_wish *wish);

/* The command that made that record of a fleet with `record`, once more; false: none did. */
bool wish_again(const struct fleet_record *record, const struct fleet_record *lone,
                struct fleet_wish *ret_wish);

#endif

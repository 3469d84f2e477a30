/* Schedules that chance would hardly ever make: what has to come together is played as written, and all the
 * rest (delays, clocks, what else the agents do) is drawn as ever. */
#ifndef HOLDFAST_TESTS_SIM_SCENES_H
#define HOLDFAST_TESTS_SIM_SCENES_H

#include "tests/sim/sim.h"

enum sim_scene {
    SCENE_NONE,
    /* A rival's round has the vote of a node from before that forgot, and the holder heals it. */
    SCENE_FORGOTTEN_VOTE,
    /* The same, and the round is drawn out: a node forgot its scripts, and then the command came late. */
    SCENE_LONG_ROUND,
    SCENES
};

/* Whether this seed's schedule is one of them; then its plan. */
void scenes_plan(void);
void scenes_begin(void);

#endif

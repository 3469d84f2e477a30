/* Programs that share r0 or have it alone, by the library's own slots.c, exclusive.c and many.c: its slots 0 and 1 are r1 and r2, and
 * the others are always free. A program has a hand, a process of procs.c, for each of the three, which asks as it is told. */
#ifndef HOLDFAST_TESTS_SIM_SHARERS_H
#define HOLDFAST_TESTS_SIM_SHARERS_H

#include "tests/sim/procs.h"

void sharers_begin(void);
void sharers_settle(void);
bool sharers_settled(void);
/* Who shares and who is alone do not believe in it at one moment. */
void sharers_check(void);

/* --- for procs.c ------------------------------------------------------------------------------ */

/* Its request was answered; with HF_OK it has its claim. */
void hand_hears(struct sim_proc *proc, int status);
/* It may ask again. */
void hand_is_idle(struct sim_proc *proc);
/* And so has the program. */
void hand_ended(struct sim_proc *proc);
/* Until then the program does nothing. */
void hand_stops(struct sim_proc *proc, sim_ns until);

#endif

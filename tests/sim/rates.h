/* Clocks that change their rate, within what the drift allowance allows. */
#ifndef HOLDFAST_TESTS_SIM_RATES_H
#define HOLDFAST_TESTS_SIM_RATES_H

void rates_begin(void);

#endif

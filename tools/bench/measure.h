/* Functions for all measurements: time, samples, numbers from the command line, and exit with a reason. */
#ifndef HOLDFAST_TOOLS_BENCH_MEASURE_H
#define HOLDFAST_TOOLS_BENCH_MEASURE_H

#include <stddef.h>

/* Microseconds of CLOCK_MONOTONIC. */
double measure_now_us(void);
/* CPU of this process so far, microseconds. */
double measure_cpu_us(void);
/* Sorts in place; p in 0..1. */
double measure_percentile(double *samples, size_t count, double p);
/* Prints the reason and ends the program with 1. */
void measure_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A whole number from the command line, at least `least`, or usage error (64). */
long measure_number(const char *text, long least);

/* Sleeps for a random time from half of it to one and a half, so that nothing falls into step and the
 * processor wakes from idle, as for a real waiter; 0: not at all. */
void measure_pause(long pause_us);

#endif

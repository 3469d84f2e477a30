/* Measurements, each printed as one line of JSON on stdout. Times are wall time of this process;
 * every figure is meant to be read as a ratio to a reference that was measured in the same run
 * (tools/bench/run does that). */
#ifndef HOLDFAST_TOOLS_BENCH_H
#define HOLDFAST_TOOLS_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC. */
double bench_now_us(void);
/* CPU of this process so far, microseconds. */
double bench_cpu_us(void);
/* Sorts in place; p in 0..1. */
double bench_percentile(double *samples, size_t count, double p);
/* Prints the reason and ends the program with 1. */
void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A whole number from the command line, at least `least`, or usage error (64). */
long bench_number(const char *text, long least);

/* Sleeps for a random time from half of it to one and a half, so that nothing falls into step and the
 * processor comes from its rest, as it does for whoever waits; 0: not at all. */
void bench_pause(long pause_us);
/* Zeroed memory that processes forked from now on share; never freed. */
void *bench_share(size_t size);
/* For such memory: sleeps while the word has this value; stores, and wakes who sleeps. */
void bench_futex_wait(_Atomic uint32_t *word, uint32_t while_it_is);
void bench_futex_store(_Atomic uint32_t *word, uint32_t value);

int bench_floor(int argc, char **argv);
int bench_load(int argc, char **argv);
int bench_check(int argc, char **argv);
int bench_lock(int argc, char **argv);
int bench_futex(int argc, char **argv);
int bench_turns(int argc, char **argv);
int bench_crowd(int argc, char **argv);
int bench_queue(int argc, char **argv);
int bench_hold(int argc, char **argv);
int bench_pttl(int argc, char **argv);
int bench_many(int argc, char **argv);
int bench_table(int argc, char **argv);
int bench_spawn(int argc, char **argv);
int bench_death(int argc, char **argv);
int bench_counters(int argc, char **argv);

#endif

/* Measurements, each printed as one line of JSON on stdout. Times are wall time of this process;
 * read every figure as a ratio to a reference from the same run (tools/bench/run does that). */
#ifndef HOLDFAST_TOOLS_BENCH_BENCH_H
#define HOLDFAST_TOOLS_BENCH_BENCH_H

int bench_floor(int argc, char **argv);
int bench_load(int argc, char **argv);
int bench_check(int argc, char **argv);
int bench_lock(int argc, char **argv);
int bench_futex(int argc, char **argv);
int bench_turns(int argc, char **argv);
int bench_crowd(int argc, char **argv);
int bench_shared(int argc, char **argv);
int bench_queue(int argc, char **argv);
int bench_hold(int argc, char **argv);
int bench_pttl(int argc, char **argv);
int bench_many(int argc, char **argv);
int bench_table(int argc, char **argv);
int bench_spawn(int argc, char **argv);
int bench_death(int argc, char **argv);
int bench_relay(int argc, char **argv);
int bench_counters(int argc, char **argv);

#endif

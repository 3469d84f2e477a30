/* Functions for all measurements: time, samples, numbers from the command line, and exit with a reason. */
#ifndef HOLDFAST_TOOLS_BENCH_MEASURE_H
#define HOLDFAST_TOOLS_BENCH_MEASURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_sets.h"

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

/* Functions that measurements through the library share. A failure ends the program with its reason. */

void library_must(int rc, const char *what);
hf_client *library_connect(const char *agent);

/* Names of one length: "PREFIX/00...0I". */
#define LIBRARY_NAME_LEN 32
void library_name(char ret_name[LIBRARY_NAME_LEN + 1], const char *prefix, long i);

/* Memory that several processes share, and words in it that they wait for. */

/* Zeroed memory that processes forked from now on share; never freed. */
void *share_memory(size_t size);
/* For such memory: sleeps while the word has this value; stores, and wakes sleepers. */
void share_wait(_Atomic uint32_t *word, uint32_t while_it_is);
void share_store(_Atomic uint32_t *word, uint32_t value);

/* Measurements, each printed as one line of JSON on stdout. Times are wall time of this process;
 * read every figure as a ratio to a reference from the same run (tools/bench/run does that). */

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

/* Sends and receives on a few sockets through one io_uring, by the system calls themselves: what a lock would cost that
 * way (tools/bench/floor.c). One thread. */

struct uring;

/* Ends the program with a message where the kernel has none, or forbids it. */
struct uring *uring_open(void);
/* With the next uring_wait(). `data` stays until that has returned. */
void uring_send(struct uring *ring, int fd, const void *data, size_t length);
/* Likewise: up to `size` bytes into `to`, which stays until uring_wait() returned `tag` (0 to 63). */
void uring_receive(struct uring *ring, int fd, void *to, size_t size, unsigned tag);
/* Submits all, and waits until every send is done and one receive is: one system call, most times. Calls fn(arg, tag, length)
 * for each receive that is done. */
void uring_wait(struct uring *ring, void (*fn)(void *arg, unsigned tag, size_t length), void *arg);

#endif

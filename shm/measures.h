/* Measures in the table: histograms, extremes of the last minutes, values of now.
 *
 * Who writes: the agent, each histogram, extreme and value from one thread (shm/layout.h). Who reads:
 * anybody who mapped the table. Ordering: each word is one relaxed atomic; a reader may find a value counted in
 * its bucket and not yet in the sum. Nothing waits, and nothing is decided by what is read back. They
 * begin anew with each start of the agent.
 */
#ifndef HOLDFAST_SHM_MEASURES_H
#define HOLDFAST_SHM_MEASURES_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"
#include "shm/table.h"

#define HF_EXTREME_MINUTES 5 /* that a reader looks at, the one that runs among them */

/* --- writer ----------------------------------------------------------------------------------- */

/* 0 to HF_BUCKETS - 1. */
unsigned hf_bucket_of(int64_t ns);

/* Less than 0 counts as 0. */
void hf_histogram_add(struct hf_table *table, enum hf_histogram_of which, int64_t ns);

/* `value` as enum hf_extreme_of says, from 0 on; `now` is the instant that it belongs to. */
void hf_extreme_add(struct hf_table *table, enum hf_extreme_of which, int64_t value, hf_time now);
static inline void hf_extreme_add_ns(struct hf_table *table, enum hf_extreme_of which, int64_t ns,
                                     hf_time now)
{
    hf_extreme_add(table, which, (ns + HF_NS_PER_US - 1) / HF_NS_PER_US, now);
}

/* An acquire ended with that HF_E* status. */
void hf_failure_add(struct hf_table *table, int status);

void hf_gauge_set(struct hf_table *table, enum hf_gauge_of which, uint64_t value);

/* All are 0 again. Main, before there are other threads. */
void hf_measures_begin(struct hf_table *table);

/* --- reader ----------------------------------------------------------------------------------- */

/* The most that is counted in a bucket, ns; INT64_MAX: the last one. */
int64_t hf_bucket_bound_ns(unsigned bucket);

/* Counts per bucket, not cumulative. */
void hf_histogram_read(const struct hf_table *table, enum hf_histogram_of which,
                       uint64_t ret_counts[HF_BUCKETS], uint64_t *ret_sum_ns);

/* The extreme of the last HF_EXTREME_MINUTES; -1: nothing was measured in them. */
int64_t hf_extreme_read(const struct hf_table *table, enum hf_extreme_of which, hf_time now);

uint64_t hf_failure_read(const struct hf_table *table, enum hf_acquire_failure failure);
/* "busy", "timeout". */
const char *hf_failure_word(enum hf_acquire_failure failure);

uint64_t hf_gauge_read(const struct hf_table *table, enum hf_gauge_of which);

#endif

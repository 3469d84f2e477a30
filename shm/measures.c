#include "shm/measures.h"

#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define MINUTE_NS  (60 * HF_NS_PER_SEC)
#define VALUE_BITS 40
#define VALUE_MOST ((INT64_C(1) << VALUE_BITS) - 2)
#define VALUE_MASK ((UINT64_C(1) << VALUE_BITS) - 1)

/* One writing thread: no locked instruction is needed. */
static void measures_add(_Atomic uint64_t *word, uint64_t n)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static uint64_t measures_load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* --- writer ----------------------------------------------------------------------------------- */

unsigned hf_bucket_of(int64_t ns)
{
    uint64_t us = ns > 0 ? ((uint64_t)ns + HF_NS_PER_US - 1) / HF_NS_PER_US : 0;
    uint64_t above = us > 0 ? (us - 1) / HF_BUCKET_FIRST : 0;
    unsigned bucket = above ? 64 - (unsigned)__builtin_clzll(above) : 0;

    return bucket < HF_BUCKETS ? bucket : HF_BUCKETS - 1;
}

void hf_histogram_add(struct hf_table *table, enum hf_histogram_of which, int64_t ns)
{
    struct hf_histogram *h = &table->measures->histogram[which];

    hf_assert((unsigned)which < HF_HISTOGRAM_ROOM, "histogram %d", (int)which);
    measures_add(&h->bucket[hf_bucket_of(ns)], 1);
    measures_add(&h->sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

static bool measures_is_least(enum hf_extreme_of which)
{
    return which == HF_EXTREME_MARGIN;
}

void hf_extreme_add(struct hf_table *table, enum hf_extreme_of which, int64_t value, hf_time now)
{
    uint64_t minute = (uint64_t)(now.ns / MINUTE_NS);
    _Atomic uint64_t *at = &table->measures->extreme[which].window[minute % HF_EXTREME_WINDOWS];
    uint64_t word = measures_load(at);
    int64_t before = (int64_t)(word & VALUE_MASK) - 1;

    hf_assert((unsigned)which < HF_EXTREME_ROOM, "extreme %d", (int)which);
    value = value < 0 ? 0 : value > VALUE_MOST ? VALUE_MOST : value;
    /* A minute that is past gives its place up. */
    if (word >> VALUE_BITS == minute && before >= 0 &&
        (measures_is_least(which) ? value >= before : value <= before))
        return;
    atomic_store_explicit(at, minute << VALUE_BITS | (uint64_t)(value + 1), memory_order_relaxed);
}

static enum hf_acquire_failure measures_failure_of(int status)
{
    switch (status) {
    case HF_EBUSY:
        return HF_FAILED_BUSY;
    case HF_ETIMEDOUT:
        return HF_FAILED_TIMEOUT;
    case HF_ENOQUORUM:
        return HF_FAILED_QUORUM;
    case HF_EDRAINED:
        return HF_FAILED_DRAINED;
    case HF_ELIMIT:
    case HF_EFULL:
        return HF_FAILED_LIMIT;
    case HF_EFLEET:
        return HF_FAILED_FLEET;
    case HF_EPERM:
        return HF_FAILED_DENIED;
    case HF_ECANCELED:
        return HF_FAILED_CANCELED;
    default:
        return HF_FAILED_OTHER;
    }
}

void hf_failure_add(struct hf_table *table, int status)
{
    hf_assert(status < 0, "status %d", status);
    measures_add(&table->measures->failed[measures_failure_of(status)], 1);
}

void hf_gauge_set(struct hf_table *table, enum hf_gauge_of which, uint64_t value)
{
    hf_assert((unsigned)which < HF_GAUGE_ROOM, "gauge %d", (int)which);
    atomic_store_explicit(&table->measures->gauge[which], value, memory_order_relaxed);
}

void hf_measures_begin(struct hf_table *table)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)table->measures;

    for (size_t i = 0; i < sizeof(struct hf_measures) / sizeof(*word); i++)
        atomic_store_explicit(&word[i], 0, memory_order_relaxed);
}

/* --- reader ----------------------------------------------------------------------------------- */

int64_t hf_bucket_bound_ns(unsigned bucket)
{
    return bucket < HF_BUCKETS - 1 ? ((int64_t)HF_BUCKET_FIRST << bucket) * HF_NS_PER_US
                                   : INT64_MAX;
}

void hf_histogram_read(const struct hf_table *table, enum hf_histogram_of which,
                       uint64_t ret_counts[HF_BUCKETS], uint64_t *ret_sum_ns)
{
    for (int i = 0; i < HF_BUCKETS; i++)
        ret_counts[i] = measures_load(&table->measures->histogram[which].bucket[i]);
    *ret_sum_ns = measures_load(&table->measures->histogram[which].sum_ns);
}

int64_t hf_extreme_read(const struct hf_table *table, enum hf_extreme_of which, hf_time now)
{
    uint64_t minute = (uint64_t)(now.ns / MINUTE_NS);
    int64_t found = -1;

    for (int i = 0; i < HF_EXTREME_WINDOWS; i++) {
        uint64_t word = measures_load(&table->measures->extreme[which].window[i]);
        int64_t value = (int64_t)(word & VALUE_MASK) - 1;

        /* (!) Not of a minute that is long past: a maximum falls again. */
        if (value < 0 || word >> VALUE_BITS > minute ||
            minute - (word >> VALUE_BITS) >= HF_EXTREME_MINUTES)
            continue;
        if (found < 0 || (measures_is_least(which) ? value < found : value > found))
            found = value;
    }
    return found;
}

uint64_t hf_failure_read(const struct hf_table *table, enum hf_acquire_failure failure)
{
    return measures_load(&table->measures->failed[failure]);
}

const char *hf_failure_word(enum hf_acquire_failure failure)
{
    static const char *const words[HF_FAILURES] = {
        "busy", "timeout", "quorum", "drained", "limit", "fleet", "canceled", "other", "denied"};

    return words[failure];
}

uint64_t hf_gauge_read(const struct hf_table *table, enum hf_gauge_of which)
{
    return measures_load(&table->measures->gauge[which]);
}

/* The bytes of the measures in the table, for metrics (shm/measures.h); part of shm/layout.h, which says who
 * writes and who reads. The section is one struct hf_measures; what later versions add takes places
 * that are free here, so its size never changes. */
#ifndef HOLDFAST_SHM_LAYOUT_MEASURES_H
#define HOLDFAST_SHM_LAYOUT_MEASURES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Each has one writing thread. */
enum hf_histogram_of {
    HF_HISTOGRAM_ACQUIRE = 0, /* broker: from the start of a round to its grant */
    HF_HISTOGRAM_WAIT = 1,    /* broker: from the request to its grant, however it came */
    HF_HISTOGRAM_LAG =
        2, /* renewal: a renewal script behind its due time, without waiting for nodes */
    HF_HISTOGRAM_MARGIN = 3, /* renewal: what was left until V when a renewal moved V on */
    HF_HISTOGRAMS = 4,
};
#define HF_HISTOGRAM_ROOM 8

/* A value of u us (rounded up) is in the first bucket i with u <= 64 << i; above all of them in the last. */
#define HF_BUCKETS      28
#define HF_BUCKET_FIRST 64 /* us */

struct hf_histogram {
    _Atomic uint64_t bucket[HF_BUCKETS]; /* not cumulative */
    _Atomic uint64_t sum_ns;
    uint64_t reserved[3];
};
_Static_assert(sizeof(struct hf_histogram) == 256, "layout");

/* The largest or least value of each of the last minutes; each has one writing thread. */
enum hf_extreme_of {
    HF_EXTREME_ACQUIRE = 0, /* these five: the largest, us */
    HF_EXTREME_WAIT = 1,
    HF_EXTREME_LAG = 2,
    HF_EXTREME_TURN = 3,    /* renewal: a turn of its loop */
    HF_EXTREME_OVERDUE = 4, /* renewal: a vote was renewed behind 1.1 T/3 after the one before */
    HF_EXTREME_MARGIN = 5,  /* the least, millionths of T: what was left until V */
    HF_EXTREMES = 6,
};
#define HF_EXTREME_ROOM    8
#define HF_EXTREME_WINDOWS 8

/* Of minute m (CLOCK_BOOTTIME / 60 s) at m mod 8: minute << 40 | value + 1; 0: none yet. */
struct hf_extreme {
    _Atomic uint64_t window[HF_EXTREME_WINDOWS];
};

/* How acquires ended that were granted nothing. The broker counts. */
enum hf_acquire_failure {
    HF_FAILED_BUSY = 0,     /* a try: another holds it */
    HF_FAILED_TIMEOUT = 1,  /* the wait was over */
    HF_FAILED_QUORUM = 2,   /* too few nodes */
    HF_FAILED_DRAINED = 3,  /* this host is drained */
    HF_FAILED_LIMIT = 4,    /* a user's limit, or no room in the table */
    HF_FAILED_FLEET = 5,    /* this host's constants differ from the fleet's */
    HF_FAILED_CANCELED = 6, /* by the client */
    HF_FAILED_OTHER = 7,
    HF_FAILED_DENIED = 8, /* no rule of this host allows it */
    HF_FAILURES = 9,
};
#define HF_FAILURE_ROOM 16

/* The broker's; START_WALL_MS is main's. */
enum hf_gauge_of {
    HF_GAUGE_START_WALL_MS = 0, /* Unix time of the agent's start */
    HF_GAUGE_READY = 1,         /* 1: a quorum of nodes may vote and takes writes */
    HF_GAUGE_OLDEST_WAITER_NS =
        2, /* CLOCK_BOOTTIME since which the request waits that waits longest; 0: none */
    HF_GAUGE_FLEET_VERSION = 3,  /* of the record by which the agent goes; 0: it has none */
    HF_GAUGE_FLEET_COMPLETE = 4, /* 1: that record is complete */
    HF_GAUGE_FLEET_SETTLED = 5,  /* 1: it is, and has settled */
    HF_GAUGE_FLEET_DIFFERS = 6,  /* 1: this host may take no locks, by that record */
    HF_GAUGE_FLEET_FOREIGN = 7,  /* nodes that have the record of another fleet */
    HF_GAUGES = 8,
};
#define HF_GAUGE_ROOM 16

struct hf_measures {
    struct hf_histogram histogram[HF_HISTOGRAM_ROOM];
    struct hf_extreme extreme[HF_EXTREME_ROOM];
    _Atomic uint64_t failed[HF_FAILURE_ROOM];
    _Atomic uint64_t gauge[HF_GAUGE_ROOM];
};
_Static_assert(sizeof(struct hf_measures) == 2816, "layout");
_Static_assert(offsetof(struct hf_measures, extreme) == 2048, "layout");
_Static_assert(offsetof(struct hf_measures, failed) == 2560, "layout");

#endif

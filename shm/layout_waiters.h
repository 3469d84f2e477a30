/* The bytes of the requests that wait, in the table (shm/waiters.h); part of shm/layout.h, which says who writes and
 * who reads. The section has HF_WAITERS_SHOWN rows; their size never changes. */
#ifndef HOLDFAST_SHM_LAYOUT_WAITERS_H
#define HOLDFAST_SHM_LAYOUT_WAITERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HF_WAITERS_SHOWN 512 /* 192 KiB; of more than that the oldest are shown */

enum hf_waiter_flag {
    HF_WAITER_F_USED = 1 << 0,
    HF_WAITER_F_RUN = 1 << 1, /* of `holdfast run` */
};

struct hf_waiter_row {
    _Atomic uint32_t seq; /* odd while the writer is inside */
    uint32_t flags;       /* enum hf_waiter_flag; without USED the row is empty */
    uint32_t pid, uid;    /* as the agent sees them */
    int64_t since_ns;     /* CLOCK_BOOTTIME: when the request came to this agent */
    int64_t asked_ns;     /* when it first came to any agent: its place, then `number` */
    int64_t deadline_ns;  /* when it gives up; INT64_MAX: never */
    uint64_t number;      /* rises from request to request */
    uint32_t ttl_ms;
    uint8_t name_len, reserved0[3];
    char comm[16];
    uint8_t name[256];
    uint8_t reserved1[56];
};
_Static_assert(sizeof(struct hf_waiter_row) == 384, "layout");
_Static_assert(offsetof(struct hf_waiter_row, since_ns) == 16, "layout");
_Static_assert(offsetof(struct hf_waiter_row, comm) == 56, "layout");
_Static_assert(offsetof(struct hf_waiter_row, name) == 72, "layout");

#endif

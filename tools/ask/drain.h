/* What `drain` and `undrain` say of a host: the leases that are still held, and the drain itself. */
#ifndef HOLDFAST_TOOLS_ASK_DRAIN_H
#define HOLDFAST_TOOLS_ASK_DRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_admin.h"
#include "shm/slot.h"
#include "tools/common/text.h"

#define DRAIN_KEPT 10 /* leases of which more is told than that they are there */

/* The leases in force, at one look. */
struct drain_held {
    uint32_t count;
    uint32_t kept; /* the first of them */
    struct hf_slot_view view[DRAIN_KEPT];
};
/* Adds one. */
void drain_held_add(struct drain_held *held, const struct hf_slot_view *view);

/* "3 locks are still held" */
#define DRAIN_COUNT_SIZE 64
const char *drain_count(char *out, size_t size, uint32_t count);
/* "a, b, c and 7 more" */
#define DRAIN_NAMES_SIZE (DRAIN_KEPT * (TEXT_NAME_SIZE + 2) + 32)
const char *drain_names(char *out, size_t size, const struct drain_held *held);
/* " since 2026-03-01T12:00:00Z (3m12s) by user root (pid 4121)"; "" if it is not known. `now_wall_ms`: Unix time. */
#define DRAIN_BY_SIZE 512
const char *drain_by(char *out, size_t size, int64_t since_wall_ms, uint32_t uid, uint32_t pid,
                     int64_t now_wall_ms);

#endif

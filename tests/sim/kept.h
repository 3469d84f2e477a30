/* Locks with a min-hold: nobody is granted one before its time, once a quorum has kept it. */
#ifndef HOLDFAST_TESTS_SIM_KEPT_H
#define HOLDFAST_TESTS_SIM_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"

struct sim_host;
struct sim_message;
struct vnode;

void kept_begin(void);
/* What a process asks for; 0: none. */
uint32_t kept_wanted(uint32_t ttl_ms);
/* A token was granted, or handed over: whether that is too early, and for how long it will be kept. */
void kept_granted(const struct sim_host *host, int resource, uint32_t slot, uint32_t generation,
                  uint32_t min_hold_ms);
/* Of a lock that is kept; it expires by itself. */
bool kept_is_mark(const char *value);
/* A node has put a mark in the token's place, or deleted a key. */
void kept_stored(const struct vnode *node, const char *value, const struct sim_message *message);
void kept_deleted(const char *value, const struct sim_message *message);

#endif

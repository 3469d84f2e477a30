/* The page in which a client's program counts its heartbeats up, mapped read-only.
 *
 * Who writes: the client, anything at any time; a count is worth no more than that it changed
 * (agent/core/heartbeat.h). Who reads: the renewal thread, for leases with a heartbeat. The page is
 * held by its session and by each such lease: it goes with the last of them, in whatever thread.
 */
#ifndef HOLDFAST_AGENT_RECORD_BEATS_H
#define HOLDFAST_AGENT_RECORD_BEATS_H

#include <stdint.h>

struct beats;

/* Takes over the page that hf_ring_agent_create() mapped; one reference is the caller's. NULL
 * without memory; then the page is unmapped. */
struct beats *beats_new(const _Atomic uint32_t *words);
/* One reference more, and one less. NULL is fine. */
struct beats *beats_hold(struct beats *beats);
void beats_drop(struct beats *beats);
/* `word` below HF_BEATS; 0 of no page. */
uint32_t beats_count(const struct beats *beats, uint32_t word);

#endif

/* The page in which a client's program counts its heartbeats up, mapped read-only.
 *
 * Who writes: the client, anything at any time; only a change of a count means something
 * (agent/core/heartbeat.h). Who reads: the renewal thread, for leases with a heartbeat. The session
 * and each such lease hold a reference: the page is unmapped with the last one, in any thread.
 */
#ifndef HOLDFAST_AGENT_RECORD_BEATS_H
#define HOLDFAST_AGENT_RECORD_BEATS_H

#include <stdint.h>

struct beats;

/* Takes over the page that hf_ring_agent_create() mapped; one reference is the caller's. NULL:
 * out of memory, and the page is unmapped. */
struct beats *beats_new(const _Atomic uint32_t *words);
/* Take and drop a reference. NULL is fine. */
struct beats *beats_hold(struct beats *beats);
void beats_drop(struct beats *beats);
/* `word` below HF_BEATS; 0 without a page. */
uint32_t beats_count(const struct beats *beats, uint32_t word);

#endif

/* A record in two halves that survives a kill at any store: the idle half is written, then its sequence
 * number is stored; until then the other half counts. Nothing here tells a damaged half: the files are this boot's own.
 *
 * Who writes: one thread of the agent. Who reads: the next agent, or a program that looks at a running agent's file: it
 * copies the newest half, then asks whether that still is the newest. Until then nobody writes to it.
 */
#ifndef HOLDFAST_AGENT_RECORD_HALVES_H
#define HOLDFAST_AGENT_RECORD_HALVES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The head of a half. */
struct half_head {
    _Atomic uint64_t seq; /* 0: never written; the half with the higher one counts */
};

uint64_t half_seq(const void *half);
/* `size` is the size of one half; `halves` are two, one behind the other.
 * 0 or 1; HF_ENOTHELD: neither was ever written. */
int half_newest(const void *halves, size_t size);
/* Writes `body`, a half whose head is ignored. */
void half_commit(void *halves, size_t size, const void *body);

#endif

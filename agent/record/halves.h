/* A record in two halves that survives a kill at any store: the idle half is written, then its sequence
 * number is stored; until then the other half counts. Each has a CRC, so that a damaged half counts as none.
 */
#ifndef HOLDFAST_AGENT_RECORD_HALVES_H
#define HOLDFAST_AGENT_RECORD_HALVES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The head of a half. */
struct half_head {
    _Atomic uint64_t seq; /* 0: never written; the half with the higher one counts */
    uint32_t crc;         /* of seq and all that follows */
};

uint64_t half_seq(const void *half);
/* `size` is the size of one half; `halves` are two, one behind the other.
 * 0 or 1: the half to believe; HF_ENOTHELD: neither was ever written; HF_ETABLE: neither can be
 * believed. */
int half_newest(const void *halves, size_t size);
/* Writes `body`, a half whose head is ignored and whose padding is 0. One writer. */
void half_commit(void *halves, size_t size, const void *body);
/* Whether a half can be believed. Fills in the CRC of a half that is written without the other one: in a file that nobody
 * knows yet. */
bool half_good(const void *half, size_t size);
void half_seal(void *half, size_t size);
/* Once, before the first half_commit() on halves that an earlier program left: half_commit() goes by the
 * sequence numbers alone. */
void half_mend(void *halves, size_t size);

#endif

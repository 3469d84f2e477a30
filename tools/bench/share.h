/* Memory that several processes share, and words in it that they wait for. */
#ifndef HOLDFAST_TOOLS_BENCH_SHARE_H
#define HOLDFAST_TOOLS_BENCH_SHARE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory that processes forked from now on share; never freed. */
void *share_memory(size_t size);
/* For such memory: sleeps while the word has this value; stores, and wakes sleepers. */
void share_wait(_Atomic uint32_t *word, uint32_t while_it_is);
void share_store(_Atomic uint32_t *word, uint32_t value);

#endif

#include <string.h>

#include "shm/table_notes.h"

#define SINCE_UNKNOWN (-1)
#define TRIES         16 /* nobody drains and undrains so often */

void hf_drained_publish(struct hf_table *table, const struct hf_drained *drained)
{
    struct hf_table_header *h = table->header;
    int64_t since = drained->since_wall_ms > 0 ? drained->since_wall_ms : SINCE_UNKNOWN;

    atomic_store_explicit(&h->drained_uid, drained->uid, memory_order_relaxed);
    atomic_store_explicit(&h->drained_pid, drained->pid, memory_order_relaxed);
    atomic_store_explicit(&h->drained_wall_ms, drained->stands ? since : 0, memory_order_release);
}

void hf_drained_read(const struct hf_table *table, struct hf_drained *ret_drained)
{
    const struct hf_table_header *h = table->header;
    int64_t since, again = atomic_load_explicit(&h->drained_wall_ms, memory_order_acquire);
    int tries = TRIES;

    do {
        since = again;
        *ret_drained = (struct hf_drained){
            .stands = since != 0,
            .since_wall_ms = since > 0 ? since : 0,
            .uid = atomic_load_explicit(&h->drained_uid, memory_order_acquire),
            .pid = atomic_load_explicit(&h->drained_pid, memory_order_acquire),
        };
        again = atomic_load_explicit(&h->drained_wall_ms, memory_order_acquire);
    } while (again != since && --tries > 0);
}

/* --- last words ------------------------------------------------------------------------------- */

void hf_last_words_put(struct hf_table_header *header, int64_t wall_ms, const char *text)
{
    hf_last_words_clear(header);
    header->words_pid = atomic_load_explicit(&header->pid, memory_order_relaxed);
    memset(header->words, 0, sizeof(header->words));
    memcpy(header->words, text, strnlen(text, HF_LAST_WORDS));
    atomic_store_explicit(&header->words_wall_ms, wall_ms > 0 ? wall_ms : 1, memory_order_release);
}

void hf_last_words_clear(struct hf_table_header *header)
{
    atomic_store(&header->words_wall_ms, 0);
}

bool hf_last_words_read(const struct hf_table_header *header, struct hf_last_words *ret_words)
{
    struct hf_last_words words = {
        .wall_ms = atomic_load_explicit(&header->words_wall_ms, memory_order_acquire)};

    if (words.wall_ms == 0)
        return false;
    words.pid = header->words_pid;
    memcpy(words.text, header->words, HF_LAST_WORDS);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&header->words_wall_ms, memory_order_relaxed) != words.wall_ms)
        return false;
    *ret_words = words;
    return true;
}

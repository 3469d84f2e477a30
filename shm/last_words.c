#include "shm/last_words.h"

#include <string.h>

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

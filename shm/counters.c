#include "shm/table.h"

uint64_t hf_counter_read(const struct hf_table *table, enum hf_counter counter)
{
    /* An agent of an earlier minor version may have fewer. */
    if ((uint32_t)counter >= table->counter_count)
        return 0;
    return atomic_load_explicit(&table->counters[counter], memory_order_relaxed);
}

const char *hf_counter_name(enum hf_counter counter)
{
    static const char *const names[] = {
#define HF_COUNTER_ENUM(id, name, doc) name,
#include "shm/counters.def"
#undef HF_COUNTER_ENUM
    };

    return (uint32_t)counter < HF_COUNTERS ? names[counter] : "unknown_counter";
}

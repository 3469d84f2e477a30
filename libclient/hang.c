/* Whether the agent hangs: its process and socket exist, but it answers nothing. The test is the sign of
 * life that its threads leave in the table. */
#include "libclient/internal.h"

static bool hang_is_silent(const struct hf_table_header *header, int64_t now_ns, int64_t span_ns)
{
    int64_t broker = atomic_load_explicit(&header->broker_beat_ns, memory_order_relaxed);
    int64_t renewal = atomic_load_explicit(&header->renewal_beat_ns, memory_order_relaxed);
    int64_t oldest = hfc_min(broker, renewal);

    return oldest > 0 && now_ns - oldest > span_ns;
}

bool hfc_table_is_silent(const struct hf_table *table, int64_t now_ns, int64_t span_ns)
{
    return hang_is_silent(table->header, now_ns, span_ns);
}

bool hfc_agent_hangs(hf_client *client, int64_t now_ns)
{
    return client->link == HFC_LINK_UP &&
           hfc_table_is_silent(&client->session->map->table, now_ns, HFC_HANG_NS);
}

bool hfc_stranger_hangs(const struct hfc_place *place, int64_t now_ns)
{
    struct hf_table_header header;

    /* Not mapped: its owner may be another user, who truncates it. */
    return !*place->table || hf_table_peek(place->table, place->table_owner, &header) != HF_OK ||
           atomic_load_explicit(&header.broker_beat_ns, memory_order_relaxed) == 0 ||
           hang_is_silent(&header, now_ns, HFC_HANG_NS);
}

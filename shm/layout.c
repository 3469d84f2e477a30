/* Fingerprints: hashes of the layouts that two programs must share byte by byte. */
#include "shm/layout.h"

#include "shm/compiler.h"
#include "shm/ring.h"
#include "shm/wire.h"

/* FNV-1a, a 32-bit number at a time. */
static uint64_t layout_mix(uint64_t hash, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (numbers[i] >> shift & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t layout_mix_byte_order(void)
{
    const union {
        uint32_t number;
        uint8_t bytes[4];
    } probe = {0x01020304};
    const uint32_t order[] = {probe.bytes[0], probe.bytes[1], probe.bytes[2], probe.bytes[3]};

    return layout_mix(UINT64_C(0xcbf29ce484222325), order, HF_LENGTH(order));
}

#define AT(type, member) ((uint32_t)offsetof(struct type, member))
#define SIZE(type)       ((uint32_t)sizeof(struct type))

/* The number of counters is not included: minor versions append counters. Nor are additions of
 * minor versions: the elements of such a section never change, and their size is checked. */
uint64_t hf_layout_fingerprint(void)
{
    static const uint32_t numbers[] = {
        HF_TABLE_MAJOR, HF_TABLE_HEADER, HF_NODES_MAX, HF_TEXT_UNIT, HF_SECTIONS_MAX,
        HF_CHECK_GEN_SHIFT, HF_CHECK_TIME_SHIFT, HF_INDEX_TOMB, sizeof(hf_index_entry),
        /* the index's second area begins at half of the section */
        2,
        /* slots */
        SIZE(hf_slot), AT(hf_slot, check), AT(hf_slot, seq), AT(hf_slot, generation),
        AT(hf_slot, deadline_ns), AT(hf_slot, fence), AT(hf_slot, since_ns), AT(hf_slot, pid),
        AT(hf_slot, uid), AT(hf_slot, text_off), AT(hf_slot, lengths), AT(hf_slot, marks),
        AT(hf_slot, ttl_ms),
        /* sections */
        SIZE(hf_section), AT(hf_section, type), AT(hf_section, elem_size),
        AT(hf_section, elem_count), AT(hf_section, offset), AT(hf_section, length),
        /* nodes */
        SIZE(hf_node_row), AT(hf_node_row, seq), AT(hf_node_row, state), AT(hf_node_row, refused),
        AT(hf_node_row, quarantine_reason), AT(hf_node_row, quarantine_until_ns),
        AT(hf_node_row, rtt_ns), AT(hf_node_row, last_reply_ns), AT(hf_node_row, clock_offset_us),
        AT(hf_node_row, replies), AT(hf_node_row, timeouts), AT(hf_node_row, errors),
        AT(hf_node_row, reconnects), AT(hf_node_row, clock_steps),
        AT(hf_node_row, unwritable_since_ns), AT(hf_node_row, unseen_step_ns),
        AT(hf_node_row, error_class), AT(hf_node_row, flags), AT(hf_node_row, id),
        AT(hf_node_row, address), AT(hf_node_row, run_id), AT(hf_node_row, version),
        AT(hf_node_row, error),
        /* header; the size of `sections` is HF_SECTIONS_MAX above */
        AT(hf_table_header, major), AT(hf_table_header, total_size),
        AT(hf_table_header, fingerprint), AT(hf_table_header, boot_id), AT(hf_table_header, epoch),
        AT(hf_table_header, timens_inode), AT(hf_table_header, capacity),
        AT(hf_table_header, nodes), AT(hf_table_header, quorum), AT(hf_table_header, ttl_ms),
        AT(hf_table_header, ttl_max_ms), AT(hf_table_header, uid), AT(hf_table_header, flags),
        AT(hf_table_header, index_key), AT(hf_table_header, version), AT(hf_table_header, state),
        AT(hf_table_header, incarnation), AT(hf_table_header, pid), AT(hf_table_header, started_ns),
        AT(hf_table_header, main_beat_ns), AT(hf_table_header, broker_beat_ns),
        AT(hf_table_header, renewal_beat_ns), AT(hf_table_header, index_seq),
        AT(hf_table_header, index_area), AT(hf_table_header, index_size),
        AT(hf_table_header, slots_used), AT(hf_table_header, text_there),
        AT(hf_table_header, slots_there), AT(hf_table_header, unindexed),
        AT(hf_table_header, agent_name), AT(hf_table_header, host), AT(hf_table_header, sections)};

    return layout_mix(layout_mix_byte_order(), numbers, HF_LENGTH(numbers));
}

uint64_t hf_wire_fingerprint(void)
{
    static const uint32_t numbers[] = {
        HF_WIRE_MAGIC, HF_WIRE_MAJOR, HF_COOKIE_LEN, HF_ENTRY_SIZE, HF_RING_ENTRIES, HF_RING_HEADER,
        HF_BEATS_BYTES, HF_WELCOME_FDS,
        /* datagrams */
        SIZE(hf_hello), AT(hf_hello, fingerprint), AT(hf_hello, start_time),
        AT(hf_hello, timens_inode), AT(hf_hello, boottime_ns), AT(hf_hello, role),
        AT(hf_hello, nudge), AT(hf_hello, cookie), AT(hf_hello, comm), AT(hf_hello, version),
        SIZE(hf_welcome), AT(hf_welcome, status), AT(hf_welcome, client_id), AT(hf_welcome, epoch),
        AT(hf_welcome, incarnation), AT(hf_welcome, ring_entries), AT(hf_welcome, ttl_ms),
        AT(hf_welcome, ttl_max_ms), AT(hf_welcome, ttl_min_ms), AT(hf_welcome, readopted),
        AT(hf_welcome, cookie), AT(hf_welcome, version), AT(hf_welcome, text),
        /* entries */
        AT(hf_request_entry, op), AT(hf_request_entry, flags), AT(hf_request_entry, id),
        AT(hf_request_entry, target), AT(hf_request_entry, deadline_ns),
        AT(hf_request_entry, ttl_ms), AT(hf_request_entry, max_hold_ms), AT(hf_request_entry, slot),
        AT(hf_request_entry, generation), AT(hf_request_entry, name_len),
        AT(hf_request_entry, note_len), AT(hf_request_entry, name), AT(hf_request_entry, note),
        AT(hf_request_entry, heartbeat_ms), AT(hf_request_entry, beat_word), SIZE(hf_wire_holder),
        AT(hf_wire_holder, fence), AT(hf_wire_holder, since_wall_ms), AT(hf_wire_holder, pttl_ms),
        AT(hf_wire_holder, pid), AT(hf_wire_holder, uid), AT(hf_wire_holder, host),
        AT(hf_wire_holder, comm), AT(hf_wire_holder, note), AT(hf_completion_entry, id),
        AT(hf_completion_entry, op), AT(hf_completion_entry, status), AT(hf_completion_entry, slot),
        AT(hf_completion_entry, generation), AT(hf_completion_entry, fence),
        AT(hf_completion_entry, deadline_ns), AT(hf_completion_entry, nodes_voting),
        AT(hf_completion_entry, nodes_up), AT(hf_completion_entry, holder),
        AT(hf_completion_entry, text),
        /* rings */
        SIZE(hf_requests_page), AT(hf_requests_page, tail), AT(hf_requests_page, completion_head),
        SIZE(hf_completions_page), AT(hf_completions_page, tail),
        AT(hf_completions_page, request_head), AT(hf_completions_page, need_wake),
        AT(hf_completions_page, wake)};

    return layout_mix(layout_mix_byte_order(), numbers, HF_LENGTH(numbers));
}

/* Contract. shm/layout.h and shm/wire.h: the bytes are what docs/SHM.md says. */
#include "shm_fixture.h"

#include "libclient/holdfast.h"
#include "shm/ring.h"
#include "shm/wire.h"

static void fingerprints_are_of_their_own(void **state)
{
    (void)state;
    assert_true(hf_layout_fingerprint() != 0);
    assert_int_equal(hf_layout_fingerprint(), hf_layout_fingerprint());
    assert_int_not_equal(hf_layout_fingerprint(), hf_wire_fingerprint());
}

/* Somebody changed the bytes if this fails. Before a release: correct docs/SHM.md and the numbers
 * here. After one: raise HF_TABLE_MAJOR or HF_WIRE_MAJOR too, or put it back. */
static void the_bytes_are_those_of_this_version(void **state)
{
    (void)state;
#if defined(__x86_64__) || defined(__aarch64__)
    assert_int_equal(hf_layout_fingerprint(), UINT64_C(0x5e56e8132dc87cb));
    assert_int_equal(hf_wire_fingerprint(), UINT64_C(0xc6fb060a42811bd2));
#else
    skip();
#endif
}

static void the_magic_reads_as_text(void **state)
{
    const uint64_t magic = HF_TABLE_MAGIC;

    (void)state;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    assert_memory_equal(&magic, "HTABLFE1", 8);
#else
    (void)magic;
#endif
}

static void the_header_is_where_the_document_says(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct hf_table_header, major), 8);
    assert_int_equal(offsetof(struct hf_table_header, total_size), 16);
    assert_int_equal(offsetof(struct hf_table_header, fingerprint), 24);
    assert_int_equal(offsetof(struct hf_table_header, boot_id), 32);
    assert_int_equal(offsetof(struct hf_table_header, epoch), 48);
    assert_int_equal(offsetof(struct hf_table_header, timens_inode), 56);
    assert_int_equal(offsetof(struct hf_table_header, index_key), 96);
    assert_int_equal(offsetof(struct hf_table_header, version), 112);
    assert_int_equal(offsetof(struct hf_table_header, started_ns), 144);
    assert_int_equal(offsetof(struct hf_table_header, host), 384);
    assert_int_equal(offsetof(struct hf_table_header, sections), 448);
    assert_int_equal(sizeof(struct hf_node_row), 512);
    assert_int_equal(offsetof(struct hf_table_header, events_written), 272);
    assert_int_equal(offsetof(struct hf_table_header, text_there), 304);
    assert_int_equal(offsetof(struct hf_table_header, slots_there), 312);
}

/* These are not in the fingerprint: they never change but by another section type. */
static void what_minor_versions_added_is_where_the_document_says(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct hf_table_header, drained_wall_ms), 152);
    assert_int_equal(offsetof(struct hf_table_header, drained_uid), 160);
    assert_int_equal(offsetof(struct hf_table_header, drained_pid), 164);
    assert_int_equal(offsetof(struct hf_table_header, timens_offset_ns), 168);
    assert_int_equal(offsetof(struct hf_table_header, pidns_inode), 176);
    assert_int_equal(offsetof(struct hf_table_header, dir_file), 216);
    assert_int_equal(offsetof(struct hf_table_header, dir), 960);
    assert_int_equal(offsetof(struct hf_table_header, words_wall_ms), 1600);
    assert_int_equal(offsetof(struct hf_table_header, words_pid), 1608);
    assert_int_equal(offsetof(struct hf_table_header, words), 1612);
    assert_int_equal(offsetof(struct hf_completion_entry, drained_before), 501);
    assert_int_equal(sizeof(struct hf_event), 192);
    assert_int_equal(offsetof(struct hf_event, kind), 4);
    assert_int_equal(offsetof(struct hf_event, index), 8);
    assert_int_equal(offsetof(struct hf_event, number), 16);
    assert_int_equal(offsetof(struct hf_event, valid_before_ns), 40);
    assert_int_equal(offsetof(struct hf_event, value), 64);
    assert_int_equal(offsetof(struct hf_event, by_pid), 88);
    assert_int_equal(offsetof(struct hf_event, name_hash), 96);
    assert_int_equal(offsetof(struct hf_event, text), 104);
    assert_int_equal(sizeof(struct hf_renewal), 32);
    assert_int_equal(offsetof(struct hf_renewal, at_ns), 8);
    assert_int_equal(offsetof(struct hf_renewal, outcome), 28);
    assert_int_equal(HF_SECTION_MEASURES, 11);
    assert_int_equal(sizeof(struct hf_measures), 2816);
    assert_int_equal(sizeof(struct hf_histogram), 256);
    assert_int_equal(offsetof(struct hf_histogram, sum_ns), 224);
    assert_int_equal(offsetof(struct hf_measures, extreme), 2048);
    assert_int_equal(offsetof(struct hf_measures, failed), 2560);
    assert_int_equal(offsetof(struct hf_measures, gauge), 2688);
    assert_int_equal(HF_SECTION_WAITERS, 12);
    assert_int_equal(sizeof(struct hf_waiter_row), 384);
    assert_int_equal(offsetof(struct hf_waiter_row, pid), 8);
    assert_int_equal(offsetof(struct hf_waiter_row, deadline_ns), 32);
    assert_int_equal(offsetof(struct hf_waiter_row, ttl_ms), 48);
    assert_int_equal(offsetof(struct hf_waiter_row, name_len), 52);
    assert_int_equal(offsetof(struct hf_waiter_row, comm), 56);
    assert_int_equal(offsetof(struct hf_waiter_row, name), 72);
}

static void the_library_inlines_the_same_check_word(void **state)
{
    (void)state;
    assert_int_equal(HF_PRIVATE_GEN_SHIFT, HF_CHECK_GEN_SHIFT);
    assert_int_equal(HF_PRIVATE_TIME_SHIFT, HF_CHECK_TIME_SHIFT);
}

static void the_rings_are_where_the_document_says(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct hf_requests_page, completion_head), 64);
    assert_int_equal(offsetof(struct hf_requests_page, polls), 68);
    assert_int_equal(offsetof(struct hf_completions_page, request_head), 64);
    assert_int_equal(offsetof(struct hf_completions_page, need_wake), 128);
    assert_int_equal(offsetof(struct hf_completions_page, wake), 192);
    assert_int_equal(HF_RING_BYTES, 4096 + 32 * 512);
    assert_int_equal(HF_REQUESTS_BYTES, 4096 + 32 * 512 + 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fingerprints_are_of_their_own),
        cmocka_unit_test(the_bytes_are_those_of_this_version),
        cmocka_unit_test(the_magic_reads_as_text),
        cmocka_unit_test(the_header_is_where_the_document_says),
        cmocka_unit_test(what_minor_versions_added_is_where_the_document_says),
        cmocka_unit_test(the_library_inlines_the_same_check_word),
        cmocka_unit_test(the_rings_are_where_the_document_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

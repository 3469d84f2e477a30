/* agent/state/fleet_memory.h, journal_carry() and node_records_carry(): what an agent left that had another list of
 * nodes is taken over with all leases, each d with its server. */
#include "agent/base/log.h"
#include "agent/state/fleet_memory.h"
#include "agent/state/node_records.h"
#include "tests/unit/journal_fixture.h"

#define OTHER "89abcdef0123456789abcdef0123456789abcdef"
#define THIRD "cdef0123456789abcdef0123456789abcdef0123"

/* --- lists ------------------------------------------------------------------------------------ */

struct list {
    int count;
    struct fleet_seat seat[HF_NODES_MAX];
};

/* A letter is an id, and the digit behind it the last byte of its address. */
static struct list list_of(const char *text)
{
    struct list list = {0};

    for (; *text; text += 2) {
        struct fleet_seat *seat = &list.seat[list.count++];

        snprintf(seat->id, sizeof(seat->id), "%c", text[0]);
        snprintf(seat->address, sizeof(seat->address), "10.0.0.%c:6379", text[1]);
    }
    return list;
}

static struct list_change change_of(const char *before, const char *after)
{
    struct list was = list_of(before), is = list_of(after);
    struct list_change change;

    assert_int_equal(list_change_find(&change, was.seat, was.count, is.seat, is.count),
                     strcmp(before, after) != 0);
    snprintf(change.hash_before, sizeof(change.hash_before), LIST);
    snprintf(change.hash, sizeof(change.hash), OTHER);
    return change;
}

static void assert_from(const char *before, const char *after, const char *places)
{
    struct list_change change = change_of(before, after);

    assert_int_equal(change.nodes_before, strlen(before) / 2);
    assert_int_equal(change.nodes, strlen(after) / 2);
    for (int i = 0; i < HF_NODES_MAX; i++) {
        int want = i >= change.nodes || places[i] == '-' ? -1 : places[i] - '0';

        assert_int_equal(change.from[i], want);
    }
}

TEST(a_server_is_the_same_by_id_and_address)
{
    assert_from("a1b2c3", "a1b2c3", "012");
    assert_from("a1b2c3", "a1b2c3d4e5", "012--");
    assert_from("a1b2c3d4e5", "a1b2d4e5", "0134");
    assert_from("a1b2c3", "a1b9c3", "0-2");
    assert_from("a1b2c3", "a1d2c3", "0-2");
    assert_from("a1b2c3", "c3a1b2", "201");
    assert_from("a1b2c3", "a1b2", "01");
    assert_from("a1", "b2c3", "--");
}

/* --- the journal ------------------------------------------------------------------------------ */

#define TABLE UINT64_C(0x1234567890)

static int before_count;

/* Slots with every kind of history; each d can be told from slot and place. */
static hf_time d_at(uint32_t slot, int place)
{
    return (hf_time){INT64_MAX / 4 + slot * INT64_C(100) + place};
}

static void put_at(uint32_t slot, enum journal_state state, uint32_t generation)
{
    struct journal_lease lease = {.state = state,
                                  .slot_state = HF_SLOT_LOSING,
                                  .reason = HF_LOSS_FORCED,
                                  .generation = generation,
                                  .fence = UINT64_C(0x5aa5000000000000) + slot};

    for (int i = 0; i < HF_NODES_MAX; i++)
        lease.d[i] = i < before_count ? d_at(slot, i) : HF_TIME_PAST;
    journal_put(journal, slot, &lease);
}

static void fill(int nodes)
{
    close_journal();
    (void)unlink(path);
    before_count = nodes;
    assert_int_equal(open_as(CAPACITY, nodes, LIST, this_boot), HF_OK);
    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        if (slot % 5 == 0)
            continue;
        put_identity(slot, slot + 1);
        put_at(slot, JOURNAL_INTENT, slot + 1);
        if (slot % 5 == 1)
            continue;
        put_at(slot, JOURNAL_HELD, slot + 1);
        if (slot % 5 == 2)
            continue;
        if (slot % 5 == 3) {
            struct journal_identity next = numbered_identity(slot + 1000);

            journal_put_holder(journal, slot, &next.who);
            put_at(slot, JOURNAL_HANDOFF, slot + 2);
        } else {
            put_at(slot, JOURNAL_FREE, slot + 1);
        }
    }
    journal_shown_in(journal, TABLE);
    close_journal();
}

static enum journal_state state_at(uint32_t slot)
{
    static const enum journal_state states[] = {JOURNAL_FREE, JOURNAL_INTENT, JOURNAL_HELD,
                                                JOURNAL_HANDOFF, JOURNAL_FREE};

    return states[slot % 5];
}

static void assert_slot(uint32_t slot, const struct list_change *change)
{
    enum journal_state state = state_at(slot);
    struct journal_identity id, previous;
    struct journal_lease lease;
    int rc = journal_get(journal, slot, &id, &lease);

    assert_int_equal(rc, state == JOURNAL_FREE ? HF_ENOTHELD : HF_OK);
    assert_int_equal(journal_generation(journal, slot),
                     slot % 5 ? slot + 1 + (state == JOURNAL_HANDOFF) : 0);
    if (rc != HF_OK)
        return;
    assert_int_equal(lease.state, state);
    assert_int_equal(lease.slot_state, HF_SLOT_LOSING);
    assert_int_equal(lease.reason, HF_LOSS_FORCED);
    assert_true(lease.fence == UINT64_C(0x5aa5000000000000) + slot);
    if (state == JOURNAL_HANDOFF) {
        assert_int_equal(id.who.pid, slot + 1003);
        assert_int_equal(journal_get_previous(journal, slot, &previous), HF_OK);
        assert_int_equal(previous.who.pid, slot + 4);
    } else {
        assert_identity(&id, slot + 1);
    }
    for (int i = 0; i < HF_NODES_MAX; i++) {
        hf_time want = change->from[i] < 0 ? HF_TIME_PAST : d_at(slot, change->from[i]);

        if (lease.d[i].ns != want.ns)
            fail_msg("slot %u, place %d of the next list", slot, i);
    }
}

static void assert_all(const struct list_change *change)
{
    assert_int_equal(open_as(CAPACITY, change->nodes, change->hash, this_boot), HF_OK);
    assert_true(journal_is_kept(journal));
    assert_true(journal_table(journal) == TABLE);
    for (uint32_t slot = 0; slot < CAPACITY; slot++)
        assert_slot(slot, change);
}

static void carry(const struct list_change *change)
{
    assert_int_equal(journal_carry(dir, this_boot, change, why, sizeof(why)), HF_OK);
}

static void carries(const char *before, const char *after)
{
    struct list_change change = change_of(before, after);

    fill(change.nodes_before);
    carry(&change);
    assert_all(&change);
    put_at(2, JOURNAL_HELD, 3); /* the next agent goes on with it */
    assert_int_equal(get(2), HF_OK);
    close_journal();
}

TEST(leases_are_carried_from_list_to_list)
{
    carries("a1b2c3", "a1b2c3d4e5");
    carries("a1b2c3d4e5", "a1b2d4e5");
    carries("a1b2c3d4e5", "a1b2d4");
    carries("a1b2c3", "a1b9c3");
    carries("a1b2c3", "c3a1b2");
    carries("a1b2c3d4", "d4");
    carries("a1", "b2c3");
    carries("a1b2c3d4e5f6g7h8i9", "i9h8g7f6");
    carries("a1b2c3d4", "a1b2c3d4e5f6g7h8i9");
}

/* More slots than a file takes room for at first. */
TEST(all_slots_are_carried)
{
    enum { MORE = 5 * CAPACITY };
    struct list_change change = change_of("a1b2c3", "a1b2c3d4e5");

    fill(3);
    assert_int_equal(open_as(MORE, 3, LIST, this_boot), HF_OK);
    assert_int_equal(journal_take_slots(journal, MORE), HF_OK);
    put_identity(MORE - 1, MORE);
    put_at(MORE - 1, JOURNAL_HELD, 9);
    close_journal();
    carry(&change);
    assert_int_equal(open_as(MORE, 5, change.hash, this_boot), HF_OK);
    assert_int_equal(journal_slots_live(journal), MORE);
    assert_int_equal(get(MORE - 1), HF_OK);
    assert_int_equal(journal_generation(journal, MORE - 1), 9);
    for (uint32_t slot = 0; slot < CAPACITY; slot++)
        assert_slot(slot, &change);
}

/* As a next start does after a kill. */
TEST(twice_is_as_once)
{
    struct list_change change = change_of("a1b2c3", "a1c3d4");
    struct list_change moved = change_of("a1b2c3", "a1b9c3");

    fill(3);
    carry(&change);
    carry(&change);
    assert_all(&change);
    memcpy(moved.hash, moved.hash_before, sizeof(moved.hash)); /* the ids are the same */
    fill(3);
    carry(&moved);
    carry(&moved);
    assert_all(&moved);
}

static void assert_untouched(const struct list_change *change, const struct boot_clock *boot)
{
    size_t size, size_after;
    uint8_t *before = read_image(&size), *after;

    assert_non_null(before);
    assert_int_equal(journal_carry(dir, boot, change, why, sizeof(why)), HF_OK);
    after = read_image(&size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

TEST(what_is_of_neither_list_is_left)
{
    struct list_change change = change_of("a1b2c3", "a1b2d4"), other = change;

    fill(3);
    assert_untouched(&change, other_boot);
    other.nodes_before = 4;
    assert_untouched(&other, this_boot);
    other = change;
    snprintf(other.hash_before, sizeof(other.hash_before), THIRD);
    assert_untouched(&other, this_boot);
    assert_int_equal(truncate(path, 5000), 0);
    assert_untouched(&change, this_boot);
    (void)unlink(path);
    carry(&change);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(journal_carry(dir, this_boot, &change, why, sizeof(why)), HF_ESYS);
    assert_non_null(strstr(why, path));
}

/* --- node records ----------------------------------------------------------------------------- */

static struct node_trust trust_of(int number)
{
    struct node_trust trust;

    memset(&trust, 0, sizeof(trust));
    trust.contacted = true;
    trust.mark = (uint32_t)number;
    trust.until = (hf_time){1000 + number};
    snprintf(trust.nonce, sizeof(trust.nonce), "%032d", number);
    return trust;
}

static struct node_records *open_records(int nodes, const char *list)
{
    struct node_records *records = NULL;

    assert_int_equal(node_records_open(dir, nodes, list, this_boot, &records, why, sizeof(why)),
                     HF_OK);
    return records;
}

static void fill_records(int nodes)
{
    struct node_records *records = open_records(nodes, LIST);

    for (int i = 0; i < nodes; i++)
        for (int times = 0; times <= i; times++) {
            struct node_trust trust = trust_of(10 * i + times);

            node_records_put(records, i, &trust);
        }
    node_records_close(records);
}

static void assert_records(const struct list_change *change)
{
    struct node_records *records = open_records(change->nodes, change->hash);

    for (int i = 0; i < HF_NODES_MAX; i++) {
        struct node_trust got, want = trust_of(11 * change->from[i]);
        int rc = node_records_get(records, i, &got);

        assert_int_equal(rc, change->from[i] < 0 ? HF_ENOTHELD : HF_OK);
        if (rc == HF_OK)
            assert_memory_equal(&got, &want, sizeof(want));
    }
    node_records_remove(records);
}

static void carry_records(const struct list_change *change)
{
    assert_int_equal(node_records_carry(dir, this_boot, change, why, sizeof(why)), HF_OK);
}

static int tear_down_records(void **state)
{
    char records[80];

    snprintf(records, sizeof(records), "%s/nodes", dir);
    (void)unlink(records); /* of a test that failed */
    return tear_down(state);
}

TEST(what_is_known_goes_with_its_server)
{
    static const char *const lists[][2] = {{"a1b2c3", "a1b2c3d4e5"},
                                           {"a1b2c3d4e5", "a1b2d4e5"},
                                           {"a1b2c3", "a1b9c3"},
                                           {"a1b2c3", "c3a1b2"},
                                           {"a1b2c3d4e5f6g7h8i9", "i9"}};

    for (size_t i = 0; i < HF_LENGTH(lists); i++)
        for (int times = 0; times < 3; times++) {
            struct list_change change = change_of(lists[i][0], lists[i][1]);

            if (change.nodes == change.nodes_before && change.from[0] == 0) /* moved */
                memcpy(change.hash, change.hash_before, sizeof(change.hash));
            fill_records(change.nodes_before);
            for (int k = 0; k < times; k++)
                carry_records(&change);
            if (times)
                assert_records(&change);
        }
}

TEST(records_of_neither_list_are_left)
{
    struct list_change change = change_of("a1b2c3", "a1b2d4");
    struct node_records *records;
    struct node_trust got;

    carry_records(&change); /* none */
    fill_records(3);
    snprintf(change.hash_before, sizeof(change.hash_before), THIRD);
    carry_records(&change);
    records = open_records(3, LIST);
    assert_int_equal(node_records_get(records, 2, &got), HF_OK);
    node_records_remove(records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_the_same_by_id_and_address),
        cmocka_unit_test_setup_teardown(leases_are_carried_from_list_to_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_slots_are_carried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(twice_is_as_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_of_neither_list_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_known_goes_with_its_server, set_up,
                                        tear_down_records),
        cmocka_unit_test_setup_teardown(records_of_neither_list_are_left, set_up,
                                        tear_down_records),
    };

    log_init(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

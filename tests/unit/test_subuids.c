/* agent/core/share.h: whose a subordinate uid is. */
#include "core_fixture.h"

#include "agent/core/share.h"

static bool takes(const char *line, const char *name, uint32_t first, uint32_t count)
{
    char got[SUBUIDS_NAME_MAX + 1];
    uint32_t its_first, its_count;

    return subuids_parse(line, got, &its_first, &its_count) && strcmp(got, name) == 0 &&
           its_first == first && its_count == count;
}

TEST(a_line_has_a_name_a_first_and_a_count)
{
    assert_true(takes("alice:100000:65536\n", "alice", 100000, 65536));
    assert_true(takes("1000:165536:1", "1000", 165536, 1));
    assert_true(takes("a:0:4294967295", "a", 0, UINT32_MAX));
}

TEST(another_line_is_none)
{
    static const char *const lines[] = {
        "",
        "\n",
        "alice\n",
        ":1:1\n",
        "alice:1\n",
        "alice:1:\n",
        "alice::1\n",
        "alice:1:0\n",
        "alice:1:1:1\n",
        "alice:1:1 \n",
        "alice:-1:1\n",
        "# a note\n",
        "a:4294967296:1\n",
        "a:1:99999999999999999999\n",
    };
    char name[SUBUIDS_NAME_MAX + 1], longer[SUBUIDS_NAME_MAX + 8];
    uint32_t first, count;

    for (size_t i = 0; i < HF_LENGTH(lines); i++)
        assert_false(subuids_parse(lines[i], name, &first, &count));
    memset(longer, 'a', SUBUIDS_NAME_MAX + 1);
    memcpy(longer + SUBUIDS_NAME_MAX + 1, ":1:1", 5);
    assert_false(subuids_parse(longer, name, &first, &count));
    assert_true(subuids_parse(longer + 1, name, &first, &count));
}

TEST(a_uid_is_the_first_owners_or_its_own)
{
    static struct subuids s;

    assert_int_equal(subuids_owner(&s, 100000), 100000);
    assert_true(subuids_add(&s, 100000, 65536, 1000));
    assert_true(subuids_add(&s, 165536, 10, 1001));
    assert_true(subuids_add(&s, 165540, 10, 1002));
    assert_true(subuids_add(&s, 4294967290, 100, 1003)); /* beyond the last one there are none */
    assert_int_equal(subuids_owner(&s, 99999), 99999);
    assert_int_equal(subuids_owner(&s, 100000), 1000);
    assert_int_equal(subuids_owner(&s, 165535), 1000);
    assert_int_equal(subuids_owner(&s, 165536), 1001);
    assert_int_equal(subuids_owner(&s, 165545), 1001);
    assert_int_equal(subuids_owner(&s, 165549), 1002);
    assert_int_equal(subuids_owner(&s, 165550), 165550);
    assert_int_equal(subuids_owner(&s, 5), 5);
    assert_int_equal(subuids_owner(&s, 4294967294), 1003);
}

TEST(there_is_room_for_so_many_ranges)
{
    static struct subuids s;

    for (uint32_t i = 0; i < SUBUIDS_MAX; i++)
        assert_true(subuids_add(&s, 100000 * (i + 1), 65536, 1000 + i));
    assert_false(subuids_add(&s, 1, 1, 1));
    assert_int_equal(subuids_owner(&s, 1), 1);
    assert_int_equal(subuids_owner(&s, 100000 * SUBUIDS_MAX), 1000 + SUBUIDS_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_a_name_a_first_and_a_count),
        cmocka_unit_test(another_line_is_none),
        cmocka_unit_test(a_uid_is_the_first_owners_or_its_own),
        cmocka_unit_test(there_is_room_for_so_many_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

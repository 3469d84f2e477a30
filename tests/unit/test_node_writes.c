/* agent/core/node_trust.h: whether a node takes writes. */
#include "core_fixture.h"

#include "agent/core/node_trust.h"

#define OOM  "OOM command not allowed when used memory > 'maxmemory'."
#define PERM "NOPERM this user has no permissions to run the 'hset' command"

static struct node_writes writes;

static int set_up(void **state)
{
    (void)state;
    memset(&writes, 0, sizeof(writes));
    return 0;
}

static void lock(enum hf_node_error error, const char *text, int64_t ms)
{
    writes_on_lock(&writes, error, text, at(ms));
}

static void probe(enum hf_node_error error, const char *text, int64_t ms)
{
    writes_on_probe(&writes, error, text, at(ms));
}

TEST(a_refusal_stands_from_its_first_until_something_is_written)
{
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    lock(HF_NODE_ERR_OOM, OOM " script: 0123, on @user_script:14.", 5);
    lock(HF_NODE_ERR_MISCONF, "MISCONF", 9);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_MISCONF);
    assert_time(writes.since, at(5));
    lock(HF_NODE_ERR_NONE, "", 12);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    lock(HF_NODE_ERR_OOM, OOM, 20);
    assert_time(writes.since, at(20));
}

TEST(only_what_a_node_says_is_kept)
{
    lock(HF_NODE_ERR_OOM, OOM " script: 0123, on @user_script:14.", 5);
    assert_string_equal(writes.text, OOM);
}

TEST(what_is_no_word_on_writes_changes_nothing)
{
    static const enum hf_node_error others[] = {HF_NODE_ERR_TIMEOUT, HF_NODE_ERR_BUSY,
                                                HF_NODE_ERR_LOADING, HF_NODE_ERR_NOSCRIPT,
                                                HF_NODE_ERR_AUTH,    HF_NODE_ERR_OTHER};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        lock(others[i], "", 1);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    lock(HF_NODE_ERR_OOM, OOM, 2);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        lock(others[i], "", 3);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_OOM);
}

/* (!) A node whose scripts all fail gives no votes, whatever plain commands say: no name is to blame. */
TEST(a_probe_that_fails_is_a_refusal_whatever_its_words)
{
    static const enum hf_node_error others[] = {HF_NODE_ERR_BUSY, HF_NODE_ERR_LOADING,
                                                HF_NODE_ERR_NOSCRIPT, HF_NODE_ERR_OTHER};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        probe(others[i], "ERR", 1);
        assert_int_equal(writes_refused(&writes), others[i]);
        probe(HF_NODE_ERR_NONE, "", 2);
        assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    }
    probe(HF_NODE_ERR_OTHER, "ERR", 3);
    lock(HF_NODE_ERR_NONE, "", 4);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
}

TEST(a_right_to_one_key_is_none_of_the_nodes_affair)
{
    lock(HF_NODE_ERR_PERM, "NOPERM this user has no permissions to access one of the keys used", 1);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    lock(HF_NODE_ERR_PERM, PERM, 2);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_PERM);
}

TEST(any_write_proves_that_there_is_memory)
{
    lock(HF_NODE_ERR_OOM, OOM, 1);
    probe(HF_NODE_ERR_NONE, "", 2);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    probe(HF_NODE_ERR_NOREPLICAS, "NOREPLICAS Not enough good replicas to write.", 3);
    lock(HF_NODE_ERR_NONE, "", 4);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
}

TEST(a_write_proves_no_right_but_those_it_needs)
{
    lock(HF_NODE_ERR_PERM, PERM, 1);
    probe(HF_NODE_ERR_NONE, "", 2);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_PERM);
    lock(HF_NODE_ERR_NONE, "", 3);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
    probe(HF_NODE_ERR_PERM, "NOPERM this user has no permissions to run the 'del' command", 4);
    lock(HF_NODE_ERR_NONE, "", 5);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_PERM);
    probe(HF_NODE_ERR_NONE, "", 6);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
}

TEST(another_connection_begins_anew)
{
    lock(HF_NODE_ERR_PERM, PERM, 1);
    writes_reset(&writes);
    assert_int_equal(writes_refused(&writes), HF_NODE_ERR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_refusal_stands_from_its_first_until_something_is_written, set_up),
        cmocka_unit_test_setup(only_what_a_node_says_is_kept, set_up),
        cmocka_unit_test_setup(what_is_no_word_on_writes_changes_nothing, set_up),
        cmocka_unit_test_setup(a_probe_that_fails_is_a_refusal_whatever_its_words, set_up),
        cmocka_unit_test_setup(a_right_to_one_key_is_none_of_the_nodes_affair, set_up),
        cmocka_unit_test_setup(any_write_proves_that_there_is_memory, set_up),
        cmocka_unit_test_setup(a_write_proves_no_right_but_those_it_needs, set_up),
        cmocka_unit_test_setup(another_connection_begins_anew, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

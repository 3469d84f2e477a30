/* agent/core/timing.h: the q-th largest d. */
#include "core_fixture.h"

#include "agent/core/timing.h"

static int64_t qth(int count, int q, const int64_t *ns)
{
    hf_time d[HF_NODES_MAX];

    for (int i = 0; i < count; i++)
        d[i] = (hf_time){ns[i]};
    return validity_qth(d, count, q).ns;
}

#define QTH(q, ...)                                                                                \
    qth(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), q, (int64_t[]){__VA_ARGS__})

TEST(the_second_largest_of_three)
{
    assert_int_equal(QTH(2, 10, 20, 30), 20);
    assert_int_equal(QTH(2, 30, 20, 10), 20);
    assert_int_equal(QTH(2, 20, 30, 10), 20);
}

TEST(the_third_largest_of_five_and_the_fifth_of_nine)
{
    assert_int_equal(QTH(3, 5, 1, 4, 2, 3), 3);
    assert_int_equal(QTH(5, 9, 1, 8, 2, 7, 3, 6, 4, 5), 5);
}

TEST(one_node_is_its_own_quorum)
{
    assert_int_equal(QTH(1, 7), 7);
}

TEST(equal_instants_count_each)
{
    assert_int_equal(QTH(2, 5, 5, 1), 5);
    assert_int_equal(QTH(3, 5, 5, 1), 1);
    assert_int_equal(QTH(2, 0, 0, 0), 0);
}

TEST(void_votes_count_for_nothing)
{
    assert_int_equal(QTH(2, HF_TIME_PAST.ns, 20, 30), 20);
    assert_int_equal(QTH(2, HF_TIME_PAST.ns, 20, HF_TIME_PAST.ns), HF_TIME_PAST.ns);
}

TEST(fewer_than_q_give_no_validity)
{
    assert_int_equal(QTH(2, 30), HF_TIME_PAST.ns);
    assert_int_equal(QTH(2, 30, 20), 20);
    assert_int_equal(validity_qth(NULL, 0, 1).ns, HF_TIME_PAST.ns);
}

static hf_time times[3];

static int make_times(void **state)
{
    (void)state;
    times[0] = (hf_time){30};
    times[1] = (hf_time){20};
    times[2] = (hf_time){10};
    return 0;
}

TEST(what_does_not_count_is_no_vote)
{
    validity_drop(times, 3, 6);
    assert_int_equal(times[0].ns, HF_TIME_PAST.ns);
    assert_int_equal(times[1].ns, 20);
    assert_int_equal(times[2].ns, 10);
    validity_drop(times, 3, 7);
    assert_int_equal(times[1].ns, 20);
}

/* (!) By the record before, which counted the first one, V was 20. */
TEST(a_holder_may_rely_on_the_last_vote_while_not_all_count)
{
    validity_drop(times, 3, 6);
    assert_int_equal(validity_qth(times, 3, 2).ns, 10);
    assert_int_equal(validity_latest(times, 3).ns, 20);
}

TEST(so_it_may_while_more_than_a_majority_is_needed)
{
    assert_int_equal(validity_latest(times, 3).ns, 30);
}

/* (!) A node was removed: by the list all count, and q is its majority, but V was by the one that is no more there. */
TEST(so_it_may_where_a_node_was_removed)
{
    assert_int_equal(validity_latest(times, 2).ns,
                     times[0].ns > times[1].ns ? times[0].ns : times[1].ns);
}

/* (!) It was shown 20, and the second is void since then. */
TEST(so_it_may_where_a_vote_is_void)
{
    times[1] = HF_TIME_PAST;
    assert_true(validity_latest(times, 3).ns >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_largest_of_three),
        cmocka_unit_test(the_third_largest_of_five_and_the_fifth_of_nine),
        cmocka_unit_test(one_node_is_its_own_quorum),
        cmocka_unit_test(equal_instants_count_each),
        cmocka_unit_test(void_votes_count_for_nothing),
        cmocka_unit_test(fewer_than_q_give_no_validity),
        cmocka_unit_test_setup(what_does_not_count_is_no_vote, make_times),
        cmocka_unit_test_setup(a_holder_may_rely_on_the_last_vote_while_not_all_count, make_times),
        cmocka_unit_test_setup(so_it_may_while_more_than_a_majority_is_needed, make_times),
        cmocka_unit_test_setup(so_it_may_where_a_node_was_removed, make_times),
        cmocka_unit_test_setup(so_it_may_where_a_vote_is_void, make_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

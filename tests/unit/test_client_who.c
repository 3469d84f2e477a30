/* Contract. hf_who() and its kin: what they refuse by themselves.
 * tests/integration/test_who.py has the rest, and docs/examples/example.c. */
#include "client_fixture.h"

#include "libclient/holdfast_admin.h"

#include <stdio.h>

static int never(const struct hf_listed *listed, void *arg)
{
    (void)listed;
    (void)arg;
    return 1;
}

static void wrong_arguments(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_who_info who = {.size = sizeof(who)}, small = {.size = sizeof(who) - 1};
    char name[HF_NAME_MAX + 1] = {0};

    (void)state;
    assert_int_equal(hf_who(NULL, "a", 1, &who), HF_EINVAL);
    assert_int_equal(hf_who(f.client, "", 0, &who), HF_ENAME);
    assert_int_equal(hf_who(f.client, name, sizeof(name), &who), HF_ENAME);
    assert_int_equal(hf_who(f.client, "a", 1, NULL), HF_EINVAL);
    assert_int_equal(hf_who(f.client, "a", 1, &small), HF_EINVAL);
    assert_int_equal(hf_wait_free(f.client, "a", 1, -2, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_wait_free(f.client, NULL, 0, 0, NULL, NULL), HF_ENAME);
    assert_int_equal(hf_list(f.client, "a", 1, NULL, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_list(f.client, name, sizeof(name), never, NULL, NULL), HF_ENAME);
    assert_int_equal(hf_drain(f.client, NULL), HF_EINVAL);
    assert_int_equal(hf_undrain(f.client, &(struct hf_drain_info){.size = 8}), HF_EINVAL);
    assert_int_equal(hf_drain(NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_force(f.client, "a", 1, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_force(f.client, "a", 1, &small, NULL), HF_EINVAL);
    assert_int_equal(hf_force(f.client, "a", 1, &who, &small), HF_EINVAL);
    assert_int_equal(hf_force(f.client, "a", 1, &who, NULL), HF_EINVAL); /* which hold? */
    for (int i = 0; i < 3; i++) {
        static const char *const bad[] = {"7", "0123456789abcdef0123456789abcdef0123456X",
                                          "0123456789ABCDEF0123456789abcdef01234567"};

        snprintf(who.id, sizeof(who.id), "%s", bad[i]);
        assert_int_equal(hf_force(f.client, "a", 1, &who, NULL), HF_EINVAL);
        assert_non_null(strstr(hf_last_message(), "give an id of 40 hex digits"));
    }
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

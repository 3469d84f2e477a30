/* Net. Which answers count for a lease, by the fleet's record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/renewal/renewal_internal.h"

static struct renewal renewal;
static struct fleet_record record;
static struct renewal_node *const node = &renewal.node[1];

static int make(void **state)
{
    (void)state;
    memset(&renewal, 0, sizeof(renewal));
    node->renewal = &renewal;
    node->number = 1;
    return 0;
}

static bool counts(const char *digest)
{
    struct link_reply reply = {.outcome = LINK_ANSWERED};

    is_renewal_thread();
    strcpy(reply.digest, digest);
    return renewal_counts(node, &reply);
}

static void while_no_record_is_known_nodes_without_one_count(void **state)
{
    (void)state;
    assert_true(counts(""));
    assert_false(counts("01234567"));
}

static void with_a_record_its_digest_counts_at_its_seat(void **state)
{
    (void)state;
    renewal.fleet = &record;
    strcpy(renewal.fleet_digest, "01234567");
    node->seated = true;
    assert_true(counts("01234567"));
    assert_false(counts("01234568"));
    assert_false(counts(""));
    node->seated = false;
    assert_false(counts("01234567"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(while_no_record_is_known_nodes_without_one_count, make),
        cmocka_unit_test_setup(with_a_record_its_digest_counts_at_its_seat, make),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

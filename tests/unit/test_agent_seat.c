/* Where a link goes: to the configuration's address until the fleet's record is known, and to the record's seat from
 * then on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/address.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define TEST(name) static void name(HF_UNUSED void **state)

#define CONFIGURED "b=redis://alice:secret@10.0.0.9:6379/3"
#define PLACE      "10.0.0.7:6380"

static struct node_address parsed(const char *text)
{
    struct node_address address;
    char why[256];

    if (node_address_parse(text, &address, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
    return address;
}

static struct seat seat_of(const struct node_address *configured)
{
    struct seat seat = {0};

    seat_configure(&seat, configured);
    return seat;
}

static void goes_to(const struct seat *seat, const char *host, int port)
{
    assert_string_equal(seat_address(seat)->host, host);
    assert_int_equal(seat_address(seat)->port, port);
}

TEST(test_configured_until_a_record_is_known)
{
    struct node_address configured = parsed(CONFIGURED), next = parsed("b=10.0.0.8:6379");
    struct seat seat = seat_of(&configured);

    assert_ptr_equal(seat_address(&seat), &configured);
    seat_configure(&seat, &next);
    assert_ptr_equal(seat_address(&seat), &next);
}

TEST(test_goes_to_the_record_as_it_is_configured)
{
    struct node_address configured = parsed(CONFIGURED);
    struct seat seat = seat_of(&configured);
    const struct node_address *address;

    assert_true(seat_aim(&seat, PLACE, "", false));
    goes_to(&seat, "10.0.0.7", 6380);
    address = seat_address(&seat);
    assert_true(address->numeric && !address->unix_socket);
    assert_string_equal(address->text, PLACE);
    assert_string_equal(address->id, "b");
    assert_string_equal(address->user, "alice");
    assert_string_equal(address->password, "secret");
    assert_int_equal(address->db, 3);
    assert_false(node_address_same(address, &configured));
}

TEST(test_goes_to_a_socket)
{
    struct node_address configured = parsed("b=some.where:7");
    struct seat seat = seat_of(&configured);

    assert_true(seat_aim(&seat, "/run/b.sock", "", true));
    assert_true(seat_address(&seat)->unix_socket);
    goes_to(&seat, "/run/b.sock", 0);
}

/* (!) It is another server on each host. */
TEST(test_private_places_are_the_founders)
{
    static const char *const places[] = {"127.0.0.1:6379", "127.1.2.3:6379", "[::1]:6379", "/b"};
    struct node_address configured = parsed(CONFIGURED);

    for (size_t i = 0; i < HF_LENGTH(places); i++) {
        struct seat seat = seat_of(&configured);

        assert_true(node_address_seat_is_private(places[i]));
        assert_false(seat_aim(&seat, places[i], "10.0.0.9:6379", false));
        assert_false(seat_aim(&seat, places[i], "", false));
        assert_ptr_equal(seat_address(&seat), &configured);
        assert_true(seat_aim(&seat, places[i], "10.0.0.9:6379", true));
    }
    assert_false(node_address_seat_is_private(PLACE));
}

/* By a name, say. */
TEST(test_a_link_at_its_seat_stays)
{
    struct node_address configured = parsed("b=some.where:6380");
    struct seat seat = seat_of(&configured);

    assert_false(seat_aim(&seat, PLACE, PLACE, false));
    assert_ptr_equal(seat_address(&seat), &configured);
    assert_true(seat_aim(&seat, PLACE, "", false)); /* down, the name may lead elsewhere by now */
    goes_to(&seat, "10.0.0.7", 6380);
}

TEST(test_a_link_elsewhere_goes_once)
{
    struct node_address configured = parsed(CONFIGURED);
    struct seat seat = seat_of(&configured);

    assert_true(seat_aim(&seat, PLACE, "10.0.0.9:6379", false));
    goes_to(&seat, "10.0.0.7", 6380);
    assert_false(seat_aim(&seat, PLACE, "10.0.0.9:6379", false));
    assert_false(seat_aim(&seat, PLACE, "", false));
    assert_false(seat_aim(&seat, PLACE, PLACE, false));
    goes_to(&seat, "10.0.0.7", 6380);
}

TEST(test_what_is_no_seat_leads_nowhere)
{
    static const char *const places[] = {"", "some.where:6379", "10.0.0.7", "10.0.0.7:0", "x"};
    struct node_address configured = parsed(CONFIGURED);
    struct seat seat = seat_of(&configured);

    for (size_t i = 0; i < HF_LENGTH(places); i++)
        assert_false(seat_aim(&seat, places[i], "10.0.0.9:6379", false));
    assert_ptr_equal(seat_address(&seat), &configured);
}

/* A reload: user and password are the new ones, and where it goes is the record's. */
TEST(test_a_reload_moves_nothing_from_its_seat)
{
    struct node_address configured = parsed(CONFIGURED),
                        next = parsed("b=redis://bob:other@10.0.0.8:6379/4");
    struct seat seat = seat_of(&configured);

    assert_true(seat_aim(&seat, PLACE, "", false));
    seat_configure(&seat, &next);
    memset(&configured, 'x', sizeof(configured)); /* nothing points there */
    goes_to(&seat, "10.0.0.7", 6380);
    assert_string_equal(seat_address(&seat)->text, PLACE);
    assert_string_equal(seat_address(&seat)->user, "bob");
    assert_string_equal(seat_address(&seat)->password, "other");
    assert_int_equal(seat_address(&seat)->db, 4);
    assert_false(seat_aim(&seat, PLACE, "", false));
}

/* (!) The operator's word. */
TEST(test_as_is_never_overruled)
{
    struct node_address configured = parsed("b=proxy:6379,fleet_address=" PLACE);
    struct seat seat = seat_of(&configured);

    assert_false(seat_aim(&seat, PLACE, PLACE, false));
    assert_false(seat_aim(&seat, PLACE, "", false));
    assert_false(seat_aim(&seat, "10.0.0.6:6379", PLACE, false));
    assert_false(seat_aim(&seat, "10.0.0.6:6379", "", false));
    assert_ptr_equal(seat_address(&seat), &configured);
}

TEST(test_as_of_a_reload_counts_and_ends_with_one)
{
    struct node_address configured = parsed(CONFIGURED),
                        proxied = parsed("b=proxy:1,fleet_address=" PLACE);
    struct seat seat = seat_of(&configured);

    assert_true(seat_aim(&seat, PLACE, "", false));
    seat_configure(&seat, &proxied);
    assert_ptr_equal(seat_address(&seat), &proxied);
    assert_false(seat_aim(&seat, PLACE, "", false));
    seat_configure(&seat, &configured);
    assert_ptr_equal(seat_address(&seat), &configured);
    assert_true(seat_aim(&seat, PLACE, "", false));
    goes_to(&seat, "10.0.0.7", 6380);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configured_until_a_record_is_known),
        cmocka_unit_test(test_goes_to_the_record_as_it_is_configured),
        cmocka_unit_test(test_goes_to_a_socket),
        cmocka_unit_test(test_private_places_are_the_founders),
        cmocka_unit_test(test_a_link_at_its_seat_stays),
        cmocka_unit_test(test_a_link_elsewhere_goes_once),
        cmocka_unit_test(test_what_is_no_seat_leads_nowhere),
        cmocka_unit_test(test_a_reload_moves_nothing_from_its_seat),
        cmocka_unit_test(test_as_is_never_overruled),
        cmocka_unit_test(test_as_of_a_reload_counts_and_ends_with_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

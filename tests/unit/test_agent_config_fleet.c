/* agent/config/config.h: what a record of the fleet makes of a configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/config/config.h"
#include "agent/base/address.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define TEST(name) static void name(HF_UNUSED void **state)

static struct config config;
static struct fleet_record record;

static void configure(int count, const char *const *nodes)
{
    char why[256];

    memset(&config, 0, sizeof(config));
    strcpy(config.key_format, "%s");
    for (int i = 0; i < count; i++)
        if (node_address_parse(nodes[i], &config.nodes[i], why, sizeof(why)) != HF_OK)
            fail_msg("%s", why);
    config.node_count = count;
    config.ttl_ms = 30000;
    config.ttl_max_ms = 60000;
    config.timing = timing_of(hf_ms(30000));
    config_count_all(&config);
}

static void seat(struct fleet_seat *seat, const char *id, const char *address)
{
    memset(seat, 0, sizeof(*seat));
    strcpy(seat->id, id);
    strcpy(seat->address, address);
}

/* Of three nodes; b has moved, complete. */
static int make(void **state)
{
    static const char *const nodes[] = {"a=redis://al:one@10.0.0.1:6379/2", "b=db.example:6379",
                                        "c=10.0.0.3:6379"};

    (void)state;
    configure(3, nodes);
    config_fleet(&config, &record);
    record.version = 2;
    record.state = FLEET_COMPLETE;
    seat(&record.seat[0], "a", "10.0.0.1:6379");
    seat(&record.seat[1], "b", "10.0.0.9:6379");
    seat(&record.seat[2], "c", "10.0.0.3:6379");
    record.before_count = 3;
    memcpy(record.before, record.seat, sizeof(record.seat));
    strcpy(record.before[1].address, "10.0.0.2:6379");
    record.ttl_max_before_ms = 60000;
    return 0;
}

static void add(const char *id, const char *address)
{
    seat(&record.seat[record.count++], id, address);
}

TEST(a_changed_fleet_with_one_of_the_ids_is_gone_by)
{
    assert_true(config_is_of(&config, &record, ""));
    record.version = 1;
    assert_false(config_is_of(&config, &record, ""));
    record.version = 2;
    record.state = FLEET_FOUNDING;
    assert_false(config_is_of(&config, &record, ""));
    record.state = FLEET_CHANGING;
    record.keys[0] ^= 1;
    assert_false(config_is_of(&config, &record, ""));
}

/* (!) All hosts look into the same database of every node: a lock is somewhere else otherwise. */
TEST(of_another_database_is_another_fleet)
{
    char keys[CONFIG_KEYS_TEXT];

    config_keys_text(&config, keys);
    assert_string_equal(keys, "\ndatabase 2");
    assert_true(config_is_of(&config, &record, ""));
    for (int i = 0; i < config.node_count; i++)
        config.nodes[i].db = 0;
    config_keys_text(&config, keys);
    assert_string_equal(keys, "");
    assert_false(config_is_of(&config, &record, ""));
}

/* Node by node it may have changed until none of the configured ones is left. */
TEST(so_is_the_fleet_that_the_same_configuration_went_by)
{
    strcpy(config.file_hash, "0123456789abcdef0123456789abcdef01234567");
    for (int i = 0; i < 3; i++)
        record.seat[i].id[0] = record.before[i].id[0] = (char)('x' + i);
    assert_false(config_is_of(&config, &record, ""));
    assert_true(config_is_of(&config, &record, config.file_hash));
    assert_false(config_is_of(&config, &record, "0123456789abcdef0123456789abcdef01234568"));
}

TEST(an_id_of_either_list_will_do)
{
    for (int i = 0; i < 3; i++)
        record.seat[i].id[0] = record.before[i].id[0] = (char)('x' + i);
    assert_false(config_is_of(&config, &record, ""));
    strcpy(record.before[2].id, "b");
    assert_true(config_is_of(&config, &record, ""));
    strcpy(record.before[2].id, "z");
    strcpy(record.seat[0].id, "c");
    assert_true(config_is_of(&config, &record, ""));
}

TEST(without_a_record_all_count)
{
    assert_int_equal(config.quorum, 2);
    assert_int_equal(config.counting, 7);
    assert_int_equal(config.ttl_longest_ms, 60000);
    assert_false(config.by_record);
}

TEST(a_configured_node_goes_to_its_seat_with_its_credentials)
{
    config_go_by(&config, &record, true, false);
    assert_true(config.by_record && config.settled);
    assert_int_equal(config.node_count, 3);
    assert_int_equal(config.unconfigured, 0);
    assert_string_equal(config.nodes[0].password, "one");
    assert_int_equal(config.nodes[0].db, 2);
    assert_string_equal(config.nodes[1].id, "b");
    assert_string_equal(config.nodes[1].host, "10.0.0.9");
    assert_string_equal(config.named[1], "db.example:6379");
}

TEST(another_node_is_at_its_seat_with_the_credentials_of_the_first)
{
    const struct node_address *d = &config.nodes[3];

    add("d", "[2001:db8::4]:6380");
    config_go_by(&config, &record, true, false);
    assert_int_equal(config.node_count, 4);
    assert_int_equal(config.unconfigured, 1 << 3);
    assert_string_equal(d->id, "d");
    assert_string_equal(d->text, "[2001:db8::4]:6380");
    assert_string_equal(d->host, "2001:db8::4");
    assert_int_equal(d->port, 6380);
    assert_true(d->numeric && !d->unix_socket);
    assert_string_equal(d->user, "al");
    assert_string_equal(d->password, "one");
    assert_int_equal(d->db, 2);
}

TEST(nodes_are_in_the_records_order_and_those_that_left_are_not_there)
{
    struct fleet_seat a = record.seat[0];

    record.seat[0] = record.seat[2];
    record.seat[1] = a;
    record.count = 2;
    config_go_by(&config, &record, true, false);
    assert_int_equal(config.node_count, 2);
    assert_string_equal(config.nodes[0].id, "c");
    assert_string_equal(config.nodes[0].host, "10.0.0.3");
    assert_string_equal(config.nodes[1].id, "a");
    assert_string_equal(config.nodes[1].password, "one");
}

TEST(while_it_is_changing_the_list_is_the_one_before)
{
    record.state = FLEET_CHANGING;
    add("d", "10.0.0.4:6379");
    config_go_by(&config, &record, false, false);
    assert_int_equal(config.node_count, 3);
    assert_int_equal(config.counting, 1 << 0 | 1 << 2);
    assert_int_equal(config.quorum, 3);
    assert_false(config.settled);
}

TEST(what_is_new_counts_when_the_record_has_settled)
{
    config_go_by(&config, &record, false, false);
    assert_int_equal(config.counting, 1 << 0 | 1 << 2);
    assert_int_equal(config.quorum, 2);
    config_go_by(&config, &record, true, false);
    assert_int_equal(config.counting, 7);
    assert_int_equal(config.quorum, 2);
}

static const char *const private_places[] = {"127.0.0.1:7004", "[::1]:7004", "/run/redis.sock"};

/* (!) Another host's loopback is another server: nobody is there, until seat_aim() knows that the fleet is this host's. */
TEST(a_private_seat_that_is_not_configured_is_nowhere)
{
    const struct node_address *d = &config.nodes[3];

    for (size_t i = 0; i < HF_LENGTH(private_places); i++) {
        const char *place = private_places[i];
        struct seat aimed = {0};

        (void)make(NULL);
        add("d", place);
        config_go_by(&config, &record, true, false);
        assert_string_equal(d->text, place);
        assert_true(d->unix_socket);
        assert_string_not_equal(d->host, place);
        assert_string_equal(d->password, "one");
        seat_configure(&aimed, d);
        assert_false(seat_aim(&aimed, place, "", false));
        assert_ptr_equal(seat_address(&aimed), d);
        assert_true(seat_aim(&aimed, place, "", true));
        assert_string_equal(seat_address(&aimed)->text, place);
        assert_string_equal(seat_address(&aimed)->id, "d");
        assert_string_not_equal(seat_address(&aimed)->host, d->host);
    }
}

TEST(at_the_founders_host_it_is_there)
{
    for (size_t i = 0; i < HF_LENGTH(private_places); i++) {
        (void)make(NULL);
        add("d", private_places[i]);
        config_go_by(&config, &record, true, true);
        assert_string_equal(config.nodes[3].text, private_places[i]);
        assert_string_not_equal(config.nodes[3].host, "/dev/null/nowhere");
    }
}

TEST(a_configured_node_at_a_private_seat_stays_where_this_host_reaches_it)
{
    strcpy(record.seat[1].address, "127.0.0.1:7002");
    config_go_by(&config, &record, true, false);
    assert_string_equal(config.nodes[1].host, "db.example");
}

TEST(as_is_not_overruled)
{
    static const char *const nodes[] = {"a=one.example,fleet_address=10.0.0.1:6379",
                                        "b=two.example,fleet_address=10.0.0.2:6379",
                                        "c=10.0.0.3:6379"};

    configure(3, nodes);
    config_go_by(&config, &record, true, false);
    assert_string_equal(config.nodes[0].as, "10.0.0.1:6379");
    assert_string_equal(config.nodes[0].host, "one.example");
    assert_string_equal(config.nodes[1].host, "two.example");
    assert_string_equal(config.named[1], "10.0.0.2:6379");
}

TEST(what_is_no_address_leads_nowhere)
{
    add("d", "nonsense");
    config_go_by(&config, &record, true, false);
    assert_string_equal(config.nodes[3].host, "/dev/null/nowhere");
}

/* What the table, the journal and the nodes' sentinels are compared by. */
TEST(the_list_has_another_hash)
{
    char before[41], after[41];

    config_go_by(&config, &record, true, false);
    memcpy(before, config.list_hash, sizeof(before));
    add("d", "10.0.0.4:6379");
    config_go_by(&config, &record, true, false);
    memcpy(after, config.list_hash, sizeof(after));
    assert_string_not_equal(before, after);
}

TEST(a_shorter_ttl_max_is_for_grants_at_once_and_for_quarantines_later)
{
    record.ttl_max_ms = 20000;
    config_go_by(&config, &record, false, false);
    assert_int_equal(config.ttl_max_ms, 20000);
    assert_int_equal(config.ttl_longest_ms, 60000);
    assert_int_equal(config.ttl_ms, 20000);
    assert_int_equal(hf_dur_ms(config.timing.ttl), 20000);
    config_go_by(&config, &record, true, false);
    assert_int_equal(config.ttl_longest_ms, 20000);
}

/* (!) Nodes may have brought back a record of before the file: it is gone by, and the file says how long leases may be. */
TEST(until_a_record_has_settled_quarantines_are_the_files)
{
    hf_time from = {HF_NS_PER_SEC};

    record.ttl_max_ms = record.ttl_max_before_ms = 3000;
    config.file_ttl_max_ms = 60000;
    assert_int_equal(config_settles(&config, &record, from).ns,
                     hf_time_add(from, timing_quarantine(hf_ms(60000))).ns);
    config_go_by(&config, &record, false, false);
    assert_int_equal(config.ttl_max_ms, 3000);
    assert_int_equal(config.ttl_longest_ms, 60000);
    config_go_by(&config, &record, true, false);
    assert_int_equal(config.ttl_longest_ms, 3000);
    record.ttl_max_ms = 90000;
    assert_int_equal(config_settles(&config, &record, from).ns,
                     hf_time_add(from, timing_quarantine(hf_ms(90000))).ns);
}

TEST(a_longer_ttl_max_is_for_quarantines_at_once_and_for_grants_later)
{
    record.ttl_max_ms = 90000;
    config_go_by(&config, &record, false, false);
    assert_int_equal(config.ttl_max_ms, 60000);
    assert_int_equal(config.ttl_longest_ms, 90000);
    config_go_by(&config, &record, true, false);
    assert_int_equal(config.ttl_max_ms, 90000);
    assert_int_equal(config.ttl_ms, 30000);
}

#define CASE(name) cmocka_unit_test_setup(name, make)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_changed_fleet_with_one_of_the_ids_is_gone_by),
        CASE(so_is_the_fleet_that_the_same_configuration_went_by),
        CASE(of_another_database_is_another_fleet),
        CASE(an_id_of_either_list_will_do),
        CASE(without_a_record_all_count),
        CASE(a_configured_node_goes_to_its_seat_with_its_credentials),
        CASE(another_node_is_at_its_seat_with_the_credentials_of_the_first),
        CASE(nodes_are_in_the_records_order_and_those_that_left_are_not_there),
        CASE(while_it_is_changing_the_list_is_the_one_before),
        CASE(what_is_new_counts_when_the_record_has_settled),
        CASE(a_private_seat_that_is_not_configured_is_nowhere),
        CASE(at_the_founders_host_it_is_there),
        CASE(a_configured_node_at_a_private_seat_stays_where_this_host_reaches_it),
        CASE(as_is_not_overruled),
        CASE(what_is_no_address_leads_nowhere),
        CASE(the_list_has_another_hash),
        CASE(a_shorter_ttl_max_is_for_grants_at_once_and_for_quarantines_later),
        CASE(until_a_record_has_settled_quarantines_are_the_files),
        CASE(a_longer_ttl_max_is_for_quarantines_at_once_and_for_grants_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

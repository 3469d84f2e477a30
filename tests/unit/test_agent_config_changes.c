/* What a reload would change: every key of config.def is noticed, and its column says whether a reload
 * applies it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/config/config.h"
#include "agent/config/config_changes.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define TEST(name) static void name(HF_UNUSED void **state)

static struct config before, after;
static struct config_change changes[CONFIG_CHANGES_MAX];
static size_t count;
static char why[256];

static void set(struct config *c, enum config_id row, const char *value)
{
    if (config_row_set(&config_rows[row], c, value, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
}

static void node(struct config *c, int i, const char *text)
{
    int most = c->node_count;

    c->node_count = i;
    set(c, CONFIG_ID_node, text);
    c->node_count = most > i ? most : i + 1;
}

static int setup(HF_UNUSED void **state)
{
    memset(&before, 0, sizeof(before));
    before.group = (gid_t)-1;
    for (int i = 0; i < CONFIG_ROWS; i++)
        if (*config_rows[i].standard && config_rows[i].type != CONFIG_DEV)
            set(&before, (enum config_id)i, config_rows[i].standard);
    node(&before, 0, "a=redis://me:one@10.0.0.1:6379");
    node(&before, 1, "b=10.0.0.2");
    node(&before, 2, "c=unix:/run/c");
    strcpy(before.runtime_dir, "/run/holdfast");
    after = before;
    return 0;
}

static void compare(void)
{
    count = config_changes(&before, &after, changes);
}

static const struct config_change *only(enum config_effect effect)
{
    compare();
    assert_int_equal(count, 1);
    assert_int_equal(changes[0].effect, effect);
    assert_true((changes[0].restart != NULL) == (effect == CONFIG_RESTART));
    return &changes[0];
}

TEST(nothing_changes)
{
    compare();
    assert_int_equal(count, 0);
}

/* A key that is added to config.def is noticed here, or this fails. */
TEST(every_key_is_noticed)
{
    static const char *const values[][2] = {
        {"name", "other"},           {"runtime_dir", "/other"},
        {"system", "yes"},           {"key_format", "l:%s"},
        {"key_format_for", "x* %s"}, {"group", "0"},
        {"table_mode", "0600"},      {"log_level", "debug"},
        {"allow_eviction", "yes"},   {"allow_replicas", "yes"},
        {"assume_fresh", "yes"},     {"reset_fleet", "yes"},
        {"lock_memory", "yes"},      {"dev", "7"},
        {"node", "d=10.0.0.4"},      {"allow", "a* user:7"},
        {"tls_check_host", "no"},
    };

    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];
        const char *value = row->type == CONFIG_DURATION ? "7s" : "77";

        for (size_t k = 0; k < HF_LENGTH(values); k++)
            if (strcmp(values[k][0], row->key) == 0)
                value = values[k][1];
        setup(NULL);
        set(&after, (enum config_id)i, value);
        compare();
        if (count != 1 || changes[0].row != i)
            fail_msg("config_changes() does not notice '%s'", row->key);
        assert_int_equal(changes[0].effect, row->restart ? CONFIG_RESTART : CONFIG_NOW);
        assert_true(!row->restart || *row->restart);
        if (row->type != CONFIG_NODE)
            assert_string_equal(changes[0].after, value);
    }
}

/* Whatever the files are called. */
TEST(other_certificates_are_applied)
{
    char text[256];

    strcpy(after.tls_digest, "0123");
    assert_true(only(CONFIG_NOW)->certificates);
    assert_string_equal(config_change_text(&changes[0], text, sizeof(text)),
                        "tls: other certificates, or another key");
}

TEST(tls_is_another_way_to_a_node_and_a_name_is_none)
{
    node(&before, 0, "a=redis://db:1");
    after = before;
    node(&after, 0, "a=rediss://db:1");
    (void)only(CONFIG_MOVED);
    before = after;
    node(&after, 0, "a=rediss://db:1,tls_name=other");
    (void)only(CONFIG_NOW);
}

TEST(what_a_restart_alone_can_change)
{
    static const enum config_id rows[] = {
        CONFIG_ID_node,
        CONFIG_ID_dev,
        CONFIG_ID_name,
        CONFIG_ID_runtime_dir,
        CONFIG_ID_system,
        CONFIG_ID_ttl_max,
        CONFIG_ID_capacity,
        CONFIG_ID_key_format,
        CONFIG_ID_key_format_for,
        CONFIG_ID_allow_eviction,
        CONFIG_ID_allow_replicas,
        CONFIG_ID_assume_fresh,
        CONFIG_ID_reset_fleet,
        CONFIG_ID_lock_memory,
        CONFIG_ID_renewal_priority,
    };
    uint64_t restart = 0, found = 0;

    for (size_t i = 0; i < HF_LENGTH(rows); i++)
        restart |= UINT64_C(1) << rows[i];
    for (int i = 0; i < CONFIG_ROWS; i++)
        if (config_rows[i].restart)
            found |= UINT64_C(1) << i;
    assert_int_equal(found, restart);
}

TEST(another_password_is_applied_and_not_shown)
{
    char text[300];

    node(&after, 0, "a=redis://me:two@10.0.0.1:6379");
    assert_true(only(CONFIG_NOW)->secret);
    assert_int_equal(changes[0].node, 0);
    assert_string_equal(config_change_text(changes, text, sizeof(text)),
                        "node a: another user or password");
    node(&after, 0, "a=redis://you:one@10.0.0.1:6379");
    assert_true(only(CONFIG_NOW)->secret);
}

TEST(another_seat_is_for_a_restart)
{
    char text[700];

    node(&after, 1, "b=10.0.0.2,fleet_address=10.0.0.9:6379");
    assert_int_equal(only(CONFIG_RESTART)->node, 1);
    assert_string_equal(changes[0].before, "b=10.0.0.2");
    assert_string_equal(changes[0].after, "b=10.0.0.2,fleet_address=10.0.0.9:6379");
    assert_non_null(strstr(config_change_text(changes, text, sizeof(text)), "keeps all leases"));
    node(&after, 1, "b=10.0.0.7,fleet_address=10.0.0.9:6379"); /* together with its address */
    assert_int_equal(only(CONFIG_RESTART)->node, 1);
    before = after;
    node(&after, 1, "b=10.0.0.7");
    assert_int_equal(only(CONFIG_RESTART)->node, 1);
    node(&after, 1, "b=10.0.0.7,fleet_address=10.0.0.10:6379");
    assert_int_equal(only(CONFIG_RESTART)->node, 1);
    node(&after, 1, "b=10.0.0.8,fleet_address=10.0.0.9:6379"); /* another way to the same */
    assert_int_equal(only(CONFIG_MOVED)->node, 1);
}

TEST(another_address_is_for_its_caller_to_judge)
{
    char text[300];

    node(&after, 1, "b=10.0.0.9:6380");
    assert_int_equal(only(CONFIG_MOVED)->node, 1);
    assert_string_equal(config_change_text(changes, text, sizeof(text)),
                        "node = b=10.0.0.9:6380 (was b=10.0.0.2)");
    node(&after, 1, "b=unix:/run/b");
    only(CONFIG_MOVED);
    node(&after, 1, "b=10.0.0.2:6380");
    only(CONFIG_MOVED);
}

TEST(the_same_address_in_other_words_is_applied)
{
    node(&after, 1, "b=10.0.0.2:6379");
    only(CONFIG_NOW);
}

TEST(another_database_needs_a_restart_even_at_the_same_address)
{
    after.nodes[1].db = 1;
    only(CONFIG_RESTART);
    node(&after, 1, "b=redis://10.0.0.9/0");
    after.nodes[1].db = 1;
    only(CONFIG_RESTART);
}

TEST(ids_order_and_number_need_a_restart)
{
    node(&after, 1, "d=10.0.0.2");
    only(CONFIG_RESTART);
    setup(NULL);
    node(&after, 3, "d=10.0.0.4");
    assert_int_equal(only(CONFIG_RESTART)->node, -1);
    setup(NULL);
    after.node_count = 2;
    only(CONFIG_RESTART);
    setup(NULL);
    after.nodes[1] = before.nodes[2];
    after.nodes[2] = before.nodes[1];
    only(CONFIG_RESTART);
}

TEST(both_kinds_are_told_apart_and_joined)
{
    char text[1000];

    set(&after, CONFIG_ID_ttl, "20s");
    set(&after, CONFIG_ID_capacity, "16384");
    set(&after, CONFIG_ID_track_held, "0");
    compare();
    assert_int_equal(count, 3);
    assert_int_equal(config_changes_text(changes, count, CONFIG_NOW, text, sizeof(text)), 2);
    assert_string_equal(text, "ttl = 20s (was 30s); track_held = 0 (was 1000)");
    assert_int_equal(config_changes_text(changes, count, CONFIG_RESTART, text, sizeof(text)), 1);
    assert_string_equal(text, "capacity = 16384 (now 8192): a restart keeps all leases");
    assert_int_equal(config_changes_text(changes, count, CONFIG_MOVED, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(config_changes_text(changes, count, CONFIG_NOW, text, 10), 2);
    assert_int_equal(strlen(text), 9);
}

TEST(off_and_on)
{
    char text[300];

    set(&after, CONFIG_ID_group, "0");
    assert_int_equal(only(CONFIG_NOW)->node, -1);
    assert_string_equal(config_change_text(changes, text, sizeof(text)), "group = 0 (was unset)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_changes, setup),
        cmocka_unit_test_setup(every_key_is_noticed, setup),
        cmocka_unit_test_setup(other_certificates_are_applied, setup),
        cmocka_unit_test_setup(tls_is_another_way_to_a_node_and_a_name_is_none, setup),
        cmocka_unit_test_setup(what_a_restart_alone_can_change, setup),
        cmocka_unit_test_setup(another_password_is_applied_and_not_shown, setup),
        cmocka_unit_test_setup(another_seat_is_for_a_restart, setup),
        cmocka_unit_test_setup(another_address_is_for_its_caller_to_judge, setup),
        cmocka_unit_test_setup(the_same_address_in_other_words_is_applied, setup),
        cmocka_unit_test_setup(another_database_needs_a_restart_even_at_the_same_address, setup),
        cmocka_unit_test_setup(ids_order_and_number_need_a_restart, setup),
        cmocka_unit_test_setup(both_kinds_are_told_apart_and_joined, setup),
        cmocka_unit_test_setup(off_and_on, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

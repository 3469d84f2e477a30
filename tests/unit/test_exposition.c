/* Contract. The metrics of a table: names, labels and units, of agents that live, hang or are gone. */
#include "reader_fixture.h"

#include "shm/compiler.h"
#include "tools/reader/exposition.h"
#include "shm/wordings.h"
#include "shm/measures.h"

#define NOW_NS (INT64_C(1000000) * HF_NS_PER_SEC)

static const hf_time now = {NOW_NS};

/* To be freed. */
static char *text_of(const char *agent, const char *state, const struct hf_table *table)
{
    const struct exposition e = {
        .agent = agent, .state = state, .now = now, .wall_ms = INT64_C(1800000000500)};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    exposition_write(&e, table, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    size_t length = strlen(line);

    if (!at || (at != text && at[-1] != '\n') || at[length] != '\n')
        fail_msg("no line \"%s\" in:\n%s", line, text);
}

static void only_an_agent_that_is_alive_is_up(void **state)
{
    static const char *const down[] = {HF_AGENT_HUNG, HF_AGENT_DEAD, HF_AGENT_ENDED};
    struct hf_table table = fixture_table(8);
    char *text = text_of("a", HF_AGENT_ALIVE, &table);

    (void)state;
    hf_gauge_set(&table, HF_GAUGE_READY, 1);
    assert_line(text, "holdfast_up{agent=\"a\"} 1");
    assert_line(text, "holdfast_state{agent=\"a\",state=\"alive\"} 1");
    assert_line(text, "holdfast_state{agent=\"a\",state=\"dead\"} 0");
    free(text);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_ready{agent=\"a\"} 1");
    free(text);
    for (size_t i = 0; i < HF_LENGTH(down); i++) {
        char line[96];

        text = text_of("a", down[i], &table);
        assert_line(text, "holdfast_up{agent=\"a\"} 0");
        assert_line(text, "holdfast_ready{agent=\"a\"} 0");
        snprintf(line, sizeof(line), "holdfast_state{agent=\"a\",state=\"%s\"} 1", down[i]);
        assert_line(text, line);
        free(text);
    }
    hf_table_close(&table);
}

static void without_a_table_the_agent_is_down_and_nothing_else_is_told(void **state)
{
    char *text = text_of("a", HF_AGENT_NONE, NULL);

    (void)state;
    assert_line(text, "holdfast_up{agent=\"a\"} 0");
    assert_line(text, "holdfast_state{agent=\"a\",state=\"none\"} 1");
    assert_line(text, "holdfast_metrics_timestamp_seconds{agent=\"a\"} 1800000000.5");
    assert_lacks(text, "grants");
    free(text);
}

static void ages_and_instants_are_seconds(void **state)
{
    struct hf_table table = fixture_table(8);
    char *text;

    (void)state;
    atomic_store(&table.header->main_beat_ns, NOW_NS - 2500 * HF_NS_PER_MS);
    atomic_store(&table.header->broker_beat_ns, NOW_NS + 5);
    atomic_store(&table.header->started_ns, NOW_NS - 100 * HF_NS_PER_SEC);
    hf_counter_set(&table, HF_COUNTER_CONFIG_LOADED_MS, 1799999900250);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_heartbeat_age_seconds{agent=\"a\",thread=\"main\"} 2.5");
    assert_line(text, "holdfast_heartbeat_age_seconds{agent=\"a\",thread=\"broker\"} 0");
    assert_line(text, "holdfast_heartbeat_age_seconds{agent=\"a\",thread=\"renewal\"} -1");
    assert_line(text, "holdfast_config_loaded_timestamp_seconds{agent=\"a\"} 1799999900.25");
    assert_line(text, "holdfast_start_time_seconds{agent=\"a\"} 1799999900");
    assert_line(text, "holdfast_ttl_seconds{agent=\"a\"} 30");
    assert_line(text, "holdfast_ttl_max_seconds{agent=\"a\"} 60");
    assert_line(text, "holdfast_build_info{agent=\"a\",version=\"0.1.0\"} 1");
    free(text);
    hf_gauge_set(&table, HF_GAUGE_START_WALL_MS, 1799999899750);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_start_time_seconds{agent=\"a\"} 1799999899.75");
    free(text);
    hf_table_close(&table);
}

static void a_histogram_is_cumulative_and_in_seconds(void **state)
{
    struct hf_table table = fixture_table(8);
    char *text;

    (void)state;
    hf_histogram_add(&table, HF_HISTOGRAM_LAG, 50 * HF_NS_PER_US);
    hf_histogram_add(&table, HF_HISTOGRAM_LAG, 100 * HF_NS_PER_US);
    hf_histogram_add(&table, HF_HISTOGRAM_LAG, 10000 * HF_NS_PER_SEC);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "# TYPE holdfast_renewal_lag_seconds histogram");
    assert_line(text, "holdfast_renewal_lag_seconds_bucket{agent=\"a\",le=\"6.4e-05\"} 1");
    assert_line(text, "holdfast_renewal_lag_seconds_bucket{agent=\"a\",le=\"0.000128\"} 2");
    assert_line(text, "holdfast_renewal_lag_seconds_bucket{agent=\"a\",le=\"4294.967296\"} 2");
    assert_line(text, "holdfast_renewal_lag_seconds_bucket{agent=\"a\",le=\"+Inf\"} 3");
    assert_line(text, "holdfast_renewal_lag_seconds_sum{agent=\"a\"} 10000.00015");
    assert_line(text, "holdfast_renewal_lag_seconds_count{agent=\"a\"} 3");
    free(text);
    hf_table_close(&table);
}

static void extremes_have_units_and_a_margin_is_a_part_of_the_ttl(void **state)
{
    struct hf_table table = fixture_table(8);
    char *text = text_of("a", HF_AGENT_ALIVE, &table);

    (void)state;
    assert_line(text, "holdfast_wait_duration_max_seconds{agent=\"a\"} 0");
    assert_lacks(text, "holdfast_renewal_margin_min_ratio{");
    free(text);
    hf_extreme_add_ns(&table, HF_EXTREME_WAIT, 1500 * HF_NS_PER_MS, now);
    hf_extreme_add(&table, HF_EXTREME_MARGIN, 250000, now);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_wait_duration_max_seconds{agent=\"a\"} 1.5");
    assert_line(text, "holdfast_renewal_margin_min_ratio{agent=\"a\"} 0.25");
    free(text);
    hf_table_close(&table);
}

static void the_oldest_waiter_ages_while_the_agent_hangs_and_goes_with_it(void **state)
{
    struct hf_table table = fixture_table(8);
    char *text;

    (void)state;
    hf_gauge_set(&table, HF_GAUGE_OLDEST_WAITER_NS, NOW_NS - 90 * HF_NS_PER_SEC);
    text = text_of("a", HF_AGENT_HUNG, &table);
    assert_line(text, "holdfast_waiter_oldest_seconds{agent=\"a\"} 90");
    free(text);
    text = text_of("a", HF_AGENT_DEAD, &table);
    assert_line(text, "holdfast_waiter_oldest_seconds{agent=\"a\"} 0");
    free(text);
    hf_gauge_set(&table, HF_GAUGE_OLDEST_WAITER_NS, 0);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_waiter_oldest_seconds{agent=\"a\"} 0");
    free(text);
    hf_table_close(&table);
}

static void counters_are_told_by_their_reason_and_kind(void **state)
{
    struct hf_table table = fixture_table(8);
    char *text;

    (void)state;
    hf_counter_add(&table, HF_COUNTER_LOSSES, 3);
    hf_counter_add(&table, HF_COUNTER_LOSSES_QUORUM, 2);
    hf_counter_add(&table, HF_COUNTER_LOSSES_AWAY, 1);
    hf_counter_set(&table, HF_COUNTER_CLIENTS_MAX, 1024);
    hf_failure_add(&table, HF_EBUSY);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_losses_total{agent=\"a\",reason=\"quorum\"} 2");
    assert_line(text, "holdfast_losses_total{agent=\"a\",reason=\"away\"} 1");
    assert_line(text, "holdfast_losses_total{agent=\"a\",reason=\"foreign\"} 0");
    assert_line(text, "holdfast_acquires_failed_total{agent=\"a\",reason=\"busy\"} 1");
    assert_line(text, "# TYPE holdfast_clients_max gauge");
    assert_line(text, "holdfast_clients_max{agent=\"a\"} 1024");
    assert_line(text, "# TYPE holdfast_grants_total counter");
    assert_lacks(text, "holdfast_losses_total{agent=\"a\"} ");
    assert_lacks(text, "_ns");
    assert_lacks(text, "_ms");
    free(text);
    hf_table_close(&table);
}

static void nodes_have_their_id_and_its_characters_are_escaped(void **state)
{
    struct hf_table table = fixture_table(8);
    struct hf_node_row row = {.state = HF_NODE_REFUSED,
                              .refused = HF_REFUSED_FLEET,
                              .rtt_ns = 250 * HF_NS_PER_US,
                              .last_reply_ns = NOW_NS - HF_NS_PER_SEC,
                              .clock_offset_us = -1500,
                              .clock_steps = 4,
                              .id = "n\"1\\"};
    char *text;

    (void)state;
    hf_node_publish(&table, 0, &row);
    row = (struct hf_node_row){.state = HF_NODE_QUARANTINED,
                               .quarantine_reason = HF_QUARANTINE_CLOCK | HF_QUARANTINE_RUN_ID,
                               .quarantine_until_ns = NOW_NS + 12 * HF_NS_PER_SEC,
                               .flags = HF_NODE_F_NOT_SEATED,
                               .id = "n2"};
    hf_node_publish(&table, 1, &row);
    row = (struct hf_node_row){.state = HF_NODE_UP, .id = "n3"};
    hf_node_publish(&table, 2, &row);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text, "holdfast_node_refused{agent=\"a\",node=\"n\\\"1\\\\\",reason=\"fleet\"} 1");
    assert_line(text, "holdfast_node_rtt_seconds{agent=\"a\",node=\"n\\\"1\\\\\"} 0.00025");
    assert_line(text, "holdfast_node_last_reply_age_seconds{agent=\"a\",node=\"n\\\"1\\\\\"} 1");
    assert_line(text, "holdfast_node_last_reply_age_seconds{agent=\"a\",node=\"n3\"} -1");
    assert_line(text,
                "holdfast_node_clock_offset_seconds{agent=\"a\",node=\"n\\\"1\\\\\"} -0.0015");
    assert_line(text, "holdfast_node_clock_steps_total{agent=\"a\",node=\"n\\\"1\\\\\"} 4");
    assert_line(text, "holdfast_node_quarantined{agent=\"a\",node=\"n2\",reason=\"run_id\"} 1");
    assert_line(text, "holdfast_node_quarantined{agent=\"a\",node=\"n2\",reason=\"clock\"} 1");
    assert_line(text, "holdfast_node_quarantine_left_seconds{agent=\"a\",node=\"n2\"} 12");
    assert_line(text, "holdfast_node_fleet_counts{agent=\"a\",node=\"n2\"} 0");
    assert_line(text, "holdfast_node_state{agent=\"a\",node=\"n3\",state=\"up\"} 1");
    assert_line(text, "holdfast_node_state{agent=\"a\",node=\"n3\",state=\"down\"} 0");
    assert_line(text, "holdfast_node_votes{agent=\"a\",node=\"n3\"} 1");
    assert_line(text, "holdfast_node_votes{agent=\"a\",node=\"n2\"} 0");
    free(text);
    text = text_of("a", HF_AGENT_DEAD, &table); /* nobody knows */
    assert_line(text, "holdfast_node_state{agent=\"a\",node=\"n3\",state=\"up\"} 0");
    assert_line(text, "holdfast_node_votes{agent=\"a\",node=\"n3\"} 0");
    assert_line(text, "holdfast_node_fleet_counts{agent=\"a\",node=\"n3\"} 0");
    assert_lacks(text, "holdfast_node_refused{");
    assert_lacks(text, "holdfast_node_quarantined{");
    free(text);
    hf_table_close(&table);
}

static void a_damaged_table_gives_no_terminal_an_order(void **state)
{
    struct hf_table table = fixture_table(8);
    struct hf_node_row row = {.state = HF_NODE_QUARANTINED,
                              .last_reply_ns = INT64_MIN,
                              .quarantine_until_ns = INT64_MIN,
                              .clock_offset_us = INT64_MAX,
                              .id = "\x1b[2J\xff"};
    char *text;

    (void)state;
    memset(table.header->version, '\n', sizeof(table.header->version));
    atomic_store(&table.header->started_ns, INT64_MIN);
    atomic_store(&table.header->main_beat_ns, INT64_MIN);
    hf_node_publish(&table, 0, &row);
    text = text_of("a", HF_AGENT_ALIVE, &table);
    assert_line(text,
                "holdfast_node_last_reply_age_seconds{agent=\"a\",node=\"\\\\x1b[2J\\\\xff\"} -1");
    assert_has(text, "version=\"\\n\\n");
    assert_lacks(text, "\x1b");
    free(text);
    hf_table_close(&table);
}

static void leases_count_while_they_are_in_force(void **state)
{
    struct hf_table table = fixture_table(8);
    char *text;

    (void)state;
    atomic_store(&table.header->slots_used, 3);
    fixture_publish(&table, 0, 0, "a", 1, (hf_time){NOW_NS + 20 * HF_NS_PER_SEC});
    fixture_publish(&table, 1, 1, "b", 1, (hf_time){NOW_NS + 5 * HF_NS_PER_SEC});
    hf_slot_mark(&table.slots[1], HF_SLOT_LATE, 0, HF_LOSS_NONE);
    fixture_publish(&table, 2, 2, "c", 1, (hf_time){NOW_NS - HF_NS_PER_SEC});
    text = text_of("a", HF_AGENT_DEAD, &table);
    assert_line(text, "holdfast_leases_by_state{agent=\"a\",state=\"held\"} 1");
    assert_line(text, "holdfast_leases_by_state{agent=\"a\",state=\"late\"} 1");
    assert_line(text, "holdfast_leases_by_state{agent=\"a\",state=\"losing\"} 0");
    assert_has(text, "holdfast_validity_least_seconds{agent=\"a\"} 4.99");
    free(text);
    hf_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_agent_that_is_alive_is_up),
        cmocka_unit_test(without_a_table_the_agent_is_down_and_nothing_else_is_told),
        cmocka_unit_test(ages_and_instants_are_seconds),
        cmocka_unit_test(a_histogram_is_cumulative_and_in_seconds),
        cmocka_unit_test(extremes_have_units_and_a_margin_is_a_part_of_the_ttl),
        cmocka_unit_test(the_oldest_waiter_ages_while_the_agent_hangs_and_goes_with_it),
        cmocka_unit_test(counters_are_told_by_their_reason_and_kind),
        cmocka_unit_test(nodes_have_their_id_and_its_characters_are_escaped),
        cmocka_unit_test(a_damaged_table_gives_no_terminal_an_order),
        cmocka_unit_test(leases_count_while_they_are_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

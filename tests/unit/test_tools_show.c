/* Contract. What the reading subcommands print: lines for people, and JSON. */
#include "reader_fixture.h"

#include "shm/wordings.h"
#include "tools/output/words.h"
#include "tools/show/show_internal.h"

static struct hf_text_pool *pool;

static struct reader set_up(void)
{
    struct reader reader = fixture_reader(8);
    struct hf_table *t = &reader.table;

    assert_int_equal(hf_text_pool_create(t, &pool), 0);
    fixture_lease(
        t, pool, 0,
        (struct fixture_lease){.name = "db/migrate", .note = "deploy\t7", .left_ms = 25000});
    fixture_lease(t, pool, 1,
                  (struct fixture_lease){.name = "nul\0new\nline", .len = 12, .left_ms = 25000});
    fixture_lease(t, pool, 2,
                  (struct fixture_lease){.name = "gr\xc3\xb6\xc3\x9f"
                                                 "e",
                                         .left_ms = 25000});
    fixture_lease(t, pool, 3, (struct fixture_lease){.name = "\xff\x1b[2J", .left_ms = 25000});
    fixture_lease(
        t, pool, 4,
        (struct fixture_lease){
            .name = "over", .left_ms = 25000, .state = HF_SLOT_LOST, .reason = HF_LOSS_FOREIGN});
    return reader;
}

static void tear_down(struct reader *reader)
{
    hf_text_pool_destroy(pool);
    reader_close(reader);
}

static char *list(const struct reader *reader, bool all)
{
    const struct reader_filter filter = {.all = all};
    uint32_t unreadable;
    int saved = fixture_capture_begin();

    show_lease_list(reader, &filter, &unreadable);
    return fixture_capture_end(saved);
}

static unsigned lines_of(const char *text)
{
    unsigned lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void test_list(void **state)
{
    struct reader reader = set_up();
    char *text = list(&reader, false);

    (void)state;
    assert_int_equal(lines_of(text), 5);
    assert_has(text, "NAME");
    assert_has(text, "db/migrate");
    assert_has(text, "117652638140596224");
    assert_has(text, "2/3");
    assert_has(text, "deploy\\t7");
    assert_has(text, "nul\\x00new\\nline");
    assert_has(text, "\\xff\\x1b[2J");
    assert_lacks(text, "\x1b");
    assert_lacks(text, "over");
    free(text);
    text = list(&reader, true);
    assert_int_equal(lines_of(text), 6);
    assert_has(text, "lost");
    free(text);
    tear_down(&reader);
}

static json_t *list_json(const struct reader *reader)
{
    const struct reader_filter filter = {.all = true};
    struct json_out out;
    uint32_t unreadable;
    json_error_t error;
    json_t *document;
    int saved = fixture_capture_begin();
    char *text;

    json_begin(&out, stdout);
    json_member(&out, "before", json_integer(1));
    show_lease_list_json(&out, reader, &filter, &unreadable);
    json_member(&out, "after", json_integer(2));
    json_end(&out);
    text = fixture_capture_end(saved);
    document = json_loads(text, JSON_ALLOW_NUL, &error);
    if (!document)
        fail_msg("%s at line %d of:\n%s", error.text, error.line, text);
    free(text);
    return document;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void test_list_json(void **state)
{
    struct reader reader = set_up();
    json_t *document = list_json(&reader), *leases = json_object_get(document, "leases"), *lease;

    (void)state;
    assert_int_equal(json_array_size(leases), 5);
    assert_int_equal(json_integer_value(json_object_get(document, "after")), 2);

    lease = json_array_get(leases, 0);
    assert_string_equal(text_of(lease, "name"), "db/migrate");
    assert_string_equal(text_of(lease, "fence"), "117652638140596224");
    assert_string_equal(text_of(lease, "state"), "held");
    assert_string_equal(text_of(lease, "note"), "deploy\t7");
    assert_true(json_is_true(json_object_get(lease, "held")));
    assert_true(json_integer_value(json_object_get(lease, "left_ms")) > 20000);
    assert_true(json_integer_value(json_object_get(lease, "held_ms")) >= 1500);
    assert_true(json_is_null(json_object_get(lease, "reason")));

    lease = json_array_get(leases, 1);
    assert_int_equal(json_string_length(json_object_get(lease, "name")), 12);
    assert_memory_equal(text_of(lease, "name"), "nul\0new\nline", 12);
    assert_null(json_object_get(lease, "name_hex"));
    assert_string_equal(text_of(json_array_get(leases, 2), "name"), "gr\xc3\xb6\xc3\x9f"
                                                                    "e");

    lease = json_array_get(leases, 3); /* no UTF-8 */
    assert_string_equal(text_of(lease, "name"), "\\xff\\x1b[2J");
    assert_string_equal(text_of(lease, "name_hex"), "ff1b5b324a");

    lease = json_array_get(leases, 4);
    assert_string_equal(text_of(lease, "state"), "lost");
    assert_string_equal(text_of(lease, "reason"), "foreign");
    assert_true(json_is_false(json_object_get(lease, "held")));
    json_decref(document);
    tear_down(&reader);
}

static void test_show(void **state)
{
    struct reader reader = set_up();
    struct hf_slot_view view;
    int saved;
    char *text;

    (void)state;
    assert_int_equal(reader_find(&reader.table, "nul\0new\nline", 12, &view), 0);
    saved = fixture_capture_begin();
    show_lease(&reader, &view, true);
    text = fixture_capture_end(saved);
    assert_has(text, "nul\\x00new\\nline");
    assert_has(text, "117652638140596224");
    assert_has(text, "2 of 3 nodes, quorum 2");
    assert_has(text, "command comm");
    free(text);

    assert_int_equal(reader_find(&reader.table, "over", 4, &view), 0);
    saved = fixture_capture_begin();
    show_lease(&reader, &view, false);
    text = fixture_capture_end(saved);
    assert_has(text, "lost (another holder's keys are on too many nodes)");
    assert_lacks(text, "left ");
    free(text);
    tear_down(&reader);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void publish_nodes(struct hf_table *table)
{
    struct hf_node_row row = {.state = HF_NODE_UP, .rtt_ns = 420000, .id = "n1", .address = "h1:1"};

    row.last_reply_ns = fixture_now().ns;
    hf_node_publish(table, 0, &row);
    row = (struct hf_node_row){.state = HF_NODE_QUARANTINED, .id = "n2"};
    row.quarantine_reason = HF_QUARANTINE_RUN_ID | HF_QUARANTINE_CLOCK;
    row.quarantine_until_ns = hf_time_add(fixture_now(), hf_ms(100 * 1000)).ns;
    row.clock_steps = 2;
    hf_node_publish(table, 1, &row);
    row = (struct hf_node_row){.state = HF_NODE_REFUSED, .id = "n\n3"};
    row.refused = HF_REFUSED_REPLICA;
    strcpy(row.error, "bad\x1b");
    row.error_class = HF_NODE_ERR_READONLY;
    hf_node_publish(table, 2, &row);
}

static const struct life alive = {.verdict = LIFE_ALIVE};
static const struct life dead = {.verdict = LIFE_DEAD, .age_ms = {4000, 4000, 4000}};

static void nodes_of_a_dead_agent_are_told_as_the_last_known(void **state)
{
    struct reader reader = fixture_reader(4);
    struct json_out out;
    json_t *document, *node;
    int saved;
    char *text;

    (void)state;
    publish_nodes(&reader.table);
    saved = fixture_capture_begin();
    show_node_list(&reader, &dead);
    show_node_list_long(&reader, &dead);
    text = fixture_capture_end(saved);
    assert_has(text, "  was up           0.42ms    4.0s ago");
    assert_has(text, "  state     was up 4.0s ago\n");
    assert_has(text, "was quarantined");
    assert_lacks(text, "  up ");
    assert_lacks(text, "votes again in");
    free(text);
    saved = fixture_capture_begin();
    json_begin(&out, stdout);
    show_node_list_json(&out, &reader, &dead, 0);
    json_end(&out);
    text = fixture_capture_end(saved);
    document = json_loads(text, 0, NULL);
    assert_non_null(document);
    for (size_t i = 0; i < 3; i++) {
        node = json_array_get(json_object_get(document, "nodes"), i);
        assert_string_equal(text_of(node, "state"), "unknown");
        assert_true(json_is_false(json_object_get(node, "votes")));
        assert_int_equal(json_integer_value(json_object_get(node, "quarantine_left_ms")), 0);
    }
    node = json_array_get(json_object_get(document, "nodes"), 0);
    assert_string_equal(text_of(node, "last_state"), "up");
    assert_true(json_is_true(json_object_get(node, "last_votes")));
    json_decref(document);
    free(text);
    reader_close(&reader);
}

static void test_nodes(void **state)
{
    struct reader reader = fixture_reader(4);
    struct hf_node_row rows[HF_NODES_MAX];
    int saved;
    char *text;

    (void)state;
    publish_nodes(&reader.table);
    assert_int_equal(reader_nodes(&reader, rows), 3);
    assert_int_equal(reader_nodes_voting(rows, 3), 1);
    saved = fixture_capture_begin();
    show_node_list(&reader, &alive);
    show_node_list_long(&reader, &alive);
    text = fixture_capture_end(saved);
    assert_has(text, "0.42ms");
    assert_has(text, "restarted, its clock stepped, votes again in 1m3");
    assert_has(text, "n\\n3");
    assert_has(text, "it is a replica");
    assert_has(text, "readonly: bad\\x1b");
    assert_has(text, "clock steps 2");
    assert_lacks(text, "\x1b");
    free(text);
    reader_close(&reader);
}

static void test_nodes_json(void **state)
{
    struct reader reader = fixture_reader(4);
    struct json_out out;
    json_t *document, *nodes, *node;
    int saved;
    char *text;

    (void)state;
    publish_nodes(&reader.table);
    saved = fixture_capture_begin();
    json_begin(&out, stdout);
    show_node_list_json(&out, &reader, &alive, 0);
    json_end(&out);
    text = fixture_capture_end(saved);
    document = json_loads(text, 0, NULL);
    assert_non_null(document);
    nodes = json_object_get(document, "nodes");
    assert_int_equal(json_array_size(nodes), 3);
    node = json_array_get(nodes, 0);
    assert_true(json_is_true(json_object_get(node, "votes")));
    assert_int_equal(json_integer_value(json_object_get(node, "rtt_us")), 420);
    node = json_array_get(nodes, 1);
    assert_string_equal(text_of(node, "state"), "quarantined");
    assert_int_equal(json_array_size(json_object_get(node, "quarantine_reasons")), 2);
    assert_true(json_integer_value(json_object_get(node, "quarantine_left_ms")) > 90000);
    assert_true(json_is_null(json_object_get(node, "last_reply_age_ms")));
    node = json_array_get(nodes, 2);
    assert_string_equal(text_of(node, "id"), "n\n3");
    assert_string_equal(text_of(node, "refusal"), "replica");
    json_decref(document);
    free(text);
    reader_close(&reader);
}

/* --- words and numbers ------------------------------------------------------------------------ */

/* The sentence of an error is in its row. */
static void says_all(const struct hf_why *why, bool has_sentence)
{
    assert_string_not_equal(why->word, "unknown");
    assert_true(*why->word && *why->remedy && (*why->sentence || !has_sentence));
}

static void test_words(void **state)
{
    (void)state;
    for (uint32_t reason = 0; reason <= HF_LOSS_FENCE; reason++)
        assert_string_not_equal(hf_loss_word(reason), "unknown");
    for (uint32_t refusal = HF_REFUSED_REPLICA; refusal <= HF_REFUSED_MISPLACED; refusal++)
        says_all(hf_why_refused(refusal), true);
    for (uint32_t error = HF_NODE_ERR_RESOLVE; error <= HF_NODE_ERR_WANTS_TLS; error++)
        says_all(hf_why_failed(error), false);
    for (uint32_t node = 0; node < HF_NODE_STATES; node++)
        assert_string_not_equal(hf_node_state_word(node), "unknown");
    for (unsigned bit = 0; bit < HF_QUARANTINE_REASONS; bit++)
        says_all(hf_why_quarantined(1u << bit), true);
    assert_string_equal(hf_why_refused(HF_REFUSED_NOT)->word, "");
    assert_string_equal(hf_why_failed(HF_NODE_ERR_NONE)->word, "");
    assert_string_equal(hf_why_quarantined(HF_QUARANTINE_RUN_ID)->word, "run_id");
    /* Of a later agent. */
    assert_string_equal(hf_loss_word(99), "unknown");
    assert_string_equal(hf_node_state_word(99), "unknown");
    assert_string_equal(hf_why_refused(99)->word, "unknown");
    assert_string_equal(hf_why_failed(99)->word, "unknown");
}

static void test_format(void **state)
{
    char text[FORMAT_USER_SIZE];

    (void)state;
    assert_string_equal(format_rtt(text, sizeof(text), 0), "-");
    assert_string_equal(format_rtt(text, sizeof(text), 150000), "0.15ms");
    assert_string_equal(format_rtt(text, sizeof(text), 12345678), "12.34ms");
    assert_string_equal(format_rtt(text, sizeof(text), 1500000000), "1.5s");
    assert_string_equal(format_offset(text, sizeof(text), 12000), "+12ms");
    assert_string_equal(format_offset(text, sizeof(text), -3000000), "-3.0s");
    assert_string_equal(format_user(text, sizeof(text), 0), "root");
    assert_string_equal(format_user(text, sizeof(text), 4000000123u), "4000000123");
    assert_string_equal(format_user(text, sizeof(text), 0), "root");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_json),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(nodes_of_a_dead_agent_are_told_as_the_last_known),
        cmocka_unit_test(test_nodes_json),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

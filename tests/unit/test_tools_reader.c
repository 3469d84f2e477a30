/* Opening an agent's table by the agent's name, and going through its leases. */
#include "reader_fixture.h"

#include <pthread.h>
#include <time.h>

#include "tools/reader/places.h"

struct opened {
    char agent[HF_AGENT_NAME_MAX + 1];
    char shm_name[HF_TABLE_NAME_MAX];
    struct hf_table table;
    char why[READER_WHY_SIZE];
};

/* A table under the name of an agent of this user. */
static void set_up(struct opened *o, uint64_t timens)
{
    struct hf_table_spec spec = fixture_spec(16);
    char any[HF_TABLE_NAME_MAX];
    bool warm;

    memset(o, 0, sizeof(*o));
    fixture_name(any);
    snprintf(o->agent, sizeof(o->agent), "%.60s", strchr(any, '.') + 1);
    assert_int_equal(hf_table_name(o->agent, false, geteuid(), o->shm_name), 0);
    spec.timens_inode = timens;
    spec.agent_name = o->agent;
    if (hf_table_create(o->shm_name, &spec, &o->table, &warm, o->why, sizeof(o->why)) != 0)
        fail_msg("%s", o->why);
    hf_table_set_state(&o->table, HF_TABLE_ALIVE);
    setenv("HOLDFAST_RUNTIME_DIR", "/nowhere", 1);
    unsetenv("HOLDFAST_AGENT");
}

static void tear_down(struct opened *o)
{
    shm_unlink(o->shm_name);
    hf_table_close(&o->table);
    unsetenv("HOLDFAST_RUNTIME_DIR");
    unsetenv("HOLDFAST_AGENT");
}

static int try_open(struct opened *o, const char *agent)
{
    struct reader reader;
    int status = reader_open(agent, &reader, o->why, sizeof(o->why));

    if (status == HF_OK) {
        assert_string_equal(reader.place.shm_name, o->shm_name);
        reader_close(&reader);
    }
    return status;
}

static void test_by_name_environment_and_path(void **state)
{
    struct opened o;
    char path[256];

    (void)state;
    set_up(&o, fixture_timens());
    assert_int_equal(try_open(&o, o.agent), HF_OK);
    if (access("/dev/shm/holdfast.default", F_OK) != 0) /* this machine may have an agent */
        assert_int_equal(try_open(&o, NULL), HF_ENOAGENT);
    setenv("HOLDFAST_AGENT", o.agent, 1);
    assert_int_equal(try_open(&o, NULL), HF_OK);
    snprintf(path, sizeof(path), "/nowhere/%s/sock", o.agent);
    assert_int_equal(try_open(&o, path), HF_OK);
    tear_down(&o);
}

static void test_users_agent_goes_first(void **state)
{
    struct place places[PLACES_MAX];
    char why[READER_WHY_SIZE], user[HF_TABLE_NAME_MAX];

    (void)state;
    unsetenv("HOLDFAST_RUNTIME_DIR");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(places_find("x", places, why, sizeof(why)), 2);
    hf_table_name("x", false, geteuid(), user);
    assert_string_equal(places[0].shm_name, user);
    assert_string_equal(places[0].dir, "/run/user/7/holdfast/x");
    assert_string_equal(places[1].shm_name, "/holdfast.x");
    assert_string_equal(places[1].dir, "/run/holdfast/x");
    unsetenv("XDG_RUNTIME_DIR");
}

static void test_whose_table(void **state)
{
    static const char *const none[] = {"holdfast",
                                       "holdfast.",
                                       "holdfast..x",
                                       "holdfast-.x",
                                       "holdfast-0.x",
                                       "holdfast-01.x",
                                       "holdfast- 1.x",
                                       "holdfast-+1.x",
                                       "holdfast-1x.x",
                                       "holdfast-1",
                                       "holdfastx.y",
                                       "sem.holdfast.x",
                                       "holdfast.a/b",
                                       "holdfast.a b",
                                       "holdfast-4294967297.x",
                                       "holdfast-99999999999999999999.x"};
    const char *agent;
    bool system;
    uid_t uid;

    (void)state;
    assert_true(places_of_table("holdfast.a-1.b", &system, &uid, &agent));
    assert_true(system);
    assert_string_equal(agent, "a-1.b");
    assert_true(places_of_table("holdfast-1000.7", &system, &uid, &agent));
    assert_false(system);
    assert_int_equal(uid, 1000);
    assert_string_equal(agent, "7");
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        if (places_of_table(none[i], &system, &uid, &agent))
            fail_msg("'%s' was taken", none[i]);
}

static void test_none_and_bad_names(void **state)
{
    struct opened o;

    (void)state;
    set_up(&o, fixture_timens());
    assert_int_equal(try_open(&o, "no-such-agent-here"), HF_ENOAGENT);
    assert_has(o.why, "no-such-agent-here");
    assert_int_equal(try_open(&o, ".hidden"), HF_EINVAL);
    assert_int_equal(try_open(&o, "a\nb"), HF_EINVAL);
    assert_has(o.why, "a\\nb");
    assert_lacks(o.why, "\n");
    assert_int_equal(try_open(&o, "/sock"), HF_EINVAL);
    tear_down(&o);
}

static void test_another_time_namespace(void **state)
{
    struct opened o;

    (void)state;
    if (!fixture_timens())
        skip();
    set_up(&o, fixture_timens() + 1);
    assert_int_equal(try_open(&o, o.agent), HF_ETIMENS);
    assert_has(o.why, "time namespace");
    tear_down(&o);
}

static void test_not_ready(void **state)
{
    struct opened o;

    (void)state;
    set_up(&o, fixture_timens());
    hf_table_set_state(&o.table, HF_TABLE_INIT);
    assert_int_equal(try_open(&o, o.agent), HF_ETABLE);
    assert_has(o.why, "not ready");
    tear_down(&o);
}

static void *make_ready(void *arg)
{
    const struct timespec moment = {.tv_nsec = 300000000};

    (void)nanosleep(&moment, NULL);
    hf_table_set_state(arg, HF_TABLE_ALIVE);
    return NULL;
}

/* An agent that starts again makes its table anew for a moment. */
static void test_ready_soon(void **state)
{
    struct opened o;
    pthread_t thread;

    (void)state;
    set_up(&o, fixture_timens());
    hf_table_set_state(&o.table, HF_TABLE_INIT);
    assert_int_equal(pthread_create(&thread, NULL, make_ready, &o.table), 0);
    assert_int_equal(try_open(&o, o.agent), HF_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    tear_down(&o);
}

/* --- leases ----------------------------------------------------------------------------------- */

struct seen {
    unsigned count, in_force;
    char names[256]; /* first bytes */
};

static void see(const struct hf_slot_view *view, bool in_force, void *arg)
{
    struct seen *seen = arg;

    seen->names[seen->count++] = (char)view->name[0];
    seen->in_force += in_force;
}

static struct seen walk(const struct reader *reader, const char *prefix, size_t len, bool all)
{
    const struct reader_filter filter = {.prefix = prefix, .prefix_len = len, .all = all};
    struct seen seen = {0};

    assert_int_equal(reader_walk(&reader->table, &filter, see, &seen), 0);
    return seen;
}

static void fill(struct reader *reader, struct hf_text_pool *pool)
{
    struct hf_table *t = &reader->table;

    fixture_lease(t, pool, 0, (struct fixture_lease){.name = "a/held", .left_ms = 20000});
    fixture_lease(t, pool, 1, (struct fixture_lease){.name = "b/lapsed", .left_ms = -10});
    fixture_lease(
        t, pool, 2,
        (struct fixture_lease){
            .name = "c/lost", .left_ms = 20000, .state = HF_SLOT_LOST, .reason = HF_LOSS_QUORUM});
    fixture_lease(
        t, pool, 3,
        (struct fixture_lease){.name = "d/ended", .left_ms = 20000, .state = HF_SLOT_ENDED});
    fixture_lease(t, pool, 4,
                  (struct fixture_lease){.name = "e\0f",
                                         .len = 3,
                                         .left_ms = 20000,
                                         .state = HF_SLOT_LOSING,
                                         .reason = HF_LOSS_ASKED});
}

static void test_walk(void **state)
{
    struct reader reader = fixture_reader(8);
    struct hf_text_pool *pool;
    struct seen seen;

    (void)state;
    assert_int_equal(hf_text_pool_create(&reader.table, &pool), 0);
    fill(&reader, pool);
    seen = walk(&reader, NULL, 0, false);
    assert_string_equal(seen.names, "ae");
    seen = walk(&reader, NULL, 0, true);
    assert_string_equal(seen.names, "abcde");
    assert_int_equal(seen.in_force, 2);
    assert_string_equal(walk(&reader, "a/", 2, true).names, "a");
    assert_string_equal(walk(&reader, "e\0", 2, true).names, "e");
    assert_string_equal(walk(&reader, "e\0g", 3, true).names, "");
    assert_string_equal(walk(&reader, "a/held/longer", 13, true).names, "");
    hf_text_pool_destroy(pool);
    reader_close(&reader);
}

static void test_count_is_what_a_walk_finds(void **state)
{
    struct reader reader = fixture_reader(8);
    const struct reader_filter filter = {.all = true, .most = 2};
    struct hf_text_pool *pool;
    struct reader_counts counts;
    struct seen seen = {0};

    (void)state;
    reader_count(&reader.table, &counts);
    assert_int_equal(counts.leases, 0);
    assert_int_equal(hf_text_pool_create(&reader.table, &pool), 0);
    fill(&reader, pool);
    reader_count(&reader.table, &counts);
    assert_int_equal(counts.leases, walk(&reader, NULL, 0, false).in_force);
    assert_int_equal(counts.late, 0);
    assert_int_equal(counts.losing, 1);
    assert_int_equal(reader_walk(&reader.table, &filter, see, &seen), 0);
    assert_string_equal(seen.names, "ab");
    hf_text_pool_destroy(pool);
    reader_close(&reader);
}

static void test_unreadable_slot_hides_no_other(void **state)
{
    struct reader reader = fixture_reader(8);
    const struct reader_filter filter = {.all = true};
    struct hf_text_pool *pool;
    struct seen seen = {0};

    (void)state;
    assert_int_equal(hf_text_pool_create(&reader.table, &pool), 0);
    fill(&reader, pool);
    atomic_store(&reader.table.slots[1].seq, 1); /* a writer killed inside */
    assert_int_equal(reader_walk(&reader.table, &filter, see, &seen), 1);
    assert_string_equal(seen.names, "acde");
    hf_text_pool_destroy(pool);
    reader_close(&reader);
}

static void test_find(void **state)
{
    struct reader reader = fixture_reader(8);
    struct hf_text_pool *pool;
    struct hf_slot_view view;

    (void)state;
    assert_int_equal(hf_text_pool_create(&reader.table, &pool), 0);
    fill(&reader, pool);
    assert_int_equal(reader_find(&reader.table, "a/held", 6, &view), HF_OK);
    assert_true(reader_in_force(&reader.table, &view));
    assert_int_equal(reader_find(&reader.table, "b/lapsed", 8, &view), HF_OK);
    assert_false(reader_in_force(&reader.table, &view));
    assert_int_equal(reader_find(&reader.table, "c/lost", 6, &view), HF_OK);
    assert_false(reader_in_force(&reader.table, &view));
    assert_int_equal(reader_find(&reader.table, "d/ended", 7, &view), HF_ENOTHELD);
    assert_int_equal(reader_find(&reader.table, "none", 4, &view), HF_ENOTHELD);
    assert_int_equal(reader_find(&reader.table, "e\0f", 3, &view), HF_OK);
    hf_text_pool_destroy(pool);
    reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_name_environment_and_path),
        cmocka_unit_test(test_users_agent_goes_first),
        cmocka_unit_test(test_whose_table),
        cmocka_unit_test(test_none_and_bad_names),
        cmocka_unit_test(test_another_time_namespace),
        cmocka_unit_test(test_not_ready),
        cmocka_unit_test(test_ready_soon),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_count_is_what_a_walk_finds),
        cmocka_unit_test(test_unreadable_slot_hides_no_other),
        cmocka_unit_test(test_find),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

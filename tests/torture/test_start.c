/* An agent that is killed at any system call of its start or its end: readers are told that there is
 * none, or read a whole table; the next agent starts, and keeps what the journal has. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/state/fleet_memory.h"
#include "agent/state/stores.h"
#include "shm/compiler.h"
#include "tests/support/scratch.h"
#include "tests/unit/shm_fixture.h"

#define CAPACITY 8
#define LARGER   3000
#define NO_MORE  (-1)
#define SLOT     3

static struct config config;
static struct agent agent;
static char dir[64];
static struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}};

static int open_stores(void)
{
    char why[WHY_SIZE] = "";
    char shm_name[HF_TABLE_NAME_MAX];
    int rc;

    memcpy(shm_name, agent.shm_name, sizeof(shm_name));
    agent = (struct agent){.config = &config, .timens_inode = 1};
    memcpy(agent.shm_name, shm_name, sizeof(shm_name));
    agent.clock = *this_boot;
    rc = stores_open(&agent, dir, why, sizeof(why));
    if (rc != HF_OK)
        fprintf(stderr, "stores_open: %s\n", why);
    return rc;
}

static void hold_a_lease(void)
{
    struct journal_identity id = {.name_len = 1, .name = "n", .token = {"cafe"}};
    struct journal_lease rec = {.state = JOURNAL_HELD, .generation = 7, .fence = 7};

    for (int i = 0; i < HF_NODES_MAX; i++)
        rec.d[i] = hf_time_add(clock_now(), hf_ms(60000));
    journal_put_identity(agent.journal, SLOT, &id);
    journal_put(agent.journal, SLOT, &rec);
    journal_shown_in(agent.journal, hf_table_id(&agent.table));
    fixture_publish(&agent.table, SLOT, 0, "n", 7, rec.d[0]);
    hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
}

/* As an agent that is killed. */
static void close_stores(void)
{
    hf_table_close(&agent.table);
    journal_close(agent.journal);
    node_records_close(agent.node_records);
}

static void leave_a_lease(void)
{
    assert_int_equal(open_stores(), HF_OK);
    hold_a_lease();
    close_stores();
}

static void remove_files(void)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/journal", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/journal.new", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/nodes", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/nodes.new", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/fleet", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/fleet.new", dir);
    unlink(path);
    shm_unlink(agent.shm_name);
}

static void forget(void)
{
    close_stores();
    free(agent.fleet);
    agent.fleet = NULL;
    remove_files();
}

static int set_up(void **state)
{
    (void)state;
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    fixture_name(agent.shm_name);
    config = (struct config){.node_count = 3,
                             .ttl_ms = 30000,
                             .ttl_max_ms = 60000,
                             .capacity = CAPACITY,
                             .table_mode = 0644,
                             .group = (gid_t)-1};
    config_count_all(&config);
    snprintf(config.name, sizeof(config.name), "test");
    snprintf(config.list_hash, sizeof(config.list_hash), "cafe");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files(); /* of a test that failed */
    return rmdir(dir);
}

/* Runs `fn` in a child up to its `n`th stop at a system call (each stops before and after) and kills
 * it there; NO_MORE when it ended before. */
static int run_to(void (*fn)(void), int n)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(CHILD_SKIPS);
        raise(SIGSTOP);
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        skip();
    for (int i = 0; i < n && !WIFEXITED(status); i++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return NO_MORE;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return 0;
}

/* What everybody may read. */
static void readers_look(bool has_lease)
{
    struct hf_table reader;
    char why[WHY_SIZE] = "";
    int status = hf_table_open(agent.shm_name, geteuid(), &reader, why, sizeof(why));

    if (status != 0) {
        assert_true(status == HF_ENOAGENT || status == HF_ETABLE);
        assert_string_not_equal(why, "");
        return;
    }
    assert_true(hf_table_slots(&reader) == CAPACITY || hf_table_slots(&reader) == LARGER);
    for (uint32_t i = 0; i < hf_table_slots(&reader); i++) {
        struct hf_slot_view view;

        status = hf_slot_read(&reader, i, &view);
        assert_int_equal(status, i == SLOT && has_lease ? 0 : HF_ENOTHELD);
    }
    hf_table_close(&reader);
}

static void start(void)
{
    if (open_stores() != HF_OK)
        _exit(1);
    hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
}

static void start_and_end(void)
{
    start();
    (void)stores_close(&agent);
}

static bool journal_has_it(void)
{
    struct journal_identity id;
    struct journal_lease rec;

    return journal_get(agent.journal, SLOT, &id, &rec) == HF_OK && rec.generation == 7 &&
           rec.state == JOURNAL_HELD;
}

static void killed_in_its_first_start(void **state)
{
    int n = 1;

    (void)state;
    for (; run_to(start, n) != NO_MORE; n++) {
        readers_look(false);
        assert_int_equal(open_stores(), HF_OK);
        hold_a_lease();
        readers_look(true);
        assert_true(journal_has_it());
        forget();
    }
    remove_files();
    print_message("# killed at %d system calls\n", n - 1);
    assert_true(n > 20);
}

/* After an agent that left a lease of a living holder. */
static unsigned killed_with_a_lease(void (*fn)(void))
{
    unsigned n = 1;

    for (int end = 0; end != NO_MORE; n++) {
        leave_a_lease();
        end = run_to(fn, (int)n);
        readers_look(true);
        assert_int_equal(open_stores(), HF_OK);
        assert_true(agent.warm);
        assert_true(journal_has_it());
        assert_int_equal(atomic_load(&agent.table.slots[SLOT].check) >> HF_CHECK_GEN_SHIFT, 7);
        hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
        readers_look(true);
        forget();
    }
    return n - 2;
}

static void killed_in_a_warm_start_or_its_end(void **state)
{
    unsigned n;

    (void)state;
    n = killed_with_a_lease(start_and_end);
    print_message("# killed at %u system calls\n", n);
    assert_true(n > 20);
}

/* (!) The holder maps the table that was removed: wherever the next agents are killed, none takes its lease over by one of
 * their own. */
static void killed_while_it_makes_another_table(void **state)
{
    int n = 1;

    (void)state;
    for (int end = 0; end != NO_MORE; n++) {
        leave_a_lease();
        shm_unlink(agent.shm_name);
        end = run_to(start, n);
        (void)run_to(start, 10 + n % 30);
        assert_int_equal(open_stores(), HF_OK);
        assert_false(agent.warm);
        assert_true(journal_has_it());
        forget();
    }
    print_message("# killed at %d system calls\n", n - 2);
    assert_true(n > 20);
}

/* As the broker does when it gives a slot away that was never used. */
static void start_and_take_slots(void)
{
    start();
    if (journal_take_slots(agent.journal, LARGER) < 0 ||
        hf_table_take_slots(&agent.table, LARGER) < 0)
        _exit(1);
}

/* The holder maps the table from before, and asks nobody. */
static void killed_while_it_takes_slots(void **state)
{
    int n = 1;

    (void)state;
    for (int end = 0; end != NO_MORE; n++) {
        struct hf_table holder;
        struct hf_slot_view view;
        char why[WHY_SIZE];

        config.capacity = CAPACITY;
        assert_int_equal(open_stores(), HF_OK);
        hold_a_lease();
        assert_int_equal(hf_table_open(agent.shm_name, geteuid(), &holder, why, sizeof(why)), 0);
        close_stores();
        config.capacity = LARGER;
        end = run_to(start_and_take_slots, n);
        readers_look(true);
        assert_true(hf_check_holds(atomic_load(&holder.slots[SLOT].check), 7, clock_now()));
        if (n % 3 == 0) /* it may be the smaller one that comes back */
            config.capacity = CAPACITY;
        assert_int_equal(open_stores(), HF_OK);
        assert_true(agent.warm);
        assert_true(journal_has_it());
        assert_int_equal(agent.table.capacity, config.capacity);
        assert_int_equal(journal_take_slots(agent.journal, LARGER), HF_OK);
        assert_int_equal(hf_table_take_slots(&agent.table, LARGER), HF_OK);
        hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
        readers_look(true);
        assert_true(hf_check_holds(atomic_load(&holder.slots[SLOT].check), 7, clock_now()));
        assert_int_equal(hf_table_slots(&holder), LARGER);
        for (uint32_t slot = CAPACITY; slot < LARGER; slot++) {
            assert_int_equal(hf_slot_read(&holder, slot, &view), HF_ENOTHELD);
            assert_int_equal(journal_generation(agent.journal, slot), 0);
        }
        hf_table_close(&holder);
        forget();
    }
    config.capacity = CAPACITY;
    print_message("# killed at %d system calls\n", n - 2);
    assert_true(n > 20);
}

/* With no lease left a start of another list makes all anew: whatever it is killed at, no table stays whose generations
 * the journal does not go on with. */
static void killed_while_it_begins_anew(void **state)
{
    int n = 1;

    (void)state;
    for (int end = 0; end != NO_MORE; n++) {
        struct journal_lease rec = {.state = JOURNAL_FREE, .generation = 7};

        assert_int_equal(open_stores(), HF_OK);
        hold_a_lease();
        journal_put(agent.journal, SLOT, &rec);
        close_stores();
        snprintf(config.list_hash, sizeof(config.list_hash), "beef");
        end = run_to(start, n);
        assert_int_equal(open_stores(), HF_OK);
        if (agent.warm && atomic_load(&agent.table.slots[SLOT].check) >> HF_CHECK_GEN_SHIFT == 7)
            assert_int_equal(journal_generation(agent.journal, SLOT), 7);
        snprintf(config.list_hash, sizeof(config.list_hash), "cafe");
        forget();
    }
    print_message("# killed at %d system calls\n", n - 2);
    assert_true(n > 20);
}

/* --- another list ------------------------------------------------------------------------------ */

static struct fleet_memory memory;
static hf_time held_until;

static int seats_of(const char *text, struct fleet_seat *seats)
{
    int count = 0;

    for (; *text; text += 2, count++) {
        snprintf(seats[count].id, sizeof(seats[count].id), "%c", text[0]);
        snprintf(seats[count].address, sizeof(seats[count].address), "10.0.0.%c:6379", text[1]);
    }
    return count;
}

/* The configuration of an agent that goes by the record of that list, and the record. */
static void go_by(const char *before, const char *list)
{
    static struct fleet_record record;
    char keys[CONFIG_KEYS_TEXT];

    memset(&record, 0, sizeof(record));
    record.version = before ? 2 : 1;
    record.state = FLEET_COMPLETE;
    record.ttl_max_ms = 60000;
    record.count = seats_of(list, record.seat);
    if (before) {
        record.before_count = seats_of(before, record.before);
        record.ttl_max_before_ms = 60000;
    }
    memset(record.fleet, 'f', FLEET_ID_LEN);
    memset(record.keys, 'e', FLEET_ID_LEN);
    memset(&memory, 0, sizeof(memory));
    memory.length = fleet_record_text(&record, memory.text);
    memory.from = (hf_time){5};
    memory.list_count = seats_of(before ? before : list, memory.list);
    config.node_count = record.count;
    config_count_all(&config);
    config.by_record = before != NULL;
    for (int i = 0; i < record.count; i++)
        snprintf(config.nodes[i].id, sizeof(config.nodes[i].id), "%s", record.seat[i].id);
    config_keys_text(&config, keys);
    list_hash_with(config.nodes, config.node_count, keys, config.list_hash);
}

static void keep_memory(void)
{
    char path[96], why[256];

    snprintf(path, sizeof(path), "%s/fleet", dir);
    assert_int_equal(fleet_memory_keep(path, this_boot, &memory, why, sizeof(why)), HF_OK);
}

/* A d of its own for each node. */
static void hold_on_nodes(void)
{
    struct journal_identity id;
    struct journal_lease rec;

    hold_a_lease();
    assert_int_equal(journal_get(agent.journal, SLOT, &id, &rec), HF_OK);
    held_until = rec.d[0];
    for (int i = 0; i < HF_NODES_MAX; i++)
        rec.d[i] = hf_time_add(held_until, hf_ns(i));
    journal_put(agent.journal, SLOT, &rec);
    for (int i = 0; i < config.node_count; i++) {
        struct node_trust trust;

        memset(&trust, 0, sizeof(trust));
        trust.contacted = true;
        trust.mark = (uint32_t)i;
        node_records_put(agent.node_records, i, &trust);
    }
}

/* `places`: that each node of the next list had, '-' none. */
static void assert_carried(const char *places)
{
    struct journal_identity id;
    struct journal_lease rec;
    struct node_trust trust;

    assert_int_equal(journal_get(agent.journal, SLOT, &id, &rec), HF_OK);
    assert_int_equal(rec.state, JOURNAL_HELD);
    assert_int_equal(rec.generation, 7);
    for (int i = 0; i < HF_NODES_MAX; i++) {
        bool known = i < config.node_count && places[i] != '-';
        int place = known ? places[i] - '0' : 0;

        assert_int_equal(rec.d[i].ns, known ? held_until.ns + place : HF_TIME_PAST.ns);
        assert_int_equal(node_records_get(agent.node_records, i, &trust),
                         known ? HF_OK : HF_ENOTHELD);
        if (known)
            assert_int_equal(trust.mark, place);
    }
}

static void assert_kept(const char *list)
{
    static struct fleet_memory kept;
    struct fleet_seat seats[HF_NODES_MAX];
    char path[96];

    memset(seats, 0, sizeof(seats));
    snprintf(path, sizeof(path), "%s/fleet", dir);
    fleet_memory_read(path, this_boot, &kept);
    assert_string_equal(kept.text, memory.text);
    assert_int_equal(kept.from.ns, 5);
    assert_int_equal(kept.list_count, seats_of(list, seats));
    for (int i = 0; i < kept.list_count; i++) {
        assert_string_equal(kept.list[i].id, seats[i].id);
        assert_string_equal(kept.list[i].address, seats[i].address);
    }
}

static void change_list(const char *before, const char *after, const char *places)
{
    int n = 1;

    for (int end = 0; end != NO_MORE; n++) {
        struct hf_table holder;
        struct hf_table_terms terms;
        struct stores_view view;
        char why[WHY_SIZE] = "";

        go_by(NULL, before);
        keep_memory();
        assert_int_equal(open_stores(), HF_OK);
        assert_non_null(agent.fleet);
        hold_on_nodes();
        assert_int_equal(hf_table_open(agent.shm_name, geteuid(), &holder, why, sizeof(why)), 0);
        assert_int_equal(hf_table_terms(&holder).nodes, strlen(before) / 2);
        close_stores();
        free(agent.fleet);

        go_by(before, after);
        keep_memory();
        end = run_to(start, n);
        readers_look(true);
        assert_true(hf_check_holds(atomic_load(&holder.slots[SLOT].check), 7, clock_now()));
        why[0] = '\0';
        assert_int_equal(
            stores_dry_run(&config, dir, agent.shm_name, this_boot, 1, &view, why, sizeof(why)),
            HF_OK);
        assert_true(view.warm);
        journal_close(view.journal.journal);
        for (int times = 0; times < 2; times++) {
            assert_int_equal(open_stores(), HF_OK);
            assert_true(agent.warm);
            assert_non_null(agent.fleet);
            assert_carried(places);
            assert_kept(after);
            hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
            terms = hf_table_terms(&holder);
            assert_int_equal(terms.nodes, config.node_count);
            assert_int_equal(terms.quorum, config.node_count / 2 + 1);
            assert_true(hf_check_holds(atomic_load(&holder.slots[SLOT].check), 7, clock_now()));
            if (times == 0) {
                hf_table_close(&agent.table);
                journal_close(agent.journal);
                node_records_close(agent.node_records);
                free(agent.fleet);
            }
        }
        hf_table_close(&holder);
        forget();
    }
    print_message("# %s to %s: killed at %d system calls\n", before, after, n - 2);
    assert_true(n > 20);
}

static void killed_while_the_list_changes(void **state)
{
    (void)state;
    change_list("a1b2c3", "a1b2c3d4e5", "012--");
    change_list("a1b2c3d4e5", "a1b2d4", "013");
    change_list("a1b2c3", "a1b9c3", "0-2");
    change_list("a1b2c3", "c3d4a1", "2-0");
}

/* A memory without a list is of builds from before there was one, or of nobody's change. */
static void a_list_of_its_own_is_no_change(void **state)
{
    (void)state;
    go_by(NULL, "a1b2c3");
    memory.list_count = 0;
    keep_memory();
    assert_int_equal(open_stores(), HF_OK);
    hold_on_nodes();
    close_stores();
    free(agent.fleet);
    assert_int_equal(open_stores(), HF_OK);
    assert_true(agent.warm);
    assert_carried("012");
    assert_kept("");
    forget();
}

/* (!) Where the files of the next list have no room, all stays as it was for a start that has. */
static void change_in_a_full_directory(void)
{
    char why[WHY_SIZE] = "", path[96], block[4096] = "";
    int fd;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700") != 0)
        _exit(CHILD_SKIPS);
    go_by(NULL, "a1b2c3");
    keep_memory();
    CHILD_CHECK(open_stores() == HF_OK);
    hold_on_nodes();
    close_stores();
    free(agent.fleet);
    go_by("a1b2c3", "a1b2c3d4e5");
    keep_memory();
    snprintf(path, sizeof(path), "%s/filler", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    close(fd);
    CHILD_CHECK(stores_open(&agent, dir, why, sizeof(why)) == HF_ESYS);
    CHILD_CHECK(strstr(why, "no room") && !agent.fleet);
    unlink(path);
    CHILD_CHECK(open_stores() == HF_OK && agent.warm && journal_has_it());
    CHILD_CHECK(stores_close(&agent));
    remove_files();
    _exit(0);
}

static void a_change_without_room_is_refused(void **state)
{
    pid_t pid = fork();
    int code;

    (void)state;
    if (pid == 0)
        change_in_a_full_directory();
    code = fixture_wait(pid);
    if (code == CHILD_SKIPS)
        skip();
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_in_its_first_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_in_a_warm_start_or_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_while_it_makes_another_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_while_it_takes_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_while_it_begins_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_while_the_list_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_of_its_own_is_no_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_without_room_is_refused, set_up, tear_down),
    };

    log_init(LOG_LEVEL_WARN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Is the agent alive? Processes are the test's own; nothing here depends
 * on how long a beat takes. */
#include "reader_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tools/common/process.h"
#include "tools/reader/life.h"

/* --- the verdict, pure ------------------------------------------------------------------------ */

static void test_verdict(void **state)
{
    struct life life = {.process = LIFE_PROCESS_RUNS, .age_ms = {10, 20, LIFE_SILENCE_MS}};

    (void)state;
    assert_int_equal(life_verdict_of(&life, HF_TABLE_ALIVE), LIFE_ALIVE);
    assert_int_equal(life_verdict_of(&life, HF_TABLE_STOPPED), LIFE_ENDED);
    life.age_ms[LIFE_RENEWAL]++;
    assert_int_equal(life_verdict_of(&life, HF_TABLE_ALIVE), LIFE_HUNG);
    life.age_ms[LIFE_RENEWAL] = 0;
    life.process = LIFE_PROCESS_UNSEEN;
    assert_int_equal(life_verdict_of(&life, HF_TABLE_ALIVE), LIFE_ALIVE);
    life.process = LIFE_PROCESS_STOPPED;
    assert_int_equal(life_verdict_of(&life, HF_TABLE_ALIVE), LIFE_HUNG);
    life.process = LIFE_PROCESS_GONE;
    assert_int_equal(life_verdict_of(&life, HF_TABLE_ALIVE), LIFE_DEAD);
    assert_int_equal(life_verdict_of(&life, HF_TABLE_STOPPED), LIFE_ENDED);
}

static void test_sentence(void **state)
{
    struct life life = {.verdict = LIFE_HUNG,
                        .process = LIFE_PROCESS_STOPPED,
                        .pid = 123,
                        .age_ms = {12300, 12400, 12500},
                        .last_ms = 12300};
    char text[256];

    (void)state;
    assert_string_equal(
        life_sentence(text, sizeof(text), "a", &life),
        "agent a is not answering: last sign of life 12.3s ago (pid 123 is stopped)");
    life.verdict = LIFE_DEAD;
    life.process = LIFE_PROCESS_GONE;
    assert_string_equal(life_sentence(text, sizeof(text), "a", &life),
                        "agent a is not answering: last sign of life 12.3s ago (pid 123 is gone)");
    life = (struct life){.verdict = LIFE_HUNG,
                         .process = LIFE_PROCESS_RUNS,
                         .pid = 123,
                         .age_ms = {10, 20, 65000},
                         .last_ms = 10};
    assert_string_equal(life_sentence(text, sizeof(text), "a", &life),
                        "agent a is not answering: its renewal thread gave its last sign of life "
                        "1m5s ago (pid 123 is running)");
    life.verdict = LIFE_ALIVE;
    assert_string_equal(life_sentence(text, sizeof(text), "a", &life), "");
    life = (struct life){.verdict = LIFE_DEAD, .process = LIFE_PROCESS_GONE, .last_ms = -1};
    assert_has(life_sentence(text, sizeof(text), "a", &life), "last sign of life never (pid 0");
}

/* --- real processes --------------------------------------------------------------------------- */

static pid_t start_child(void)
{
    pid_t child = fork();

    if (child == 0)
        for (;;)
            pause();
    assert_true(child > 0);
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static struct life judge(struct reader *reader, pid_t pid)
{
    struct life life;

    reader->table.header->pid = (uint32_t)pid;
    life_judge(&reader->table, &life);
    assert_int_equal(life.pid, pid);
    return life;
}

static void test_running_stopped_killed(void **state)
{
    struct reader reader = fixture_reader(4);
    pid_t child = start_child();
    struct life life;

    (void)state;
    fixture_beat(&reader.table, 0);
    life = judge(&reader, child);
    assert_int_equal(life.verdict, LIFE_ALIVE);
    assert_int_equal(life.process, LIFE_PROCESS_RUNS);

    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    fixture_beat(&reader.table, 0);
    life = judge(&reader, child); /* at once, however fresh the beat */
    assert_int_equal(life.verdict, LIFE_HUNG);
    assert_int_equal(life.process, LIFE_PROCESS_STOPPED);

    kill(child, SIGKILL);
    fixture_beat(&reader.table, 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(judge(&reader, child).verdict, LIFE_DEAD); /* a zombie */
    waitpid(child, NULL, 0);
    assert_int_equal(judge(&reader, child).verdict, LIFE_DEAD);
    hf_table_set_state(&reader.table, HF_TABLE_STOPPED);
    assert_int_equal(judge(&reader, child).verdict, LIFE_ENDED);
    reader_close(&reader);
}

/* The child has the number, but the agent gave its last sign before the child was started. */
static void test_number_used_again(void **state)
{
    struct reader reader = fixture_reader(4);
    pid_t child = start_child();
    struct life life;

    (void)state;
    fixture_beat(&reader.table, 60000);
    life = judge(&reader, child);
    assert_int_equal(life.verdict, LIFE_DEAD);
    assert_int_equal(life.process, LIFE_PROCESS_GONE);
    end_child(child);
    reader_close(&reader);
}

static void test_one_thread_hangs(void **state)
{
    struct reader reader = fixture_reader(4);
    pid_t child = start_child();
    struct life life;
    char text[256];

    (void)state;
    fixture_beat(&reader.table, 0);
    atomic_store(&reader.table.header->broker_beat_ns,
                 hf_time_sub(fixture_now(), hf_ms(LIFE_SILENCE_MS + 60000)).ns);
    life = judge(&reader, child);
    assert_int_equal(life.verdict, LIFE_HUNG);
    assert_has(life_sentence(text, sizeof(text), "a", &life), "its broker thread");
    end_child(child);
    reader_close(&reader);
}

/* Anybody can write such a table, and give it the number of any process. */
static void a_sign_of_life_ahead_of_the_clock_is_none(void **state)
{
    struct reader reader = fixture_reader(4);
    struct life life;

    (void)state;
    atomic_store(&reader.table.header->started_ns, fixture_now().ns + 120 * HF_NS_PER_SEC);
    reader.table.header->pid = (uint32_t)getpid();
    fixture_beat(&reader.table, -10000);
    assert_false(life_look(&reader.table, 0, &life)); /* nothing to wait for */
    assert_int_equal(life.process, LIFE_PROCESS_GONE);
    assert_int_equal(life.verdict, LIFE_DEAD);
    assert_int_equal(life.last_ms, -1);
    for (int i = 0; i < LIFE_THREADS; i++)
        assert_int_equal(life.age_ms[i], -1);
    fixture_beat(&reader.table, 10);
    atomic_store(&reader.table.header->main_beat_ns, INT64_MAX); /* the others count */
    atomic_store(&reader.table.header->renewal_beat_ns, INT64_MIN);
    assert_true(life_look(&reader.table, 0, &life));
    assert_in_range(life.last_ms, 0, 5000);
    assert_int_equal(life.age_ms[LIFE_MAIN], -1);
    assert_int_equal(life.age_ms[LIFE_RENEWAL], -1);
    reader_close(&reader);
}

static void test_no_beat_at_all(void **state)
{
    struct reader reader = fixture_reader(4);
    pid_t child = start_child();

    (void)state;
    end_child(child);
    assert_int_equal(judge(&reader, child).last_ms, -1);
    assert_int_equal(judge(&reader, child).verdict, LIFE_DEAD);
    reader_close(&reader);
}

struct beater {
    struct hf_table *table;
    atomic_bool stop;
};

static void *beat(void *arg)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    struct beater *beater = arg;

    while (!atomic_load(&beater->stop)) {
        fixture_beat(beater->table, 0);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* An agent in a container that shares /dev/shm: no such pid here, and yet it beats. */
static void test_in_another_pid_namespace(void **state)
{
    struct reader reader = fixture_reader(4);
    struct beater beater = {.table = &reader.table};
    pid_t child = start_child();
    struct process process;
    pthread_t thread;
    struct life life;

    (void)state;
    end_child(child);
    fixture_beat(&reader.table, 0);
    assert_int_equal(pthread_create(&thread, NULL, beat, &beater), 0);
    life = judge(&reader, child);
    assert_int_equal(life.verdict, LIFE_ALIVE);
    assert_int_equal(life.process, LIFE_PROCESS_UNSEEN);
    /* A process here has the number by chance: it was there long before the agent. */
    assert_int_equal(process_read(getpid(), &process), 0);
    atomic_store(&reader.table.header->started_ns, process.start_ns + 120 * HF_NS_PER_SEC);
    life = judge(&reader, getpid());
    assert_int_equal(life.verdict, LIFE_ALIVE);
    assert_int_equal(life.process, LIFE_PROCESS_UNSEEN);
    atomic_store(&beater.stop, true);
    pthread_join(thread, NULL);
    reader_close(&reader);
}

/* --- /proc ------------------------------------------------------------------------------------ */

static void test_ancestors(void **state)
{
    int64_t now = fixture_now().ns, second = HF_NS_PER_SEC;
    struct process process;
    pid_t child = start_child();

    (void)state;
    assert_int_equal(process_read(getpid(), &process), 0);
    assert_int_equal(process.parent, getppid());
    assert_true(process.start_ns > 0 && process.start_ns <= now);
    assert_true(process_descends(getpid(), getpid(), now));
    assert_true(process_descends(getpid(), getppid(), now));
    assert_true(process_descends(child, getppid(), now));
    assert_false(process_descends(getpid(), child, now));
    assert_false(process_descends(getpid(), 0, now));
    /* A process that was started after the lease began is not its holder. */
    assert_false(process_descends(getpid(), getpid(), process.start_ns - second));
    end_child(child);
    assert_int_equal(process_read(child, &process), -1);
}

static void a_process_has_its_user(void **state)
{
    uid_t uid;

    (void)state;
    assert_int_equal(process_user(getpid(), &uid), 0);
    assert_int_equal(uid, geteuid());
    assert_int_equal(process_user(-1, &uid), -1);
}

static void test_descriptor_limit(void **state)
{
    struct rlimit limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur == RLIM_INFINITY)
        skip();
    assert_int_equal(process_descriptor_limit(getpid()), (int64_t)limit.rlim_cur);
}

static void the_table_of_a_dead_agent_tells_of_no_present(void **state)
{
    struct life life = {.verdict = LIFE_ALIVE, .age_ms = {10, 4000, 20}};
    char text[64];

    (void)state;
    assert_true(life_is_present(&life));
    for (life.verdict = LIFE_HUNG; life.verdict <= LIFE_ENDED; life.verdict++)
        assert_false(life_is_present(&life));
    assert_string_equal(life_when(text, sizeof(text), &life), "4.0s ago");
    life = (struct life){.age_ms = {-1, -1, -1}};
    assert_string_equal(life_when(text, sizeof(text), &life), "never");
}

static void pids_of_another_namespace_are_not_compared(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_true(process_pids_are_of(st.st_ino));
    assert_false(process_pids_are_of(st.st_ino + 1));
    assert_false(process_pids_are_of(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pids_of_another_namespace_are_not_compared),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_running_stopped_killed),
        cmocka_unit_test(test_number_used_again),
        cmocka_unit_test(test_one_thread_hangs),
        cmocka_unit_test(a_sign_of_life_ahead_of_the_clock_is_none),
        cmocka_unit_test(test_no_beat_at_all),
        cmocka_unit_test(test_in_another_pid_namespace),
        cmocka_unit_test(test_ancestors),
        cmocka_unit_test(a_process_has_its_user),
        cmocka_unit_test(test_descriptor_limit),
        cmocka_unit_test(the_table_of_a_dead_agent_tells_of_no_present),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

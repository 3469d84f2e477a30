/* shm/assert.h, agent/base/failure.h, agent/base/thread.h: an assertion that fails ends the program, after its last words. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/failure.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/table_notes.h"
#include "tools/reader/life.h"

#define TEST(name) static void name(void **state HF_UNUSED)

static struct hf_table_header *header;
static char said[4096];

static int set_up(void **state HF_UNUSED)
{
    header = mmap(NULL, HF_TABLE_HEADER, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(&header->pid, 4711);
    return header == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state HF_UNUSED)
{
    return munmap(header, HF_TABLE_HEADER);
}

/* Runs `fn` in a child, and keeps what it wrote to stderr. Returns the signal that ended it. */
static int fails(void (*fn)(void))
{
    const struct rlimit none = {0};
    size_t length = 0;
    int pipes[2], status;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        fn();
        _exit(0);
    }
    close(pipes[1]);
    while ((got = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int lines(void)
{
    int count = 0;

    for (const char *at = said; (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

static void one_of_three(void)
{
    int votes = 4, nodes = 3;

    hf_assert(votes <= nodes, "votes %d of %d", votes, nodes);
}

static void as_the_agent(void)
{
    failure_hear();
    failure_into(header);
    log_init(LOG_LEVEL_ERROR);
}

TEST(what_holds_costs_nothing)
{
    int asked = 0;

    hf_assert(asked == 0, "%d", ++asked);
    assert_int_equal(asked, 0);
}

TEST(a_program_says_one_line_and_aborts)
{
    assert_int_equal(fails(one_of_three), SIGABRT);
    assert_non_null(strstr(said, "holdfast: assertion failed in one_of_three:"));
    assert_non_null(strstr(said, ": votes <= nodes (votes 4 of 3)\n"));
    assert_int_equal(lines(), 1);
}

static void with_lock_and_node(void)
{
    as_the_agent();
    thread_role_now = THREAD_ROLE_BROKER;
    {
        ABOUT_LOCK("db/a\nb", 6);
        ABOUT_NODE("n2");

        one_of_three();
    }
}

TEST(an_agent_leaves_expression_values_lock_node_and_thread)
{
    struct hf_last_words words;

    assert_false(hf_last_words_read(header, &words));
    assert_int_equal(fails(with_lock_and_node), SIGABRT);
    assert_non_null(strstr(said, "holdfastd: error: assertion failed in one_of_three:"));
    assert_non_null(strstr(said, "(votes 4 of 3); lock db/a\\nb, node n2, broker thread; "));
    assert_int_equal(lines(), 1);
    assert_true(hf_last_words_read(header, &words));
    assert_non_null(strstr(words.text, "one_of_three:"));
    assert_non_null(strstr(
        words.text, ": votes <= nodes (votes 4 of 3); lock db/a\\nb, node n2, broker thread"));
    assert_int_equal(words.pid, 4711);
    assert_true(words.wall_ms > 1);
    hf_last_words_clear(header);
    assert_false(hf_last_words_read(header, &words));
}

static void with_another_lock(void)
{
    ABOUT_LOCK("other", 5);
    ABOUT_NODE("n2");
}

static void behind_the_scope(void)
{
    as_the_agent();
    {
        ABOUT_LOCK("db", 2);
        with_another_lock();
        one_of_three();
    }
}

TEST(a_scope_ends_with_its_block)
{
    assert_int_equal(fails(behind_the_scope), SIGABRT);
    assert_non_null(strstr(said, "; lock db, node -, "));
}

static void *fail_too(void *arg)
{
    one_of_three();
    return arg;
}

static void hear_slowly(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
    (void)!write(STDERR_FILENO, "\n", 1);
    usleep(300000);
}

static void in_two_threads(void)
{
    pthread_t thread[2];

    hf_assert_hear(hear_slowly);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, fail_too, NULL) != 0)
            _exit(1);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(thread[i], NULL);
}

TEST(of_two_threads_one_reports)
{
    assert_int_equal(fails(in_two_threads), SIGABRT);
    assert_int_equal(lines(), 1);
}

static void fail_again(const char *text HF_UNUSED)
{
    one_of_three();
}

static void within_its_report(void)
{
    hf_assert_hear(fail_again);
    one_of_three();
}

TEST(a_report_that_fails_ends_the_program)
{
    assert_int_equal(fails(within_its_report), SIGABRT);
}

static void with_a_long_text(void)
{
    char value[2 * HF_ASSERT_TEXT];

    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    as_the_agent();
    hf_assert(value[0] == 'y', "%s", value);
}

TEST(a_long_text_is_cut)
{
    struct hf_last_words words;

    assert_int_equal(fails(with_a_long_text), SIGABRT);
    assert_true(hf_last_words_read(header, &words));
    assert_non_null(strstr(words.text, "xxx); lock -, node -"));
    memset(said, 'y', HF_LAST_WORDS + 10);
    hf_last_words_put(header, 1, said);
    assert_true(hf_last_words_read(header, &words));
    assert_int_equal(strlen(words.text), HF_LAST_WORDS);
}

static void as_renewal(void)
{
    thread_role_now = THREAD_ROLE_RENEWAL;
    ASSERT_RENEWAL_THREAD();
}

static void as_broker_in_renewal(void)
{
    thread_role_now = THREAD_ROLE_RENEWAL;
    ASSERT_BROKER_THREAD();
}

static void as_renewal_in_main(void)
{
    thread_role_now = THREAD_ROLE_MAIN;
    ASSERT_RENEWAL_THREAD();
}

TEST(a_thread_that_does_anothers_work_is_ended)
{
    ASSERT_BROKER_THREAD(); /* before there are threads */
    assert_int_equal(fails(as_renewal), 0);
    assert_int_equal(fails(as_broker_in_renewal), SIGABRT);
    assert_int_equal(fails(as_renewal_in_main), SIGABRT);
}

TEST(people_read_what_was_wrong_and_no_terminal_is_upset)
{
    struct hf_last_words words = {.wall_ms = 1000, .pid = 12, .text = "f:1: a\x1b[31m (b)"};
    char text[LAST_WORDS_SIZE];

    assert_string_equal(last_words_sentence(text, sizeof(text), &words, 4000),
                        "last ended by a failed assertion 3.0s ago (pid 12): f:1: a\\x1b[31m (b)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_costs_nothing),
        cmocka_unit_test(a_program_says_one_line_and_aborts),
        cmocka_unit_test_setup_teardown(an_agent_leaves_expression_values_lock_node_and_thread,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_scope_ends_with_its_block, set_up, tear_down),
        cmocka_unit_test(of_two_threads_one_reports),
        cmocka_unit_test(a_report_that_fails_ends_the_program),
        cmocka_unit_test_setup_teardown(a_long_text_is_cut, set_up, tear_down),
        cmocka_unit_test(a_thread_that_does_anothers_work_is_ended),
        cmocka_unit_test(people_read_what_was_wrong_and_no_terminal_is_upset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

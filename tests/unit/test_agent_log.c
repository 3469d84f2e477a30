/* Names as people see them, and lines that never block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shm/compiler.h"

#define TEST(name) static void name(HF_UNUSED void **state)

static void shows(const char *name, size_t length, const char *expected)
{
    char text[2048];

    assert_ptr_equal(log_name(name, length, text, sizeof(text)), text);
    assert_string_equal(text, expected);
}

#define SHOWS(name, expected) shows(name, sizeof(name) - 1, expected)

TEST(test_names)
{
    SHOWS("db/migrate", "db/migrate");
    SHOWS("", "");
    SHOWS("a b", "a b");
    SHOWS("caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x94\x92", "caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x94\x92");
    SHOWS("a\nb", "a\\nb");
    SHOWS("a\tb\r", "a\\tb\\r");
    SHOWS("a\\nb", "a\\\\nb");
    SHOWS("nul\0nul", "nul\\x00nul");
    SHOWS("\x1b[31mred\x7f", "\\x1b[31mred\\x7f");
}

TEST(test_names_that_are_no_utf8)
{
    SHOWS("\xff", "\\xff");
    SHOWS("\xc3", "\\xc3");                   /* ends too soon */
    SHOWS("\xc0\xaf", "\\xc0\\xaf");          /* longer than needed */
    SHOWS("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
    SHOWS("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    SHOWS("\xc2\x9b"
          "1m",
          "\\xc2\\x9b"
          "1m"); /* CSI of C1 */
    SHOWS("\xe2\x80\xae"
          "x",
          "\\xe2\\x80\\xae"
          "x"); /* right to left */
}

TEST(test_names_are_cut_at_whole_characters)
{
    char text[12], tiny[2], none[1];

    assert_string_equal(log_name("12345678901", 11, text, sizeof(text)), "12345678901");
    assert_string_equal(log_name("123456789012", 12, text, sizeof(text)), "12345678...");
    assert_string_equal(log_name("1234567\xc3\xa9xxxx", 13, text, sizeof(text)), "1234567...");
    assert_string_equal(log_name("1234567\nxxxx", 12, text, sizeof(text)), "1234567...");
    assert_string_equal(log_name("abc", 3, tiny, sizeof(tiny)), "");
    assert_string_equal(log_name("abc", 3, none, sizeof(none)), "");
}

TEST(test_a_whole_escaped_name_fits)
{
    char name[255], text[4 * 255 + 1];

    memset(name, 0, sizeof(name));
    log_name(name, sizeof(name), text, sizeof(text));
    assert_int_equal(strlen(text), 4 * 255);
}

/* --- lines ------------------------------------------------------------------------------------ */

#define LINE_MOST 1024 /* bytes, with its end */

static int saved_stderr;

static void stderr_to(int fd)
{
    (void)fflush(stderr);
    saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
}

static void stderr_back(void)
{
    (void)dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
}

static size_t drain(int fd, char *buffer, size_t size)
{
    ssize_t got;

    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    got = read(fd, buffer, size - 1);

    buffer[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

/* Takes the time off each line, "2026-03-01T12:00:00.042Z ", and looks at its form. */
#define STAMP sizeof("2026-03-01T12:00:00.042Z")
static void unstamp(char *text)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
    char *out = text;

    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n") + 1;

        assert_true(length > STAMP);
        for (size_t i = 0; i < STAMP; i++)
            if (form[i] == 'd')
                assert_in_range(line[i], '0', '9');
            else
                assert_int_equal(line[i], form[i]);
        memmove(out, line + STAMP, length - STAMP);
        out += length - STAMP;
        line += length;
    }
    *out = '\0';
}

TEST(test_levels)
{
    char text[4096];
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    stderr_to(ends[1]);
    log_init(LOG_LEVEL_WARN);
    log_error("an %s", "error");
    log_warn("a warning");
    log_info("an info");
    log_debug("a trace");
    log_say("ready: %d", 1);
    stderr_back();
    drain(ends[0], text, sizeof(text));
    unstamp(text);
    assert_string_equal(
        text, "holdfastd: error: an error\nholdfastd: warning: a warning\nholdfastd: ready: 1\n");
    close(ends[0]);
    close(ends[1]);
}

/* What log_info() writes, without its time. */
static const char *line_of(const char *format, ...) HF_PRINTF(1, 2);
static const char *line_of(const char *format, ...)
{
    static char line[8192];
    char text[4096];
    va_list args;
    int ends[2];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    stderr_to(ends[1]);
    log_init(LOG_LEVEL_INFO);
    log_info("%s", text);
    stderr_back();
    assert_in_range(drain(ends[0], line, sizeof(line)), 1, LINE_MOST);
    unstamp(line);
    close(ends[0]);
    close(ends[1]);
    return line;
}

/* (!) A node's version, an error of its, a file's name: whatever they hold, a line is one line, and upsets no terminal. */
TEST(test_a_line_is_escaped)
{
    assert_string_equal(line_of("node n1 is up (version 7\x1b]0;title\x07\x1b[2J)"),
                        "holdfastd: info: node n1 is up (version 7\\x1b]0;title\\x07\\x1b[2J)\n");
    assert_string_equal(line_of("one\ntwo\r\tthree\n"),
                        "holdfastd: info: one\\ntwo\\r\\tthree\\n\n");
    assert_string_equal(line_of("caf\xc3\xa9 \xff\xc3 \xc2\x9b \xe2\x80\xae"),
                        "holdfastd: info: caf\xc3\xa9 \\xff\\xc3 \\xc2\\x9b \\xe2\\x80\\xae\n");
    /* (!) What is escaped already stays as it is. */
    assert_string_equal(line_of("name a\\nb"), "holdfastd: info: name a\\nb\n");
    assert_string_equal(line_of("%s", ""), "holdfastd: info: \n");
}

/* A text of `length` dashes and then `last`, cut or not: whole characters and escapes, dots where it is cut, and one end. */
static void ends_well(size_t length, const char *last, const char *shown)
{
    static const char head[] = "holdfastd: info: ";
    char text[2048];
    const char *line, *behind;
    size_t whole = STAMP + sizeof(head) - 1 + length + strlen(shown) + 1;

    memset(text, '-', length);
    snprintf(text + length, sizeof(text) - length, "%s", last);
    line = line_of("%s", text);
    behind = line + sizeof(head) - 1 + strspn(line + sizeof(head) - 1, "-");
    if (whole <= LINE_MOST) {
        assert_memory_equal(behind, shown, strlen(shown));
        assert_string_equal(behind + strlen(shown), "\n");
    } else {
        assert_string_equal(behind, "...\n");
    }
}

TEST(test_a_long_line_is_cut_at_whole_characters)
{
    for (size_t length = LINE_MOST - 80; length < LINE_MOST + 20; length++) {
        ends_well(length, "", "");
        ends_well(length, "\x1b", "\\x1b");
        ends_well(length, "\n", "\\n");
        ends_well(length, "\xc3\xa9", "\xc3\xa9");
        ends_well(length, "\xf0\x9f\x94\x92", "\xf0\x9f\x94\x92");
    }
}

TEST(test_priorities_for_the_journal)
{
    char text[256], stream[64];
    struct stat st;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(fstat(ends[1], &st), 0);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    stderr_to(ends[1]);
    log_init(LOG_LEVEL_INFO);
    log_warn("a warning");
    stderr_back();
    unsetenv("JOURNAL_STREAM");
    drain(ends[0], text, sizeof(text));
    assert_string_equal(text, "<4>holdfastd: warning: a warning\n");
    close(ends[0]);
    close(ends[1]);
}

/* A reader that does not read: lines are dropped whole, and counted. This test
 * hangs where a line blocks. */
static void nobody_reads(const int ends[2])
{
    static char text[1 << 20];
    size_t length;
    int lines = 0;

    stderr_to(ends[1]);
    log_init(LOG_LEVEL_INFO);
    for (int i = 0; i < 20000; i++)
        log_info("line %d of many, none of which may be torn", i);
    stderr_back();
    while ((length = drain(ends[0], text, sizeof(text))) > 0) {
        assert_int_equal(text[length - 1], '\n');
        for (char *line = text; *line; line = strchr(line, '\n') + 1, lines++)
            assert_memory_equal(line + STAMP, "holdfastd: info: line ", 22);
        if (length < sizeof(text) - 1)
            break;
    }
    assert_in_range(lines, 10, 19999);

    stderr_to(ends[1]);
    log_info("after");
    stderr_back();
    drain(ends[0], text, sizeof(text));
    unstamp(text);
    assert_non_null(strstr(text, " lines of this log were dropped\nholdfastd: info: after\n"));
    close(ends[0]);
    close(ends[1]);
}

TEST(test_a_full_pipe_does_not_block)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    nobody_reads(ends);
}

TEST(test_a_full_socket_does_not_block)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    nobody_reads(ends);
}

static unsigned lines_of(const char *text, const char *line)
{
    unsigned count = 0;

    while ((text = strstr(text, line))) {
        text += strlen(line);
        count++;
    }
    return count;
}

/* In a process of its own, which cannot open the pipe anew. It hangs where a line blocks. */
static void another_users(bool with_thread)
{
    int ends[2], status;
    pid_t pid;

    if (geteuid() != 0)
        skip();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        if (setresuid(65534, 65534, 65534) < 0 || dup2(ends[1], STDERR_FILENO) < 0)
            _exit(1);
        log_init(LOG_LEVEL_INFO);
        if (with_thread)
            log_begin_thread();
        for (int i = 0; i < 20000; i++)
            log_info("line %d that nobody reads", i);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(test_another_users_full_pipe_does_not_block)
{
    another_users(false);
    another_users(true);
}

TEST(test_a_file_has_every_line_at_the_end)
{
    static char text[1 << 20];
    FILE *file = tmpfile();
    int status;
    pid_t pid;

    assert_non_null(file);
    pid = fork();
    if (pid == 0) {
        dup2(fileno(file), STDERR_FILENO);
        log_init(LOG_LEVEL_INFO);
        log_info("before");
        log_begin_thread();
        for (int i = 0; i < 500; i++)
            log_info("line %d", i);
        log_flush();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_int_equal(lines_of(text, "info: "), 501);
    assert_non_null(strstr(strstr(text, "info: before\n"), "info: line 499\n"));
    (void)fclose(file);
}

TEST(test_what_others_can_cause_is_told_some_times_a_second)
{
    struct log_limit limit = {0};
    hf_time now = {HF_NS_PER_SEC};
    char text[8192];
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    stderr_to(ends[1]);
    log_init(LOG_LEVEL_WARN);
    for (int i = 0; i < 1000; i++)
        if (log_allows(&limit, LOG_LIMIT, now))
            log_warn("cut off");
    if (log_allows(&limit, LOG_LIMIT, hf_time_add(now, hf_ns(HF_NS_PER_SEC))))
        log_warn("cut off");
    stderr_back();
    drain(ends[0], text, sizeof(text));
    assert_int_equal(lines_of(text, "cut off\n"), LOG_LIMIT + 1);
    assert_int_equal(
        lines_of(text, "warning: more lines like these are left out within this second\n"), 1);
    assert_int_equal(
        lines_of(text, "warning: 990 more lines like the last of these were left out\n"), 1);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_that_are_no_utf8),
        cmocka_unit_test(test_names_are_cut_at_whole_characters),
        cmocka_unit_test(test_a_whole_escaped_name_fits),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_a_line_is_escaped),
        cmocka_unit_test(test_a_long_line_is_cut_at_whole_characters),
        cmocka_unit_test(test_priorities_for_the_journal),
        cmocka_unit_test(test_a_full_pipe_does_not_block),
        cmocka_unit_test(test_a_full_socket_does_not_block),
        cmocka_unit_test(test_another_users_full_pipe_does_not_block),
        cmocka_unit_test(test_a_file_has_every_line_at_the_end),
        cmocka_unit_test(test_what_others_can_cause_is_told_some_times_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

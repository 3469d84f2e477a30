/* Contract. Passwords in files beside the configuration; what a person wrote wrongly shows none of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/config_report.h"
#include "agent/config/config.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define SECRET     "geheim"

static char dir[64], config_path[128], secret_file[128], text[4096];
static struct config config;
static struct config_report report;

static int prepare(HF_UNUSED void **state)
{
    unsetenv("CREDENTIALS_DIRECTORY");
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    snprintf(config_path, sizeof(config_path), "%s/conf", dir);
    snprintf(secret_file, sizeof(secret_file), "%s/secret", dir);
    return 0;
}

static int clean_up(HF_UNUSED void **state)
{
    (void)unlink(config_path);
    (void)unlink(secret_file);
    assert_int_equal(rmdir(dir), 0);
    return 0;
}

static void write_bytes(const char *path, const char *bytes, size_t length, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void secret(const char *bytes)
{
    write_bytes(secret_file, bytes, strlen(bytes), 0600);
}

/* The configuration; in its text @ stands for the path of the file with the secret. */
static int reads(const char *form, const char *option)
{
    char *argv[] = {"holdfastd",     "--config",     config_path, "--runtime-dir",
                    "/tmp/holdfast", (char *)option, NULL};
    size_t used = 0;

    for (const char *c = form; *c; c++)
        if (*c == '@')
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", secret_file);
        else
            text[used++] = *c == '^' ? '@' : *c;
    write_bytes(config_path, text, used, 0600);
    return config_read(option ? 6 : 5, argv, &config, &report);
}

/* One fault, in that line; nothing that is said shows a secret. */
static void fault_is(int line, const char *words)
{
    assert_int_equal(report.fault_count, 1);
    if (report.faults[0].line != line || !strstr(report.faults[0].text, words))
        fail_msg("line %d: %s", report.faults[0].line, report.faults[0].text);
    assert_null(strstr(report.faults[0].text, "geh"));
    assert_null(strstr(report.faults[0].text, "eim"));
}

TEST(of_all_nodes_that_have_no_other)
{
    secret(SECRET "\n");
    assert_int_equal(reads("password_file = @\nnode = a=redis://u^h1\nnode = b=h2\n"
                           "node = c=redis://:own^h3\n",
                           NULL),
                     HF_OK);
    assert_string_equal(config.nodes[0].user, "u");
    assert_string_equal(config.nodes[0].password, SECRET);
    assert_string_equal(config.nodes[1].password, SECRET);
    assert_string_equal(config.nodes[2].password, "own");
    assert_string_equal(config.warning, "");
}

TEST(of_one_node)
{
    secret("a b;c ;d#'\"%20@e"); /* as it is, with no end of line */
    assert_int_equal(reads("node = a=redis://u^h1,password_file=@\nnode = b=h2\n", NULL), HF_OK);
    assert_string_equal(config.nodes[0].password, "a b;c ;d#'\"%20@e");
    assert_string_equal(config.nodes[1].password, "");
}

TEST(a_credential_of_the_service)
{
    secret(SECRET "\n");
    assert_int_equal(reads("password_file = secret\nnode = a=h1\n", NULL), HF_EINVAL);
    fault_is(1, "LoadCredential=secret:PATH");
    setenv("CREDENTIALS_DIRECTORY", dir, 1);
    assert_int_equal(reads("password_file = secret\nnode = a=h1\n", NULL), HF_OK);
    assert_string_equal(config.nodes[0].password, SECRET);
    assert_int_equal(reads("password_file = other\nnode = a=h1\n", NULL), HF_EINVAL);
    fault_is(1, "/other cannot be read: No such file");
}

TEST(what_is_wrong_with_the_file)
{
    static const char form[] = "node = b=h2\npassword_file = @\nnode = a=h1\n";
    char bytes[256];

    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "cannot be read: No such file or directory");
    secret("");
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "is empty");
    secret("\n" SECRET "\n");
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "in its first line and nothing below");
    secret(SECRET "\n" SECRET "\n");
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "in its first line and nothing below");
    secret(SECRET "\n\n");
    assert_int_equal(reads(form, NULL), HF_OK);
    secret(SECRET "\r\n");
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "carriage return");
    memset(bytes, 'x', sizeof(bytes));
    write_bytes(secret_file, bytes, 128, 0600);
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "longer than 127 bytes");
    write_bytes(secret_file, bytes, 127, 0600);
    assert_int_equal(reads(form, NULL), HF_OK);
    assert_int_equal(strlen(config.nodes[1].password), 127);
    write_bytes(secret_file, "a\0b", 3, 0600);
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "zero byte");
    assert_int_equal(unlink(secret_file), 0);
    assert_int_equal(mkfifo(secret_file, 0600), 0); /* nobody waits for its writer */
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "no regular file");
}

TEST(the_line_of_the_node_is_named)
{
    assert_int_equal(reads("node = a=h1\nnode = b=h2,password_file=/nonexistent/x\n", NULL),
                     HF_EINVAL);
    fault_is(2, "node b: password_file: /nonexistent/x cannot be read");
    assert_int_equal(reads("node = a=h1\n", "--password-file=/nonexistent/x"), HF_EINVAL);
    fault_is(0, "password_file: /nonexistent/x cannot be read");
    assert_int_equal(reads("node = b=h2\nnode = a=redis://u^h1\nnode = c=h3\n", NULL), HF_EINVAL);
    fault_is(2, "node a: a user without a password");
    assert_int_equal(reads("ttl = 3s\n", "--node=a=redis://u@h1"), HF_EINVAL);
    fault_is(0, "node a: a user without a password");
    assert_int_equal(report.exit, 64);
}

/* It may be being written: a service manager starts the agent again after 71, and not after 64 and 78. */
TEST(what_a_file_has_now_may_pass)
{
    char *argv[] = {"holdfastd",     "--check-config", config_path,
                    "--runtime-dir", "/tmp/holdfast",  NULL};
    static const char *const forms[] = {
        "password_file = @\nnode = a=h1\n",
        "node = a=h1,password_file=@\n",
        "tls_ca_file = @\nnode = a=rediss://h1\n",
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        (void)unlink(secret_file);
        assert_int_equal(reads(forms[i], NULL), HF_EINVAL);
        assert_int_equal(report.exit, 71);
        secret(""); /* it was opened and is not written yet */
        assert_int_equal(reads(forms[i], NULL), HF_EINVAL);
        assert_int_equal(report.exit, 71);
        assert_int_equal(config_read(5, argv, &config, &report), HF_EINVAL);
        assert_int_equal(report.exit, 78);
    }
    assert_int_equal(reads("node = a=h1\n", "--password-file=/nonexistent/x"), HF_EINVAL);
    assert_int_equal(report.exit, 71);
}

TEST(beside_a_fault_that_stays_nothing_may_pass)
{
    assert_int_equal(reads("password_file = @\nnode = a=h1\nttl = x\n", NULL), HF_EINVAL);
    assert_int_equal(report.fault_count, 2);
    assert_int_equal(report.exit, 78);
    assert_int_equal(reads("password_file = x\nnode = a=h1\n", NULL), HF_EINVAL);
    fault_is(1, "LoadCredential=");
    assert_int_equal(report.exit, 78);
    assert_int_equal(reads("tls_ca_file = x\nnode = a=rediss://h1\n", NULL), HF_EINVAL);
    fault_is(1, "LoadCredential=");
    assert_int_equal(report.exit, 78);
}

TEST(a_file_that_all_can_read_is_warned_of)
{
    write_bytes(secret_file, SECRET, strlen(SECRET), 0644);
    assert_int_equal(reads("password_file = @\nnode = a=h1\n", NULL), HF_OK);
    assert_non_null(strstr(config.warning, "/secret has a password and every user can read it"));
}

/* inih takes " ;" and what follows for a comment. */
TEST(a_password_that_the_file_cuts_is_not_used_and_not_shown)
{
    static const char *const nodes[] = {"redis://:geh ;eim^h1", "redis://u:geh ;ei m^h1:1",
                                        "redis://geh ;eim^h1", "redis+unix://:geh ;eim^/r"};

    for (size_t i = 0; i < HF_LENGTH(nodes); i++) {
        char form[128];

        snprintf(form, sizeof(form), "ttl = 3s\nnode = a=%s\n", nodes[i]);
        assert_int_equal(reads(form, NULL), HF_EINVAL);
        fault_is(2, "write %3B for a ;");
    }
    assert_int_equal(reads("node = a=redis://:geh eim^h1\n", NULL), HF_EINVAL);
    fault_is(1, "%20 for a blank");
    assert_int_equal(reads("node = a=redis://:geh;eim^h1\n", NULL), HF_OK); /* no comment */
    assert_string_equal(config.nodes[0].password, "geh;eim");
    assert_int_equal(reads("node = a=redis://:geh%20%3Beim^h1 ; ask me\n", NULL), HF_OK);
    assert_string_equal(config.nodes[0].password, "geh ;eim");
    assert_int_equal(reads("node = a=h1 ; ask me^example.com\n", NULL), HF_OK);
}

TEST(a_long_line_shows_nothing)
{
    char form[400];

    snprintf(form, sizeof(form), "node = b=h2\nnode = a=redis://:%0190d" SECRET "^h1\n", 0);
    assert_int_equal(reads(form, NULL), HF_EINVAL);
    fault_is(2, "shorten it (password_file takes a password): the line is longer than 198 bytes");
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, prepare, clean_up)
    const struct CMUnitTest tests[] = {
        ROW(of_all_nodes_that_have_no_other),
        ROW(of_one_node),
        ROW(a_credential_of_the_service),
        ROW(what_is_wrong_with_the_file),
        ROW(the_line_of_the_node_is_named),
        ROW(what_a_file_has_now_may_pass),
        ROW(beside_a_fault_that_stays_nothing_may_pass),
        ROW(a_file_that_all_can_read_is_warned_of),
        ROW(a_password_that_the_file_cuts_is_not_used_and_not_shown),
        ROW(a_long_line_shows_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Contract. All faults of a configuration with their lines, what is suggested for an unknown key, and that every
 * setting is shown wherever settings are. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/config_report.h"
#include "shm/text.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define DIR        "--runtime-dir", "/tmp/holdfast"

static struct config config;
static struct config_report report;
static char path[64]; /* of a file that write_file() made */

static void write_file(const char *text)
{
    FILE *file;
    int fd;

    if (path[0])
        (void)unlink(path); /* the one before */
    scratch_path(path, sizeof(path));
    fd = mkstemp(path);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int remove_file(HF_UNUSED void **state)
{
    if (path[0])
        (void)unlink(path);
    path[0] = '\0';
    return 0;
}

static int clean_environment(HF_UNUSED void **state)
{
    unsetenv("HOLDFAST_RUNTIME_DIR");
    unsetenv("XDG_RUNTIME_DIR");
    return 0;
}

/* What follows, to a NULL, after --check-config and the file. */
static int check(const char *text, ...)
{
    char *argv[32] = {"holdfastd", "--check-config", path, "--runtime-dir", "/tmp/holdfast"};
    int argc = 5;
    va_list more;

    write_file(text);
    va_start(more, text);
    while ((argv[argc] = va_arg(more, char *)))
        argc++;
    va_end(more);
    return config_read(argc, argv, &config, &report);
}

/* Fault number `i` is in that line of the file, and has these words. */
static void fault_is(int i, int line, const char *words)
{
    const struct config_fault *fault = &report.faults[i];

    assert_in_range(report.fault_count, i + 1, CONFIG_FAULTS_MAX);
    if (!fault->of_file || fault->line != line || !strstr(fault->text, words))
        fail_msg("line %d: '%s' is not line %d: '%s'", fault->line, fault->text, line, words);
}

/* --- faults ----------------------------------------------------------------------------------- */

TEST(a_good_file_has_no_faults_and_every_setting_has_its_line)
{
    assert_int_equal(check("# none\nnode = a\n\nttl = 5s\nnode = b\nnode = c\n", NULL), HF_OK);
    assert_true(report.check && !report.offline);
    assert_int_equal(report.fault_count, 0);
    assert_int_equal(report.exit, 0);
    assert_string_equal(report.file, path);
    assert_int_equal(report.line[CONFIG_ID_ttl], 4);
    assert_int_equal(report.line[CONFIG_ID_node], 2);
    assert_int_equal(report.line[CONFIG_ID_ttl_max], 0);
    assert_int_equal(report.node_line[0], 2);
    assert_int_equal(report.node_line[1], 5);
    assert_int_equal(report.node_line[2], 6);
    assert_int_equal(config.node_count, 3);
}

TEST(all_faults_are_found_in_the_order_of_their_lines)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "ttl = 70s\ncapcity = 3\n[main]\nhello\nlog_level = loud\nreset_fleet = yes\n"
             "node = h:99999\nclients_max = 0\nclients_max = 1\n# %0300d\nnode = a\n",
             0);
    assert_int_equal(check(text, NULL), HF_EINVAL);
    assert_int_equal(report.exit, 78);
    assert_int_equal(report.fault_count, 10);
    fault_is(0, 1, "use a TTL of at most"); /* judged last */
    fault_is(1, 2, "there is no setting 'capcity'; did you mean 'capacity'?");
    fault_is(2, 3, "remove this line: there are no [sections]");
    fault_is(3, 4, "write \"key = value\"");
    fault_is(4, 5, "log_level: 'loud' is none of");
    fault_is(5, 6, "give 'reset_fleet' on the command line");
    fault_is(6, 7, "node address 'h:99999'");
    fault_is(7, 8, "clients_max: give a number from 1 to 1000000: '0' is none");
    fault_is(8, 9, "'clients_max' is set twice, first in line 8");
    fault_is(9, 10, "longer than 198 bytes");
}

/* The words go into the history, which every user may read. */
TEST(an_address_where_a_key_belongs_is_not_quoted)
{
    assert_int_equal(check("[redis://u:secret@h]\nsecret@h = 1\n", NULL), HF_EINVAL);
    fault_is(0, 1, "remove this line: there are no [sections]");
    fault_is(1, 2, "there is no setting '...'");
    for (int i = 0; i < report.fault_count; i++)
        assert_null(strstr(report.faults[i].text, "secret"));
}

TEST(what_only_follows_from_a_fault_is_none)
{
    check("node = h:x\n", NULL);
    assert_int_equal(report.fault_count, 1); /* and not that there are no nodes */
    check("nodes = a\n", NULL);
    assert_int_equal(report.fault_count, 1);
    check("node = a\nttl = 90s\nttl_max = x\n", NULL);
    assert_int_equal(report.fault_count, 1);
    check("node = a\nttl = 90s\nttl_mx = 120s\n", NULL);
    assert_int_equal(report.fault_count, 1);
    check("node = a\nname = \n", NULL);
    assert_int_equal(report.fault_count, 1);
    check("", NULL);
    assert_int_equal(report.fault_count, 1);
    fault_is(0, 0, "write node = ADDRESS for each Redis master: no nodes are given");
    assert_int_equal(report.exit, 78);
}

TEST(inequalities_have_the_line_of_the_setting)
{
    char text[256];

    check("node = a\nttl = 70s\n", NULL);
    fault_is(0, 2, "at most 60000 ms, the fleet's ttl_max");
    check("node = a\nttl_max = 100ms\n", NULL); /* the default TTL follows it */
    fault_is(0, 2, "use a TTL of at least");
    check("node = a\nname = a/b\n", NULL);
    fault_is(0, 2,
             "name: use letters, digits, '.', '_' and '-', the first not a '.': 'a/b' has others");
    snprintf(text, sizeof(text), "node = a\nname = %060d\n", 0);
    check(text, "--runtime-dir=/tmp/1234567890123456789012345678901234567890", NULL);
    assert_int_equal(report.faults[0].of_file, false); /* given twice */
    assert_int_equal(report.exit, 64);
}

TEST(the_command_line_comes_first_and_is_no_line_of_the_file)
{
    char text[256];

    check("node = a\nttl = x\n", "--capacity", "x", "--offline", NULL);
    assert_true(report.offline);
    assert_int_equal(report.fault_count, 2);
    assert_false(report.faults[0].of_file);
    assert_int_equal(report.exit, 64);
    assert_string_equal(config_fault_text(&report, &report.faults[0], text, sizeof(text)),
                        "capacity: give a number from 1 to 1048576: 'x' is none");
    assert_non_null(strstr(config_fault_text(&report, &report.faults[1], text, sizeof(text)),
                           ":2: ttl: give a time"));
    assert_int_equal(check("node = a\nttl = x\n", "--ttl=3s", NULL), HF_OK); /* overridden */
}

TEST(of_very_many_faults_the_first_are_kept)
{
    char text[4 * CONFIG_FAULTS_MAX + 64] = "";

    for (int i = 0; i < CONFIG_FAULTS_MAX + 9; i++)
        strcat(text, "x\n");
    check(text, NULL);
    assert_int_equal(report.fault_count, CONFIG_FAULTS_MAX + 10); /* and no nodes */
    for (int i = 0; i < CONFIG_FAULTS_MAX; i++)
        assert_int_equal(report.faults[i].line, i + 1);
    config_report_add(&report, false, 0, "first");
    assert_string_equal(report.faults[0].text, "first");
    assert_int_equal(report.faults[CONFIG_FAULTS_MAX - 1].line, CONFIG_FAULTS_MAX - 1);
}

TEST(lines_of_every_kind_are_counted)
{
    check("\xef\xbb\xbfnode = a\n\n  ; a comment\n\t# another\n   \nttl: 3s ; inline\nx\n  y\n"
          "tt = 1",
          NULL);
    assert_int_equal(report.fault_count, 3);
    assert_int_equal(report.node_line[0], 1);
    assert_int_equal(report.line[CONFIG_ID_ttl], 6);
    fault_is(0, 7, "write \"key = value\"");
    fault_is(1, 8,
             "'ttl' is set twice"); /* a line that begins with a blank goes on with the value */
    fault_is(2, 9, "did you mean 'ttl'?");
}

TEST(what_cannot_be_read_is_said)
{
    char *argv[] = {"holdfastd", "--check-config", "/nonexistent", DIR, NULL};

    assert_int_equal(config_read(5, argv, &config, &report), HF_EINVAL);
    assert_int_equal(report.fault_count, 1);
    fault_is(0, 0, "cannot read it: No such file or directory");
    assert_int_equal(report.exit, 78);
    argv[2] = "/tmp";
    assert_int_equal(config_read(5, argv, &config, &report), HF_EINVAL);
    fault_is(0, 0, "cannot read it: it is not a regular file");
    assert_int_equal(report.fault_count, 1);
    argv[2] = "/proc/self/mem"; /* a regular file without a first byte */
    assert_int_equal(config_read(5, argv, &config, &report), HF_EINVAL);
    fault_is(0, 0, "cannot read it: Input/output error");
    assert_int_equal(report.fault_count, 1);
}

static void only_fault_is(const char *file, const char *words)
{
    char *argv[] = {"holdfastd", "--check-config", (char *)file, DIR, NULL};

    assert_int_equal(config_read(5, argv, &config, &report), HF_EINVAL);
    assert_int_equal(report.exit, 78);
    assert_int_equal(report.fault_count, 1);
    fault_is(0, 0, words);
    assert_int_equal(config_reload(5, argv, &config, &report), HF_EINVAL);
    assert_int_equal(report.fault_count, 1);
    fault_is(0, 0, words);
}

static void on_alarm(int number HF_UNUSED) {}

/* A pipe without a writer, devices, and a file of one line without an end. */
TEST(what_has_no_end_is_refused_at_once)
{
    static const char *const devices[] = {"/dev/zero", "/dev/full", "/dev/random", "/dev/null"};

    const struct sigaction interrupt = {.sa_handler = on_alarm};

    assert_int_equal(sigaction(SIGALRM, &interrupt, NULL), 0);
    (void)alarm(2); /* it ends a call that waits, and no other */
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        only_fault_is(devices[i], "not a regular file; give the path of one");
    write_file("");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    only_fault_is(path, "not a regular file; give the path of one");
    write_file("");
    assert_int_equal(truncate(path, (off_t)1 << 33), 0);
    only_fault_is(path, "larger than 1 MiB; shorten it");
    (void)alarm(0);
}

TEST(a_file_may_have_a_mebibyte)
{
    static char text[(1 << 20) + 2];

    for (size_t at = 0; at < 1 << 20; at++)
        text[at] = at % 64 == 63 ? '\n' : '#';
    memcpy(text, "node = a\n", 9);
    assert_int_equal(check(text, NULL), HF_OK);
    text[1 << 20] = '#';
    assert_int_equal(check(text, NULL), HF_EINVAL);
    fault_is(0, 0, "larger than 1 MiB");
}

static void usage(const char *words, const char *a, const char *b, const char *c, const char *d)
{
    char *argv[] = {"holdfastd", (char *)a, (char *)b, (char *)c, (char *)d, NULL};
    int argc = 1;

    while (argv[argc])
        argc++;
    assert_int_equal(config_read(argc, argv, &config, &report), HF_EINVAL);
    assert_int_equal(report.exit, 64);
    assert_int_equal(report.fault_count, 1);
    if (!strstr(report.faults[0].text, words))
        fail_msg("'%s' is not in: %s", words, report.faults[0].text);
}

TEST(options_that_do_not_go_together)
{
    usage("--check-config needs a value: FILE", "--check-config", NULL, NULL, NULL);
    usage("a file is given already: 'a'", "--config", "a", "--check-config", "b");
    usage("--offline goes with --check-config FILE", "--offline", NULL, NULL, NULL);
    usage("there is no option '--ofline'; did you mean '--offline'?", "--ofline", NULL, NULL, NULL);
    usage("did you mean '--ttl-max'?", "--tl-max", "5s", NULL, NULL);
    usage("there is no option '--frobnicate'; see holdfastd --help", "--frobnicate", NULL, NULL,
          NULL);
}

/* --- suggestions ------------------------------------------------------------------------------ */

static size_t distance(const char *word, const char *known)
{
    return suggest_distance(word, strlen(word), known);
}

TEST(a_distance_counts_letters)
{
    assert_int_equal(distance("ttl_max", "ttl_max"), 0);
    assert_int_equal(distance("TTL-Max", "ttl_max"), 0);
    assert_int_equal(distance("ttl_mx", "ttl_max"), 1);
    assert_int_equal(distance("ttl_maxx", "ttl_max"), 1);
    assert_int_equal(distance("ttl_mex", "ttl_max"), 1);
    assert_int_equal(distance("tlt_max", "ttl_max"), 1); /* swapped */
    assert_int_equal(distance("tlt_mxa", "ttl_max"), 2);
    assert_int_equal(distance("", "ttl"), 3);
    assert_int_equal(distance("ttl", ""), 3);
    assert_int_equal(distance("max_ttl", "ttl_max"), 6);
    assert_int_equal(distance("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ttl"),
                     59);
}

static const char *suggested(const char *word)
{
    struct suggestion s = {0};

    for (int i = 0; i < CONFIG_ROWS; i++)
        suggest_try(&s, word, strlen(word), config_rows[i].key);
    return s.known ? s.known : "";
}

TEST(the_nearest_word_is_suggested_if_it_is_near)
{
    assert_string_equal(suggested("ttl_mx"), "ttl_max");
    assert_string_equal(suggested("tt"), "ttl");
    assert_string_equal(suggested("nodes"), "node");
    assert_string_equal(suggested("capasity"), "capacity");
    assert_string_equal(suggested("client_max"), "clients_max");
    assert_string_equal(suggested("lease_per_uid"), "leases_per_uid");
    assert_string_equal(suggested("loglevel"), "log_level");
    assert_string_equal(suggested("runtime"), "runtime_dir"); /* its beginning */
    assert_string_equal(suggested("key"), "key_format");
    assert_string_equal(suggested("x"), "");
    assert_string_equal(suggested("lo"), "");
    assert_string_equal(suggested("password"), "password_file");
    assert_string_equal(suggested("replicas"), "");
    assert_string_equal(suggested(""), "");
}

/* --- every setting is shown ------------------------------------------------------------------- */

/* Whether a line of `text` sets the key, or would without its "#"; its value in `ret_value`. */
static bool shows(const char *text, const char *key, bool *ret_comment, char ret_value[256])
{
    size_t length = strlen(key);

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;

        *ret_comment = *at == '#';
        at += strspn(at, "# ");
        if (strncmp(at, key, length) != 0 || strncmp(at + length, " = ", 3) != 0)
            continue;
        at += length + 3;
        snprintf(ret_value, 256, "%.*s", (int)strcspn(at, "\n"), at);
        return true;
    }
    return false;
}

static char *printed(void)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    for (int i = 0; i < CONFIG_ROWS; i++)
        config_row_print(&config_rows[i], &config, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void prints_every_setting(void)
{
    char *text = printed(), value[256];
    bool comment;

    for (int i = 0; i < CONFIG_ROWS; i++) {
        if (!shows(text, config_rows[i].key, &comment, value) || !value[0])
            fail_msg("%s is not in:\n%s", config_rows[i].key, text);
        if (config_rows[i].where == CONFIG_COMMAND_LINE && !comment)
            fail_msg("%s would be set by:\n%s", config_rows[i].key, text);
    }
    free(text);
}

TEST(every_setting_is_printed)
{
    char *dev[] = {"holdfastd", "--dev", DIR, NULL};

    assert_int_equal(check("node = a\n", NULL), HF_OK);
    prints_every_setting();
    assert_int_equal(config_read(4, dev, &config, &report), HF_OK);
    prints_every_setting();
    assert_int_equal(check("node = a\ngroup = 0\nkey_format_for = a* b:%s\nkey_format_for = c* "
                           "d:%s\nallow = a user:1\n"
                           "allow = b none see\n",
                           NULL),
                     HF_OK);
    prints_every_setting();
}

/* A file of the sources, to be freed. */
static char *read_source(const char *name)
{
    char at[512];
    char *text = calloc(1, 65536);
    FILE *file;

    snprintf(at, sizeof(at), "%s/%s", HF_SOURCE_DIR, name);
    file = fopen(at, "re");
    assert_non_null(text);
    if (!file)
        fail_msg("%s is not there", at);
    assert_in_range(fread(text, 1, 65535, file), 1, 65534);
    (void)fclose(file);
    return text;
}

TEST(the_sample_shows_every_setting_with_its_default)
{
    char *text = read_source("packaging/holdfast.conf"), value[256];
    bool comment;

    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];
        bool shown = shows(text, row->key, &comment, value);

        if (shown != (row->where != CONFIG_COMMAND_LINE))
            fail_msg("%s is %sin the sample", row->key, shown ? "" : "not ");
        if (shown && *row->standard && row->type != CONFIG_FLAG)
            assert_string_equal(value, row->standard);
    }
    free(text);
}

/* What a sample says must be true: with the comments taken away it is a good file, and means the defaults. */
TEST(the_sample_is_good_without_its_comments)
{
    char *text = read_source("packaging/holdfast.conf"), *to = text;
    struct config defaults;

    for (char *line = text; *line; line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        /* A setting has no blank behind the "#". This host has no such group or user. */
        bool setting = line[0] == '#' && line[1] != ' ' && strncmp(line, "#group", 6) != 0 &&
                       strncmp(line, "#allow =", 8) != 0;

        memmove(to, line + setting, length - setting);
        to += length - setting;
        *to++ = '\n';
        line += length;
    }
    *to = '\0';
    if (check(text, NULL) != HF_OK)
        fail_msg("line %d: %s", report.faults[0].line, report.faults[0].text);
    defaults = config;
    assert_int_equal(check("node = a=redis1.example.com\nnode = b=redis2.example.com\n"
                           "node = c=redis3.example.com\n"
                           "system = yes\nkey_format_for = orders/* redlock:%s\n",
                           NULL),
                     HF_OK);
    assert_int_equal(config.capacity, defaults.capacity);
    assert_int_equal(config.clients_per_uid, defaults.clients_per_uid);
    assert_int_equal(config.leases_per_uid, defaults.leases_per_uid);
    assert_int_equal(config.waiters_per_uid, defaults.waiters_per_uid);
    assert_int_equal(config.requests_per_uid, defaults.requests_per_uid);
    assert_int_equal(config.ttl_ms, defaults.ttl_ms);
    assert_int_equal(config.track_held, defaults.track_held);
    assert_string_equal(config.list_hash, defaults.list_hash);
    free(text);
}

TEST(the_manual_describes_every_setting)
{
    char *conf = read_source("docs/man/holdfast.conf.5");
    char *options = read_source("docs/man/holdfastd.8"), words[64];

    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->where != CONFIG_COMMAND_LINE && !strstr(conf, row->key))
            fail_msg("holdfast.conf(5) has no %s", row->key);
        if (row->where != CONFIG_COMMAND_LINE)
            continue;
        snprintf(words, sizeof(words), ".It Fl -%s", row->key);
        for (char *p = words; *p; p++)
            *p = *p == '_' ? '-' : *p;
        if (!strstr(options, words))
            fail_msg("holdfastd(8) has no %s", words);
    }
    free(conf);
    free(options);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, clean_environment, remove_file)
    const struct CMUnitTest tests[] = {
        ROW(a_good_file_has_no_faults_and_every_setting_has_its_line),
        ROW(all_faults_are_found_in_the_order_of_their_lines),
        ROW(an_address_where_a_key_belongs_is_not_quoted),
        ROW(what_only_follows_from_a_fault_is_none),
        ROW(inequalities_have_the_line_of_the_setting),
        ROW(the_command_line_comes_first_and_is_no_line_of_the_file),
        ROW(of_very_many_faults_the_first_are_kept),
        ROW(lines_of_every_kind_are_counted),
        ROW(what_cannot_be_read_is_said),
        ROW(what_has_no_end_is_refused_at_once),
        ROW(a_file_may_have_a_mebibyte),
        ROW(options_that_do_not_go_together),
        ROW(a_distance_counts_letters),
        ROW(the_nearest_word_is_suggested_if_it_is_near),
        ROW(every_setting_is_printed),
        ROW(the_sample_shows_every_setting_with_its_default),
        ROW(the_sample_is_good_without_its_comments),
        ROW(the_manual_describes_every_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

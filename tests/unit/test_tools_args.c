/* Contract. Options and names of the reading subcommands. */
#include "shm_fixture.h"

#include <fcntl.h>
#include <getopt.h>

#include "tools/common/args.h"
#include "tools/reader/reader_args.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define PARSE(letters, ret_args, ...)                                                              \
    parse(letters, ret_args, (char *[]){"show", __VA_ARGS__, NULL})

static int arg_count;
static char **arg_values;

static int parse(const char *letters, struct reader_args *ret_args, char **argv)
{
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY), code;

    arg_values = argv;
    for (arg_count = 0; argv[arg_count]; arg_count++)
        ;
    optind = 0; /* begin anew */
    assert_int_equal(dup2(null, STDERR_FILENO), STDERR_FILENO);
    code = reader_args_parse(arg_count, argv, letters, "show", "", ret_args);
    dup2(saved, STDERR_FILENO);
    close(null);
    close(saved);
    assert_string_equal(argv[0], "show");
    return code;
}

static void test_options(void **state)
{
    struct reader_args args;

    (void)state;
    assert_int_equal(PARSE("jaqecf", &args, "--json", "-a", "-q", "NAME", "-e", "--clean",
                           "--force", "--agent", "x"),
                     READER_ARGS_GO_ON);
    assert_true(args.json && args.all && args.quiet && args.escaped && args.clean && args.force);
    assert_string_equal(args.agent, "x");
    assert_int_equal(optind, arg_count - 1);
    assert_string_equal(arg_values[optind], "NAME");

    assert_int_equal(PARSE("", &args, "NAME"), READER_ARGS_GO_ON);
    assert_false(args.json);
    assert_null(args.agent);
    assert_int_equal(PARSE("", &args, "--json"), EXIT_USAGE);
    assert_int_equal(PARSE("j", &args, "-q"), EXIT_USAGE);
    assert_int_equal(PARSE("j", &args, "--agent"), EXIT_USAGE);
    /* Behind "--" all is a name. */
    assert_int_equal(PARSE("j", &args, "--", "--json"), READER_ARGS_GO_ON);
    assert_false(args.json);
}

static void test_escapes(void **state)
{
    static const char *const bad[] = {"\\", "a\\", "\\x", "\\x4", "\\xg0", "\\X41", "\\0", "\\xAB"};
    const struct reader_args plain = {0}, escaped = {.escaped = true};
    struct reader_name name;

    (void)state;
    assert_int_equal(reader_args_bytes(&plain, "a\\n", &name), HF_OK);
    assert_int_equal(name.len, 3);
    assert_int_equal(reader_args_bytes(&escaped, "a\\n\\r\\t\\\\\\x00\\xff", &name), HF_OK);
    assert_int_equal(name.len, 7);
    assert_memory_equal(name.bytes, "a\n\r\t\\\0\xff", 7);
    for (size_t i = 0; i < LENGTH(bad); i++)
        assert_int_equal(reader_args_bytes(&escaped, bad[i], &name), HF_EINVAL);
}

static void test_longest_names(void **state)
{
    const struct reader_args plain = {0}, escaped = {.escaped = true};
    char text[4 * 256 + 1] = "";
    struct reader_name name;

    (void)state;
    memset(text, 'x', 255);
    assert_int_equal(reader_args_bytes(&plain, text, &name), HF_OK);
    assert_int_equal(name.len, 255);
    text[255] = 'x';
    assert_int_equal(reader_args_bytes(&plain, text, &name), HF_EINVAL);
    text[0] = '\0';
    for (int i = 0; i < 255; i++)
        strcat(text, "\\x00");
    assert_int_equal(reader_args_bytes(&escaped, text, &name), HF_OK);
    assert_int_equal(name.len, 255);
    strcat(text, "\\x00");
    assert_int_equal(reader_args_bytes(&escaped, text, &name), HF_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_longest_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

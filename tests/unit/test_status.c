/* Contract. shm/status.h, and that libclient/holdfast.h has the same codes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/status_name.h"

static const struct {
    const char *name;
    int value;
    const char *text;
} codes[] = {
#define ROW(name, value, text) {#name, value, text},
    HF_STATUS_TABLE(ROW)
#undef ROW
};

static void every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < HF_LENGTH(codes); i++) {
        assert_string_equal(status_name(codes[i].value), codes[i].name);
        assert_string_equal(hf_status_text(codes[i].value), codes[i].text);
    }
}

static void codes_differ_and_errors_are_negative(void **state)
{
    (void)state;
    for (size_t i = 1; i < HF_LENGTH(codes); i++) {
        assert_true(codes[i].value < 0);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(codes[i].value, codes[j].value);
    }
}

static void other_numbers_have_words_too(void **state)
{
    (void)state;
    assert_string_equal(status_name(1), "HF_E?");
    assert_string_equal(hf_status_text(-9999), "unknown status");
}

/* Both headers in one translation unit give one list, so the text of the public one is read. */
static FILE *open_public_header(void)
{
    const char *end = strstr(__FILE__, "tests/unit/test_status.c");
    char path[4096];

    assert_non_null(end);
    snprintf(path, sizeof(path), "%.*slibclient/holdfast.h", (int)(end - __FILE__), __FILE__);
    return fopen(path, "r");
}

static void the_public_header_has_the_same_codes(void **state)
{
    FILE *header = open_public_header();
    char line[512], name[64];
    size_t seen = 0;
    int value, in_list = 0;

    (void)state;
    if (!header)
        skip(); /* an installed test has no sources */
    while (fgets(line, sizeof(line), header)) {
        if (strncmp(line, "#ifndef HF_STATUS_TABLE", 23) == 0)
            in_list = 1;
        else if (strncmp(line, "#endif", 6) == 0)
            in_list = 0;
        if (!in_list || sscanf(line, " %63[A-Z_] = %d", name, &value) != 2)
            continue;
        assert_string_equal(status_name(value), name);
        seen++;
    }
    fclose(header);
    assert_int_equal(seen, HF_LENGTH(codes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_text),
        cmocka_unit_test(codes_differ_and_errors_are_negative),
        cmocka_unit_test(other_numbers_have_words_too),
        cmocka_unit_test(the_public_header_has_the_same_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is UTF-8, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shm/text.h"

static void each_length_is_read(void **state)
{
    static const struct {
        const char *bytes;
        uint32_t character;
    } cases[] = {{"a", 'a'},
                 {"\x7f", 0x7f},
                 {"\xc2\x80", 0x80},
                 {"\xc3\xa9", 0xe9},
                 {"\xe0\xa0\x80", 0x800},
                 {"\xe2\x82\xac", 0x20ac},
                 {"\xef\xbf\xbf", 0xffff},
                 {"\xf0\x90\x80\x80", 0x10000},
                 {"\xf4\x8f\xbf\xbf", 0x10ffff}};
    uint32_t character;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length = strlen(cases[i].bytes);

        assert_int_equal(hf_utf8_next(cases[i].bytes, length, &character), length);
        assert_int_equal(character, cases[i].character);
        assert_true(hf_utf8_valid(cases[i].bytes, length));
        if (length > 1) /* cut */
            assert_int_equal(hf_utf8_next(cases[i].bytes, length - 1, &character), 0);
    }
    assert_int_equal(hf_utf8_next("\0", 1, &character), 1);
    assert_true(hf_utf8_valid("", 0));
}

static void what_is_not_utf8_is_refused(void **state)
{
    static const char *const cases[] = {"\x80", /* a byte that continues nothing */
                                        "\xbf",
                                        "\xc3",
                                        "\xc3(",
                                        "\xe2\x82",
                                        "\xe2(\xa1",
                                        "\xf0\x9f\x92",
                                        "\xc0\x80",
                                        "\xc1\xbf", /* overlong */
                                        "\xe0\x9f\xbf",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xed\xa0\x80",
                                        "\xed\xbf\xbf", /* surrogates */
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xf8\x88\x80\x80\x80",
                                        "\xff"};
    uint32_t character;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(hf_utf8_next(cases[i], strlen(cases[i]), &character), 0);
        assert_false(hf_utf8_valid(cases[i], strlen(cases[i])));
    }
    assert_false(hf_utf8_valid("good\xffgood", 9));
}

/* What a hostile name could do with a terminal, or hide in a line. */
static void only_what_cannot_fool_anybody_is_plain(void **state)
{
    static const uint32_t plain[] = {'a',    '~',    0xa1,   0xe9,   0x3b1,   0x416,
                                     0x4e2d, 0xac00, 0x3042, 0x20ac, 0x1f512, 0x2713};
    static const uint32_t others[] = {
        0,      '\n',   0x1b,   0x7f,   0x80,    0x9b,    0x9f,    0xa0,    0xad,    0x301,
        0x5d0,  0x61c,  0x627,  0x200b, 0x200d,  0x200e,  0x200f,  0x2028,  0x2029,  0x202a,
        0x202e, 0x202f, 0x2060, 0x2066, 0x2069,  0x206a,  0x3000,  0xd800,  0xe000,  0xfe0f,
        0xfeff, 0xfff9, 0xfffe, 0xffff, 0x1fffe, 0x1ee00, 0xe0001, 0xe0041, 0xf0000, 0x10fffd};

    (void)state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        assert_true(hf_utf8_plain(plain[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(hf_utf8_plain(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_length_is_read),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(only_what_cannot_fool_anybody_is_plain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* agent/base/crc32.h against the numbers of RFC 3720 B.4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/crc32.h"
#include "shm/compiler.h"

#define TEST(name) static void name(void **state HF_UNUSED)

TEST(known_sums)
{
    uint8_t bytes[32];

    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (uint8_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = i;
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

TEST(in_pieces_of_any_length_and_at_any_address)
{
    uint8_t bytes[80];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (size_t from = 0; from < 9; from++)
        for (size_t cut = from; cut <= sizeof(bytes); cut++) {
            uint32_t whole = crc32c(0, bytes + from, sizeof(bytes) - from);
            uint32_t first = crc32c(0, bytes + from, cut - from);

            assert_int_equal(crc32c(first, bytes + cut, sizeof(bytes) - cut), whole);
        }
}

/* As the polynomial is defined; whatever the processor offers must come to the same. */
static uint32_t bit_by_bit(const uint8_t *bytes, size_t length)
{
    uint32_t crc = ~UINT32_C(0);

    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

TEST(the_definition_holds_for_every_length)
{
    uint8_t bytes[80];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 91 + 7);
    for (size_t length = 0; length <= sizeof(bytes); length++)
        assert_int_equal(crc32c(0, bytes, length), bit_by_bit(bytes, length));
}

TEST(every_single_bit_counts)
{
    uint8_t bytes[96] = {0};
    uint32_t sum = crc32c(0, bytes, sizeof(bytes));

    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(crc32c(0, bytes, sizeof(bytes)), sum);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_sums),
        cmocka_unit_test(in_pieces_of_any_length_and_at_any_address),
        cmocka_unit_test(the_definition_holds_for_every_length),
        cmocka_unit_test(every_single_bit_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

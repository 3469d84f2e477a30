/* shm/text.h: bytes as digits and back; the ids of keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shm/text.h"
#include "shm/status.h"

static void bytes_and_back(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x9a, 0xff, 0x10};
    uint8_t back[sizeof(bytes)];
    char text[2 * sizeof(bytes) + 1];

    (void)state;
    hf_hex_text(bytes, sizeof(bytes), text);
    assert_string_equal(text, "009aff10");
    assert_int_equal(hf_hex_bytes(text, sizeof(bytes), back), HF_OK);
    assert_memory_equal(back, bytes, sizeof(bytes));
    assert_int_equal(hf_hex_bytes("009aff10", 2, back), HF_OK); /* what follows is not read */
}

static void what_is_no_digit(void **state)
{
    uint8_t byte[2];

    (void)state;
    assert_int_equal(hf_hex_bytes("", 1, byte), HF_EINVAL);
    assert_int_equal(hf_hex_bytes("a", 1, byte), HF_EINVAL);
    assert_int_equal(hf_hex_bytes("0A", 1, byte), HF_EINVAL);
    assert_int_equal(hf_hex_bytes("0x", 1, byte), HF_EINVAL);
    assert_int_equal(hf_hex_bytes("00 1", 2, byte), HF_EINVAL);
}

static void ids(void **state)
{
    uint8_t id[HF_KEY_ID_LEN] = {0}, back[HF_KEY_ID_LEN];
    char text[2 * HF_KEY_ID_LEN + 2];

    (void)state;
    hf_key_id_text(id, text);
    assert_string_equal(text, "");
    memset(back, 1, sizeof(back));
    assert_int_equal(hf_key_id_bytes(text, back), HF_OK);
    assert_memory_equal(back, id, sizeof(id));
    id[19] = 0xab;
    hf_key_id_text(id, text);
    assert_string_equal(text, "00000000000000000000000000000000000000ab");
    assert_int_equal(hf_key_id_bytes(text, back), HF_OK);
    assert_memory_equal(back, id, sizeof(id));
    strcat(text, "0");
    assert_int_equal(hf_key_id_bytes(text, back), HF_EINVAL);
    text[39] = '\0';
    assert_int_equal(hf_key_id_bytes(text, back), HF_EINVAL);
    assert_memory_equal(back, id, sizeof(id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_back),
        cmocka_unit_test(what_is_no_digit),
        cmocka_unit_test(ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "shm/hex.h"

#include <string.h>

#include "shm/status.h"

static const char digits[] = "0123456789abcdef";

void hf_hex_text(const void *bytes, size_t len, char *ret_text)
{
    const uint8_t *byte = bytes;

    for (size_t i = 0; i < len; i++) {
        *ret_text++ = digits[byte[i] >> 4];
        *ret_text++ = digits[byte[i] & 15];
    }
    *ret_text = '\0';
}

/* -1: no hex digit. */
static int hex_value_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int hf_hex_bytes(const char *text, size_t len, void *ret_bytes)
{
    uint8_t *byte = ret_bytes;

    for (size_t i = 0; i < len; i++) {
        int high = hex_value_of(text[2 * i]);
        int low = high < 0 ? -1 : hex_value_of(text[2 * i + 1]);

        if (low < 0)
            return HF_EINVAL;
        byte[i] = (uint8_t)(high << 4 | low);
    }
    return HF_OK;
}

void hf_key_id_text(const uint8_t id[HF_KEY_ID_LEN], char ret_text[2 * HF_KEY_ID_LEN + 1])
{
    static const uint8_t none[HF_KEY_ID_LEN];

    if (memcmp(id, none, sizeof(none)) == 0)
        ret_text[0] = '\0';
    else
        hf_hex_text(id, HF_KEY_ID_LEN, ret_text);
}

int hf_key_id_bytes(const char *text, uint8_t ret_id[HF_KEY_ID_LEN])
{
    uint8_t id[HF_KEY_ID_LEN] = {0};

    if (*text && (hf_hex_bytes(text, sizeof(id), id) < 0 || text[2 * sizeof(id)]))
        return HF_EINVAL;
    memcpy(ret_id, id, sizeof(id));
    return HF_OK;
}

/* Bytes as lower-case hex digits, and back. */
#ifndef HOLDFAST_SHM_HEX_H
#define HOLDFAST_SHM_HEX_H

#include <stddef.h>
#include <stdint.h>

#include "shm/wire.h"

/* `ret_text` has room for 2 * len + 1. */
void hf_hex_text(const void *bytes, size_t len, char *ret_text);
/* Reads 2 * len digits, up to the first other character. HF_OK, or HF_EINVAL with some of `ret_bytes`
 * written. */
int hf_hex_bytes(const char *text, size_t len, void *ret_bytes);

/* A key's id: "" for all zeros. */
void hf_key_id_text(const uint8_t id[HF_KEY_ID_LEN], char ret_text[2 * HF_KEY_ID_LEN + 1]);
/* HF_OK, or HF_EINVAL: neither "" nor 2 * HF_KEY_ID_LEN digits. */
int hf_key_id_bytes(const char *text, uint8_t ret_id[HF_KEY_ID_LEN]);

#endif

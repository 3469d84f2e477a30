/* The bytes of a name, escaped so that none can upset a terminal. Pure; any thread. */
#ifndef HOLDFAST_SHM_TEXT_H
#define HOLDFAST_SHM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/wire.h"

#define HF_ESCAPE_SIZE 5

/* Printable ASCII as it is, but `\` as `\\`; then \n \r \t; every other byte as \xNN. Returns the
 * length, without the final NUL. */
size_t hf_escape_byte(unsigned char byte, char text[HF_ESCAPE_SIZE]);

/* Reads a byte or an escape, and moves `*text` behind it. The byte; -1: no such escape, and `*text` is spoilt. */
int hf_unescape_byte(const char **text);

/* Any text as one word of a line: escaped, \x20 for a space; "-" is the empty one. `size` of HF_WORD_SIZE(most bytes) is enough.
 * Returns `out`. */
#define HF_WORD_SIZE(length) (4 * (length) + 5)
const char *hf_word(char *out, size_t size, const char *text);
/* The other way. False: no such word, or longer than `size`. */
bool hf_word_read(const char *word, char *ret_text, size_t size);
/* Of a text that may have spaces, and may be empty. */
bool hf_text_read(const char *text, char *ret_text, size_t size);

/* Bytes as lower-case hex digits, and back. */

/* `ret_text` has room for 2 * len + 1. */
void hf_hex_text(const void *bytes, size_t len, char *ret_text);
/* Reads 2 * len digits, up to the first other character. HF_OK, or HF_EINVAL with some of `ret_bytes`
 * written. */
int hf_hex_bytes(const char *text, size_t len, void *ret_bytes);

/* A key's id: "" for all zeros. */
void hf_key_id_text(const uint8_t id[HF_KEY_ID_LEN], char ret_text[2 * HF_KEY_ID_LEN + 1]);
/* HF_OK, or HF_EINVAL: neither "" nor 2 * HF_KEY_ID_LEN digits. */
int hf_key_id_bytes(const char *text, uint8_t ret_id[HF_KEY_ID_LEN]);

/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any thread. */

/* The length of the character that `bytes` (at least one) begin with, 1 to 4; 0: they are no UTF-8. */
size_t hf_utf8_next(const void *bytes, size_t len, uint32_t *ret_character);

/* Whether all of it is UTF-8. */
bool hf_utf8_valid(const void *bytes, size_t len);

/* Whether people may be shown it in a line of text, wherever it stands there. (!) Not what moves the cursor or the direction of
 * writing, what is not seen, and what has a meaning of its own only in one font: a name may be hostile. Letters that are written
 * from right to left are of this kind, because terminals reorder the words around them. */
bool hf_utf8_plain(uint32_t character);

/* A sentence in a field of fixed size. Pure; any thread. */

/* Behind an snprintf() into a field of `size` bytes: a text that fills the field counts as cut, and then ends behind a
 * word, with "...". */
void hf_text_cut(char *text, size_t size);

/* Which known word somebody may have meant by an unknown one. Pure. */

/* The nearest known word so far; zeroed at first. */
struct suggestion {
    const char *known; /* NULL: none is near enough */
    size_t distance;
};

/* How many letters are to be added, left out, changed, or swapped with the next one. Case does not count, and a dash
 * is an underscore. */
size_t suggest_distance(const char *word, size_t word_len, const char *known);

/* Takes `known` if it is nearer than what is there. Near enough is a word of which at most a third differs, and one
 * that begins with all of `word`. */
void suggest_try(struct suggestion *suggestion, const char *word, size_t word_len,
                 const char *known);

/* Whole numbers in decimal digits, as commands and answers have them. Pure. */

#define HF_DECIMAL_MAX 20 /* characters of any int64_t */

/* `length` digits, 1 to 19, and nothing else; false: they are not, or more than `most`. */
bool hf_decimal_read(const char *text, size_t length, uint64_t most, uint64_t *ret_number);
/* Writes into the end of `room`, which has at least as many bytes as the number has characters. Returns where it begins; there
 * is no NUL. */
const char *hf_decimal_write(char *room, size_t size, int64_t number);

#endif

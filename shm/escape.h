/* The bytes of a name, escaped so that none can upset a terminal. Pure; any thread. */
#ifndef HOLDFAST_SHM_ESCAPE_H
#define HOLDFAST_SHM_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

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

#endif

/* The bytes of a name, escaped so that none can upset a terminal. Pure; any thread. */
#ifndef HOLDFAST_SHM_ESCAPE_H
#define HOLDFAST_SHM_ESCAPE_H

#include <stddef.h>

#define HF_ESCAPE_SIZE 5

/* Printable ASCII as it is, but `\` as `\\`; then \n \r \t; every other byte as \xNN. Returns the
 * length, without the final NUL. */
size_t hf_escape_byte(unsigned char byte, char text[HF_ESCAPE_SIZE]);

/* Reads a byte or an escape, and moves `*text` behind it. The byte; -1: no such escape, and `*text` is spoilt. */
int hf_unescape_byte(const char **text);

#endif

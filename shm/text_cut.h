/* A sentence in a field of fixed size. Pure; any thread. */
#ifndef HOLDFAST_SHM_TEXT_CUT_H
#define HOLDFAST_SHM_TEXT_CUT_H

#include <stddef.h>

/* Behind an snprintf() into a field of `size` bytes: a text that fills the field counts as cut, and then ends behind a
 * word, with "...". */
void hf_text_cut(char *text, size_t size);

#endif

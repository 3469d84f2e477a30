#include "shm/text_cut.h"

#include <string.h>

#define DOTS "..."

void hf_text_cut(char *text, size_t size)
{
    size_t most = size - sizeof(DOTS), at = most;

    if (size < sizeof(DOTS) || strnlen(text, size) < size - 1)
        return;
    while (at > most / 2 && text[at] != ' ')
        at--;
    if (text[at] != ' ') /* a word as long as that, which may be UTF-8 */
        for (at = most; at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80; at--)
            ;
    while (at > 0 && strchr(" ,;:(", text[at - 1]))
        at--;
    memcpy(text + at, DOTS, sizeof(DOTS));
}

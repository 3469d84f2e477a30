#include "shm/escape.h"

#include <string.h>

size_t hf_escape_byte(unsigned char byte, char text[HF_ESCAPE_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    static const char special[] = "\\\n\r\t", letters[] = "\\nrt";
    const char *found = byte ? strchr(special, byte) : NULL;
    size_t length = 0;

    if (!found && byte >= 0x20 && byte < 0x7f) {
        text[length++] = (char)byte;
    } else {
        text[length++] = '\\';
        if (found) {
            text[length++] = letters[found - special];
        } else {
            text[length++] = 'x';
            text[length++] = digits[byte >> 4];
            text[length++] = digits[byte & 15];
        }
    }
    text[length] = '\0';
    return length;
}

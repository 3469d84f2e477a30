#include "shm/escape.h"

#include <stdint.h>
#include <string.h>

#include "shm/hex.h"
#include "shm/status.h"

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

int hf_unescape_byte(const char **text)
{
    const char *p = *text;
    uint8_t byte;

    *text = p + 1;
    if (*p != '\\')
        return (unsigned char)*p;
    *text = p + 2;
    switch (p[1]) {
    case '\\':
        return '\\';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'x':
        *text = p + 4;
        return hf_hex_bytes(p + 2, 1, &byte) == HF_OK ? byte : -1;
    default:
        return -1;
    }
}

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

const char *hf_word(char *out, size_t size, const char *text)
{
    size_t at = 0;
    bool dash = strcmp(text, "-") == 0;

    if (!*text)
        text = "-";
    for (; *text; text++) {
        char piece[HF_ESCAPE_SIZE];
        size_t length;

        if (*text == ' ' || dash) {
            memcpy(piece, dash ? "\\x2d" : "\\x20", HF_ESCAPE_SIZE);
            length = HF_ESCAPE_SIZE - 1;
        } else {
            length = hf_escape_byte((unsigned char)*text, piece);
        }
        if (at + length >= size)
            break;
        memcpy(out + at, piece, length);
        at += length;
    }
    out[at] = '\0';
    return out;
}

bool hf_text_read(const char *text, char *ret_text, size_t size)
{
    size_t used = 0;

    while (*text) {
        int byte = hf_unescape_byte(&text);

        if (byte <= 0 || used + 1 >= size)
            return false;
        ret_text[used++] = (char)byte;
    }
    ret_text[used] = '\0';
    return true;
}

bool hf_word_read(const char *word, char *ret_text, size_t size)
{
    return *word && hf_text_read(strcmp(word, "-") == 0 ? "" : word, ret_text, size);
}

#include "shm/utf8.h"

size_t hf_utf8_next(const void *bytes, size_t len, uint32_t *ret_character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length */
    const unsigned char *in = bytes;
    size_t length = in[0] < 0x80             ? 1
                    : (in[0] & 0xe0) == 0xc0 ? 2
                    : (in[0] & 0xf0) == 0xe0 ? 3
                    : (in[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    uint32_t character;

    if (length == 0 || length > len)
        return 0;
    character = length == 1 ? in[0] : in[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xc0) != 0x80)
            return 0;
        character = character << 6 | (in[i] & 0x3f);
    }
    if (character < least[length] || character > 0x10ffff ||
        (character >= 0xd800 && character <= 0xdfff))
        return 0;
    *ret_character = character;
    return length;
}

bool hf_utf8_valid(const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    uint32_t character;

    for (size_t at = 0; at < len;) {
        size_t length = hf_utf8_next(in + at, len - at, &character);

        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

bool hf_utf8_plain(uint32_t character)
{
    static const struct {
        uint32_t first, last;
    } others[] = {
        {0x00, 0x1f},   /* controls, */
        {0x7f, 0xa0},   /* and those of C1; a space that looks like another */
        {0xad, 0xad},   /* soft hyphen */
        {0x300, 0x36f}, /* marks on the character before */
        {0x483, 0x489},        {0x590, 0x8ff},   /* right to left: Hebrew, Arabic, Syriac, ... */
        {0x115f, 0x1160},                        /* fillers */
        {0x135d, 0x135f},      {0x1680, 0x1680}, /* a space of Ogham */
        {0x17b4, 0x17b5},      {0x180b, 0x180f}, /* without a form */
        {0x1ab0, 0x1aff},      {0x1dc0, 0x1dff}, /* marks */
        {0x2000, 0x200f},                        /* spaces; without width; direction */
        {0x2028, 0x202f},                        /* ends of lines; direction */
        {0x205f, 0x206f},                        /* without width; direction */
        {0x20d0, 0x20ff},                        /* marks */
        {0x2800, 0x2800},                        /* a pattern without a dot */
        {0x3000, 0x3000},                        /* a wide space */
        {0x302a, 0x302f},      {0x3099, 0x309a}, /* marks */
        {0x3164, 0x3164},                        /* a filler */
        {0xd800, 0xf8ff},                        /* surrogates; private use */
        {0xfb1d, 0xfdff},                        /* right to left */
        {0xfe00, 0xfe0f},                        /* variants of the character before */
        {0xfe20, 0xfe2f},      {0xfe70, 0xfeff}, /* marks; right to left */
        {0xffa0, 0xffa0},                        /* a filler */
        {0xfff0, 0xffff},                        /* between lines; none */
        {0x10800, 0x10fff},                      /* right to left */
        {0x1d159, 0x1d182},                      /* of notes */
        {0x1e800, 0x1efff},                      /* right to left */
        {0xe0000, 0xffffffff},
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (character >= others[i].first && character <= others[i].last)
            return false;
    return (character & 0xfffe) != 0xfffe;
}

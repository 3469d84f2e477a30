#include "shm/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* --- hex digits ------------------------------------------------------------------------------- */

static const char digits[] = "0123456789abcdef";

void hf_hex_text(const void *bytes, size_t len, char *ret_text)
{
    const uint8_t *byte = bytes;

    for (size_t i = 0; i < len; i++) {
        *ret_text++ = digits[byte[i] >> 4];
        *ret_text++ = digits[byte[i] & 15];
    }
    *ret_text = '\0';
}

/* -1: no hex digit. */
static int hex_value_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int hf_hex_bytes(const char *text, size_t len, void *ret_bytes)
{
    uint8_t *byte = ret_bytes;

    for (size_t i = 0; i < len; i++) {
        int high = hex_value_of(text[2 * i]);
        int low = high < 0 ? -1 : hex_value_of(text[2 * i + 1]);

        if (low < 0)
            return HF_EINVAL;
        byte[i] = (uint8_t)(high << 4 | low);
    }
    return HF_OK;
}

void hf_key_id_text(const uint8_t id[HF_KEY_ID_LEN], char ret_text[2 * HF_KEY_ID_LEN + 1])
{
    static const uint8_t none[HF_KEY_ID_LEN];

    if (memcmp(id, none, sizeof(none)) == 0)
        ret_text[0] = '\0';
    else
        hf_hex_text(id, HF_KEY_ID_LEN, ret_text);
}

int hf_key_id_bytes(const char *text, uint8_t ret_id[HF_KEY_ID_LEN])
{
    uint8_t id[HF_KEY_ID_LEN] = {0};

    if (*text && (hf_hex_bytes(text, sizeof(id), id) < 0 || text[2 * sizeof(id)]))
        return HF_EINVAL;
    memcpy(ret_id, id, sizeof(id));
    return HF_OK;
}

/* --- UTF-8 ------------------------------------------------------------------------------------ */

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

/* --- a sentence in a field -------------------------------------------------------------------- */

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

/* --- the word that was meant ------------------------------------------------------------------ */

#define WORD_MOST   31 /* bytes; longer words are like no setting */
#define BEGIN_LEAST 3  /* bytes of a beginning that tell a word */

static int suggest_letter(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static size_t suggest_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row i has the distances of the first i letters of `word` from each beginning of `known`. */
size_t suggest_distance(const char *word, size_t word_len, const char *known)
{
    size_t rows[3][WORD_MOST + 1], known_len = strlen(known);

    if (word_len > WORD_MOST || known_len > WORD_MOST)
        return word_len + known_len;
    for (size_t i = 0; i <= word_len; i++) {
        size_t *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t k = 1; k <= known_len; k++) {
            if (i == 0) {
                row[k] = k;
                continue;
            }
            row[k] = suggest_least(
                suggest_least(row[k - 1], last[k]) + 1,
                last[k - 1] + (suggest_letter(word[i - 1]) != suggest_letter(known[k - 1])));
            if (i > 1 && k > 1 && suggest_letter(word[i - 1]) == suggest_letter(known[k - 2]) &&
                suggest_letter(word[i - 2]) == suggest_letter(known[k - 1]))
                row[k] = suggest_least(row[k], before[k - 2] + 1);
        }
    }
    return rows[word_len % 3][known_len];
}

static bool suggest_begins_with(const char *known, const char *word, size_t word_len)
{
    for (size_t i = 0; i < word_len; i++)
        if (suggest_letter(known[i]) != suggest_letter(word[i])) /* also at its end */
            return false;
    return true;
}

void suggest_try(struct suggestion *s, const char *word, size_t word_len, const char *known)
{
    size_t distance = suggest_distance(word, word_len, known), most = strlen(known) / 3;

    if (distance > (most ? most : 1) &&
        (word_len < BEGIN_LEAST || !suggest_begins_with(known, word, word_len)))
        return;
    if (s->known && distance >= s->distance)
        return;
    s->known = known;
    s->distance = distance;
}

/* --- numbers in decimal digits --------------------------------------------------------------- */

bool hf_decimal_read(const char *text, size_t length, uint64_t most, uint64_t *ret_number)
{
    uint64_t number = 0;

    /* 19 digits are no more than 64 bits hold. */
    if (length == 0 || length > 19)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = 10 * number + (uint64_t)(text[i] - '0');
    }
    if (number > most)
        return false;
    *ret_number = number;
    return true;
}

const char *hf_decimal_write(char *room, size_t size, int64_t number)
{
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char *at = room + size;

    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    return at;
}

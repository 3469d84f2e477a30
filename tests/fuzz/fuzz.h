/* What the fuzz targets share: taking an input apart, and saying that something is wrong.
 *
 * A target is one file: LLVMFuzzerTestOneInput() drives the product's own object files, in process,
 * and FUZZ_CHECK()s what must hold whatever the input. One thread; nothing is kept from one input
 * to the next, so that an input that fails does so again. */
#ifndef HOLDFAST_TESTS_FUZZ_FUZZ_H
#define HOLDFAST_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

/* Copies `size` bytes; behind the input's end there are zeros. */
static inline void fuzz_take(struct fuzz_input *in, void *to, size_t size)
{
    size_t some = size < in->left ? size : in->left;

    memset(to, 0, size);
    if (some > 0)
        memcpy(to, in->at, some);
    in->at += some;
    in->left -= some;
}

static inline uint8_t fuzz_u8(struct fuzz_input *in)
{
    uint8_t n;

    fuzz_take(in, &n, sizeof(n));
    return n;
}

static inline uint16_t fuzz_u16(struct fuzz_input *in)
{
    uint16_t n;

    fuzz_take(in, &n, sizeof(n));
    return n;
}

static inline uint32_t fuzz_u32(struct fuzz_input *in)
{
    uint32_t n;

    fuzz_take(in, &n, sizeof(n));
    return n;
}

static inline uint64_t fuzz_u64(struct fuzz_input *in)
{
    uint64_t n;

    fuzz_take(in, &n, sizeof(n));
    return n;
}

/* The next `size` bytes, or what is left, as a C string of the caller's to free(). The memory ends
 * where the string ends, so that a sanitizer sees who reads on. */
static inline char *fuzz_string(struct fuzz_input *in, size_t size)
{
    size_t some = size < in->left ? size : in->left;
    char *string = malloc(some + 1);

    FUZZ_CHECK(string);
    fuzz_take(in, string, some);
    string[some] = '\0';
    return string;
}

/* A number that is often near `about`, sometimes anything. */
static inline uint32_t fuzz_near(struct fuzz_input *in, uint32_t about)
{
    uint8_t how = fuzz_u8(in);

    return how < 0xf0 ? about + (uint32_t)(int8_t)fuzz_u8(in) : fuzz_u32(in);
}

/* A sentence for a person: NUL-terminated, and nothing in it moves a terminal's cursor. */
static inline void fuzz_check_sentence(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    FUZZ_CHECK(length < size);
    for (size_t i = 0; i < length; i++)
        FUZZ_CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

#endif

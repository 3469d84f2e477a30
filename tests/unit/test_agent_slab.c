/* agent/base/slab.h: nobody gets what another has, and what nobody has is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "agent/core/backoff.h"
#include "agent/base/slab.h"
#include "tests/support/chunks.h"

#define CELLS   60000 /* more than one region of the larger sizes */
#define ROUNDS  400000
#define SIZES   5
#define LARGEST 1500 /* bytes; beyond what lies in chunks */

static const size_t sizes[SIZES] = {1, 96, 223, 264, LARGEST};

static struct cell {
    unsigned char *memory; /* all bytes are its number's lowest */
    size_t size;
} cells[CELLS];
static struct chunks chunks;

static void take(uint32_t n, size_t size)
{
    unsigned char *memory = slab_take(size);

    assert_non_null(memory);
    if (!SLAB_IS_PLAIN && size <= sizes[SIZES - 2])
        chunks_note(&chunks, memory);
    assert_int_equal((uintptr_t)memory % sizeof(void *), 0);
    for (size_t i = 0; i < size; i++)
        if (memory[i] != 0)
            fail_msg("byte %zu of %zu is not zero", i, size);
    memset(memory, (int)(n & 0xff), size);
    cells[n] = (struct cell){memory, size};
}

static void give(uint32_t n)
{
    struct cell *c = &cells[n];

    for (size_t i = 0; i < c->size; i++)
        if (c->memory[i] != (n & 0xff))
            fail_msg("somebody else wrote byte %zu of %zu", i, c->size);
    slab_give(c->memory, c->size);
    *c = (struct cell){0};
}

static void test_everybody_has_its_own(void **state)
{
    uint32_t random = 4711;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t n = draw_next(&random) % CELLS;

        if (cells[n].memory)
            give(n);
        else
            take(n, sizes[n % SIZES]);
    }
    for (uint32_t n = 0; n < CELLS; n++)
        if (cells[n].memory)
            give(n);
    assert_in_range(chunks_kept(&chunks), 0, SIZES); /* one of each size */
}

static void test_cells_lie_without_gaps(void **state)
{
    (void)state;
    chunks.count = 0;
    for (uint32_t n = 0; n < CELLS; n++)
        take(n, 264);
    if (!SLAB_IS_PLAIN)
        assert_in_range(chunks.count * CHUNK, CELLS * 264 - CHUNK, CELLS * 266 + CHUNK);
    for (uint32_t n = 0; n < CELLS; n++)
        give(n);
    assert_in_range(chunks_kept(&chunks), 0, 1);
}

static void test_nothing_is_given_back(void **state)
{
    (void)state;
    slab_give(NULL, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_has_its_own),
        cmocka_unit_test(test_cells_lie_without_gaps),
        cmocka_unit_test(test_nothing_is_given_back),
    };

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* nor does the kernel fill up what was given back */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* agent/slab.h: cells keep apart, come back zeroed, and chunks without any are given back. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/slab.h"

#define CELLS   5000
#define SIZES   7
#define THREADS 4
#define ROUNDS  20000

static const size_t sizes[SIZES] = {1, 16, 17, 430, 433, 1024, 5000};

struct cell {
    unsigned char *memory;
    size_t size;
    unsigned char mark;
};

static void take(struct cell *cell, unsigned i)
{
    cell->size = sizes[i % SIZES];
    cell->mark = (unsigned char)(i % 255 + 1);
    cell->memory = slab_take(cell->size);
    assert_non_null(cell->memory);
    assert_int_equal((uintptr_t)cell->memory % 16, 0);
    for (size_t k = 0; k < cell->size; k++)
        assert_int_equal(cell->memory[k], 0);
    memset(cell->memory, cell->mark, cell->size);
}

static void give(struct cell *cell)
{
    if (!cell->memory)
        return;
    for (size_t k = 0; k < cell->size; k++)
        assert_int_equal(cell->memory[k], cell->mark);
    slab_give(cell->memory, cell->size);
    cell->memory = NULL;
}

static void cells_keep_apart(void **state)
{
    static struct cell cells[CELLS];
    size_t before = slab_bytes();

    (void)state;
    slab_give(NULL, 16);
    for (unsigned i = 0; i < CELLS; i++)
        take(&cells[i], i);
    for (unsigned i = 0; i < CELLS; i += 3)
        give(&cells[i]);
    for (unsigned i = 0; i < CELLS; i += 3)
        take(&cells[i], i + 1);
    for (unsigned i = 0; i < CELLS; i++)
        give(&cells[i]);
    /* One chunk of each size stays. */
    assert_true(slab_bytes() <= before + SIZES * 65536);
}

/* What a lease takes is about its size. */
static void a_cell_costs_little_more_than_itself(void **state)
{
    static void *cells[20000];
    size_t before = slab_bytes(), taken;

    (void)state;
    for (unsigned i = 0; i < 20000; i++)
        assert_non_null(cells[i] = slab_take(416));
    taken = slab_bytes() - before;
    assert_true(taken < 20000 * 425);
    for (unsigned i = 0; i < 20000; i++)
        slab_give(cells[i], 416);
}

static void *come_and_go(void *arg)
{
    struct cell cells[50] = {{0}};
    unsigned random = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct cell *cell = &cells[(random = random * 1103515245 + 12345) >> 16 & 31];

        if (cell->memory)
            give(cell);
        else
            take(cell, random >> 8);
    }
    for (unsigned i = 0; i < 50; i++)
        give(&cells[i]);
    return NULL;
}

static void threads_do_not_meet(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_keep_apart),
        cmocka_unit_test(a_cell_costs_little_more_than_itself),
        cmocka_unit_test(threads_do_not_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

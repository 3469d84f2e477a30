/* agent/core/containers.h: the timer heap against a plain list. */
#include "core_fixture.h"

#include "agent/core/containers.h"

#define ITEMS 200

struct fixture {
    struct heap heap;
    struct heap_item *room[ITEMS];
    struct heap_item item[ITEMS];
};

static void init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->heap = (struct heap){.items = f->room, .room = ITEMS};
}

/* Every item knows its place, and none is before its parent. */
static void check(const struct heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        assert_int_equal(h->items[i]->place, i + 1);
        if (i > 0)
            assert_false(hf_time_before(h->items[i]->at, h->items[(i - 1) / 2]->at));
    }
}

static const struct heap_item *earliest(const struct fixture *f)
{
    const struct heap_item *first = NULL;

    for (size_t i = 0; i < ITEMS; i++)
        if (heap_has(&f->item[i]) && (!first || hf_time_before(f->item[i].at, first->at)))
            first = &f->item[i];
    return first;
}

TEST(an_empty_heap_has_no_first)
{
    struct fixture f;

    init(&f);
    assert_null(heap_first(&f.heap));
    heap_remove(&f.heap, &f.item[0]);
    assert_int_equal(f.heap.count, 0);
}

TEST(items_come_out_in_order)
{
    struct fixture f;
    hf_time last = HF_TIME_PAST;

    init(&f);
    for (size_t i = 0; i < ITEMS; i++)
        heap_insert(&f.heap, &f.item[i], at((int64_t)(i * 7919 % ITEMS)));
    check(&f.heap);
    for (size_t i = 0; i < ITEMS; i++) {
        struct heap_item *first = heap_first(&f.heap);

        assert_false(hf_time_before(first->at, last));
        last = first->at;
        heap_remove(&f.heap, first);
        assert_false(heap_has(first));
    }
    assert_null(heap_first(&f.heap));
}

TEST(the_last_item_can_be_removed)
{
    struct fixture f;

    init(&f);
    heap_insert(&f.heap, &f.item[0], at(1));
    heap_insert(&f.heap, &f.item[1], at(2));
    heap_remove(&f.heap, &f.item[1]);
    assert_ptr_equal(heap_first(&f.heap), &f.item[0]);
    heap_remove(&f.heap, &f.item[0]);
    heap_remove(&f.heap, &f.item[0]);
    assert_int_equal(f.heap.count, 0);
}

TEST(removing_inside_may_move_the_last_item_up)
{
    struct fixture f;
    /* 10's subtree holds large values, 2's small ones: the last item is smaller than 11's parent.
     */
    const int64_t order[] = {1, 10, 2, 11, 12, 3, 4};

    init(&f);
    for (size_t i = 0; i < HF_LENGTH(order); i++)
        heap_insert(&f.heap, &f.item[i], at(order[i]));
    check(&f.heap);
    heap_remove(&f.heap, &f.item[3]);
    check(&f.heap);
    assert_int_equal(f.heap.count, 6);
}

TEST(the_never_and_the_past_keep_their_ends)
{
    struct fixture f;

    init(&f);
    heap_insert(&f.heap, &f.item[0], HF_TIME_NEVER);
    heap_insert(&f.heap, &f.item[1], at(0));
    heap_insert(&f.heap, &f.item[2], HF_TIME_PAST);
    assert_ptr_equal(heap_first(&f.heap), &f.item[2]);
    heap_move(&f.heap, &f.item[2], HF_TIME_NEVER);
    assert_ptr_equal(heap_first(&f.heap), &f.item[1]);
    heap_move(&f.heap, &f.item[0], HF_TIME_PAST);
    assert_ptr_equal(heap_first(&f.heap), &f.item[0]);
}

TEST(any_sequence_keeps_the_order)
{
    struct fixture f;
    uint32_t random = 12345;

    init(&f);
    for (int step = 0; step < 20000; step++) {
        struct heap_item *item;
        hf_time when;

        random = random * 1664525 + 1013904223;
        item = &f.item[(random >> 8) % ITEMS];
        when = at((random >> 16) % 1000);
        if (!heap_has(item))
            heap_insert(&f.heap, item, when);
        else if (random & 0x80)
            heap_move(&f.heap, item, when);
        else
            heap_remove(&f.heap, item);
        if (step % 64 == 0)
            check(&f.heap);
        if (f.heap.count)
            assert_time(heap_first(&f.heap)->at, earliest(&f)->at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_no_first),
        cmocka_unit_test(items_come_out_in_order),
        cmocka_unit_test(the_last_item_can_be_removed),
        cmocka_unit_test(removing_inside_may_move_the_last_item_up),
        cmocka_unit_test(the_never_and_the_past_keep_their_ends),
        cmocka_unit_test(any_sequence_keeps_the_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* agent/broker/clients/answers.h: answers wait for room in their order, and none is dropped when memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/ring.h"
#include "shm/status.h"
#include "shm/text.h"

static bool out_of_memory;

static void *maybe_malloc(size_t size)
{
    return out_of_memory ? NULL : malloc(size);
}

/* The module itself, with a memory that ends when a test says so. */
#define malloc maybe_malloc
#include "agent/broker/clients/answers.c" /* NOLINT(bugprone-suspicious-include): its malloc() is ours */
#undef malloc

struct fixture {
    struct hf_ring_agent ring;
    struct hf_ring_client client;
    struct answers answers;
    unsigned of_user;     /* with what others of its user have */
    uint64_t asked, read; /* numbers of the last request taken and of the last answer read */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int requests, completions;

    assert_non_null(f);
    assert_int_equal(hf_ring_agent_create(&f->ring, &requests, &completions), 0);
    assert_int_equal(hf_ring_client_map(requests, completions, NULL, &f->client), 0);
    f->of_user = 7;
    answers_init(&f->answers, &f->ring, &f->of_user);
    out_of_memory = false;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    answers_free(&f->answers);
    hf_ring_client_unmap(&f->client);
    hf_ring_agent_destroy(&f->ring);
    free(f);
    return 0;
}

static int take(struct fixture *f)
{
    int status = answers_reserve(&f->answers);

    if (status == HF_OK) {
        answers_owe(&f->answers);
        f->asked++;
    }
    return status;
}

static void answer(struct fixture *f, uint64_t id)
{
    const struct hf_completion_entry entry = {.op = HF_OP_PING, .id = id};

    answers_put(&f->answers, &entry);
}

static int item(struct fixture *f, uint64_t id)
{
    const struct hf_completion_entry entry = {.op = HF_OP_ITEM, .id = id};

    return answers_put_item(&f->answers, &entry);
}

static void hint(struct fixture *f)
{
    const struct hf_completion_entry entry = {.op = HF_OP_PROGRESS, .id = 1};

    answers_put_hint(&f->answers, &entry);
}

/* The client reads what is in the ring; returns how many, and checks that answers come in their order. */
static unsigned read_all(struct fixture *f)
{
    struct hf_completion_entry entry;
    unsigned count = 0;

    while (hf_ring_reap(&f->client, &entry) == 1) {
        count++;
        if (entry.op == HF_OP_PING)
            assert_int_equal(entry.id, ++f->read);
    }
    return count;
}

/* What the client reads of an answer with that sentence. */
static const char *told(struct fixture *f, const char *text)
{
    static struct hf_completion_entry read;
    struct hf_completion_entry entry = {.op = HF_OP_PING, .id = f->asked + 1};

    assert_int_equal(take(f), HF_OK);
    snprintf(entry.text, sizeof(entry.text), "%.*s", (int)sizeof(entry.text) - 1, text);
    answers_put(&f->answers, &entry);
    assert_int_equal(hf_ring_reap(&f->client, &read), 1);
    f->read++;
    return read.text;
}

static void a_sentence_that_is_too_long_ends_behind_a_word(void **state)
{
    static const char sentence[] =
        "db/x: no vote of 3 nodes: node a is down (connection refused); node b is in quarantine "
        "for "
        "59 s, because its clock stepped; node c refuses writes: its disk is full; make room on "
        "that disk";
    char words[400];

    assert_string_equal(told(*state, "db/x: a short one"), "db/x: a short one");
    assert_string_equal(
        told(*state, sentence),
        "db/x: no vote of 3 nodes: node a is down (connection refused); node b is in quarantine "
        "for "
        "59 s, because its clock stepped; node c refuses writes: its disk is full; make room "
        "on...");
    /* However the words lie. */
    for (int length = 1; length < 60; length++) {
        const char *text;
        size_t end;

        for (int i = 0; i < (int)sizeof(words) - 1; i++)
            words[i] = (i + 1) % (length + 1) ? 'w' : ' ';
        words[sizeof(words) - 1] = '\0';
        text = told(*state, words);
        end = strlen(text) - 3;
        assert_string_equal(text + end, "...");
        assert_in_range(strlen(text), sizeof(((struct hf_completion_entry *)0)->text) - 65, 183);
        assert_memory_equal(text, words, end);
        assert_int_equal(words[end], ' ');
    }
}

static void a_sentence_without_words_ends_at_a_character(void **state)
{
    char field[16], e[] = "caf\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";

    (void)state;
    for (size_t size = 4; size <= sizeof(field); size++) {
        memset(field, '!', sizeof(field));
        memcpy(field, e, size - 1);
        field[size - 1] = '\0';
        hf_text_cut(field, size);
        assert_true(hf_utf8_valid(field, strlen(field)));
        assert_in_range(strlen(field), size - 2, size - 1);
        assert_string_equal(field + strlen(field) - 3, "...");
    }
    snprintf(field, sizeof(field), "two (words");
    hf_text_cut(field, sizeof(field));
    assert_string_equal(field, "two (words");
    hf_text_cut(field, 11);
    assert_string_equal(field, "two...");
    snprintf(field, 3, "it");
    hf_text_cut(field, 3);
    assert_string_equal(field, "it");
}

static void what_has_no_room_waits_in_its_order(void **state)
{
    struct fixture *f = *state;

    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(take(f), HF_OK);
    for (uint64_t i = 1; i <= 100; i++)
        answer(f, i);
    assert_true(f->answers.posted);
    f->answers.posted = false;
    assert_int_equal(f->answers.waiting_count, 100 - HF_RING_ENTRIES);
    assert_int_equal(f->of_user, 7 + 100 - HF_RING_ENTRIES);
    answers_flush(&f->answers);
    assert_false(f->answers.posted); /* no room yet */
    while (f->read < 100) {
        assert_in_range(read_all(f), 1, HF_RING_ENTRIES);
        answers_flush(&f->answers);
    }
    assert_true(f->answers.posted);
    assert_int_equal(f->answers.owed, 0);
    assert_int_equal(f->answers.spare_count, 0);
    assert_int_equal(f->answers.waiting_count, 0);
    assert_int_equal(f->of_user, 7);
}

static void without_memory_no_more_is_taken_than_can_be_answered(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 40; i++)
        assert_int_equal(take(f), HF_OK);
    out_of_memory = true;
    assert_int_equal(take(f), HF_ENOMEM);
    for (uint64_t i = 1; i <= 40; i++)
        answer(f, i);
    assert_int_equal(take(f), HF_ENOMEM); /* the ring is full */
    assert_int_equal(read_all(f), HF_RING_ENTRIES);
    answers_flush(&f->answers);
    assert_int_equal(read_all(f), 40 - HF_RING_ENTRIES);
    assert_int_equal(f->read, 40);
    assert_int_equal(take(f), HF_OK); /* there is room again */
}

/* Whatever comes between, in whatever order: who was taken is answered. */
static void nothing_else_takes_the_place_of_an_answer(void **state)
{
    struct fixture *f = *state;
    unsigned items = 0, taken = 0;

    srand(1);
    for (int round = 0; round < 20000; round++) {
        out_of_memory = rand() % 4 != 0;
        switch (rand() % 6) {
        case 0:
        case 1:
            taken += take(f) == HF_OK;
            break;
        case 2:
            if (f->answers.owed)
                answer(f, f->asked - f->answers.owed + 1);
            break;
        case 3:
            items += item(f, 1) == HF_OK;
            break;
        case 4:
            hint(f);
            break;
        case 5:
            if (rand() % 8 == 0)
                (void)read_all(f);
            answers_flush(&f->answers);
            break;
        }
    }
    out_of_memory = true;
    while (f->answers.owed)
        answer(f, f->asked - f->answers.owed + 1);
    while (read_all(f))
        answers_flush(&f->answers);
    assert_int_equal(f->read, f->asked);
    assert_in_range(taken, 1000, 20000);
    assert_in_range(items, 100, 20000);
}

static void an_item_without_memory_says_so(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f), HF_OK);
    out_of_memory = true;
    for (int i = 1; i < HF_RING_ENTRIES; i++)
        assert_int_equal(item(f, 1), HF_OK);
    assert_int_equal(item(f, 1), HF_ENOMEM); /* the last place is the answer's */
    answer(f, 1);
    assert_int_equal(read_all(f), HF_RING_ENTRIES);
    assert_int_equal(f->read, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sentence_that_is_too_long_ends_behind_a_word, set_up,
                                        tear_down),
        cmocka_unit_test(a_sentence_without_words_ends_at_a_character),
        cmocka_unit_test_setup_teardown(what_has_no_room_waits_in_its_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_no_more_is_taken_than_can_be_answered,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_else_takes_the_place_of_an_answer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_item_without_memory_says_so, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The rings, killed after any store of either side: the other side sees whole entries or nothing,
 * and what it saw before stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shm/compiler.h"
#include "shm/ring.h"
#include "shm/status.h"
#include "tests/torture/stores.h"
#include "tests/support/ring_post.h"

static struct hf_ring_agent agent;
static struct hf_ring_client client;
static struct region requests, completions;

/* Every byte follows from the number. */
static struct hf_request_entry request_of(uint8_t number)
{
    struct hf_request_entry entry;

    memset(&entry, number, sizeof(entry));
    return entry;
}

static struct hf_completion_entry completion_of(uint8_t number)
{
    struct hf_completion_entry entry;

    memset(&entry, number, sizeof(entry));
    return entry;
}

static bool is_of(const void *entry, uint8_t number)
{
    const uint8_t *bytes = entry;

    for (size_t i = 0; i < HF_ENTRY_SIZE; i++)
        if (bytes[i] != number)
            return false;
    return true;
}

static int set_up(void **state)
{
    int requests_fd, completions_fd;

    (void)state;
    assert_int_equal(hf_ring_agent_create(&agent, &requests_fd, &completions_fd), 0);
    assert_int_equal(hf_ring_client_map(requests_fd, completions_fd, NULL, &client), 0);
    requests = (struct region){.at = client.out, .size = HF_RING_BYTES};
    completions = (struct region){.at = agent.out, .size = HF_RING_BYTES};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_ring_client_unmap(&client);
    hf_ring_agent_destroy(&agent);
    return 0;
}

/* An empty ring, its cursors about to wrap perhaps. */
static void go_to(uint32_t cursor)
{
    memset(client.out, 0, HF_RING_BYTES);
    memset(agent.out, 0, HF_RING_BYTES);
    client.request_tail = agent.request_head = agent.completion_tail = client.completion_head =
        cursor;
    atomic_store(&client.out->tail, cursor);
    atomic_store(&client.out->completion_head, cursor);
    atomic_store(&agent.out->tail, cursor);
    atomic_store(&agent.out->request_head, cursor);
}

/* --- requests --------------------------------------------------------------------------------- */

static void submit(void *arg)
{
    struct hf_request_entry entry = request_of(*(uint8_t *)arg);
    bool wake;

    (void)hf_ring_submit(&client, &entry, &wake);
}

static void tail_first(void *arg)
{
    struct hf_request_entry entry = request_of(*(uint8_t *)arg);

    atomic_store(&client.out->tail, client.request_tail + 1);
    memcpy((void *)(uintptr_t)hf_ring_place(client.out, client.request_tail), &entry,
           sizeof(entry));
}

/* Whether an agent that looks now takes `before` entries, and then the new one or none. */
static bool takes_whole(uint8_t before, bool *ret_new)
{
    struct hf_ring_agent looks = agent; /* cursors of its own */
    struct hf_request_entry entry;

    for (uint8_t number = 1; number <= before; number++)
        if (hf_ring_take(&looks, &entry) != 1 || !is_of(&entry, number))
            return false;
    switch (hf_ring_take(&looks, &entry)) {
    case 0:
        *ret_new = false;
        return true;
    case 1:
        *ret_new = true;
        return is_of(&entry, (uint8_t)(before + 1)) && hf_ring_take(&looks, &entry) == 0;
    default:
        return false;
    }
}

/* Returns the number of states, 0 when one of them is wrong. */
static unsigned requests_under(void (*write)(void *arg), uint32_t cursor, uint8_t before)
{
    uint8_t number = (uint8_t)(before + 1);
    struct store_log *log;
    unsigned states, whole = 0;
    bool seen = false, is_new = false;

    go_to(cursor);
    for (uint8_t i = 1; i <= before; i++)
        submit(&i);
    log = stores_of(write, &number, &requests, 1, NULL);
    assert_non_null(log);
    states = log->count;
    for (uint32_t i = 0; i < states; i++) {
        store_log_restore(log, i);
        whole += takes_whole(before, &is_new) && is_new >= seen;
        seen |= is_new;
    }
    stores_free(log);
    return whole == states && is_new ? states : 0;
}

static void a_client_killed_in_a_request(void **state)
{
    const uint32_t cursors[] = {0, 30, UINT32_MAX - 1};
    unsigned points = 0;

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(cursors); i++)
        for (uint8_t before = 0; before < HF_RING_ENTRIES; before += 31) {
            unsigned states = requests_under(submit, cursors[i], before);

            assert_true(states > HF_ENTRY_SIZE / sizeof(uint64_t));
            points += states;
        }
    print_message("# %u fault points, 0 violations\n", points);
    assert_int_equal(requests_under(tail_first, 0, 2), 0); /* else this could not fail */
}

/* --- completions ------------------------------------------------------------------------------ */

static void post(void *arg)
{
    struct hf_completion_entry entry = completion_of(*(uint8_t *)arg);

    (void)ring_post(&agent, &entry);
}

static bool reaps_whole(uint8_t before, bool *ret_new)
{
    struct hf_ring_client looks = client;
    struct hf_completion_entry entry;
    uint32_t head = atomic_load(&client.out->completion_head);
    bool whole = true;

    *ret_new = false;
    for (uint8_t number = 1; whole && number <= before; number++)
        whole = hf_ring_reap(&looks, &entry) == 1 && is_of(&entry, number);
    if (whole && hf_ring_reap(&looks, &entry) == 1) {
        *ret_new = true;
        whole = is_of(&entry, (uint8_t)(before + 1)) && hf_ring_reap(&looks, &entry) == 0;
    }
    atomic_store(&client.out->completion_head, head);
    return whole;
}

static void an_agent_killed_in_a_completion(void **state)
{
    const uint32_t cursors[] = {0, 30, UINT32_MAX - 1};
    unsigned points = 0;

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(cursors); i++) {
        uint8_t before = 3, number = 4;
        struct store_log *log;
        uint32_t wake;

        go_to(cursors[i]);
        for (uint8_t k = 1; k <= before; k++)
            post(&k);
        wake = atomic_load(&agent.out->wake);
        log = stores_of(post, &number, &completions, 1, NULL);
        assert_non_null(log);
        for (uint32_t k = 0; k < log->count; k++) {
            bool is_new;

            store_log_restore(log, k);
            assert_true(reaps_whole(before, &is_new));
            /* Nobody is woken for what is not there. */
            assert_true(is_new || atomic_load(&agent.out->wake) == wake);
            assert_true(is_new || k + 1 < log->count);
        }
        points += log->count;
        stores_free(log);
    }
    print_message("# %u fault points, 0 violations\n", points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_killed_in_a_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_agent_killed_in_a_completion, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

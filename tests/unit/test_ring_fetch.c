/* How often the agent reads what a client can write, by stepping through it: every word once, so that
 * nobody can change it between a check and its use. */
#include "shm_fixture.h"

#include <signal.h>
#include <ucontext.h>

#include "shm/compiler.h"
#include "shm/ring.h"
#include "tests/support/ring_post.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEPS 1
#else
#define STEPS 0 /* the sanitizers look at signals, and at memory, themselves */
#endif

#if STEPS

#define TRAP_FLAG 0x100 /* of EFLAGS: a SIGTRAP after the next instruction */
#define PAGE      4096
#define ACCESSES  4096

static struct hf_ring_agent ring;
static struct hf_ring_client client;
static char *watched; /* the agent's mapping of the requests */
static uint32_t offsets[ACCESSES];
static unsigned count;
static bool spoil; /* the client changes each word right after it was read */

static void on_access(int number HF_UNUSED, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    char *at = info->si_addr;

    if (at < watched || at >= watched + HF_RING_BYTES || count == ACCESSES)
        abort();
    offsets[count++] = (uint32_t)(at - watched);
    mprotect(watched, HF_RING_BYTES, PROT_READ);
    c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number HF_UNUSED, siginfo_t *info HF_UNUSED, void *context)
{
    ucontext_t *c = context;
    uint64_t *word = (uint64_t *)(void *)((char *)client.out + (offsets[count - 1] & ~7u));

    c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    mprotect(watched, HF_RING_BYTES, PROT_NONE);
    if (spoil)
        *word = UINT64_C(0x7777777777777777);
}

static int begin(void **state HF_UNUSED)
{
    int requests, completions;

    if (hf_ring_agent_create(&ring, &requests, &completions) < 0 ||
        hf_ring_client_map(requests, completions, NULL, &client) < 0)
        return -1;
    watched = (char *)ring.in;
    return 0;
}

static int end(void **state HF_UNUSED)
{
    hf_ring_client_unmap(&client);
    hf_ring_agent_destroy(&ring);
    return 0;
}

static struct sigaction old_access, old_step; /* cmocka's */

static void watch(bool and_spoil)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};

    action.sa_sigaction = on_access;
    sigaction(SIGSEGV, &action, &old_access);
    action.sa_sigaction = on_step;
    sigaction(SIGTRAP, &action, &old_step);
    count = 0;
    spoil = and_spoil;
    mprotect(watched, HF_RING_BYTES, PROT_NONE);
}

static void watch_no_more(void)
{
    mprotect(watched, HF_RING_BYTES, PROT_READ);
    sigaction(SIGSEGV, &old_access, NULL);
    sigaction(SIGTRAP, &old_step, NULL);
}

/* No byte of the client's is read twice. */
static void assert_each_once(void)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < i; k++)
            if (offsets[i] / 8 == offsets[k] / 8)
                fail_msg("offset %u is read twice", offsets[i]);
}

static struct hf_request_entry some_entry(void)
{
    struct hf_request_entry entry = {
        .op = HF_OP_ACQUIRE, .id = 7, .name_len = 200, .note_len = 100};

    memset(entry.name, 'x', entry.name_len);
    return entry;
}

static void a_request_is_read_once(void **state HF_UNUSED)
{
    struct hf_request_entry put = some_entry(), got;
    bool wake;

    assert_int_equal(hf_ring_submit(&client, &put, &wake), 0);
    watch(false);
    assert_int_equal(hf_ring_take(&ring, &got), 1);
    watch_no_more();
    assert_int_equal(count, 1 + HF_ENTRY_SIZE / 8); /* the tail, and each word of the entry */
    assert_each_once();
    assert_memory_equal(&got, &put, sizeof(put));
}

static void what_is_changed_after_it_was_read_is_not_seen(void **state HF_UNUSED)
{
    struct hf_request_entry put = some_entry(), got;
    bool wake;

    assert_int_equal(hf_ring_submit(&client, &put, &wake), 0);
    watch(true);
    assert_int_equal(hf_ring_take(&ring, &got), 1);
    watch_no_more();
    assert_memory_equal(&got, &put, sizeof(put));
    watch(false);
    assert_int_equal(hf_ring_take(&ring, &got), HF_EPROTO); /* the tail that was put there */
    watch_no_more();
    assert_int_equal(count, 1);
}

static void a_cursor_is_read_once(void **state HF_UNUSED)
{
    struct hf_completion_entry entry = {.id = 1};

    watch(true);
    assert_int_equal(ring_post(&ring, &entry), 0);
    watch_no_more();
    assert_int_equal(count, 1);
    watch(false);
    assert_true(hf_ring_room(&ring) < 0); /* as it is by now */
    watch_no_more();
    assert_int_equal(count, 1);
}

#else

static int begin(void **state HF_UNUSED)
{
    return 0;
}
#define end                                           begin

static void a_request_is_read_once(void **state HF_UNUSED)
{
    skip();
}
#define what_is_changed_after_it_was_read_is_not_seen a_request_is_read_once
#define a_cursor_is_read_once                         a_request_is_read_once

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_read_once, begin, end),
        cmocka_unit_test_setup_teardown(what_is_changed_after_it_was_read_is_not_seen, begin, end),
        cmocka_unit_test_setup_teardown(a_cursor_is_read_once, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "agent/base/failure.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "shm/assert.h"
#include "shm/table_notes.h"

static struct hf_table_header *_Atomic into;
static _Thread_local struct failure_about about;

struct failure_about failure_about_lock(const void *lock, size_t lock_len)
{
    struct failure_about before = about;

    about.lock = lock;
    about.lock_len = lock_len;
    return before;
}

struct failure_about failure_about_node(const char *node)
{
    struct failure_about before = about;

    about.node = node;
    return before;
}

void failure_about_before(const struct failure_about *before)
{
    about = *before;
}

/* (!) Not clock_wall(), whose assertion may be the one that fails. */
static int64_t failure_wall_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The last words come first: they are stores to memory, and the log's line may block. */
static void failure_report(const char *text)
{
    struct hf_table_header *header = atomic_load(&into);
    char lock[96], words[HF_LAST_WORDS + 1];

    snprintf(words, sizeof(words), "%s; lock %s, node %s, %s thread", text,
             about.lock ? log_name(about.lock, about.lock_len, lock, sizeof(lock)) : "-",
             about.node ? about.node : "-", thread_role_name());
    if (header)
        hf_last_words_put(header, failure_wall_ms(), words);
    log_error("assertion failed in %s; the agent ends, and its leases are valid until their "
              "deadlines: start it again, and report this line",
              words);
    log_flush();
}

void failure_hear(void)
{
    hf_assert_hear(failure_report);
}

void failure_into(struct hf_table_header *header)
{
    atomic_store(&into, header);
}

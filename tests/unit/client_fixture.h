/* What the tests of the library share: a fake agent, a client of it, and waiting for things to
 * happen. */
#ifndef HOLDFAST_TESTS_CLIENT_FIXTURE_H
#define HOLDFAST_TESTS_CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/status.h"
#include "shm/nstime.h"
#include "libclient/holdfast.h"
#include "tests/support/fake_agent.h"

#define PATIENCE_MS 10000 /* for what must happen; generous, the machine may be busy */

/* Waits until `condition`, fails after PATIENCE_MS. */
#define EVENTUALLY(condition)                                                                      \
    do {                                                                                           \
        int64_t end_ = boottime_ns() + PATIENCE_MS * HF_NS_PER_MS;                                 \
        while (!(condition)) {                                                                     \
            if (boottime_ns() > end_)                                                              \
                fail_msg("never: %s", #condition);                                                 \
            pause_ms(2);                                                                           \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        int status_ = (call);                                                                      \
        if (status_ != HF_OK)                                                                      \
            fail_msg("%s: %d: %s", #call, status_, hf_last_message());                             \
    } while (0)

struct fixture {
    struct fake_agent *agent;
    hf_client *client;
};

static inline int64_t boottime_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
}

static inline void pause_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static inline struct fixture fixture_start(const struct fake_agent_options *options)
{
    struct fixture f = {.agent = fake_agent_start(options)};

    OK(hf_connect(fake_agent_path(f.agent), &f.client));
    return f;
}

static inline void fixture_end(struct fixture *f)
{
    hf_disconnect(f->client);
    fake_agent_free(f->agent);
}

static inline hf_client *another_client(struct fixture *f)
{
    hf_client *client = NULL;

    OK(hf_connect(fake_agent_path(f->agent), &client));
    return client;
}

static inline struct hf_acquire_options options_for(const char *name, int64_t wait_ms)
{
    return (struct hf_acquire_options){
        .size = sizeof(struct hf_acquire_options),
        .name = name,
        .name_len = strlen(name),
        .wait_ms = wait_ms,
    };
}

static inline hf_lease *must_acquire(hf_client *client, const char *name)
{
    hf_lease *lease = NULL;

    OK(hf_try(client, name, &lease));
    assert_non_null(lease);
    return lease;
}

static inline hf_lease *must_acquire_ttl(hf_client *client, const char *name, uint32_t ttl_ms)
{
    struct hf_acquire_options options = options_for(name, 0);
    hf_lease *lease = NULL;

    options.ttl_ms = ttl_ms;
    OK(hf_acquire_with(client, &options, &lease));
    return lease;
}

/* The exit code of `fn` run in a forked child. */
static inline int in_child(int (*fn)(void *arg), void *arg)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(arg));
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void assert_message_has(const char *part)
{
    if (!strstr(hf_last_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", hf_last_message(), part);
}

#endif

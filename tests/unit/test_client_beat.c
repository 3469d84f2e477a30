/* Contract. hf_beat() as the agent sees it, and the heartbeat of jobs. */
#include "client_fixture.h"

#include "libclient/holdfast_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

static hf_lease *beating(hf_client *client, const char *name)
{
    struct hf_acquire_options options = options_for(name, 0);
    hf_lease *lease = NULL;

    options.heartbeat_ms = 1000;
    OK(hf_acquire_with(client, &options, &lease));
    return lease;
}

static void each_lease_beats_for_itself(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *a = beating(f.client, "a"), *b = beating(f.client, "b"),
             *c = must_acquire(f.client, "c");

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(hf_beat(a), 0);
    assert_int_equal(hf_beat(b), 0);
    assert_int_equal(hf_beat(c), 0); /* without a heartbeat: nothing */
    assert_int_equal(hf_beat(NULL), 0);
    assert_int_equal(fake_agent_beats(f.agent, "a"), 5);
    assert_int_equal(fake_agent_beats(f.agent, "b"), 1);
    assert_int_equal(fake_agent_beats(f.agent, "c"), 0);
    OK(hf_release(a));
    fixture_end(&f);
}

static void words_run_out_and_come_back(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("busy", -1);
    hf_op *ops[1023], *one_more;

    (void)state;
    options.heartbeat_ms = 100;
    fake_agent_foreign(f.agent, "busy", true);
    for (int round = 0; round < 3; round++) {
        fake_agent_freeze(f.agent, true);
        for (int i = 0; i < 1023; i++)
            OK(hf_acquire_start(f.client, &options, &ops[i]));
        assert_int_equal(hf_acquire_start(f.client, &options, &one_more), HF_ELIMIT);
        assert_message_has("1023 heartbeats");
        for (int i = 0; i < 1023; i++)
            hf_op_cancel(ops[i]);
        fake_agent_freeze(f.agent, false);
        OK(hf_release(must_acquire(f.client, "last"))); /* behind all the others */
        hf_dispatch(f.client);
    }
    fixture_end(&f);
}

static void a_short_one_is_refused(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", 0);
    hf_lease *lease;

    (void)state;
    options.heartbeat_ms = 99;
    assert_int_equal(hf_acquire_with(f.client, &options, &lease), HF_EINVAL);
    assert_message_has("at least 100 ms");
    fixture_end(&f);
}

static void a_new_agent_is_told_who_beats(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = beating(f.client, "a");

    (void)state;
    assert_int_equal(hf_beat(lease), 0);
    fake_agent_kill(f.agent);
    assert_int_equal(hf_beat(lease), 0); /* nobody is there to be told */
    fake_agent_revive(f.agent, false);
    assert_int_equal(fake_agent_beats(f.agent, "a"), 0);
    EVENTUALLY(hf_beat(lease) == 1 ? (hf_dispatch(f.client), false) : true);
    assert_int_equal(hf_beat(lease), 0);
    assert_in_range(fake_agent_beats(f.agent, "a"), 1, 2); /* in the new words */
    assert_true(hf_held(lease));
    OK(hf_release(lease));
    fixture_end(&f);
}

static int beat_in_child(void *lease)
{
    return hf_beat(lease);
}

static void a_child_does_not_beat(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = beating(f.client, "a");

    (void)state;
    assert_int_equal(in_child(beat_in_child, lease), 0);
    assert_int_equal(fake_agent_beats(f.agent, "a"), 0);
    assert_int_equal(hf_beat(lease), 0);
    assert_int_equal(fake_agent_beats(f.agent, "a"), 1);
    fixture_end(&f);
}

/* --- jobs: hf_job_beat() finds its memory once, so each in a process of its own ---------------- */

struct job {
    int fd;
    struct hf_job_memory *memory;
    const char *fd_text, *path_text;
    int expected;
};

static struct job job_with(uint32_t magic, size_t size, int seals)
{
    struct job job = {.fd = memfd_create("job", MFD_CLOEXEC | MFD_ALLOW_SEALING)};

    assert_true(job.fd >= 0);
    assert_int_equal(ftruncate(job.fd, (off_t)size), 0);
    assert_int_equal(fcntl(job.fd, F_ADD_SEALS, seals), 0);
    job.memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, job.fd, 0);
    assert_true((void *)job.memory != MAP_FAILED);
    if (size)
        job.memory->magic = magic;
    return job;
}

static void end_job(struct job *job)
{
    munmap(job->memory, 4096);
    close(job->fd);
}

static int beat_as_job(void *arg)
{
    const struct job *job = arg;

    unsetenv("HOLDFAST_BEAT_FD");
    unsetenv("HOLDFAST_BEAT_PATH");
    if (job->fd_text)
        setenv("HOLDFAST_BEAT_FD", job->fd_text, 1);
    if (job->path_text)
        setenv("HOLDFAST_BEAT_PATH", job->path_text, 1);
    for (int i = 0; i < 3; i++)
        if (hf_job_beat() != job->expected)
            return 1;
    return 0;
}

#define SIZE  sizeof(struct hf_job_memory)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static void a_job_beats(void **state)
{
    struct job job = job_with(HF_JOB_MAGIC, SIZE, SEALS);
    char number[16], path[48];

    (void)state;
    snprintf(number, sizeof(number), "%d", job.fd);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), job.fd);
    job.expected = 1;
    job.fd_text = number;
    assert_int_equal(in_child(beat_as_job, &job), 0);
    assert_int_equal(job.memory->beats, 3);
    job.fd_text = "9999"; /* not passed on */
    job.path_text = path;
    assert_int_equal(in_child(beat_as_job, &job), 0);
    assert_int_equal(job.memory->beats, 6);
    job.fd_text = NULL;
    assert_int_equal(in_child(beat_as_job, &job), 0);
    assert_int_equal(job.memory->beats, 9);
    end_job(&job);
}

static void what_is_no_such_memory_is_left_alone(void **state)
{
    static const char *const numbers[] = {"", "x", "-1", "3x", "99999999999999999999", "0", "1"};
    struct job bad[] = {
        job_with(HF_JOB_MAGIC + 1, SIZE, SEALS),
        job_with(HF_JOB_MAGIC, SIZE + 1, SEALS),
        job_with(HF_JOB_MAGIC, SIZE, F_SEAL_GROW),
        job_with(HF_JOB_MAGIC, 0, SEALS),
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char number[16];

        snprintf(number, sizeof(number), "%d", bad[i].fd);
        bad[i].fd_text = number;
        bad[i].path_text = "/nonexistent";
        assert_int_equal(in_child(beat_as_job, &bad[i]), 0);
        if (i < 3)
            assert_int_equal(bad[i].memory->beats, 0);
        end_job(&bad[i]);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct job none = {.fd_text = numbers[i], .path_text = "/dev/null"};

        assert_int_equal(in_child(beat_as_job, &none), 0);
    }
    assert_int_equal(in_child(beat_as_job, &(struct job){0}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lease_beats_for_itself),
        cmocka_unit_test(words_run_out_and_come_back),
        cmocka_unit_test(a_short_one_is_refused),
        cmocka_unit_test(a_new_agent_is_told_who_beats),
        cmocka_unit_test(a_child_does_not_beat),
        cmocka_unit_test(a_job_beats),
        cmocka_unit_test(what_is_no_such_memory_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A job's heartbeat: the memory that it beats in, and what is passed on of it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/run/guardian.h"

#define NS_PER_MS INT64_C(1000000)

static int passed_on;

void lease_group_beat(const struct lease_group *leases)
{
    (void)leases;
    passed_on++;
}

static const char *variable_of(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "none";
}

/* The memory as the job has it. */
static struct hf_job_memory *map_by(const char *variable)
{
    const char *value = variable_of(variable);
    int fd;
    void *map;

    fd = *value == '/' ? open(value, O_RDWR | O_CLOEXEC) : dup(atoi(value));
    assert_true(fd >= 0);
    map = mmap(NULL, sizeof(struct hf_job_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    close(fd);
    return map;
}

static void a_beat_is_passed_on_once(void **state)
{
    const struct lease_group leases = {.count = 1};
    struct hf_job_memory *job;
    struct beat beat;

    (void)state;
    assert_int_equal(beat_make(&beat, 400 * NS_PER_MS), 0);
    job = map_by("HOLDFAST_BEAT_FD");
    assert_int_equal(job->magic, HF_JOB_MAGIC);
    assert_int_equal(beat_pass_on(&beat, &leases, 1000), 1000 + 100 * NS_PER_MS);
    assert_int_equal(passed_on, 0); /* none yet */
    __atomic_fetch_add(&job->beats, 1, __ATOMIC_RELAXED);
    beat_pass_on(&beat, &leases, 2000);
    beat_pass_on(&beat, &leases, 3000);
    assert_int_equal(passed_on, 1);
    __atomic_store_n(&job->beats, 0, __ATOMIC_RELAXED); /* any change will do */
    beat_pass_on(&beat, &leases, 4000);
    assert_int_equal(passed_on, 2);
    munmap(job, sizeof(*job));
}

static void the_memory_is_found_by_its_path_and_keeps_its_size(void **state)
{
    const struct lease_group over = {.count = 0};
    struct hf_job_memory *job;
    struct beat beat;
    int fd;

    (void)state;
    assert_int_equal(beat_make(&beat, 400 * NS_PER_MS), 0);
    job = map_by("HOLDFAST_BEAT_PATH");
    fd = atoi(variable_of("HOLDFAST_BEAT_FD"));
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0); /* the job inherits it */
    assert_int_equal(ftruncate(fd, 0), -1); /* a job cannot take it from under the guardian */
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    assert_true(beat_pass_on(&beat, &over, 1000) == INT64_MAX);
    munmap(job, sizeof(*job));
}

static void without_a_heartbeat_there_is_nothing_to_look_at(void **state)
{
    const struct lease_group leases = {.count = 1};
    struct beat beat;

    (void)state;
    passed_on = 0;
    unsetenv("HOLDFAST_BEAT_FD");
    assert_int_equal(beat_make(&beat, 0), 0);
    assert_null(getenv("HOLDFAST_BEAT_FD"));
    assert_true(beat_pass_on(&beat, &leases, 1000) == INT64_MAX);
    assert_int_equal(passed_on, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beat_is_passed_on_once),
        cmocka_unit_test(the_memory_is_found_by_its_path_and_keeps_its_size),
        cmocka_unit_test(without_a_heartbeat_there_is_nothing_to_look_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

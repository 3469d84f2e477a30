/* Names and folders of tests, so that the runner finds and removes what a killed one left (leftovers.py). */
#ifndef HOLDFAST_TESTS_SCRATCH_H
#define HOLDFAST_TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "-TAG" of the run of the tests, which no other run has; "" outside of one. */
static inline const char *scratch_tag(void)
{
    const char *tag = getenv("HOLDFAST_TEST_TAG");

    return tag ? tag : "";
}

/* "WHAT-TAG-PID": for agents, hence for shared memory. */
static inline void scratch_name(char *name, size_t size, const char *what)
{
    snprintf(name, size, "%s%s-%d", what, scratch_tag(), (int)getpid());
}

/* What mkdtemp(3) and mkstemp(3) take: in $TMPDIR, which the runner removes; short, for sockets below it. */
static inline void scratch_path(char *path, size_t size)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(path, size, "%s/hf-XXXXXX", tmp ? tmp : "/tmp");
}

/* The same on tmpfs. */
static inline void scratch_path_tmpfs(char *path, size_t size)
{
    snprintf(path, size, "/dev/shm/holdfast-test%s-XXXXXX", scratch_tag());
}

#endif

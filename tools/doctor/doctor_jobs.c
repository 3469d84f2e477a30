/* doctor: jobs that are stopped for good. Their killers may not end them, and have frozen their control group: they act no
 * more, but keep memory and files. With $HOLDFAST_RUNTIME_DIR, which names some agents, none is looked for. */
#include "tools/doctor/doctor_looks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JOB_PREFIX "holdfast-run-" /* tools/run/cgroup.c */
#define DEPTH_MAX  32
#define DYING_NS   200000000 /* every job that is killed is frozen for a moment */

struct walk {
    struct doctor *doctor;
    char path[4096]; /* of the directory that is looked at */
};

static bool jobs_is_stopped(int dir)
{
    char text[256];
    int fd = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, "populated 1\n") && strstr(text, "frozen 1\n");
}

static void jobs_look_at_job(struct walk *w, int dir)
{
    const struct timespec dying = {.tv_nsec = DYING_NS};
    char remedy[sizeof(w->path) + 64];

    if (!jobs_is_stopped(dir))
        return;
    nanosleep(&dying, NULL);
    if (!jobs_is_stopped(dir))
        return;
    snprintf(remedy, sizeof(remedy), "as root: xargs kill -9 < %s/cgroup.procs", w->path);
    doctor_report(w->doctor, FINDING_WARN, "leftover.job", remedy,
                  "a job whose guardians or agent could not end it is stopped for good in %s",
                  w->path);
}

static void jobs_walk(struct walk *w, int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t length = strlen(w->path);
    struct dirent *entry;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (strncmp(name, JOB_PREFIX, strlen(JOB_PREFIX)) == 0)
        jobs_look_at_job(w, fd);
    while (depth < DEPTH_MAX && (entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 ||
            length + 1 + strlen(entry->d_name) >= sizeof(w->path))
            continue;
        snprintf(w->path + length, sizeof(w->path) - length, "/%s", entry->d_name);
        jobs_walk(w, fd, entry->d_name, depth + 1);
        w->path[length] = '\0';
    }
    closedir(dir);
}

void doctor_jobs_look(struct doctor *doctor)
{
    struct walk w = {.doctor = doctor, .path = "/sys/fs/cgroup"};

    if (!getenv("HOLDFAST_RUNTIME_DIR"))
        jobs_walk(&w, AT_FDCWD, w.path, 0);
}

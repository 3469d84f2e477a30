#include "tests/torture/step.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const struct stepped *s, const char *what, int status)
{
    fprintf(stderr, "step: %s after %lu instructions (wait status %#x, errno %s)\n", what, s->steps,
            (unsigned)status, strerror(errno));
    abort();
}

/* The stop that the child is in now. */
static int wait_stop(struct stepped *s)
{
    int status = 0;

    while (waitpid(s->pid, &status, __WALL) < 0)
        if (errno != EINTR)
            die(s, "the child is away", status);
    if (!WIFSTOPPED(status))
        die(s, "the child ended", status);
    return WSTOPSIG(status);
}

bool step_begin(struct stepped *s, void (*fn)(void *arg), void *arg)
{
    int status;

    *s = (struct stepped){0};
    fflush(NULL);
    s->pid = fork();
    if (s->pid < 0)
        die(s, "fork", 0);
    if (s->pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        fn(arg);
        raise(SIGSTOP);
        _exit(0);
    }
    while (waitpid(s->pid, &status, __WALL) < 0)
        if (errno != EINTR)
            die(s, "the child is away", status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return false;
    if (!WIFSTOPPED(status))
        die(s, "the child ended", status);
    if (ptrace(PTRACE_SETOPTIONS, s->pid, NULL, (void *)PTRACE_O_EXITKILL) != 0)
        die(s, "PTRACE_SETOPTIONS", 0);
    return true;
}

/* The child's own SIGSTOP is its word that `fn` is behind it; every other stop is a step's. */
static bool go_on(struct stepped *s, int how)
{
    int stop;

    if (s->over)
        return false;
    if (ptrace((enum __ptrace_request)how, s->pid, NULL, NULL) != 0)
        die(s, "ptrace", 0);
    stop = wait_stop(s);
    if (stop == SIGSTOP)
        s->over = true;
    else if (stop != SIGTRAP)
        die(s, strsignal(stop), stop);
    return !s->over;
}

bool step_one(struct stepped *s)
{
    s->steps++;
    return go_on(s, PTRACE_SINGLESTEP);
}

void step_finish(struct stepped *s)
{
    while (go_on(s, PTRACE_CONT))
        continue;
}

void step_kill(struct stepped *s)
{
    int status;

    kill(s->pid, SIGKILL);
    while (waitpid(s->pid, &status, __WALL) < 0 && errno == EINTR)
        continue;
    s->pid = 0;
}

/* Where the program itself is loaded. */
static int note_base(struct dl_phdr_info *info, size_t size, void *ret_base)
{
    (void)size;
    *(uint64_t *)ret_base = info->dlpi_addr;
    return 1; /* it is the first */
}

uint64_t step_at(const struct stepped *s)
{
    struct user_regs_struct regs;
    uint64_t base = 0;

    if (ptrace(PTRACE_GETREGS, s->pid, NULL, &regs) != 0)
        die(s, "PTRACE_GETREGS", 0);
    dl_iterate_phdr(note_base, &base);
    return regs.rip - base;
}

/* --- states ----------------------------------------------------------------------------------- */

static bool has_changed(const struct moments *m)
{
    const uint8_t *last = m->moment[m->count - 1].bytes;

    for (int i = 0; i < m->region_count; last += m->regions[i++].size)
        if (memcmp(last, m->regions[i].at, m->regions[i].size) != 0)
            return true;
    return false;
}

static void keep(struct moments *m, uint64_t ip, unsigned long steps)
{
    uint8_t *to = malloc(m->size);

    m->moment = realloc(m->moment, (size_t)(m->count + 1) * sizeof(*m->moment));
    if (!to || !m->moment)
        abort();
    m->moment[m->count++] = (struct moment){.ip = ip, .steps = steps, .bytes = to};
    for (int i = 0; i < m->region_count; to += m->regions[i++].size)
        memcpy(to, m->regions[i].at, m->regions[i].size);
}

bool moments_of(void (*fn)(void *arg), void *arg, const struct region *regions, int region_count,
                struct moments *ret_moments)
{
    struct moments m = {.regions = regions, .region_count = region_count};
    struct stepped s;

    for (int i = 0; i < region_count; i++)
        m.size += regions[i].size;
    if (!step_begin(&s, fn, arg))
        return false;
    keep(&m, 0, 0);
    while (step_one(&s))
        if (has_changed(&m))
            keep(&m, step_at(&s), s.steps);
    step_kill(&s);
    *ret_moments = m;
    return true;
}

void moments_restore(const struct moments *m, int i)
{
    const uint8_t *from = m->moment[i].bytes;

    for (int r = 0; r < m->region_count; from += m->regions[r++].size)
        memcpy(m->regions[r].at, from, m->regions[r].size);
}

void moments_free(struct moments *m)
{
    for (int i = 0; i < m->count; i++)
        free(m->moment[i].bytes);
    free(m->moment);
    *m = (struct moments){0};
}

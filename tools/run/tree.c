#include "tools/run/tree.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/process.h"

#define FIRST_CAPACITY 1024
#define HUNT_LOOKS     100
#define HUNT_DEPTH     8 /* generations of slow-dying processes, each with a child */
#define HUNT_PAUSE_NS  200000

struct tree_process {
    pid_t pid, parent;
    unsigned long long start; /* clock ticks since boot */
    bool alive, ours;
    char command[16];
};

int tree_init(struct tree *tree, pid_t spare)
{
    *tree = (struct tree){.root = getpid(), .spare = spare};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -1;
    tree->proc = opendir("/proc");
    tree->processes = calloc(FIRST_CAPACITY, sizeof(*tree->processes));
    if (!tree->proc || !tree->processes) {
        tree_free(tree);
        return -1;
    }
    tree->capacity = FIRST_CAPACITY;
    return 0;
}

void tree_free(struct tree *tree)
{
    if (tree->proc)
        closedir(tree->proc);
    free(tree->processes);
    tree->proc = NULL;
    tree->processes = NULL;
}

static bool read_stat(int proc, pid_t pid, struct tree_process *process)
{
    struct process_stat stat;

    if (process_stat(proc, pid, &stat) < 0)
        return false;
    *process = (struct tree_process){.pid = pid, .parent = stat.parent, .start = stat.start};
    memcpy(process->command, stat.command, sizeof(process->command));
    /* A leader that called pthread_exit() is shown as a zombie while its other threads run on. */
    process->alive = (stat.state != 'Z' && stat.state != 'X') || stat.threads > 1;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct tree_process *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct tree_process *find(struct tree *tree, size_t count, pid_t pid)
{
    struct tree_process key = {.pid = pid};

    return bsearch(&key, tree->processes, count, sizeof(key), by_pid);
}

/* Reads all processes, sorted by pid. Returns their number, or -1. */
static ssize_t scan(struct tree *tree)
{
    int proc = dirfd(tree->proc);
    struct dirent *entry;
    size_t count = 0;

    rewinddir(tree->proc);
    while (errno = 0, (entry = readdir(tree->proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (count == tree->capacity) {
            size_t capacity = 2 * tree->capacity;
            struct tree_process *bigger =
                /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): tree_open() made room. */
                realloc(tree->processes, capacity * sizeof(*tree->processes));

            if (!bigger)
                break; /* continue with these: the next scan finds the rest */
            tree->processes = bigger;
            tree->capacity = capacity;
        }
        /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit. */
        if (read_stat(proc, (pid_t)atoi(entry->d_name), &tree->processes[count]))
            count++;
    }
    if (count == 0)
        return -1;
    qsort(tree->processes, count, sizeof(*tree->processes), by_pid);
    return (ssize_t)count;
}

/* Marks the descendants of the root. A parent is older than its child: a younger "parent" has only
 * reused the pid of a dead one. */
static void mark(struct tree *tree, size_t count)
{
    struct tree_process *root = find(tree, count, tree->root);
    bool more = root != NULL;

    if (root)
        root->ours = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            struct tree_process *child = &tree->processes[i], *parent;

            if (child->ours)
                continue;
            parent = find(tree, count, child->parent);
            if (parent && parent->ours && parent->start <= child->start)
                more = child->ours = true;
        }
    }
    if (root)
        root->ours = false; /* not its own descendant */
}

/* 0, or an errno. ESRCH: it is gone. */
static int signal_process(int proc, const struct tree_process *process, int signal)
{
    struct tree_process again;
    int error = 0, fd = (int)syscall(SYS_pidfd_open, process->pid, 0);

    if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOSYS)
        return errno;
    /* With the pidfd the pid can no longer be reused; check that it was not reused before. */
    if (!read_stat(proc, process->pid, &again) || again.start != process->start)
        error = ESRCH;
    else if (fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0
                     : kill(process->pid, signal) < 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    return error;
}

int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome)
{
    struct tree_outcome outcome = {0};
    ssize_t count = scan(tree);

    if (count < 0)
        return -1;
    mark(tree, (size_t)count);
    for (ssize_t i = 0; i < count; i++) {
        const struct tree_process *process = &tree->processes[i];
        int error;

        if (!process->ours || !process->alive || process->pid == tree->spare)
            continue;
        error = signal ? signal_process(dirfd(tree->proc), process, signal) : 0;
        if (error == ESRCH)
            continue;
        if (outcome.living < TREE_SOME) {
            outcome.some[outcome.living].pid = process->pid;
            memcpy(outcome.some[outcome.living].command, process->command,
                   sizeof(outcome.some[0].command));
        }
        outcome.living++;
        if (!outcome.stubborn || error) {
            outcome.stubborn = process->pid;
            outcome.error = error;
            memcpy(outcome.command, process->command, sizeof(outcome.command));
        }
    }
    if (ret_outcome)
        *ret_outcome = outcome;
    return 0;
}

static bool is_dead(pid_t child)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
           info.si_pid != 0;
}

/* Another session than ours was made within the tree, and is entered only by fork: its process
 * groups are killed as a whole, which no fork escapes. Our own session may have others' processes.
 * The session is read first, since a process cannot return to ours. */
static void kill_child(pid_t child)
{
    pid_t session = getsid(child), group = getpgid(child);

    if (is_dead(child))
        return;
    (void)setpriority(PRIO_PROCESS, (id_t)child, -20); /* so that it dies faster; if permitted */
    kill(session > 0 && session != getsid(0) && group > 0 ? -group : child, SIGKILL);
}

/* Reads the children of one process. Its pid cannot be reused: it is us, or our child, and not
 * reaped. */
static void kill_below(const struct tree *tree, pid_t parent, int depth)
{
    char path[48], text[4096], *rest = text;
    struct tree_process child;
    ssize_t got;
    long pid;
    int fd;

    snprintf(path, sizeof(path), "%d/task/%d/children", (int)parent, (int)parent);
    fd = openat(dirfd(tree->proc), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* also on a kernel without CONFIG_PROC_CHILDREN: scans must do then */
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    while ((pid = strtol(rest, &rest, 10)) > 0 && *rest == ' ') { /* else it is cut off */
        if (parent == tree->root && pid != tree->spare)
            kill_child((pid_t)pid);
        else if (parent != tree->root && read_stat(dirfd(tree->proc), (pid_t)pid, &child) &&
                 child.parent == parent)
            (void)signal_process(dirfd(tree->proc), &child, SIGKILL);
        if (depth > 0 && pid != tree->spare)
            kill_below(tree, (pid_t)pid, depth - 1);
    }
}

bool tree_reap(tree_reaped_fn *fn, void *arg)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL);

        if (pid == 0)
            return false;
        if (pid > 0)
            fn(pid, status, arg);
        else if (errno != EINTR)
            return errno == ECHILD;
    }
}

bool tree_hunt(const struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    const struct timespec pause = {.tv_nsec = HUNT_PAUSE_NS};

    for (int i = 0; i < HUNT_LOOKS; i++) {
        kill_below(tree, tree->root, HUNT_DEPTH);
        if (tree_reap(fn, arg))
            return true;
        nanosleep(&pause, NULL); /* they need CPU time to die */
    }
    return false;
}

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
#define HUNT_PASSES    50
#define BELOW_BYTES    4096
#define CHILDREN_BYTES                                                                             \
    65536 /* thousands, nearly all of them dead, where we get no processor time to reap; the living are the last */

struct tree_process {
    pid_t pid, parent;
    unsigned long long start; /* clock ticks since boot */
    bool alive, ours;
    char state;
    char command[16];
};

int tree_init(struct tree *tree, pid_t spare)
{
    *tree = (struct tree){.root = getpid(), .session = getsid(0), .spare = spare};
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
    free(tree->others);
    tree->proc = NULL;
    tree->processes = NULL;
    tree->others = NULL;
    tree->other_count = 0;
}

static bool read_stat(int proc, pid_t pid, struct tree_process *process)
{
    struct process_stat stat;

    if (process_stat(proc, pid, &stat) < 0)
        return false;
    *process = (struct tree_process){
        .pid = pid, .parent = stat.parent, .start = stat.start, .state = stat.state};
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

static bool is_other(const struct tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->other_count; i++)
        if (tree->others[i] == pid)
            return true;
    return false;
}

struct children {
    char *text;
    size_t room, size;
};

static bool read_children(const struct tree *tree, pid_t parent, struct children *children)
{
    char path[48];
    ssize_t got;
    size_t size = 0;
    int fd;

    snprintf(path, sizeof(path), "%d/task/%d/children", (int)parent, (int)parent);
    fd = openat(dirfd(tree->proc), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* also on a kernel without CONFIG_PROC_CHILDREN: scans must do then */
    while (size < children->room - 1 &&
           (got = read(fd, children->text + size, children->room - 1 - size)) > 0)
        size += (size_t)got;
    close(fd);
    children->text[size] = '\0';
    children->size = size;
    return true;
}

/* The next pid of the list; 0 at its end. */
static pid_t next_child(char **rest)
{
    long pid = strtol(*rest, rest, 10);

    return pid > 0 && **rest == ' ' ? (pid_t)pid : 0; /* else it is cut off */
}

static int add_other(struct tree *tree, pid_t pid)
{
    pid_t *more = realloc(tree->others, (tree->other_count + 1) * sizeof(*more));

    if (!more)
        return -1;
    tree->others = more;
    more[tree->other_count++] = pid;
    return 0;
}

int tree_leave_alone(struct tree *tree)
{
    char text[BELOW_BYTES], *rest = text;
    struct children children = {.text = text, .room = sizeof(text)};
    ssize_t count;
    pid_t pid;
    int rc = 0;

    if (read_children(tree, tree->root, &children) && children.size < sizeof(text) - 1) {
        while (rc == 0 && (pid = next_child(&rest)))
            rc = add_other(tree, pid);
        return rc;
    }
    count = scan(tree);
    for (ssize_t i = 0; i < count && rc == 0; i++)
        if (tree->processes[i].parent == tree->root)
            rc = add_other(tree, tree->processes[i].pid);
    return count < 0 ? -1 : rc;
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

            if (child->ours || (child->parent == tree->root && is_other(tree, child->pid)))
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

static void note(struct tree_outcome *outcome, const struct tree_process *process, int error)
{
    if (outcome->living < TREE_SOME) {
        outcome->some[outcome->living].pid = process->pid;
        memcpy(outcome->some[outcome->living].command, process->command,
               sizeof(outcome->some[0].command));
    }
    outcome->living++;
    if (outcome->stubborn.pid &&
        (outcome->stubborn.error ? true : !error && process->start >= outcome->stubborn.start))
        return;
    outcome->stubborn.pid = process->pid;
    outcome->stubborn.start = process->start;
    outcome->stubborn.state = process->state;
    outcome->stubborn.error = error;
    memcpy(outcome->stubborn.command, process->command, sizeof(outcome->stubborn.command));
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
        if (error != ESRCH)
            note(&outcome, process, error);
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

/* Made within the tree, and entered only by fork: killed as a whole, which no fork escapes. In the session that we began in
 * others may have groups, too. The group cannot be another's by now, since `child` is in it and we have not reaped it. */
static bool group_is_ours(const struct tree *tree, pid_t child, pid_t session, pid_t group)
{
    if (session <= 0 || group <= 0 || group == getpgrp())
        return false;
    return session != tree->session || group == child || group == tree->group;
}

/* The dead are passed over quickly: there may be thousands, which wait for us to reap them. One of the tree's group still tells that the
 * group is ours. The session is read before the group, since a process cannot return to ours. `killed`: the group that was killed last. */
static void kill_child(const struct tree *tree, pid_t child, pid_t *killed)
{
    bool dead = is_dead(child), whole;
    pid_t session, group;

    if (dead && (!tree->group || *killed == tree->group))
        return;
    session = getsid(child);
    group = getpgid(child);
    whole = group_is_ours(tree, child, session, group);
    if (dead && (!whole || group != tree->group))
        return;
    (void)setpriority(PRIO_PROCESS, (id_t)child, -20); /* so that it dies faster; if permitted */
    if (!whole)
        kill(child, SIGKILL);
    else if (group != *killed)
        kill(-group, SIGKILL);
    if (whole)
        *killed = group;
}

/* Kills the children of one process and, to some depth, theirs. Its pid cannot be reused: it is our child, and not
 * reaped. */
static void kill_below(const struct tree *tree, pid_t parent, int depth)
{
    char text[BELOW_BYTES], *rest = text;
    struct children children = {.text = text, .room = sizeof(text)};
    struct tree_process child;
    pid_t pid;

    if (!read_children(tree, parent, &children))
        return;
    while ((pid = next_child(&rest))) {
        if (read_stat(dirfd(tree->proc), pid, &child) && child.parent == parent)
            (void)signal_process(dirfd(tree->proc), &child, SIGKILL);
        if (depth > 1)
            kill_below(tree, pid, depth - 1);
    }
}

/* With others' children there is always a child left. A scan that finds no descendant may have missed one that was just getting a
 * new parent: two in a row have not. */
static bool only_others_are_left(struct tree *tree)
{
    for (int i = 0; i < 2; i++) {
        ssize_t count = scan(tree);

        if (count < 0)
            return false;
        mark(tree, (size_t)count);
        for (ssize_t k = 0; k < count; k++)
            if (tree->processes[k].ours)
                return false;
    }
    return true;
}

static bool reap_other(struct tree *tree, pid_t pid, int status)
{
    for (size_t i = 0; i < tree->other_count; i++) {
        if (tree->others[i] != pid)
            continue;
        if (WIFEXITED(status) || WIFSIGNALED(status))
            tree->others[i] = tree->others[--tree->other_count];
        return true;
    }
    return false;
}

/* Reaps the dead. Returns whether there is no child at all. */
static bool reap(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL);

        if (pid == 0)
            return false;
        if (pid > 0 && !reap_other(tree, pid, status))
            fn(pid, status, arg);
        else if (pid < 0 && errno != EINTR)
            return errno == ECHILD;
    }
}

bool tree_reap(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    return reap(tree, fn, arg) ||
           (tree->other_count > 0 && !tree->spare && only_others_are_left(tree));
}

/* Our own children first, in passes that come at once for as long as there are new ones: on this processor nobody else runs meanwhile,
 * so that they cannot leave children faster than they are found. The dead are reaped in between, else their numbers hide the living.
 * Returns whether there is no child. */
static bool kill_children(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    static char text[2][CHILDREN_BYTES]; /* static: large, and one thread kills */
    struct children now = {.text = text[0], .room = CHILDREN_BYTES}, before = {.text = text[1]};
    char *rest, *other;
    pid_t pid, killed;

    before.text[0] = '\0';
    for (int i = 0; i < HUNT_PASSES; i++) {
        if (reap(tree, fn, arg))
            return true;
        if (!read_children(tree, tree->root, &now))
            return false;
        if (i > 0 && now.size == before.size && memcmp(now.text, before.text, now.size) == 0)
            break;
        killed = 0;
        for (rest = now.text; (pid = next_child(&rest));)
            if (pid != tree->spare && !is_other(tree, pid))
                kill_child(tree, pid, &killed);
        other = before.text;
        before = now;
        now.text = other;
    }
    for (rest = before.text; (pid = next_child(&rest));)
        if (pid != tree->spare && !is_other(tree, pid))
            kill_below(tree, pid, HUNT_DEPTH);
    return false;
}

bool tree_hunt(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    const struct timespec pause = {.tv_nsec = HUNT_PAUSE_NS};

    for (int i = 0; i < HUNT_LOOKS; i++) {
        if (kill_children(tree, fn, arg) || tree_reap(tree, fn, arg))
            return true;
        nanosleep(&pause, NULL); /* they need CPU time to die */
    }
    return false;
}

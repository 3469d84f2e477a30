#include "tools/run/tree.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#define REAPED_AT_ONCE 64
#define HUNT_LOOKS     100
#define HUNT_REAPS     16 /* between two looks */
#define HUNT_DEPTH     8  /* generations of slow-dying processes, each with a child */
#define HUNT_PAUSE_NS  200000
#define BELOW_BYTES    4096
#define CHILDREN_BYTES 65536

struct tree_process {
    pid_t pid, parent;
    unsigned long long start; /* clock ticks since boot */
    bool alive, ours;
    char state;
    char command[16];
};

/* In the /proc of an outer PID namespace we have two numbers, and our own may be somebody else's there. 0, or -1 with errno. */
static int tree_check_shows_us(int proc)
{
    char line[256], *rest;
    long number = 0;
    bool another = false;
    int fd = openat(proc, "self/status", O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    if (!file) {
        int error = errno;

        if (fd >= 0)
            close(fd);
        errno =
            error == ENOENT ? ESRCH : error; /* nobody's /proc, or one where we have no number */
        return -1;
    }
    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "Pid:", strlen("Pid:")))
            number = strtol(line + strlen("Pid:"), NULL, 10);
        if (strncmp(line, "NSpid:", strlen("NSpid:")) != 0)
            continue;
        (void)strtol(line + strlen("NSpid:"), &rest, 10);
        another = *rest == '\t';
    }
    fclose(file);
    errno = ESRCH;
    return number == getpid() && !another ? 0 : -1;
}

int tree_init(struct tree *tree, pid_t spare)
{
    int error;

    *tree = (struct tree){.root = getpid(), .session = getsid(0), .spare = spare};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -1;
    tree->proc = opendir("/proc");
    tree->processes = calloc(FIRST_CAPACITY, sizeof(*tree->processes));
    if (!tree->proc || !tree->processes || tree_check_shows_us(dirfd(tree->proc)) < 0) {
        error = errno;
        tree_free(tree);
        errno = error;
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

static bool tree_read_stat(int proc, pid_t pid, struct tree_process *process)
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

static int tree_by_pid(const void *a, const void *b)
{
    const struct tree_process *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct tree_process *tree_find(struct tree *tree, size_t count, pid_t pid)
{
    struct tree_process key = {.pid = pid};

    return bsearch(&key, tree->processes, count, sizeof(key), tree_by_pid);
}

static bool tree_is_child(pid_t pid)
{
    return waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

/* Of ours, and not reaped yet. Where we get little of the processor there are thousands, and /proc takes ten times as long for each. */
static bool tree_is_dead_child(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
           info.si_pid != 0;
}

static bool tree_read_process(const struct tree *tree, pid_t pid, struct tree_process *process)
{
    if (!tree_is_dead_child(pid))
        return tree_read_stat(dirfd(tree->proc), pid, process);
    *process =
        (struct tree_process){.pid = pid, .parent = tree->root, .start = ULLONG_MAX, .state = 'Z'};
    return true;
}

/* Reads all processes, sorted by pid. Returns their number, or -1. */
static ssize_t tree_scan(struct tree *tree)
{
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
        if (tree_read_process(tree, (pid_t)atoi(entry->d_name), &tree->processes[count]))
            count++;
    }
    if (count == 0)
        return -1;
    qsort(tree->processes, count, sizeof(*tree->processes), tree_by_pid);
    return (ssize_t)count;
}

static bool tree_is_other(const struct tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->other_count; i++)
        if (tree->others[i] == pid)
            return true;
    return false;
}

/* Of one process, the newest last. */
struct children {
    char *text;
    size_t room, size;
    bool cut; /* the first are left out: there are too many */
};

/* Thousands are nearly all dead, and the living are the newest. */
static void tree_drop_first(struct children *children)
{
    const char *half = children->text + children->size / 2, *space = strchr(half, ' ');

    children->cut = true;
    children->size = space ? children->size - (size_t)(space + 1 - children->text) : 0;
    if (space)
        memmove(children->text, space + 1, children->size);
}

static void tree_add_child(struct children *children, pid_t pid)
{
    char text[16];
    int length = snprintf(text, sizeof(text), "%d ", (int)pid);

    if (children->size + (size_t)length >= children->room)
        tree_drop_first(children);
    memcpy(children->text + children->size, text, (size_t)length + 1);
    children->size += (size_t)length;
}

/* (!) Without a descriptor, which the job's user may have taken from us, and without CONFIG_PROC_CHILDREN: of each number that /proc lists
 * the kernel says whether it is a child of ours. Theirs become ours when they are killed. */
static void tree_find_children(const struct tree *tree, struct children *children)
{
    struct dirent *entry;

    rewinddir(tree->proc);
    while ((entry = readdir(tree->proc))) {
        /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit. */
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;

        if (pid > 0 && tree_is_child(pid))
            tree_add_child(children, pid);
    }
}

static bool tree_read_children(const struct tree *tree, pid_t parent, struct children *children)
{
    char path[48];
    ssize_t got;
    int fd;

    children->text[0] = '\0';
    children->size = 0;
    children->cut = false;
    snprintf(path, sizeof(path), "%d/task/%d/children", (int)parent, (int)parent);
    fd = openat(dirfd(tree->proc), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && parent == tree->root)
        tree_find_children(tree, children);
    if (fd < 0)
        return parent == tree->root;
    while ((got = read(fd, children->text + children->size, children->room - 1 - children->size)) >
           0) {
        children->size += (size_t)got;
        children->text[children->size] = '\0';
        if (children->size == children->room - 1)
            tree_drop_first(children);
    }
    close(fd);
    children->text[children->size] = '\0';
    return true;
}

/* Of this process, until the next call; `text`: static, since it is large, and one thread kills. */
static struct children tree_own_children(const struct tree *tree)
{
    static char text[CHILDREN_BYTES];
    struct children children = {.text = text, .room = sizeof(text)};

    (void)tree_read_children(tree, tree->root, &children);
    return children;
}

/* The pid that ends before `*end`, which moves back to its beginning; 0: there is none. */
static pid_t tree_child_before(const struct children *children, size_t *end)
{
    size_t at = *end;
    pid_t pid;

    while (at > 0 && children->text[at - 1] == ' ')
        at--;
    while (at > 0 && children->text[at - 1] != ' ')
        at--;
    pid = at < *end ? (pid_t)strtol(children->text + at, NULL, 10) : 0;
    *end = at;
    return pid;
}

static int tree_add_other(struct tree *tree, pid_t pid)
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
    struct children children = tree_own_children(tree);
    size_t end = children.size;
    pid_t pid;
    int rc = 0;

    errno = E2BIG;
    if (children.cut)
        return -1;
    while (rc == 0 && (pid = tree_child_before(&children, &end)))
        rc = tree_add_other(tree, pid);
    return rc;
}

/* Marks the descendants of the root. A parent is older than its child: a younger "parent" has only
 * reused the pid of a dead one. */
static void tree_mark(struct tree *tree, size_t count)
{
    struct tree_process *root = tree_find(tree, count, tree->root);
    bool more = root != NULL;

    if (root)
        root->ours = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            struct tree_process *child = &tree->processes[i], *parent;

            if (child->ours || (child->parent == tree->root && tree_is_other(tree, child->pid)))
                continue;
            parent = tree_find(tree, count, child->parent);
            if (parent && parent->ours && parent->start <= child->start)
                more = child->ours = true;
        }
    }
    if (root)
        root->ours = false; /* not its own descendant */
}

/* 0, or an errno. ESRCH: it is gone. */
static int tree_signal_process(int proc, const struct tree_process *process, int signal)
{
    struct tree_process again;
    int error = 0, fd = (int)syscall(SYS_pidfd_open, process->pid, 0);

    if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOSYS)
        return errno;
    /* With the pidfd the pid can no longer be reused; check that it was not reused before. */
    if (!tree_read_stat(proc, process->pid, &again) || again.start != process->start)
        error = ESRCH;
    else if (fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0
                     : kill(process->pid, signal) < 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    return error;
}

static void tree_note(struct tree_outcome *outcome, const struct tree_process *process, int error)
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

static bool tree_is_spared(const struct tree *tree, pid_t pid)
{
    return pid == tree->spare || tree_is_other(tree, pid);
}

/* Our children that the scan has not found, for want of a descriptor. The number of each is its own until we reap it. */
static void tree_signal_unseen(struct tree *tree, size_t count, int signal)
{
    struct children children = tree_own_children(tree);
    size_t end = children.size;
    pid_t pid;

    while ((pid = tree_child_before(&children, &end))) {
        if (tree_is_spared(tree, pid) || tree_find(tree, count, pid))
            continue;
        (void)kill(pid, signal);
        if (signal != SIGKILL)
            (void)kill(pid, SIGCONT);
    }
}

int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome)
{
    struct tree_outcome outcome = {0};
    ssize_t count = tree_scan(tree);

    if (signal)
        tree_signal_unseen(tree, count < 0 ? 0 : (size_t)count, signal);
    if (count < 0)
        return -1;
    tree_mark(tree, (size_t)count);
    for (ssize_t i = 0; i < count; i++) {
        const struct tree_process *process = &tree->processes[i];
        int error;

        if (!process->ours || !process->alive || process->pid == tree->spare)
            continue;
        error = signal ? tree_signal_process(dirfd(tree->proc), process, signal) : 0;
        if (signal && signal != SIGKILL)
            (void)tree_signal_process(dirfd(tree->proc), process, SIGCONT);
        if (error != ESRCH)
            tree_note(&outcome, process, error);
    }
    if (ret_outcome)
        *ret_outcome = outcome;
    return 0;
}

/* Made within the tree, and entered only by fork: killed as a whole, which no fork escapes. In the session that we began in
 * others may have groups, too. The group cannot be another's by now, since `child` is in it and we have not reaped it. */
static bool tree_group_is_ours(const struct tree *tree, pid_t child, pid_t session, pid_t group)
{
    if (session <= 0 || group <= 0 || group == getpgrp())
        return false;
    return session != tree->session || group == child || group == tree->group;
}

/* The dead are passed over quickly: there may be thousands, which wait for us to reap them. One of the tree's group still tells that the
 * group is ours. The session is read before the group, since a process cannot return to ours. `killed`: the group that was killed last. */
static void tree_kill_child(const struct tree *tree, pid_t child, pid_t *killed)
{
    bool dead = tree_is_dead_child(child), whole;
    pid_t session, group;

    if (dead && (!tree->group || *killed == tree->group))
        return;
    session = getsid(child);
    group = getpgid(child);
    whole = tree_group_is_ours(tree, child, session, group);
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

/* Kills the children of one process and, to some depth, theirs. */
static void tree_kill_below(const struct tree *tree, pid_t parent, int depth)
{
    char text[BELOW_BYTES];
    struct children children = {.text = text, .room = sizeof(text)};
    struct tree_process child;
    size_t end;
    pid_t pid;

    if (!tree_read_children(tree, parent, &children))
        return;
    for (end = children.size; (pid = tree_child_before(&children, &end));) {
        if (!tree_read_stat(dirfd(tree->proc), pid, &child) || child.parent != parent ||
            !child.alive)
            continue;
        (void)tree_signal_process(dirfd(tree->proc), &child, SIGKILL);
        if (depth > 1)
            tree_kill_below(tree, pid, depth - 1);
    }
}

/* With others' children there is always a child left. What dies stays a child until we reap it, so all of the tree is below one that is seen. */
static bool tree_only_others_are_left(const struct tree *tree)
{
    struct children children = tree_own_children(tree);
    size_t end = children.size;
    pid_t pid;

    while ((pid = tree_child_before(&children, &end)))
        if (!tree_is_other(tree, pid))
            return false;
    return !children.cut;
}

static bool tree_reap_other(struct tree *tree, pid_t pid, int status)
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

/* Reaps the dead, but some at a time: they may come as fast as they are reaped, and whoever reaps has more to do. Returns whether
 * there is no child at all. */
static bool tree_reap_children(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    tree->more = false;
    for (int i = 0; i < REAPED_AT_ONCE; i++) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL);

        if (pid == 0)
            return false;
        if (pid > 0 && !tree_reap_other(tree, pid, status))
            fn(pid, status, arg);
        else if (pid < 0 && errno != EINTR)
            return errno == ECHILD;
    }
    tree->more = true;
    return false;
}

bool tree_reap(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    return tree_reap_children(tree, fn, arg) || (tree->other_count > 0 && !tree->more &&
                                                 !tree->spare && tree_only_others_are_left(tree));
}

pid_t tree_tracer(const struct tree *tree, pid_t pid)
{
    char path[32], text[1024];
    const char *line;
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "%d/status", (int)pid);
    fd = openat(dirfd(tree->proc), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    line = strstr(text, "\nTracerPid:");
    return line ? (pid_t)strtol(line + strlen("\nTracerPid:"), NULL, 10) : 0;
}

bool tree_is_traced(const struct tree *tree, struct tree_traced *ret_traced)
{
    struct children children = tree_own_children(tree);
    struct tree_process dead = {0}, tracer = {0};
    size_t end;
    pid_t pid;

    if (tree->spare || tree->more || children.cut)
        return false;
    for (end = children.size; (pid = tree_child_before(&children, &end));)
        if (!tree_is_other(tree, pid) &&
            (!tree_read_stat(dirfd(tree->proc), pid, &dead) || dead.alive))
            return false;
    if (!dead.pid)
        return false;
    *ret_traced = (struct tree_traced){.pid = dead.pid, .tracer = tree_tracer(tree, dead.pid)};
    if (ret_traced->tracer)
        (void)tree_read_stat(dirfd(tree->proc), ret_traced->tracer, &tracer);
    memcpy(ret_traced->command, dead.command, sizeof(dead.command));
    memcpy(ret_traced->tracer_command, tracer.command, sizeof(tracer.command));
    return true;
}

/* Our own children first, and of these the newest: they alone can leave another before they are found. What is below them may wait for
 * a look at which few are dead. */
static void tree_kill_children(const struct tree *tree)
{
    struct children children = tree_own_children(tree);
    pid_t pid, killed = 0;
    size_t end;

    for (end = children.size; (pid = tree_child_before(&children, &end));)
        if (!tree_is_spared(tree, pid))
            tree_kill_child(tree, pid, &killed);
    for (end = tree->more ? 0 : children.size; (pid = tree_child_before(&children, &end));)
        if (!tree_is_spared(tree, pid) && !tree_is_dead_child(pid))
            tree_kill_below(tree, pid, HUNT_DEPTH);
}

bool tree_hunt(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    const struct timespec pause = {.tv_nsec = HUNT_PAUSE_NS};

    for (int i = 0; i < HUNT_LOOKS; i++) {
        tree_kill_children(tree);
        /* Who is found among many dead has left another by then. */
        tree->more = true;
        for (int k = 0; k < HUNT_REAPS && tree->more; k++)
            if (tree_reap(tree, fn, arg))
                return true;
        if (!tree->more)
            nanosleep(&pause, NULL); /* they need CPU time to die */
    }
    return false;
}

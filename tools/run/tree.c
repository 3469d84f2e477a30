#include "tools/run/tree_internal.h"

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

#define FIRST_CAPACITY 1024
#define REAPED_AT_ONCE 64
#define HUNT_LOOKS     100
#define HUNT_REAPS     16 /* between two looks */
#define HUNT_DEPTH     8  /* generations of slow-dying processes, each with a child */
#define HUNT_PAUSE_NS  200000
#define BELOW_BYTES    4096
#define NEAR_NUMBERS   32768 /* a kernel's least; some milliseconds */
#define NEAR_LOOKS     4     /* generations: what one leaves becomes ours */

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

static bool tree_names_children(const struct tree *tree)
{
    char path[48];

    snprintf(path, sizeof(path), "%d/task/%d/children", (int)tree->root, (int)tree->root);
    return faccessat(dirfd(tree->proc), path, R_OK, 0) == 0;
}

static pid_t tree_pid_max(void)
{
    FILE *file = fopen("/proc/sys/kernel/pid_max", "re");
    char text[16] = "";
    long most = file && fgets(text, sizeof(text), file) ? strtol(text, NULL, 10) : 0;

    if (file)
        fclose(file);
    return most > 0 && most < INT_MAX ? (pid_t)most : INT_MAX;
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
    tree->names_children = tree_names_children(tree);
    tree->pid_max = tree_pid_max();
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

/* 0, or an errno. ESRCH: it is gone. A child of ours has its number until we reap it. */
static int tree_signal_process(const struct tree *tree, const struct tree_process *process,
                               int signal)
{
    struct tree_process again;
    int error = 0, fd;

    if (process->parent == tree->root)
        return kill(process->pid, signal) < 0 ? errno : 0;
    fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOSYS)
        return errno;
    /* With the pidfd the pid can no longer be reused; check that it was not reused before. */
    if (!tree_read_stat(dirfd(tree->proc), process->pid, &again) || again.start != process->start)
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

struct sending {
    struct tree *tree;
    int signal;
    struct tree_outcome outcome;
};

static void tree_send(const struct tree_process *process, void *arg)
{
    struct sending *sending = arg;
    const struct tree *tree = sending->tree;
    int signal = sending->signal, error = 0;

    if (!process->ours || !process->alive || process->pid == tree->spare)
        return;
    if (signal)
        error = tree_signal_process(tree, process, signal);
    if (signal && signal != SIGKILL)
        (void)tree_signal_process(tree, process, SIGCONT);
    if (error != ESRCH)
        tree_note(&sending->outcome, process, error);
}

/* (!) SIGKILL is sent to each as soon as it is found, since the next read may take its time. Other signals wait for all: a parent that ends
 * of one passes its children on, and each is to have it once. */
int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome)
{
    struct sending sending = {.tree = tree, .signal = signal};
    bool at_once = signal == SIGKILL;
    size_t count;
    bool found = tree_find(tree, at_once ? tree_send : NULL, &sending, &count);

    for (size_t i = 0; !at_once && i < count; i++)
        if (i == 0 || tree->processes[i].pid != tree->processes[i - 1].pid)
            tree_send(&tree->processes[i], &sending);
    if (found && ret_outcome)
        *ret_outcome = sending.outcome;
    return found ? 0 : -1;
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

void tree_kill_first(const struct tree *tree, pid_t child)
{
    pid_t killed = 0;

    if (child > 0 && tree_is_child(child))
        tree_kill_child(tree, child, &killed);
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
        (void)tree_signal_process(tree, &child, SIGKILL);
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

/* (!) Before anything is read, which another user can make slow: the group that the tree has made, and each child whose number is one of
 * the next after it, or after our own. Returns whether one was alive. */
static bool tree_kill_near(const struct tree *tree)
{
    pid_t pid = tree->group ? tree->group : tree->root, killed = 0;
    bool living = false;

    for (int i = 0; i < NEAR_NUMBERS; i++, pid = pid + 1 < tree->pid_max ? pid + 1 : 1) {
        if (!tree_is_child(pid) || tree_is_spared(tree, pid))
            continue;
        living = living || !tree_is_dead_child(pid);
        tree_kill_child(tree, pid, &killed);
    }
    return living;
}

bool tree_hunt(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    const struct timespec pause = {.tv_nsec = HUNT_PAUSE_NS};

    for (int i = 0; i < NEAR_LOOKS && tree_kill_near(tree); i++)
        if (tree_reap(tree, fn, arg))
            return true;
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

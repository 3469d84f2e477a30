#include "tools/run/tree_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/process.h"
#include "tools/run/timeline.h"

#define CHILDREN_BYTES 65536
#define LIST_BYTES     4096

/* --- one process ------------------------------------------------------------------------------- */

bool tree_read_stat(int proc, pid_t pid, struct tree_process *process)
{
    struct process_stat stat;

    if (process_stat(proc, pid, &stat) < 0)
        return false;
    *process = (struct tree_process){
        .pid = pid, .parent = stat.parent, .start = stat.start, .state = stat.state};
    memcpy(process->command, stat.command, sizeof(process->command));
    /* A leader that called pthread_exit() is shown as a zombie while its other threads run on. */
    process->threaded = stat.threads > 1;
    process->alive = (stat.state != 'Z' && stat.state != 'X') || process->threaded;
    return true;
}

bool tree_is_child(pid_t pid)
{
    return waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

bool tree_is_dead_child(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
           info.si_pid != 0;
}

bool tree_is_other(const struct tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->other_count; i++)
        if (tree->others[i] == pid)
            return true;
    return false;
}

/* --- what /proc lists -------------------------------------------------------------------------- */

/* 0: the entry is none's. */
static pid_t tree_pid_of(const char *entry)
{
    return isdigit((unsigned char)*entry) ? (pid_t)strtol(entry, NULL, 10) : 0;
}

/* Of the processes, from the first again after rewinddir(); 0: there are no more. */
static pid_t tree_next_process(const struct tree *tree)
{
    struct dirent *entry;
    pid_t pid;

    while ((entry = readdir(tree->proc)))
        if ((pid = tree_pid_of(entry->d_name)) > 0)
            return pid;
    return 0;
}

/* The list of the children that a thread has started or been given. */
static int tree_open_children(const struct tree *tree, pid_t pid, pid_t thread)
{
    char path[48];

    snprintf(path, sizeof(path), "%d/task/%d/children", (int)pid, (int)thread);
    return openat(dirfd(tree->proc), path, O_RDONLY | O_CLOEXEC);
}

/* --- children ---------------------------------------------------------------------------------- */

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

/* (!) Without a descriptor, which the job's user may have taken from us, and without CONFIG_PROC_CHILDREN: of each number that /proc
 * lists the kernel says whether it is a child of ours. Theirs become ours when they are killed. */
static void tree_find_children(const struct tree *tree, struct children *children)
{
    pid_t pid;

    rewinddir(tree->proc);
    while ((pid = tree_next_process(tree)))
        if (tree_is_child(pid))
            tree_add_child(children, pid);
}

bool tree_read_children(const struct tree *tree, pid_t parent, struct children *children)
{
    ssize_t got;
    int fd;

    children->text[0] = '\0';
    children->size = 0;
    children->cut = false;
    fd = tree_open_children(tree, parent, parent);
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

/* `text`: static, since it is large, and one thread kills. */
struct children tree_own_children(const struct tree *tree)
{
    static char text[CHILDREN_BYTES];
    struct children children = {.text = text, .room = sizeof(text)};

    (void)tree_read_children(tree, tree->root, &children);
    return children;
}

pid_t tree_child_before(const struct children *children, size_t *end)
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

/* --- all of the tree --------------------------------------------------------------------------- */

static int tree_by_pid(const void *a, const void *b)
{
    const struct tree_process *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

struct finding {
    struct tree *tree;
    size_t count;
    bool blind;
};

/* NULL without memory: the next search finds the rest. */
static struct tree_process *tree_make_room(struct finding *found)
{
    struct tree *tree = found->tree;
    struct tree_process *bigger;

    if (found->count < tree->capacity)
        return &tree->processes[found->count];
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): tree_init() made room. */
    bigger = realloc(tree->processes, 2 * tree->capacity * sizeof(*bigger));
    if (!bigger)
        return NULL;
    tree->processes = bigger;
    tree->capacity *= 2;
    return &bigger[found->count];
}

static void tree_sort(struct finding *found)
{
    if (found->count > 0)
        qsort(found->tree->processes, found->count, sizeof(*found->tree->processes), tree_by_pid);
}

/* The dead of ours are passed over. A child of ours that cannot be read is one all the same. */
static void tree_add(struct finding *found, pid_t parent, pid_t pid)
{
    struct tree *tree = found->tree;
    struct tree_process *process = tree_make_room(found);
    bool own = parent == tree->root;

    if (!process || (own && (tree_is_other(tree, pid) || tree_is_dead_child(pid))))
        return;
    if (tree_read_stat(dirfd(tree->proc), pid, process)) {
        if (process->parent !=
            parent) /* it has died, or its parent has: the next search finds it */
            return;
    } else if (own) {
        *process = (struct tree_process){.pid = pid,
                                         .parent = parent,
                                         .start = ULLONG_MAX,
                                         .state = '?',
                                         .alive = true,
                                         .command = "?"};
    } else {
        return;
    }
    process->ours = true;
    found->count++;
}

/* Of one thread. False: no such thread, or no descriptor. */
static bool tree_add_children_of(struct finding *found, pid_t parent, pid_t thread)
{
    char text[LIST_BYTES], *at, *end;
    size_t kept = 0;
    ssize_t got;
    int fd;

    fd = tree_open_children(found->tree, parent, thread);
    if (fd < 0)
        return false;
    while ((got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
        text[kept + (size_t)got] = '\0';
        for (at = text; (end = strchr(at, ' ')); at = end + 1)
            tree_add(found, parent, (pid_t)strtol(at, NULL, 10));
        kept = strlen(at);
        memmove(text, at, kept);
    }
    close(fd);
    return true;
}

/* Of each thread; no memory is asked for. */
static void tree_add_children(struct finding *found, pid_t parent, bool threaded)
{
    _Alignas(struct dirent64) char list[LIST_BYTES];
    const struct dirent64 *entry;
    char path[32];
    ssize_t got;
    pid_t thread;
    int fd = -1;

    if (threaded) {
        snprintf(path, sizeof(path), "%d/task", (int)parent);
        fd = openat(dirfd(found->tree->proc), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) {
        (void)tree_add_children_of(found, parent, parent);
        return;
    }
    while ((got = getdents64(fd, list, sizeof(list))) > 0)
        for (ssize_t at = 0; at < got; at += entry->d_reclen) {
            entry = (const void *)(list + at);
            if ((thread = tree_pid_of(entry->d_name)) > 0)
                (void)tree_add_children_of(found, parent, thread);
        }
    close(fd);
}

/* Down from this process. What its parent leaves meanwhile is a child of ours by the next time. */
static void tree_walk(struct finding *found, tree_found_fn *fn, void *arg)
{
    struct tree *tree = found->tree;

    if (!tree_add_children_of(found, tree->root, tree->root)) {
        struct children own = tree_own_children(tree);
        size_t end = own.size;
        pid_t pid;

        found->blind = true;
        while ((pid = tree_child_before(&own, &end)))
            tree_add(found, tree->root, pid);
    }
    for (size_t i = 0; i < found->count; i++) {
        struct tree_process process = tree->processes[i]; /* the array may move */

        /* (!) Each read may be held up: who must kill has no time for more. */
        if (fn || !tree->until_ns || timeline_now_ns() < tree->until_ns)
            tree_add_children(found, process.pid, process.threaded);
        if (fn)
            fn(&process, arg);
    }
}

/* --- where the kernel names no children (CONFIG_PROC_CHILDREN) --------------------------------- */

static struct tree_process *tree_with_pid(const struct finding *found, pid_t pid)
{
    struct tree_process key = {.pid = pid};

    return bsearch(&key, found->tree->processes, found->count, sizeof(key), tree_by_pid);
}

/* Marks the descendants of the root. A parent is older than its child: a younger "parent" has only
 * reused the pid of a dead one. */
static void tree_mark(struct finding *found)
{
    struct tree_process *processes = found->tree->processes;
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < found->count; i++) {
            struct tree_process *child = &processes[i], *parent;

            if (child->ours)
                continue;
            parent = tree_with_pid(found, child->parent);
            if (parent && parent->ours && parent->start <= child->start)
                more = child->ours = true;
        }
    }
}

/* Our children, whoever's they are, and all of the same user. (!) Others are not read: what a process of another user leaves becomes ours
 * when that one ends. */
static void tree_scan(struct finding *found)
{
    struct tree *tree = found->tree;
    uid_t user = geteuid();
    struct stat st;
    char path[16];
    pid_t pid;

    rewinddir(tree->proc);
    while ((pid = tree_next_process(tree))) {
        struct tree_process *process;

        if (pid == tree->root)
            continue;
        if (tree_is_child(pid)) {
            tree_add(found, tree->root, pid);
            continue;
        }
        process = tree_make_room(found);
        snprintf(path, sizeof(path), "%d", (int)pid);
        if (process && fstatat(dirfd(tree->proc), path, &st, 0) == 0 && st.st_uid == user &&
            tree_read_stat(dirfd(tree->proc), pid, process))
            found->count++;
    }
    tree_sort(found);
    tree_mark(found);
}

bool tree_find(struct tree *tree, tree_found_fn *fn, void *arg, size_t *ret_count)
{
    struct finding found = {.tree = tree};
    struct tree_process self;

    if (tree->names_children) {
        tree_walk(&found, fn, arg);
        tree_sort(&found);
    } else {
        tree_scan(&found);
        found.blind = !tree_read_stat(dirfd(tree->proc), tree->root, &self);
        for (size_t i = 0; fn && i < found.count; i++)
            if (tree->processes[i].ours)
                fn(&tree->processes[i], arg);
    }
    *ret_count = found.count;
    return !found.blind;
}

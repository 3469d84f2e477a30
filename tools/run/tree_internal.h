/* Who is in the tree: of which processes tree.c signals what. Private to the two.
 *
 * (!) Whoever reads a file of /proc/PID, or lists a directory, may be held up by another user: one who watches the directory (fcntl(2),
 * F_NOTIFY) has each reader send signals, as many as there are watches and receivers. So nothing is read here of processes that are not the
 * tree's own, and /proc is listed only where the kernel names no children.
 */
#ifndef HOLDFAST_TOOLS_RUN_TREE_INTERNAL_H
#define HOLDFAST_TOOLS_RUN_TREE_INTERNAL_H

#include "tools/run/tree.h"

struct tree_process {
    pid_t pid, parent;
    unsigned long long start; /* clock ticks since boot; ULLONG_MAX: not known */
    bool alive, ours;
    bool threaded; /* has more than one thread */
    char state;
    char command[16];
};

/* Of one process, the newest last. */
struct children {
    char *text;
    size_t room, size;
    bool cut; /* the first are left out: there are too many */
};

bool tree_read_stat(int proc, pid_t pid, struct tree_process *process);

bool tree_is_other(const struct tree *tree, pid_t pid);
/* Ours, alive or dead; no file is read. */
bool tree_is_child(pid_t pid);
/* Of ours, and not reaped yet. Where we get little of the processor there are thousands, and /proc takes ten times as long for each. */
bool tree_is_dead_child(pid_t pid);

/* False: there is no such process, or no descriptor to look with; of the root its children are found all the same. */
bool tree_read_children(const struct tree *tree, pid_t parent, struct children *children);
/* Of this process, until the next call. */
struct children tree_own_children(const struct tree *tree);
/* The pid that ends before `*end`, which moves back to its beginning; 0: there is none. */
pid_t tree_child_before(const struct children *children, size_t *end);

/* Called for a process of the tree once its children are known. */
typedef void tree_found_fn(const struct tree_process *process, void *arg);

/* Finds the living of the tree: those of `tree->processes` that are `ours`, by their numbers, some perhaps twice. False when /proc cannot
 * be read: they are our children, then. `fn`, if any, is called for each as soon as it is found; without one the search ends at
 * `tree->until_ns`. */
bool tree_find(struct tree *tree, tree_found_fn *fn, void *arg, size_t *ret_count);

#endif

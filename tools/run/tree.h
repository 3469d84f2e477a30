/* Finds all descendants of this process in /proc, signals and reaps them.
 *
 * The process must be a child subreaper: then every descendant is below one of its children, even
 * after a double fork or setsid(), and "no children left" means "no descendant left". Only that
 * proves that a tree is gone. /proc does not: a scan is not atomic and may miss a process that is
 * just getting a new parent; the next scan finds it. A process is signalled through a pidfd after
 * its start time was compared, so a reused pid is never hit. Not thread-safe.
 */
#ifndef HOLDFAST_TOOLS_RUN_TREE_H
#define HOLDFAST_TOOLS_RUN_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tree_process;

struct tree {
    pid_t root;  /* this process */
    pid_t spare; /* a child that is not signalled, while its descendants are; 0 none */
    DIR *proc;
    struct tree_process *processes; /* kept between scans, so that killing needs no new memory */
    size_t capacity;
};

#define TREE_SOME 4

struct tree_outcome {
    unsigned living; /* living descendants (without the spare one) */
    struct {
        pid_t pid;
        char command[16];
    } some[TREE_SOME]; /* the first of them */
    pid_t stubborn;    /* a living one, for messages; 0 none */
    int error;         /* errno of signalling it, 0 when the signal was sent */
    char command[16];
};

/* Makes this process a subreaper. 0, or -1 with errno. */
int tree_init(struct tree *tree, pid_t spare);
void tree_free(struct tree *tree);

/* Sends `signal` (0: only counts) to every living descendant. 0, or -1 with errno when /proc cannot
 * be read. */
int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome);

/* Called by tree_reap() for one child. */
typedef void tree_reaped_fn(pid_t pid, int status, void *arg);

/* Reaps the dead and reports each, also stops and continuations; never blocks. Returns true when no
 * child is left: the tree is empty. */
bool tree_reap(tree_reaped_fn *fn, void *arg);

/* Kills and reaps our children, and theirs, in many passes of some microseconds each, for 30 ms or
 * until the tree is empty. A scan is too slow for processes that live for milliseconds and leave a
 * child each; when their parent ends such children become ours. Returns whether the tree is empty. */
bool tree_hunt(const struct tree *tree, tree_reaped_fn *fn, void *arg);

#endif

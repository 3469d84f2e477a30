/* Finds all descendants of this process in /proc, signals and reaps them.
 *
 * The process must be a child subreaper: then every descendant is below one of its children, even
 * after a double fork or setsid(), and "no children left" means "no descendant left". Only that
 * proves that a tree is gone. /proc does not: a scan is not atomic and may miss a process that is
 * just getting a new parent; the next scan finds it. A child of ours is signalled by its number, which is
 * its own until we reap it, and another process through a pidfd after its start time was compared, so a reused pid is never hit.
 * Not thread-safe.
 */
#ifndef HOLDFAST_TOOLS_RUN_TREE_H
#define HOLDFAST_TOOLS_RUN_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process;

struct tree {
    pid_t root;    /* this process */
    pid_t session; /* its session at the time of tree_init() */
    pid_t spare;   /* a child that is not signalled, while its descendants are; 0 none */
    pid_t group;   /* a process group that a process of the tree has made in that session; 0 none */
    pid_t *others; /* children that are no part of the tree, nor are their descendants */
    size_t other_count;
    bool more; /* the last reaping left some of the dead */
    /* A search for anything but SIGKILL reads no more from then on (timeline_now_ns()), and goes by what it has found; 0: it has no end. */
    int64_t until_ns;
    bool names_children; /* the kernel does (CONFIG_PROC_CHILDREN) */
    pid_t pid_max;       /* no number is as high */
    DIR *proc;
    struct tree_process *processes; /* kept between searches, so that killing needs no new memory */
    size_t capacity;
};

#define TREE_SOME 4

struct tree_outcome {
    unsigned living; /* living descendants (without the spare one) */
    struct {
        pid_t pid;
        char command[16];
    } some[TREE_SOME]; /* the first of them */
    /* One of them, for messages: one that may not be signalled, else the oldest. `pid` 0: none. */
    struct {
        pid_t pid;
        unsigned long long start;
        char state; /* as in /proc/PID/stat */
        int error;  /* errno of signalling it, 0 when the signal was sent */
        char command[16];
    } stubborn;
};

/* Makes this process a subreaper. 0, or -1 with errno; ESRCH: /proc is that of another PID namespace, and does not show what this process
 * starts. */
int tree_init(struct tree *tree, pid_t spare);
void tree_free(struct tree *tree);

/* Leaves the children that this process has now out of the tree for good: they are its caller's. 0, or -1 with errno. */
int tree_leave_alone(struct tree *tree);

/* Sends `signal` (0: only counts) to every living descendant, and has those that are stopped go on, so that they can act on it. 0, or -1
 * with errno when /proc cannot be read. */
int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome);

/* Called by tree_reap() for one child of the tree. */
typedef void tree_reaped_fn(pid_t pid, int status, void *arg);

/* Reaps some of the dead and reports each, also stops and continuations; never blocks. Returns true when no child is left: the tree is
 * empty. */
bool tree_reap(struct tree *tree, tree_reaped_fn *fn, void *arg);

struct tree_traced {
    pid_t pid, tracer; /* tracer 0: it is in another PID namespace */
    char command[16], tracer_command[16];
};

/* Who traces that process (ptrace); 0: nobody, or nobody in sight. */
pid_t tree_tracer(const struct tree *tree, pid_t pid);
/* Whether every child that is left is dead, but not ours to reap, since another process traces it. Tells one of them. */
bool tree_is_traced(const struct tree *tree, struct tree_traced *ret_traced);

/* Kills that process, with its group if that is the tree's, where it is a child of ours. (!) Needs no memory of the kernel's: in a full
 * control group it has none, and before it says so others die for it. */
void tree_kill_first(const struct tree *tree, pid_t child);

/* Kills and reaps our children, and theirs, in some hundred looks, or until the tree is empty. A scan is too slow for processes that live
 * for milliseconds and leave a child each; when their parent ends such children become ours. Returns whether the tree is empty. */
bool tree_hunt(struct tree *tree, tree_reaped_fn *fn, void *arg);

#endif

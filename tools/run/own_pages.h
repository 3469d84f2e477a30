/* Program and libraries in memory that nothing can take away. */
#ifndef HOLDFAST_TOOLS_RUN_OWN_PAGES_H
#define HOLDFAST_TOOLS_RUN_OWN_PAGES_H

#include <stdbool.h>

/* Has the kernel keep all code and data, and the stack (mlock, 3 MiB, of which processes of one program share most). (!) From then
 * on the process waits for no page of its own: neither for a file system that hangs, in an outage of the network say, nor for room
 * in a control group that the job has filled. Where the limit on locked memory (`ulimit -l`) is too low for that, code and data
 * are moved from their files into memory (2.6 MiB of the process's own), which a process needs to be alone for: no second thread.
 * A forked process asks for itself. Builds with a sanitizer do nothing. */
void own_pages(void);
/* Whether this process is in a memory control group (v1) that has no OOM killer, by the files `groups` (/proc/self/cgroup) and
 * those below `root` (the hierarchy's mount): whoever fills it has the others wait for the first page that they touch. Where that
 * cannot be read, it is true. */
bool own_pages_at_once(const char *groups, const char *root);
#define OWN_PAGES_GROUPS "/proc/self/cgroup"
#define OWN_PAGES_ROOT   "/sys/fs/cgroup/memory"

#endif

/* Program and libraries in memory of the process's own. */
#ifndef HOLDFAST_TOOLS_RUN_OWN_PAGES_H
#define HOLDFAST_TOOLS_RUN_OWN_PAGES_H

/* Moves what is mapped from files, code and data, into memory, at the same addresses (2.6 MiB for this command). (!) From then
 * on no page comes from a file system: where one hangs, an outage of the network say, or has another file in its place, a
 * process that waits for a page of its own code neither kills its job nor ends its output. Forked processes share the memory.
 * Only before a second thread. 0, or -1 with errno. Builds with a sanitizer do nothing. */
int own_pages(void);

/* Has the kernel keep them, and the stack, where the limit on locked memory allows it (3 MiB): a control group that the job has
 * filled can then neither move them to swap space nor keep the process waiting for a page. A forked process asks again;
 * own_pages() has asked. */
void own_pages_keep(void);

#endif

/* A child that writes what this process and its forks say, where a write may block: to a file, whose file system may hang, and to a pipe
 * or terminal of another user, which cannot be opened anew without blocking. Whoever sends to it never waits: what it has no room for is
 * lost. It ends when all who may send have ended, and some seconds after its parent at the latest. */
#ifndef HOLDFAST_TOOLS_RUN_WRITER_H
#define HOLDFAST_TOOLS_RUN_WRITER_H

/* Starts a child that writes to `fd`. A socket for send(), one line each; or -1. */
int writer_begin(int fd);

/* Waits until it has written all, for `most_ms` at most. */
void writer_flush(int link_fd, int most_ms);

#endif

/* Files that somebody names: the configuration, and secrets and certificates in it. Any thread. */
#ifndef HOLDFAST_AGENT_BASE_GIVEN_FILE_H
#define HOLDFAST_AGENT_BASE_GIVEN_FILE_H

#include <stddef.h>
#include <sys/stat.h>

/* Opens a regular file for reading, and returns its descriptor; HF_ESYS with errno; HF_EINVAL: it is no regular one. (!) It never
 * waits, and there is an end: a pipe would make a reload wait for its writer, and a device may have no end. */
int given_file_try(const char *path, struct stat *ret_status);
/* The same; HF_EINVAL with a sentence in `why`. */
int given_file_open(const char *path, struct stat *ret_status, char *why, size_t why_size);
/* Reading it has failed, for `error`, an errno: says so in `why`. Returns HF_EINVAL. */
int given_file_unread(const char *path, int error, char *why, size_t why_size);

#endif

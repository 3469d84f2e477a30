/* Files that settings name: secrets, certificates. Any thread. */
#ifndef HOLDFAST_AGENT_BASE_GIVEN_FILE_H
#define HOLDFAST_AGENT_BASE_GIVEN_FILE_H

#include <stddef.h>
#include <sys/stat.h>

/* Opens a regular file for reading, and returns its descriptor; HF_EINVAL with a sentence in `why`. (!) It never waits: a pipe
 * would make a reload wait for its writer. */
int given_file_open(const char *path, struct stat *ret_status, char *why, size_t why_size);
/* Reading it has failed, for `error`, an errno: says so in `why`. Returns HF_EINVAL. */
int given_file_unread(const char *path, int error, char *why, size_t why_size);

#endif

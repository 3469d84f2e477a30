/* A file for node_exporter's textfile collector, which reads every *.prom of its directory at any moment. */
#ifndef HOLDFAST_TOOLS_SHOW_TEXTFILE_H
#define HOLDFAST_TOOLS_SHOW_TEXTFILE_H

#include <stddef.h>

#define TEXTFILE_SUFFIX ".prom"

/* Where the text goes: `path` itself, or holdfast-AGENT.prom below it if it is a directory. EXIT_OK, or EXIT_USAGE with
 * a sentence in `why`: the collector would not read that name. */
int textfile_path(const char *path, const char *agent, char *ret_path, size_t size, char *why,
                  size_t why_size);

/* Replaces the file by the text, with mode 0644, by a new one beside it that is renamed: whoever reads sees the one or the
 * other as a whole. EXIT_OK; EXIT_DENIED, EXIT_FAILED with a sentence in `why`, and the file is as it was. */
int textfile_write(const char *path, const char *text, size_t length, char *why, size_t why_size);

#endif

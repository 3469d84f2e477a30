/* Files beside the configuration that hold secrets. Read at the start and at each reload. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_SECRETS_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_PATH_MAX 4096

/* Where a setting's file is: an absolute path is itself; any other is the name of a credential of the service
 * (LoadCredential= in its unit). HF_EINVAL, with a sentence in `why`: there are no credentials here. */
int secret_path(const char *given, char ret_path[SECRET_PATH_MAX], char *why, size_t why_size);

/* Reads a file with one line into `ret_line`, without its end. HF_EINVAL, with a sentence in `why` that never shows
 * what is in the file. `ret_public`: every user can read it. */
int secret_read_line(const char *path, char *ret_line, size_t size, bool *ret_public, char *why,
                     size_t why_size);

struct config_load;
/* Fills in the passwords of the nodes that have them in files. Faults are added to the report. */
void config_read_passwords(struct config_load *load);

#endif

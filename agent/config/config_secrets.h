/* Files beside the configuration that hold secrets. Read at the start and at each reload. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_SECRETS_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_SECRETS_H

#include <stddef.h>

struct config;
struct config_load;
struct tls_keys;

#define SECRET_PATH_MAX 4096
/* Where a setting's file is: an absolute path is itself; any other is the name of a credential of the service
 * (LoadCredential= in its unit). HF_EINVAL, with a sentence in `why`: there are no credentials here. */
int secret_path(const char *given, char ret_path[SECRET_PATH_MAX], char *why, size_t why_size);

/* The certificates and the key as their files have them now; NULL where nothing is set. HF_OK, HF_EINVAL, HF_ENOMEM, with
 * a sentence in `why` that names setting and file. */
int config_tls_keys(const struct config *config, struct tls_keys **ret_keys, char *why,
                    size_t why_size);
/* From now on all connections use them. As above. */
int config_use_tls(const struct config *config, char *why, size_t why_size);
/* Judges these settings, as a part of reading the configuration. Faults are added to the report. */
void config_read_tls(struct config_load *load);

/* Fills in the passwords of the nodes that have them in files. Faults are added to the report. */
void config_read_passwords(struct config_load *load);

#endif

/* Files beside the configuration that hold secrets. Read at the start and at each reload. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_SECRETS_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_SECRETS_H

struct config_load;
/* Fills in the passwords of the nodes that have them in files. Faults are added to the report. */
void config_read_passwords(struct config_load *load);

#endif

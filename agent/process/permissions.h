/* Who may use the agent's files after a reload: `group` and `table_mode` of directory, attach socket and
 * table. Main thread. */
#ifndef HOLDFAST_AGENT_PROCESS_PERMISSIONS_H
#define HOLDFAST_AGENT_PROCESS_PERMISSIONS_H

#include <stddef.h>

struct agent;
struct config;

/* From one configuration to another. HF_ESYS, with a sentence in `why`: all is as before. */
int permissions_change(const struct agent *agent, const struct config *before,
                       const struct config *after, char *why, size_t why_size);

#endif

/* One agent of a name: its directory, and the lock that is taken before
 * journal and socket are opened. */
#ifndef HOLDFAST_AGENT_PROCESS_SINGLETON_H
#define HOLDFAST_AGENT_PROCESS_SINGLETON_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/config/config.h"

struct singleton {
    char base[512], dir[600]; /* RUNTIME, RUNTIME/NAME */
    bool made_base;           /* RUNTIME was missing */
    bool found;               /* the lock's file was there, and perhaps leases with it */
    int lock_fd;
};

/* Makes RUNTIME and RUNTIME/NAME where they are missing (0755 for an agent that serves others,
 * else 0700), refuses those that others own or may write to, and locks RUNTIME/NAME/lock. HF_EBUSY:
 * another agent has it, `why` names its pid; HF_EPERM, HF_ESYS. The lock ends with the
 * process and its children, however they end; F_OFD_GETLK shows it to readers. */
int singleton_take(const struct config *config, struct singleton *ret_singleton, char *why,
                   size_t why_size);

/* Whether singleton_take() would refuse RUNTIME and RUNTIME/NAME, which goes into `ret_dir`; nothing is made or
 * locked. HF_OK also where they are missing. */
int singleton_dry_run(const struct config *config, char ret_dir[600], char *why, size_t why_size);

/* Drops the lock. `remove`: nothing stays for a next agent, so the lock file, both sockets and (empty)
 * directories that were made are removed, too. (!) Otherwise they keep their room and inodes: the next agent needs them, and a full
 * file system would not give them back. Nobody listens on such a socket (ECONNREFUSED). */
void singleton_release(struct singleton *singleton, bool remove);

/* Who may use the agent's files after a reload: `group` and `table_mode` of directory, attach socket and
 * table. Main thread. */

struct agent;
struct config;

/* From one configuration to another. HF_ESYS, with a sentence in `why`: all is as before. */
int permissions_change(const struct agent *agent, const struct config *before,
                       const struct config *after, char *why, size_t why_size);

#endif

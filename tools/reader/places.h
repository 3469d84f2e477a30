/* Where an agent of a given name can be: its table, and its runtime directory. The library
 * looks for the socket in the same bases (libclient/hello.c). */
#ifndef HOLDFAST_TOOLS_READER_PLACES_H
#define HOLDFAST_TOOLS_READER_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "shm/bases.h"
#include "shm/table.h"

#define PLACES_MAX HF_BASES_MAX

struct place {
    char agent[HF_AGENT_NAME_MAX + 1];
    char base[HF_BASE_SIZE];     /* the parent of the agents' runtime directories */
    char dir[HF_BASE_SIZE + 64]; /* this one's, with sock, lock and journal */
    char shm_name[HF_TABLE_NAME_MAX];
    uid_t owner; /* of the table */
};

/* In the order in which they are tried: the user's own agent, then the system's; the user's alone where its directory is
 * there (shm/bases.h). `agent` is a NAME, a path of an attach socket (with '/'), or NULL for $HOLDFAST_AGENT, else
 * "default"; $HOLDFAST_RUNTIME_DIR/NAME alone where that is set. Returns how many, at least 1, or HF_EINVAL
 * with a sentence in `why`. */
int places_find(const char *agent, struct place ret_places[PLACES_MAX], char *why, size_t why_size);

/* The place of one agent below one base. HF_OK, or HF_EINVAL: no agent has such a name. */
int places_make(struct place *ret_place, const char *base, bool system, uid_t owner,
                const char *agent);

/* Reads the name of an object in /dev/shm, "holdfast.NAME" or "holdfast-UID.NAME". Whose it is by that: the system's (or
 * root's), or the user's `ret_uid`; `ret_agent` points into `object`. False: no table has such a name. */
bool places_of_table(const char *object, bool *ret_system, uid_t *ret_uid, const char **ret_agent);

/* The pid that DIR/lock names, when the agent's lock is on that file and a living process of the directory's owner has that pid;
 * else 0. (!) A file of that name alone is no agent: its owner can write anything into it. */
pid_t places_locked_by(const struct place *place);

#endif

/* Where agents can be: BASE/NAME is an agent's runtime directory, with its attach socket.
 *
 *   $HOLDFAST_RUNTIME_DIR       the only base if it is set: private agents and tests
 *   $XDG_RUNTIME_DIR/holdfast   the user's own; /run/user/UID/holdfast if it is not set (cron), or another user's (su)
 *   /run/holdfast               the system's
 */
#ifndef HOLDFAST_SHM_BASES_H
#define HOLDFAST_SHM_BASES_H

#include <stdbool.h>
#include <sys/types.h>

#define HF_BASES_MAX     2
#define HF_BASE_SIZE     512
#define HF_SYSTEM_BASE   "/run/holdfast"
#define HF_DEFAULT_AGENT "default"

struct hf_base {
    char dir[HF_BASE_SIZE];
    bool system, alone; /* the host's; of $HOLDFAST_RUNTIME_DIR, beside which there is none */
    uid_t owner;        /* of the agents there, and of their tables */
};

/* `agent`, or $HOLDFAST_AGENT, or "default". */
const char *hf_agent_or_default(const char *agent);

/* The directory of the user's own files of this boot, for $XDG_RUNTIME_DIR, in which only a directory of the caller's user counts. NULL:
 * root has none. The result may be `room`, and need not exist. */
#define HF_USER_DIR_SIZE 32
const char *hf_user_dir(char room[HF_USER_DIR_SIZE]);

/* The bases in the order in which they are tried. Returns how many, at least 1, or HF_EINVAL: a
 * path is too long. */
int hf_bases(struct hf_base ret_bases[HF_BASES_MAX]);

/* The same for the agent of this name. (!) Where the user's own directory of it is there, it is the only one: an agent that is
 * away for a moment (a restart) is not to be mistaken for the system's of that name, whose locks are others. */
int hf_bases_of(const char *agent, struct hf_base ret_bases[HF_BASES_MAX]);

/* Whether a path of the caller's, with '/', is below the system's base, and the owner of agents
 * there. */
bool hf_path_is_system(const char *path);
uid_t hf_system_owner(void);

#endif

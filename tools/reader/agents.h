/* Which agents are on this host: by their tables in /dev/shm, and by the directories in which they hold their locks.
 * With $HOLDFAST_RUNTIME_DIR those of that directory alone. One thread. */
#ifndef HOLDFAST_TOOLS_READER_AGENTS_H
#define HOLDFAST_TOOLS_READER_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/table_notes.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"

/* What other users may add to the list of agents: whoever fills /dev/shm or a runtime directory neither holds up the list nor
 * makes it long. The caller, root and the system's user have no limit. */

#define AGENTS_ROWS_MOST  64   /* of one other user */
#define AGENTS_LOOKS_MOST 1024 /* at directories of one other user, whatever is there */
/* Of all of them: a user may have thousands of subordinate uids. */
#define AGENTS_ROWS_OF_ALL  4096
#define AGENTS_LOOKS_OF_ALL 16384

struct agents_user {
    struct agents_user *next;
    uid_t uid;
    unsigned rows, looks;
    size_t left; /* out */
};

struct agents_share {
    uid_t own, systems;
    struct agents_user *first;
    void *by_uid; /* tsearch(3) */
    unsigned rows, looks;
    size_t left; /* out, of users who came after too many others */
};

void agents_share_begin(struct agents_share *share);

/* Whether one directory more of that user may be looked at, or one row more be made; counted if so. */
bool agents_share_look(struct agents_share *share, uid_t uid);
bool agents_share_row(struct agents_share *share, uid_t uid);
/* What may not is left out. */
void agents_share_leave(struct agents_share *share, uid_t uid);

void agents_share_free(struct agents_share *share);

enum agents_state {
    AGENTS_UNREADABLE, /* its table is there, and `why` says why it cannot be read */
    AGENTS_READ,       /* `life` says more, and all the rest below is known */
    AGENTS_NO_TABLE,   /* its lock is held, and no table of it is in this /dev/shm */
};

struct agents_one {
    struct place place; /* `dir` and `base` are empty if its directory is not known */
    bool
        system; /* its table has the name of a system's agent, and belongs to root or the owner of /run/holdfast */
    enum agents_state state;
    char why[READER_WHY_SIZE];
    pid_t pid; /* 0: not known */
    struct life life;
    struct reader_counts counts;
    struct hf_table_terms terms;
    uint32_t voting, flags;
    uint64_t waiters, clients;
    struct hf_drained drained;
    struct hf_last_words words; /* `wall_ms` 0: none */
    char version[sizeof(((struct reader *)0)->version)], host[sizeof(((struct reader *)0)->host)];
};

struct agents {
    struct agents_one *items;
    size_t count, room;
    struct agents_share share; /* what is left out, of whom */
};

/* By name, then by owner. Ends the program if memory runs out. HF_OK; HF_EINVAL: a path of the environment is too long. May
 * sleep once, see life_wait(). */
int agents_find(struct agents *ret_agents);
void agents_free(struct agents *agents);

/* "alive", "hung", "dead", "ended", "unreadable", "no_table". */
const char *agents_state_name(const struct agents_one *agent);

#endif

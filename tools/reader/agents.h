/* Which agents are on this host: by their tables in /dev/shm, and by the directories in which they hold their locks.
 * With $HOLDFAST_RUNTIME_DIR those of that directory alone. One thread. */
#ifndef HOLDFAST_TOOLS_READER_AGENTS_H
#define HOLDFAST_TOOLS_READER_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/drained.h"
#include "shm/last_words.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"

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
};

/* By name, then by owner. Ends the program if memory runs out. HF_OK; HF_EINVAL: a path of the environment is too long. May
 * sleep, see life_judge(). */
int agents_find(struct agents *ret_agents);
void agents_free(struct agents *agents);

/* "alive", "hung", "dead", "ended", "unreadable", "no_table". */
const char *agents_state_name(const struct agents_one *agent);

#endif

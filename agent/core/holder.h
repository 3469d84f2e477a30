/* Who holds a lock, or wants one: a process, and what its request says. One copy goes whole from the waiter to its
 * round, to a hand-off and to the journal, whose record it is. It has no pointers. */
#ifndef HOLDFAST_AGENT_CORE_HOLDER_H
#define HOLDFAST_AGENT_CORE_HOLDER_H

#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

struct holder {
    uint32_t pid, uid;
    uint64_t birth;       /* which process of that pid: hf_process_birth(), or its start time */
    uint64_t pidns_inode; /* of the agent: pids mean nothing elsewhere */
    uint64_t cookie_hash; /* of the client's resume cookie */
    uint64_t request_id;  /* the client's own number of the acquire: a resend is the same request */
    hf_time since;        /* when it was granted; before that, when its round began */
    hf_wall since_wall;
    uint32_t max_hold_ms, heartbeat_ms, beat_word; /* 0: none */
    uint8_t note_len, comm_len;
    uint8_t is_job; /* 1: a job with guardians, which ends before V */
    char note[HF_NOTE_MAX + 1], comm[HF_COMM_MAX + 1]; /* end with NUL */
};

#endif

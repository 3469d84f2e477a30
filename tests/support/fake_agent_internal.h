/* What the two halves of the fake agent share: the one with the locks, and
 * the one with the clients. */
#ifndef HOLDFAST_TESTS_FAKE_AGENT_INTERNAL_H
#define HOLDFAST_TESTS_FAKE_AGENT_INTERNAL_H

#include "tests/support/fake_agent.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/ring.h"
#include "shm/table.h"
#include "shm/wire.h"

#define CLIENTS 16
#define LEASES  256
#define WAITERS 256
#define FOREIGN 8

/* A test's rig that does not stand is no test result. */
#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "fake agent: %s:%d: %s: %s\n", __FILE__, __LINE__, #x,                 \
                    strerror(errno));                                                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct attached {
    bool used, welcomed;
    int sock;
    struct hf_ring_agent ring;
    struct ucred peer;
    struct hf_hello hello;
    uint8_t cookie[HF_COOKIE_LEN];
};

struct held {
    bool used, is_job, frozen; /* frozen: LOSING, V stays */
    uint32_t generation, ttl_ms, text_off;
    uint8_t comm_len;
    uint64_t fence;
    int64_t deadline_ns;
    uint8_t cookie[HF_COOKIE_LEN];
    struct hf_request_entry request; /* its name */
};

struct waiting {
    bool used;
    int client;
    uint64_t number; /* first come, first served */
    struct hf_request_entry request;
};

struct fake_agent {
    struct fake_agent *next; /* of those that live */
    pthread_mutex_t lock;
    pthread_t thread;
    bool running, frozen, renewing, saw_reaped;
    struct fake_agent_options options;
    char dir[64], name[32], path[108], shm_name[HF_TABLE_NAME_MAX];
    int listener;
    struct hf_table table;
    struct hf_text_pool *text;
    uint32_t generation[LEASES];
    uint64_t last_fence, last_number;
    int once_status;
    int64_t once_until_ns;
    unsigned once_asked;
    uint64_t once_asker; /* of the last request */
    struct attached clients[CLIENTS];
    struct held leases[LEASES];
    struct waiting waiters[WAITERS];
    char foreign[FOREIGN][64];
};

/* --- fake_locks.c: all under the agent's lock ------------------------------------------------- */

void fake_table_make(struct fake_agent *agent);
void fake_table_drop(struct fake_agent *agent);
void fake_handle(struct fake_agent *agent, int client, const struct hf_request_entry *request);
void fake_end_lease(struct fake_agent *agent, struct held *lease, enum hf_slot_state state,
                    enum hf_loss_reason reason);
/* Renews what is to be renewed, and ends what is over. */
void fake_renew(struct fake_agent *agent);
void fake_serve_waiters(struct fake_agent *agent);

#endif

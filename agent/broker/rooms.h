/* The broker and its rooms. Private to broker.c and to tests that look inside. */
#ifndef HOLDFAST_AGENT_BROKER_ROOMS_H
#define HOLDFAST_AGENT_BROKER_ROOMS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/base/loop.h"
#include "agent/base/thread.h"
#include "shm/nstime.h"
#include "shm/wire.h"

struct agent;
struct clients;
struct groups;
struct locks;
struct nodes;
struct queries;
struct resolver;

struct broker {
    struct agent *agent;
    struct loop *loop;
    struct resolver *resolver;
    /* The rooms, from the bottom up. */
    struct nodes *nodes;
    struct clients *clients;
    struct locks *locks;
    struct groups *groups;
    struct queries *queries;

    pthread_t thread;
    _Atomic pid_t tid; /* of that thread while it runs; else 0 */
    bool thread_started;
    struct loop_timer beat;

    bool going;
    hf_time going_until, releases_until;
    struct loop_timer going_timer;

    /* shared with main */
    _Atomic bool ready;
    struct mutex why_lock;
    char why[200]; /* under why_lock; clang 14 takes no GUARDED_BY on a sibling member in C */
};

/* Sends each request to the room that answers it. Called in the broker's thread. */

struct locks;
struct queries;
struct session;

/* A request, copied out of the ring, with a place for its answer reserved. The request may free `s`. */
void dispatch_request(struct locks *locks, struct queries *queries, struct session *s,
                      const struct hf_request_entry *q) IN_BROKER_THREAD;

#endif

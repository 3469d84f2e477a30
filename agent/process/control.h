/* The control socket RUNTIME/NAME/control (0600, stream): one line of request, an answer
 * in text, end. Main thread.
 *
 *   fleet      the fleet's record, and what each node says of it (agent/process/fleet_wishes.h)
 *   rules      the rules in force, as files have them
 *   reload     reads the configuration again; the answer comes when that is over: "reloaded: " and what
 *              changed
 *   fleet-change ...  an operator's change of the fleet; the answer comes when it is begun or refused
 *              (agent/process/fleet_wishes.h)
 * An answer that begins with "error: " is an error. Never blocks: a peer that does not read or write for
 * two seconds is dropped. */
#ifndef HOLDFAST_AGENT_PROCESS_CONTROL_H
#define HOLDFAST_AGENT_PROCESS_CONTROL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/thread.h"
#include "shm/nstime.h"

#define CONTROL_PEERS 8

struct agent;
struct fleet_wishes;
struct reload;

struct control_peer {
    int fd; /* -1: free */
    hf_time until;
    bool later;         /* its request is taken after the agent has started again */
    char request[2048]; /* an id and an address, each byte escaped, and more */
    size_t request_length;
    uint64_t reload; /* waits for that one; 0: for none */
    uint64_t wish;   /* likewise, for a change of the fleet */
    char *answer;    /* being written */
    size_t answer_length, written;
};

struct control {
    struct agent *agent;
    struct reload *reload;
    struct fleet_wishes *wishes;
    int listener; /* 0: none */
    struct control_peer peers[CONTROL_PEERS];
};

/* One that was made by control_pause() is taken up, with those who wait; any other one is zeroed before.
 * HF_ESYS with errno; HF_ENOMEM: it is as it was. */
int control_open(struct control *control, struct agent *agent, const char *dir,
                 struct reload *reload) IN_MAIN_THREAD;
/* After the broker thread has ended. */
void control_close(struct control *control) IN_MAIN_THREAD;
/* The same for an agent that starts again in this process: the socket stays, and who connects or asks meanwhile waits. */
void control_pause(struct control *control) IN_MAIN_THREAD;
/* For a start that failed before control_open(); one that is zeroed or closed is fine. */
void control_drop(struct control *control) BEFORE_OR_AFTER_THREADS;

/* The agent that serves DIR/control; 0: none does. Any process. */
pid_t control_find(const char *dir);

/* For poll(): fills in at most 1 + CONTROL_PEERS entries and returns how many; then
 * serve with the same array. */
#define CONTROL_POLLS (1 + CONTROL_PEERS)
size_t control_poll(const struct control *control, struct pollfd *polls);
void control_serve(struct control *control, const struct pollfd *polls, size_t count,
                   hf_time now) IN_MAIN_THREAD;

#endif

/* The connections of attached processes, with their rings. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_SESSIONS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/base/thread.h"
#include "agent/broker/clients/answers.h"
#include "agent/broker/clients/clients.h"
#include "agent/core/rules.h"
#include "agent/state/lease.h"
#include "shm/ring.h"

struct kept;
struct query;
struct listing;
struct user;
struct waiter;

LIST_HEAD(query_list, query);

/* One attached connection: at most four descriptors (socket, pidfd, and both of `kept`). */
struct session {
    LIST_ENTRY(session) of_client;
    TAILQ_ENTRY(session) active; /* has requests to take */
    TAILQ_ENTRY(session) woken;  /* with `wakes` */
    LIST_ENTRY(session) all;
    struct client *client; /* NULL until the hello */
    struct clients *clients;
    struct loop_fd socket, process;
    bool process_certain; /* the kernel itself gave the pidfd of the process that connected */
    struct loop_timer hello_timer;
    bool is_active, closing;
    bool unheard;   /* its bells are not read: its user is tolled */
    bool admitted;  /* its client has allocated the rings: (!) nothing of them is touched before */
    uint32_t nudge; /* enum hf_nudge, as its hello has it */
    bool guardian, gave_group; /* by its hello; its one later datagram came */
    bool wakes, is_tolled;     /* its client is to be woken; at a later sweep */
    hf_time lively_until;      /* it asked or was answered: polled without its bell */
    uint32_t pid, uid;
    uint64_t birth;       /* of its process, once it said hello: as in struct holder */
    struct caller caller; /* the same user, with its groups */
    unsigned rules_read;  /* `rules_read` of the clients, when its groups were looked at */
    struct user *user;
    struct hf_ring_agent ring;
    struct kept *kept;   /* its memory; NULL once it is admitted, if its client may keep that */
    struct beats *beats; /* the page in which its program beats; NULL until it is admitted */
    struct answers answers;
    LIST_HEAD(, waiter) waiters;
    struct query_list queries;
    LIST_HEAD(, listing) listings;
    LIST_HEAD(, inquiry) inquiries;
};

/* Makes the clients, too. HF_ENOMEM, HF_ESYS with errno. */
int sessions_create(struct agent *agent, struct loop *loop, const struct clients_owner *owner,
                    struct clients **ret_clients);
/* Listens on agent->socket_path. HF_ESYS with errno. */
int sessions_listen(struct clients *clients);
/* In the broker's thread. */
void sessions_start(struct clients *clients) IN_BROKER_THREAD;
void sessions_destroy(struct clients *clients);
/* Takes requests of active sessions, a bounded number each; true when some are left. */
bool sessions_serve(struct clients *clients) IN_BROKER_THREAD;
/* Last in a turn, after what it wrote has left: wakes the clients that were answered, or whose leases changed. Where
 * there was nothing to do but to look for requests, others may have the processor. */
void sessions_wake(struct clients *clients) IN_BROKER_THREAD;
/* Answers request `id`. Without room in the ring the answer waits until the client has read some. */
void session_answer(struct session *s, const struct hf_completion_entry *answer) IN_BROKER_THREAD;
/* A completion that comes before the answer to a request. HF_ENOMEM: it was not sent. */
int session_item(struct session *s, const struct hf_completion_entry *item) IN_BROKER_THREAD;
/* Whether there is room for what an unanswered acquire waits for; a session that ends hears nothing. */
bool session_takes_progress(const struct session *s) IN_BROKER_THREAD;
/* Tells what an unanswered acquire waits for. False: there is no room for it now. */
bool session_progress(struct session *s, struct hf_completion_entry *entry) IN_BROKER_THREAD;
/* A lease of this client changed. `but`: the session that is told by an answer; NULL. */
void client_signal(struct client *c, const struct session *but) IN_BROKER_THREAD;
void session_end(struct session *s, const char *why) IN_BROKER_THREAD;
/* Its user is the agent's own or root: descriptors from it can do no harm that it could not do by itself. */
static inline bool session_is_own(const struct session *s)
{
    return s->uid == 0 || s->uid == geteuid();
}

/* --- attach.c, for sessions.c alone ----------------------------------------------------------- */

/* Whether the kernel takes descriptors for this socket, and for those accepted from it (SO_PASSRIGHTS, Linux 6.16). */
void attach_pass_descriptors(int fd, bool on);
/* Judges a hello and sends the welcome. False: it was turned away, and its session is to end. */
bool attach_hello(struct session *s, const struct hf_hello *hello, size_t length) IN_BROKER_THREAD;
/* The session is its client's no more. True: it shared a place, and leaves that to what is kept of it. */
bool attach_part(struct session *s) IN_BROKER_THREAD;
/* Looks whether its client has allocated the rings: until then nothing is asked, answered or beaten. HF_EPENDING; or an error,
 * by which its session is to end. */
int attach_admit(struct session *s) IN_BROKER_THREAD;

#endif

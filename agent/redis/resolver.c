/* One detached thread per lookup. It shares only a counted mailbox with us, so it may outlive
 * everything else. */
#include "agent/redis/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "agent/base/thread.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

/* A lookup: first its thread's alone, then, from the mailbox on, the resolver's. */
struct lookup {
    TAILQ_ENTRY(lookup) done; /* in the mailbox */
    struct mail *mail;
    uint64_t number;
    char host[HF_NODE_TEXT_MAX + 1];
    char addresses[RESOLVER_ADDRESSES][64];
    int count;
    char error[128];
};
TAILQ_HEAD(lookup_list, lookup);

/* Where threads leave their results; the last that has a reference frees it. */
struct mail {
    pthread_mutex_t mutex;
    int users;
    struct loop *loop; /* NULL: the resolver is gone */
    struct lookup_list done;
};

/* A caller that waits. */
struct question {
    LIST_ENTRY(question) entry;
    uint64_t number;
    resolver_fn *fn;
    void *arg;
};

struct resolver {
    struct mail *mail;
    uint64_t last_number;
    LIST_HEAD(, question) questions;
};

/* --- the mailbox ------------------------------------------------------------------------------ */

static void resolver_free_all(struct lookup_list *list)
{
    struct lookup *lookup;

    while ((lookup = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, lookup, done);
        free(lookup);
    }
}

/* Unlocks it, too. */
static void resolver_mail_leave(struct mail *mail)
{
    bool is_last = --mail->users == 0;

    pthread_mutex_unlock(&mail->mutex);
    if (!is_last)
        return;
    resolver_free_all(&mail->done);
    pthread_mutex_destroy(&mail->mutex);
    free(mail);
}

static void resolver_mail_post(struct lookup *lookup)
{
    struct mail *mail = lookup->mail;

    pthread_mutex_lock(&mail->mutex);
    TAILQ_INSERT_TAIL(&mail->done, lookup, done);
    if (mail->loop)
        loop_wake(mail->loop);
    resolver_mail_leave(mail);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void *resolver_look_up(void *arg)
{
    struct lookup *lookup = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(lookup->host, NULL, &hints, &found);

    if (rc != 0)
        snprintf(lookup->error, sizeof(lookup->error), "%.60s: %.60s", lookup->host,
                 gai_strerror(rc));
    for (struct addrinfo *a = found; a && lookup->count < RESOLVER_ADDRESSES; a = a->ai_next) {
        char *address = lookup->addresses[lookup->count];

        if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof(lookup->addresses[0]), NULL, 0,
                        NI_NUMERICHOST) == 0)
            lookup->count++;
    }
    if (found)
        freeaddrinfo(found);
    if (lookup->count == 0 && lookup->error[0] == '\0')
        snprintf(lookup->error, sizeof(lookup->error), "%.60s: no address", lookup->host);
    resolver_mail_post(lookup);
    return NULL;
}

/* --- the resolver ----------------------------------------------------------------------------- */

int resolver_create(struct loop *loop, struct resolver **ret_resolver)
{
    struct resolver *resolver = calloc(1, sizeof(*resolver));
    struct mail *mail = calloc(1, sizeof(*mail));

    if (!resolver || !mail || pthread_mutex_init(&mail->mutex, NULL) != 0) {
        free(resolver);
        free(mail);
        return HF_ENOMEM;
    }
    mail->users = 1;
    mail->loop = loop;
    TAILQ_INIT(&mail->done);
    LIST_INIT(&resolver->questions);
    resolver->mail = mail;
    *ret_resolver = resolver;
    return HF_OK;
}

void resolver_destroy(struct resolver *resolver)
{
    struct question *question;

    if (!resolver)
        return;
    pthread_mutex_lock(&resolver->mail->mutex);
    resolver->mail->loop = NULL;
    resolver_mail_leave(resolver->mail);
    while ((question = LIST_FIRST(&resolver->questions))) {
        LIST_REMOVE(question, entry);
        free(question);
    }
    free(resolver);
}

static struct question *resolver_question_of(struct resolver *resolver, const void *arg)
{
    struct question *question;

    LIST_FOREACH (question, &resolver->questions, entry) {
        if (question->arg == arg)
            return question;
    }
    return NULL;
}

int resolver_ask(struct resolver *resolver, const char *host, resolver_fn *fn, void *arg)
{
    struct question *question = resolver_question_of(resolver, arg);
    struct lookup *lookup;

    if (question) { /* the answer to the running lookup will do */
        question->fn = fn;
        return HF_OK;
    }
    question = calloc(1, sizeof(*question));
    lookup = calloc(1, sizeof(*lookup));
    if (!question || !lookup)
        goto error;
    question->number = lookup->number = ++resolver->last_number;
    question->fn = fn;
    question->arg = arg;
    snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    lookup->mail = resolver->mail;
    pthread_mutex_lock(&resolver->mail->mutex);
    resolver->mail->users++;
    pthread_mutex_unlock(&resolver->mail->mutex);
    if (thread_start_helper(resolver_look_up, lookup) != HF_OK) {
        pthread_mutex_lock(&resolver->mail->mutex);
        resolver_mail_leave(resolver->mail);
        goto error;
    }
    LIST_INSERT_HEAD(&resolver->questions, question, entry);
    return HF_OK;

error:
    free(question);
    free(lookup);
    return HF_ENOMEM;
}

void resolver_cancel(struct resolver *resolver, void *arg)
{
    struct question *question = resolver_question_of(resolver, arg);

    if (!question)
        return;
    LIST_REMOVE(question, entry);
    free(question);
}

static struct question *resolver_question_numbered(struct resolver *resolver, uint64_t number)
{
    struct question *question;

    LIST_FOREACH (question, &resolver->questions, entry) {
        if (question->number == number)
            return question;
    }
    return NULL;
}

void resolver_deliver(struct resolver *resolver)
{
    struct lookup_list done = TAILQ_HEAD_INITIALIZER(done);
    struct lookup *lookup;

    pthread_mutex_lock(&resolver->mail->mutex);
    TAILQ_CONCAT(&done, &resolver->mail->done, done);
    pthread_mutex_unlock(&resolver->mail->mutex);
    while ((lookup = TAILQ_FIRST(&done))) {
        struct question *question = resolver_question_numbered(resolver, lookup->number);

        TAILQ_REMOVE(&done, lookup, done);
        if (question) { /* not cancelled */
            resolver_fn *fn = question->fn;
            void *arg = question->arg;

            LIST_REMOVE(question, entry);
            free(question);
            fn(arg, (const char(*)[64])lookup->addresses, lookup->count, lookup->error);
        }
        free(lookup);
    }
}

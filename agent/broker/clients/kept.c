/* The memory that ended sessions shared, and that their clients may still have. */
#include "agent/broker/clients/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/broker/clients/users.h"
#include "shm/assert.h"
#include "shm/ring.h"
#include "shm/status.h"

/* In one look: two system calls of a microsecond each. */
#define LOOKS 32

struct kept {
    TAILQ_ENTRY(kept) link;
    struct user *user;
    int own[2];
};

/* Whether the kernel knows of an open file that there is, and notices its end. */
static bool kept_can_tell(void)
{
    struct hf_ring_agent ring;
    int clients[2], own[2];
    bool before = false, after = true;

    if (hf_ring_agent_create(&ring, &clients[0], &clients[1]) < 0)
        return false;
    if (hf_ring_witness(clients, own) == 0) {
        before = hf_ring_is_shared(own);
        close(clients[0]);
        before = before && hf_ring_is_shared(own);
        close(clients[1]);
        hf_ring_agent_destroy(&ring);
        after = hf_ring_is_shared(own);
        close(own[0]);
        close(own[1]);
        return before && !after;
    }
    close(clients[0]);
    close(clients[1]);
    hf_ring_agent_destroy(&ring);
    return false;
}

void kept_create(struct clients *clients)
{
    TAILQ_INIT(&clients->kept);
    clients->tells_kept = kept_can_tell();
    if (!clients->tells_kept && clients->config->system)
        log_warn("the kernel does not tell when clients close their memory (fs.leases-enable): a "
                 "user can make the kernel keep some of the agent's memory without bound");
}

void kept_drop(struct kept *kept)
{
    if (!kept)
        return;
    for (int i = 0; i < 2; i++)
        close(kept->own[i]);
    free(kept);
}

void kept_destroy(struct clients *clients)
{
    struct kept *kept;

    while ((kept = TAILQ_FIRST(&clients->kept))) {
        TAILQ_REMOVE(&clients->kept, kept, link);
        kept_drop(kept);
    }
}

int kept_watch(struct user *user, const int fds[2], struct kept **ret_kept)
{
    struct kept *kept;

    kept = calloc(1, sizeof(*kept));
    if (!kept)
        return HF_ENOMEM;
    if (hf_ring_witness(fds, kept->own) < 0) {
        int error = errno;

        free(kept);
        errno = error;
        return HF_ESYS;
    }
    kept->user = user;
    *ret_kept = kept;
    return HF_OK;
}

/* Nothing can be seen of others' memory, or it is to be had for as long as they like. */
static bool kept_is_free(const struct clients *clients, const struct kept *kept)
{
    return !clients->tells_kept || user_is_trusted(kept->user);
}

int kept_admit(const struct clients *clients, struct hf_ring_agent *ring, struct kept **kept)
{
    int rc = hf_ring_admit(ring, (*kept)->own);

    if (rc == HF_OK && kept_is_free(clients, *kept)) {
        kept_drop(*kept);
        *kept = NULL;
    }
    return rc;
}

void kept_after_session(struct clients *clients, struct kept *kept)
{
    if (!kept)
        return;
    if (kept_is_free(clients, kept) || !hf_ring_is_shared(kept->own)) {
        kept_drop(kept);
        return;
    }
    TAILQ_INSERT_HEAD(&clients->kept, kept, link);
    kept->user->kept++;
    clients->kept_count++;
}

unsigned kept_look(struct clients *clients)
{
    unsigned given_up = 0;

    for (unsigned i = 0, all = clients->kept_count; i < LOOKS && i < all; i++) {
        struct kept *kept = TAILQ_FIRST(&clients->kept);

        TAILQ_REMOVE(&clients->kept, kept, link);
        if (hf_ring_is_shared(kept->own)) {
            TAILQ_INSERT_TAIL(&clients->kept, kept, link);
            continue;
        }
        hf_assert(kept->user->kept > 0 && clients->kept_count > 0, "kept %u, of its user %u",
                  clients->kept_count, kept->user->kept);
        kept->user->kept--;
        clients->kept_count--;
        kept_drop(kept);
        given_up++;
    }
    return given_up;
}

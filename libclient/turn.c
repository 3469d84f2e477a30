/* A thread's turn with a client: the work that is due, and the sleep until there is more. */
#include "libclient/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void hfc_turn_notice_end(hf_client *client)
{
    struct pollfd p = {.events = POLLRDHUP};

    if (client->link != HFC_LINK_UP)
        return;
    p.fd = client->session->sock.fd;
    if (poll(&p, 1, 0) <= 0)
        return;
    hfc_ring_drain(client); /* its last answers */
    if (client->link == HFC_LINK_UP) {
        char text[160];

        (void)snprintf(text, sizeof(text), "the agent at %s ended", client->place.path);
        hfc_link_drop(client, HF_ENOAGENT, text);
    }
}

uint32_t hfc_turn(hf_client *client)
{
    uint32_t seen = 0;

    hfc_link_drive(client);
    if (client->link == HFC_LINK_UP)
        seen = hf_ring_wake_value(&client->session->ring);
    hfc_ring_drain(client);
    hfc_ring_flush(client);
    return seen;
}

/* A handler that ran ends blocking calls, as with flock(2), unless it was installed with SA_RESTART.
 * The kernel does not tell which handler ran: one without SA_RESTART that may have run is enough. */
static bool turn_may_handlers_interrupt(void)
{
    for (int i = 1; i <= SIGRTMAX; i++) {
        struct sigaction action;

        if (i == SIGSEGV || i == SIGBUS || i == SIGFPE || i == SIGILL || i == SIGTRAP ||
            i == SIGSYS)
            continue; /* faults, which do not happen in a sleep */
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
            action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
            return true;
    }
    return false;
}

enum waking {
    WAKING_NONE,
    WAKING_NEWS,
    WAKING_SIGNAL, /* a handler has run */
};

static enum waking turn_sleep_on(struct hfc_session *session, bool up, uint32_t seen,
                                 int64_t span_ns)
{
    struct pollfd p = {.fd = session->sock.fd, .events = POLLIN};
    bool signal;

    if (!up) {
        int rc = poll(&p, 1, (int)(span_ns / HF_NS_PER_MS) + 1);

        return rc > 0 ? WAKING_NEWS : rc < 0 && errno == EINTR ? WAKING_SIGNAL : WAKING_NONE;
    }
    signal = hf_ring_wait(&session->ring, seen, hf_ns(span_ns));
    if (hf_ring_wake_value(&session->ring) != seen)
        return WAKING_NEWS;
    return signal ? WAKING_SIGNAL : WAKING_NONE;
}

bool hfc_sleep(hf_client *client, uint32_t seen, int64_t until_ns)
{
    struct hfc_session *session = client->session;
    bool up = client->link == HFC_LINK_UP, interrupted;
    enum waking woken;
    int64_t slice = HFC_SLICE_NS, now = hfc_now();

    if (up && client->ring_full)
        slice = HFC_SLICE_FULL_NS;
    if (!session)
        until_ns = hfc_min(until_ns, client->next_try_ns);
    if (until_ns <= now)
        return false;
    slice = hfc_min(slice, until_ns - now);
    if (!session) {
        struct timespec t = {.tv_nsec = slice};

        hfc_unlock(client);
        interrupted = nanosleep(&t, NULL) < 0 && errno == EINTR && turn_may_handlers_interrupt();
        hfc_lock(client);
        return interrupted;
    }
    session->refs++; /* keeps rings and descriptors while nobody holds the lock for them */
    hfc_unlock(client);
    woken = turn_sleep_on(session, up, seen, slice);
    interrupted = woken == WAKING_SIGNAL && turn_may_handlers_interrupt();
    hfc_lock(client);
    if (woken == WAKING_NEWS && up && session->refs > HF_RING_WAKES) /* each sleeper has one */
        hf_ring_wake_others(&session->ring);
    if (woken == WAKING_NONE && session == client->session)
        hfc_turn_notice_end(client);
    hfc_session_unref(client, session);
    return interrupted;
}

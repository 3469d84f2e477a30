/* A thread's turn with a client: what there is to do, and the sleep until there is more. */
#include "libclient/internal.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

void hfc_turn_notice_end(hf_client *client)
{
    struct pollfd p = {.events = POLLRDHUP};

    if (client->link != HFC_LINK_UP)
        return;
    p.fd = client->session->sock;
    if (poll(&p, 1, 0) <= 0)
        return;
    hfc_ring_drain(client); /* what it still said */
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

/* Returns false when nothing happened. */
static bool sleep_on(struct hfc_session *session, bool up, uint32_t seen, int64_t span_ns)
{
    struct pollfd p = {.fd = session->sock, .events = POLLIN};

    if (!up)
        return poll(&p, 1, (int)(span_ns / HF_NS_PER_MS) + 1) > 0;
    hf_ring_wait(&session->ring, seen, hf_ns(span_ns));
    return hf_ring_wake_value(&session->ring) != seen;
}

void hfc_sleep(hf_client *client, uint32_t seen, int64_t until_ns)
{
    struct hfc_session *session = client->session;
    bool up = client->link == HFC_LINK_UP, woken;
    int64_t slice = HFC_SLICE_NS, now = hfc_now();

    if (up && client->ring_full)
        slice = HFC_SLICE_FULL_NS;
    if (!session)
        until_ns = hfc_min(until_ns, client->next_try_ns);
    if (until_ns <= now)
        return;
    slice = hfc_min(slice, until_ns - now);
    if (!session) {
        struct timespec t = {.tv_nsec = slice};

        hfc_unlock(client);
        (void)nanosleep(&t, NULL);
        hfc_lock(client);
        return;
    }
    session->refs++; /* keeps rings and descriptors while nobody holds the lock for them */
    hfc_unlock(client);
    woken = sleep_on(session, up, seen, slice);
    hfc_lock(client);
    if (!woken && session == client->session)
        hfc_turn_notice_end(client);
    hfc_session_unref(client, session);
}

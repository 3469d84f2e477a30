/* The link to the agent: attach, drop, attach again with the cookie. Blocks only in hf_connect(). */
#include "libclient/internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

bool hfc_link_is_hopeless(int status)
{
    return status == HF_EPERM || status == HF_EVERSION || status == HF_ETIMENS ||
           status == HF_ETABLE || status == HF_EPROTO || status == HF_ELOST;
}

/* Doubles, plus up to a third at random, so that a host's clients do not come back all at once. */
static void link_schedule_retry(hf_client *client, int64_t now) REQUIRES(hfc_locked)
{
    int64_t jitter = (int64_t)((uint64_t)now / 64 % 256) * client->backoff_ns / 768;

    client->next_try_ns = now + client->backoff_ns + jitter;
    client->backoff_ns = hfc_min(client->backoff_ns * 2, HFC_BACKOFF_MAX_NS);
    hfc_timer_pull(client, client->next_try_ns);
}

static void link_failed(hf_client *client, int status, const char *text) REQUIRES(hfc_locked)
{
    int64_t now = hfc_now();

    client->link_status = status;
    client->crowded = false;
    (void)snprintf(client->link_text, sizeof(client->link_text), "%s", text);
    client->last_try_ns = now;
    link_schedule_retry(client, now);
}

void hfc_link_forget_files(hf_client *client)
{
    client->epoll = client->timer = HFC_NO_FILE;
}

void hfc_link_drop(hf_client *client, int status, const char *text)
{
    struct hfc_session *session = client->session;
    bool was_up = client->link == HFC_LINK_UP;

    client->session = NULL;
    client->link = HFC_LINK_DOWN;
    if (hfc_file_is_ours(&session->sock)) {
        hfc_poll_del(client, session->sock.fd);
        /* A forked child may have the socket too; the agent must still see its end. */
        (void)shutdown(session->sock.fd, SHUT_RDWR);
    } else {
        hfc_link_forget_files(client);
    }
    if (session->has_ring) /* threads asleep on this session must look for a new one */
        (void)syscall(SYS_futex, &session->ring.in->wake, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    hfc_session_unref(client, session);
    hfc_ops_requeue(client);
    link_failed(client, status, text);
    if (was_up && status == HF_ENOAGENT) { /* it may be back already */
        client->next_try_ns = client->last_try_ns;
        client->last_try_ns = INT64_MIN;
        hfc_timer_pull(client, client->next_try_ns);
    }
}

/* When to check whether the agent hangs, and finally whether it came at all. */
int64_t hfc_hello_next(hf_client *client)
{
    int64_t now = hfc_now(), first = client->hello_until_ns - HFC_WELCOME_NS + HFC_HANG_NS;

    return hfc_min(client->hello_until_ns, now < first ? first : now + HFC_SLICE_NS);
}

static void link_begin(hf_client *client) REQUIRES(hfc_locked)
{
    struct hfc_session *session = calloc(1, sizeof(*session));
    char why[256];
    int sock, status;

    if (!session) {
        link_failed(client, HF_ENOMEM, hf_status_text(HF_ENOMEM));
        return;
    }
    session->refs = 1;
    session->sock = HFC_NO_FILE;
    status = hfc_hello(&client->place, client->role, client->cookie,
                       hfc_min(client->connect_until_ns - hfc_now(), HFC_HANG_NS), &sock, why,
                       sizeof(why));
    if (status < 0) {
        bool full = status == HF_ENOAGENT && errno == EAGAIN, /* the queue */
            late = status == HF_ENOAGENT && (errno == EPIPE || errno == ECONNRESET);

        free(session);
        /* (!) The agent has not noticed this try. In a storm the queue has a place for moments only. */
        if (full)
            client->backoff_ns = HFC_BACKOFF_FIRST_NS;
        link_failed(client, status, why);
        client->crowded = full || late;
        return;
    }
    hfc_file_keep(&session->sock, sock);
    client->session = session;
    client->link = HFC_LINK_HELLO;
    client->hello_until_ns = hfc_now() + HFC_WELCOME_NS;
    hfc_poll_add(client, sock);
    hfc_timer_pull(client, hfc_hello_next(client));
}

static void link_go_on(hf_client *client) REQUIRES(hfc_locked)
{
    struct hf_welcome welcome;
    int fds[HF_WELCOME_FDS], status;
    bool crowded = false;
    char why[256];

    if (!client->session) /* a link that greets has one */
        return;
    status = hfc_welcome(client->session->sock.fd, &welcome, fds, &crowded, why, sizeof(why));
    if (status == HF_EPENDING) {
        int64_t now = hfc_now();

        if (now < client->hello_until_ns &&
            (now < client->hello_until_ns - HFC_WELCOME_NS + HFC_HANG_NS ||
             !hfc_stranger_hangs(&client->place, now)))
            return;
        status = HF_ENOAGENT;
        (void)snprintf(why, sizeof(why), "the agent at %s does not answer (stopped or overloaded?)",
                       client->place.path);
    } else if (status == HF_OK) {
        status = hfc_session_adopt(client, &welcome, fds, why, sizeof(why));
    }
    if (status < 0) {
        hfc_link_drop(client, status, why);
        client->crowded = crowded;
        return;
    }
    client->welcome = welcome;
    if (client->role == HF_ROLE_HOLDER) /* a guardian keeps the cookie of the first session */
        memcpy(client->cookie, welcome.cookie, sizeof(client->cookie));
    __atomic_store_n(&client->known, welcome.incarnation, __ATOMIC_RELAXED);
    client->link = HFC_LINK_UP;
    client->link_status = HF_OK;
    client->backoff_ns = HFC_BACKOFF_FIRST_NS;
    hfc_link_tell_group(client);
}

void hfc_link_tell_group(hf_client *client)
{
    int fds[HF_GROUP_FDS];

    if (client->link != HFC_LINK_UP)
        return;
    for (int i = 0; i < HF_GROUP_FDS; i++) {
        if (!hfc_file_is_ours(&client->group[i]))
            return;
        fds[i] = client->group[i].fd;
    }
    /* The socket has room, but for hundreds of bells that a stopped agent has not read. */
    (void)hfc_send_group(client->session->sock.fd, fds);
}

void hfc_link_drive(hf_client *client)
{
    if (client->session && !hfc_file_is_ours(&client->session->sock))
        hfc_link_drop(client, HF_ENOAGENT, "the program closed the connection to its agent");
    if (client->link == HFC_LINK_DOWN && hfc_now() >= client->next_try_ns)
        link_begin(client);
    if (client->link == HFC_LINK_HELLO)
        link_go_on(client);
}

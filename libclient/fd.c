/* The descriptor of hf_fd(): an epoll of the attach socket (the agent nudges it; its end shows too)
 * and of a timer on CLOCK_BOOTTIME for events without the agent: a validity's end, the next try to
 * attach, a wait's end. */
#include "libclient/internal.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

void hfc_timer_set(hf_client *client, int64_t at_ns)
{
    struct itimerspec spec = {0};

    client->timer_ns = at_ns;
    if (at_ns != HFC_NEVER) {
        if (at_ns <= 0)
            at_ns = 1; /* zero would disarm */
        spec.it_value.tv_sec = at_ns / HF_NS_PER_SEC;
        spec.it_value.tv_nsec = at_ns % HF_NS_PER_SEC;
    }
    (void)timerfd_settime(client->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void hfc_timer_pull(hf_client *client, int64_t at_ns)
{
    if (client->timer.fd >= 0 && at_ns < client->timer_ns)
        hfc_timer_set(client, at_ns);
}

static int fd_add_socket(int epoll_fd, int sock)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sock, &event);
}

/* The user's limit of watches may be used up for a while. Meanwhile the timer stands in for the socket: a client that lost its
 * session for this would lose its leases. */
void hfc_poll_add(hf_client *client, int sock)
{
    if (client->epoll.fd < 0)
        return;
    client->unwatched = fd_add_socket(client->epoll.fd, sock) < 0;
    if (client->unwatched)
        hfc_timer_pull(client, hfc_now() + HFC_UNWATCHED_NS);
}

void hfc_poll_again(hf_client *client)
{
    if (client->unwatched && client->session)
        hfc_poll_add(client, client->session->sock.fd);
}

void hfc_poll_del(hf_client *client, int sock)
{
    client->unwatched = false;
    if (client->epoll.fd >= 0)
        (void)epoll_ctl(client->epoll.fd, EPOLL_CTL_DEL, sock, NULL);
}

void hfc_poll_rings(hf_client *client)
{
    if (client->epoll.fd < 0 || !client->session || !client->session->has_ring)
        return;
    hf_ring_poll(&client->session->ring);
    hfc_timer_pull(client, 0); /* what came before that came without a nudge */
}

/* 0, or -1 with errno. */
static int fd_make(const hf_client *client, int *ret_epoll_fd, int *ret_timer_fd)
    REQUIRES(hfc_locked)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), error;

    if (epoll_fd >= 0 && timer_fd >= 0 &&
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) == 0 &&
        (!client->session || fd_add_socket(epoll_fd, client->session->sock.fd) == 0)) {
        *ret_epoll_fd = epoll_fd;
        *ret_timer_fd = timer_fd;
        return 0;
    }
    error = errno;
    if (epoll_fd >= 0)
        close(epoll_fd);
    if (timer_fd >= 0)
        close(timer_fd);
    errno = error;
    return -1;
}

int hf_fd(hf_client *client)
{
    int epoll_fd, timer_fd, status = hfc_client_check(client);

    if (status < 0)
        return status;
    hfc_lock(client);
    if (client->epoll.fd >= 0) {
        epoll_fd = client->epoll.fd;
        hfc_unlock(client);
        return epoll_fd;
    }
    if (fd_make(client, &epoll_fd, &timer_fd) < 0) {
        hfc_unlock(client);
        return hfc_fail(HF_ESYS, "no descriptor for the client's events: %m; raise %s",
                        errno == ENOSPC ? "fs.epoll.max_user_watches (sysctl)"
                                        : "the limit on open files (ulimit -n)");
    }
    hfc_file_keep(&client->epoll, epoll_fd);
    hfc_file_keep(&client->timer, timer_fd);
    client->until_ns = client->look_ns = INT64_MIN;
    hfc_poll_rings(client);
    hfc_timer_set(client, 0); /* the first dispatch handles all that happened before */
    hfc_unlock(client);
    return epoll_fd;
}

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
    (void)timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void hfc_timer_pull(hf_client *client, int64_t at_ns)
{
    if (client->timer_fd >= 0 && at_ns < client->timer_ns)
        hfc_timer_set(client, at_ns);
}

void hfc_poll_add(hf_client *client, int sock)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};

    if (client->epoll_fd >= 0)
        (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, sock, &event);
}

void hfc_poll_del(hf_client *client, int sock)
{
    if (client->epoll_fd >= 0)
        (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, sock, NULL);
}

void hfc_poll_rings(hf_client *client)
{
    if (client->epoll_fd < 0 || !client->session || !client->session->has_ring)
        return;
    hf_ring_poll(&client->session->ring);
    hfc_timer_pull(client, 0); /* what came before that came without a nudge */
}

int hf_fd(hf_client *client)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll_fd, timer_fd, error, status = hfc_client_check(client);

    if (status < 0)
        return status;
    hfc_lock(client);
    if (client->epoll_fd >= 0) {
        epoll_fd = client->epoll_fd;
        hfc_unlock(client);
        return epoll_fd;
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll_fd < 0 || timer_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) < 0) {
        error = errno;
        hfc_unlock(client);
        if (epoll_fd >= 0)
            close(epoll_fd);
        if (timer_fd >= 0)
            close(timer_fd);
        errno = error;
        return hfc_fail(HF_ESYS, "epoll or timerfd: %m");
    }
    client->epoll_fd = epoll_fd;
    client->timer_fd = timer_fd;
    client->until_ns = client->look_ns = INT64_MIN;
    if (client->session)
        hfc_poll_add(client, client->session->sock);
    hfc_poll_rings(client);
    hfc_timer_set(client, 0); /* the first dispatch handles all that happened before */
    hfc_unlock(client);
    return epoll_fd;
}

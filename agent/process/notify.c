#include "agent/process/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

bool notify_is_wanted(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && *path;
}

void notify_send(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    int fd;

    if (length < 2 || length >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract namespace */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

void notify_reloading(void)
{
    struct timespec now;
    char text[80];

    /* systemd tells it from an earlier one by this clock. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify_send(text);
}

hf_dur notify_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long long us = usec ? strtoll(usec, NULL, 10) : 0;

    if (us <= 0 || (pid && strtoll(pid, NULL, 10) != getpid()))
        return hf_ns(0);
    return hf_ns(us * HF_NS_PER_US / 2);
}

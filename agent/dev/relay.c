#include "agent/dev/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/process/notify.h"

bool relay_open(const char *dir, struct relay *ret_relay)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *manager = getenv("NOTIFY_SOCKET");
    struct relay relay = {.fd = -1};

    if (!manager || !*manager) {
        *ret_relay = relay;
        return true;
    }
    /* It is not longer than a private node's, for which the configuration has left room. */
    if (snprintf(relay.path, sizeof(relay.path), "%s/notify", dir) >= (int)sizeof(relay.path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(address.sun_path, relay.path, sizeof(address.sun_path));
    relay.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (relay.fd < 0)
        return false;
    if (bind(relay.fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(relay.fd);
        return false;
    }
    *ret_relay = relay;
    return true;
}

void relay_adopt(const struct relay *relay)
{
    const char *watched = getenv("WATCHDOG_PID");

    if (relay->fd < 0)
        return;
    close(relay->fd);
    (void)setenv("NOTIFY_SOCKET", relay->path, 1);
    if (watched && strtoll(watched, NULL, 10) == getppid())
        (void)unsetenv("WATCHDOG_PID");
}

void relay_pass(const struct relay *relay)
{
    char state[1024];
    ssize_t got;

    while (relay->fd >= 0 && (got = recv(relay->fd, state, sizeof(state) - 1, 0)) > 0) {
        state[got] = '\0';
        notify_send(state);
    }
}

void relay_close(struct relay *relay)
{
    if (relay->fd >= 0)
        close(relay->fd);
    relay->fd = -1;
}

/* A client without the library's manners: the attach socket and the rings as they are, to be misused. One
 * connection at a time in `raw`; die() is the program's own. */
#ifndef HOLDFAST_TESTS_RAW_CLIENT_H
#define HOLDFAST_TESTS_RAW_CLIENT_H

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libclient/internal.h"

#define RAW_PATIENCE_MS 10000

struct raw_client {
    int sock;
    int fds[HF_WELCOME_FDS]; /* all stay open */
    struct hf_welcome welcome;
    struct hf_ring_client ring;
    char why[256];
};

static inline int raw_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (sock >= 0 && connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0)
        return sock;
    if (sock >= 0)
        close(sock);
    return -1;
}

static inline void raw_ring_bell(const struct raw_client *raw)
{
    const char bell = 0;

    (void)send(raw->sock, &bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* HF_OK, or why it was refused (with `why`). */
static inline int raw_greet(struct raw_client *raw, const char *path, uint32_t role,
                            const uint8_t *cookie)
{
    static const uint8_t none[HF_COOKIE_LEN];
    struct hfc_place place = {.owner = geteuid(), .table_owner = geteuid()};
    struct pollfd poller = {.events = POLLIN};
    bool again;
    int status;

    (void)snprintf(place.path, sizeof(place.path), "%s", path);
    status =
        hfc_hello(&place, role, cookie ? cookie : none, 0, &raw->sock, raw->why, sizeof(raw->why));
    if (status < 0)
        return status;
    poller.fd = raw->sock;
    (void)poll(&poller, 1, RAW_PATIENCE_MS);
    status = hfc_welcome(raw->sock, &raw->welcome, raw->fds, &again, raw->why, sizeof(raw->why));
    if (status < 0) {
        close(raw->sock);
    }
    return status;
}

static inline int raw_attach(struct raw_client *raw, const char *path, uint32_t role,
                             const uint8_t *cookie)
{
    int status = raw_greet(raw, path, role, cookie);

    if (status < 0)
        return status;
    /* Mapping closes both; they are wanted for worse. */
    status = hf_ring_client_map(dup(raw->fds[HF_FD_REQUESTS]), dup(raw->fds[HF_FD_COMPLETIONS]),
                                NULL, &raw->ring);
    raw_ring_bell(raw);
    return status;
}

/* False: no room for it. */
static inline bool raw_submit(struct raw_client *raw, const struct hf_request_entry *entry)
{
    bool wake;

    if (hf_ring_submit(&raw->ring, entry, &wake) < 0)
        return false;
    raw_ring_bell(raw);
    return true;
}

static inline bool raw_is_cut_off(const struct raw_client *raw)
{
    struct pollfd poller = {.fd = raw->sock, .events = POLLRDHUP};

    return poll(&poller, 1, RAW_PATIENCE_MS) > 0;
}

static inline struct hf_request_entry raw_acquire(uint64_t id, const void *name, size_t name_len)
{
    struct hf_request_entry entry = {.op = HF_OP_ACQUIRE, .id = id, .name_len = (uint8_t)name_len};

    memcpy(entry.name, name, name_len);
    return entry;
}

#endif

/* A client that breaks the protocol of the attach socket or the rings, and
 * tells whether it was cut off.
 *
 *   breaker SOCKET zero-id|unknown-op|long-note|request-cursor|completion-cursor|datagram|no-hello
 *   breaker SOCKET unread COUNT    asks COUNT times before it reads any answer
 *
 * Exit 0: the agent ended the connection (unread: every answer came); 1: it did not within 10 s.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libclient/internal.h"

#define PATIENCE_MS 10000

static int sock, doorbell;
static struct hf_ring_client ring;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void attach(const char *path)
{
    static const uint8_t cookie[HF_COOKIE_LEN];
    struct hfc_place place = {.owner = geteuid(), .table_owner = geteuid()};
    struct pollfd poller = {.events = POLLIN};
    struct hf_welcome welcome;
    int fds[HF_WELCOME_FDS];
    char why[256] = "";

    snprintf(place.path, sizeof(place.path), "%s", path);
    if (hfc_hello(&place, HF_ROLE_HOLDER, cookie, &sock, why, sizeof(why)) < 0)
        die(why);
    poller.fd = sock;
    if (poll(&poller, 1, PATIENCE_MS) <= 0 ||
        hfc_welcome(sock, &welcome, fds, why, sizeof(why)) < 0 ||
        hf_ring_client_map(fds[HF_FD_REQUESTS], fds[HF_FD_COMPLETIONS], NULL, &ring) < 0)
        die(why);
    doorbell = fds[HF_FD_DOORBELL];
    close(fds[HF_FD_TABLE]);
}

static void connect_only(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
        die(path);
}

static void ring_doorbell(void)
{
    const uint64_t one = 1;

    if (write(doorbell, &one, sizeof(one)) != sizeof(one))
        die("doorbell");
}

static void submit(const struct hf_request_entry *entry)
{
    bool wake;

    while (hf_ring_submit(&ring, entry, &wake) == HF_EFULL)
        usleep(1000);
    ring_doorbell();
}

static bool is_cut_off(void)
{
    struct pollfd poller = {.fd = sock, .events = POLLRDHUP};

    return poll(&poller, 1, PATIENCE_MS) > 0;
}

/* Every answer comes although there is room for few at a time. */
static int unread(int count)
{
    struct hf_completion_entry answer;
    int answers = 0;

    for (int i = 1; i <= count; i++)
        submit(&(struct hf_request_entry){.op = HF_OP_PING, .id = (uint64_t)i});
    for (int quiet_ms = 0; answers < count && quiet_ms < PATIENCE_MS;) {
        int status = hf_ring_reap(&ring, &answer);

        if (status < 0)
            return 1;
        if (status > 0 && answer.id != (uint64_t)++answers)
            return 1; /* in order */
        quiet_ms = status > 0 ? 0 : quiet_ms + 1;
        if (status == 0)
            usleep(1000);
    }
    return answers == count ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 2 ? argv[2] : "";

    if (strcmp(kind, "no-hello") == 0) {
        connect_only(argv[1]);
        return is_cut_off() ? 0 : 1;
    }
    if (argc < 3)
        return 2;
    attach(argv[1]);
    if (strcmp(kind, "zero-id") == 0) {
        submit(&(struct hf_request_entry){.op = HF_OP_PING});
    } else if (strcmp(kind, "unknown-op") == 0) {
        submit(&(struct hf_request_entry){.op = 99, .id = 1});
    } else if (strcmp(kind, "long-note") == 0) {
        submit(&(struct hf_request_entry){
            .op = HF_OP_ACQUIRE, .id = 1, .name_len = 1, .note_len = HF_NOTE_MAX + 1});
    } else if (strcmp(kind, "request-cursor") == 0) {
        atomic_store(&ring.out->tail, 1000);
        ring_doorbell();
    } else if (strcmp(kind, "completion-cursor") == 0) {
        atomic_store(&ring.out->completion_head, 1000);
        submit(&(struct hf_request_entry){.op = HF_OP_PING, .id = 1});
    } else if (strcmp(kind, "datagram") == 0) {
        if (send(sock, "x", 1, 0) != 1)
            die("send");
    } else if (strcmp(kind, "unread") == 0) {
        return unread(argc > 3 ? atoi(argv[3]) : 100);
    } else {
        return 2;
    }
    return is_cut_off() ? 0 : 1;
}

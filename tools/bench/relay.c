/* A relay that stands between clients and nodes as a network would: every byte comes through, each so much later. One thread;
 * what it costs is in the times of whoever asks through it, so a figure is read beside another that was taken through it, too. */
#include "tools/bench/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LISTENERS_MAX 9
#define PIPES_MAX     512 /* two for a connection */
#define CHUNK         16384

struct chunk {
    STAILQ_ENTRY(chunk) queue;
    double due_us;
    size_t length, done;
    char bytes[CHUNK];
};

/* One direction of a connection. */
struct pipe {
    int from, to; /* -1: none */
    STAILQ_HEAD(, chunk) chunks;
};

static struct pipe pipes[PIPES_MAX];
static int listeners[LISTENERS_MAX], targets[LISTENERS_MAX], listener_count;

static struct sockaddr_in relay_loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void relay_at_once(int fd)
{
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void relay_listen_at(const char *text)
{
    char *equals;
    long port = strtol(text, &equals, 10);
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (*equals != '=' || port <= 0 || listener_count == LISTENERS_MAX)
        measure_die("up to %d times PORT=PORT, not %s", LISTENERS_MAX, text);
    address = relay_loopback((int)port);
    targets[listener_count] = (int)measure_number(equals + 1, 1);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0)
        measure_die("port %ld: %s", port, strerror(errno));
    relay_at_once(fd);
    listeners[listener_count++] = fd;
}

static void relay_open_pipe(int from, int to)
{
    for (int i = 0; i < PIPES_MAX; i++) {
        if (pipes[i].to >= 0)
            continue;
        pipes[i] = (struct pipe){.from = from, .to = to};
        STAILQ_INIT(&pipes[i].chunks);
        return;
    }
    measure_die("more than %d connections", PIPES_MAX / 2);
}

static void relay_let_in(int i)
{
    struct sockaddr_in address = relay_loopback(targets[i]);
    int client = accept4(listeners[i], NULL, NULL, SOCK_CLOEXEC), node;

    if (client < 0)
        return;
    node = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (node < 0 || connect(node, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(client);
        if (node >= 0)
            close(node);
        return;
    }
    relay_at_once(client);
    relay_at_once(node);
    relay_open_pipe(client, node);
    relay_open_pipe(node, client);
}

/* Both directions end together. */
static void relay_end_connection(int fd, int other)
{
    for (int i = 0; i < PIPES_MAX; i++) {
        struct chunk *chunk;

        if (pipes[i].to < 0 || (pipes[i].to != fd && pipes[i].to != other))
            continue;
        while ((chunk = STAILQ_FIRST(&pipes[i].chunks))) {
            STAILQ_REMOVE_HEAD(&pipes[i].chunks, queue);
            free(chunk);
        }
        pipes[i].from = pipes[i].to = -1;
    }
    close(fd);
    close(other);
}

static void relay_take_in(struct pipe *p, double delay_us)
{
    struct chunk *chunk = malloc(sizeof(*chunk));
    ssize_t n = chunk ? read(p->from, chunk->bytes, sizeof(chunk->bytes)) : -1;

    if (n <= 0) {
        free(chunk);
        if (n == 0 || errno != EAGAIN)
            relay_end_connection(p->from, p->to);
        return;
    }
    chunk->due_us = measure_now_us() + delay_us;
    chunk->length = (size_t)n;
    chunk->done = 0;
    STAILQ_INSERT_TAIL(&p->chunks, chunk, queue);
}

/* Passes on what is due. Returns when the next is; 0: never. */
static double relay_pass_on(struct pipe *p)
{
    struct chunk *chunk;

    while ((chunk = STAILQ_FIRST(&p->chunks))) {
        ssize_t n;

        if (chunk->due_us > measure_now_us())
            return chunk->due_us;
        n = send(p->to, chunk->bytes + chunk->done, chunk->length - chunk->done, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return measure_now_us() + 50;
        if (n < 0) {
            relay_end_connection(p->from, p->to);
            return 0;
        }
        chunk->done += (size_t)n;
        if (chunk->done == chunk->length) {
            STAILQ_REMOVE_HEAD(&p->chunks, queue);
            free(chunk);
        }
    }
    return 0;
}

static double relay_pass_all_on(void)
{
    double next = 0;

    for (int i = 0; i < PIPES_MAX; i++) {
        double due = pipes[i].to < 0 ? 0 : relay_pass_on(&pipes[i]);

        if (due > 0 && (next <= 0 || due < next))
            next = due;
    }
    return next;
}

int bench_relay(int argc, char **argv)
{
    double delay_us;

    if (argc < 3) {
        fputs("usage: bench relay DELAY_US PORT=PORT...\n", stderr);
        return 64;
    }
    delay_us = (double)measure_number(argv[1], 0);
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    for (int i = 0; i < PIPES_MAX; i++)
        pipes[i].from = pipes[i].to = -1;
    for (int i = 2; i < argc; i++)
        relay_listen_at(argv[i]);
    puts("{\"bench\":\"relay\",\"ready\":true}");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[1 + LISTENERS_MAX + PIPES_MAX];
        int of[PIPES_MAX], n = 0, first;
        double next = relay_pass_all_on(), left = next > 0 ? next - measure_now_us() : 1e6;
        struct timespec wait;

        fds[n++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        for (int i = 0; i < listener_count; i++)
            fds[n++] = (struct pollfd){.fd = listeners[i], .events = POLLIN};
        first = n;
        for (int i = 0; i < PIPES_MAX; i++) {
            if (pipes[i].to < 0)
                continue;
            of[n - first] = i;
            fds[n++] = (struct pollfd){.fd = pipes[i].from, .events = POLLIN};
        }
        if (left < 0)
            left = 0;
        wait = (struct timespec){(time_t)(left / 1e6), (long)(left * 1e3) % 1000000000L};
        if (ppoll(fds, (nfds_t)n, &wait, NULL) <= 0)
            continue;
        if (fds[0].revents)
            return 0;
        for (int i = 0; i < listener_count; i++)
            if (fds[1 + i].revents)
                relay_let_in(i);
        for (int i = first; i < n; i++)
            if (fds[i].revents && pipes[of[i - first]].from == fds[i].fd)
                relay_take_in(&pipes[of[i - first]], delay_us);
    }
}

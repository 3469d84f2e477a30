/* Delays packets where the kernel has no netem: those that a rule sends to a netfilter queue are held for a time, then
 * let through or dropped.
 *
 *   nfqdelay QUEUE DELAY_MS [JITTER_MS [LOSS_PERCENT]]
 *
 * Prints "ready", and runs until it is ended; with --queue-bypass in the rule packets then pass as they are.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <libnetfilter_queue/libnetfilter_queue.h>

#define HELD_MAX 8192

struct packet {
    uint32_t id;
    int64_t due_us;
    bool drop;
};

static struct packet held[HELD_MAX];
static unsigned held_count;
static int64_t delay_us, jitter_us;
static int loss_percent;

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int on_packet(struct nfq_q_handle *queue, struct nfgenmsg *message, struct nfq_data *data,
                     void *arg)
{
    const struct nfqnl_msg_packet_hdr *header = nfq_get_msg_packet_hdr(data);
    struct packet packet = {.id = ntohl(header->packet_id)};

    (void)message;
    (void)arg;
    if (held_count == HELD_MAX)
        return nfq_set_verdict(queue, packet.id, NF_ACCEPT, 0, NULL);
    packet.due_us = now_us() + delay_us + (jitter_us ? random() % jitter_us : 0);
    packet.drop = random() % 100 < loss_percent;
    held[held_count++] = packet;
    return 0;
}

/* Lets go what is due; when the next one is. */
static int64_t let_go(struct nfq_q_handle *queue)
{
    int64_t now = now_us(), next = now + 1000000;
    unsigned kept = 0;

    for (unsigned i = 0; i < held_count; i++) {
        if (held[i].due_us <= now) {
            nfq_set_verdict(queue, held[i].id, held[i].drop ? NF_DROP : NF_ACCEPT, 0, NULL);
            continue;
        }
        if (held[i].due_us < next)
            next = held[i].due_us;
        held[kept++] = held[i];
    }
    held_count = kept;
    return next;
}

int main(int argc, char **argv)
{
    static char buffer[65536] __attribute__((aligned(8)));
    struct nfq_handle *handle = argc > 2 ? nfq_open() : NULL;
    struct nfq_q_handle *queue;
    struct pollfd input;

    queue = handle ? nfq_create_queue(handle, (uint16_t)atoi(argv[1]), on_packet, NULL) : NULL;
    if (!queue) {
        perror("nfqdelay");
        return 1;
    }
    delay_us = atoll(argv[2]) * 1000;
    jitter_us = argc > 3 ? atoll(argv[3]) * 1000 : 0;
    loss_percent = argc > 4 ? atoi(argv[4]) : 0;
    nfq_set_mode(queue, NFQNL_COPY_META, 0);
    nfq_set_queue_maxlen(queue, HELD_MAX);
    input = (struct pollfd){.fd = nfq_fd(handle), .events = POLLIN};
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t wait_us = let_go(queue) - now_us();
        ssize_t size;

        if (poll(&input, 1, wait_us > 0 ? (int)(wait_us / 1000) + 1 : 0) <= 0)
            continue;
        size = recv(input.fd, buffer, sizeof(buffer), 0);
        if (size > 0)
            nfq_handle_packet(handle, buffer, (int)size);
        else if (errno != ENOBUFS && errno != EINTR)
            return 1;
    }
}

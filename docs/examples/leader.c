/* Leader election: of all the processes that run this, on any hosts, one leads; when it dies, hangs
 * or is cut off, the next one does.
 *
 *     cc leader.c -lholdfast -o leader && ./leader app/leader
 */
#include <holdfast.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void say_who_leads(const struct hf_progress *progress, void *arg)
{
    (void)arg;
    if (progress->reason == HF_EBUSY)
        printf("%s leads, pid %u\n", progress->holder.host, progress->holder.pid);
    else
        printf("nobody can lead now: %s\n", hf_strerror(progress->reason));
    fflush(stdout);
}

/* Waits for its turn, and for a signal to stop. */
static int be_elected(hf_client *client, const char *name, hf_lease **ret_lease)
{
    struct hf_acquire_options options = {
        .size = sizeof(options),
        .name = name,
        .name_len = strlen(name),
        .ttl_ms = 10000,      /* a host that is gone is followed after so long */
        .wait_ms = -1,        /* no limit */
        .heartbeat_ms = 5000, /* a leader that hangs loses its office */
        .progress = say_who_leads,
    };
    struct pollfd events = {.fd = hf_fd(client), .events = POLLIN};
    hf_op *op;
    int status;

    if (events.fd < 0)
        return events.fd;
    status = hf_acquire_start(client, &options, &op);
    if (status < 0)
        return status;
    while ((status = hf_op_result(op, ret_lease)) == HF_EPENDING && !stopping) {
        poll(&events, 1, 500);
        hf_dispatch(client);
    }
    if (status == HF_EPENDING) {
        hf_op_cancel(op);
        return HF_ECANCELED;
    }
    return status;
}

/* Small steps, and the question before each. Whatever a step writes to gets the fence along, and
 * refuses one that is lower than it has seen: see fenced_store.py. */
static void lead(hf_lease *lease)
{
    printf("leading with fence %llu\n", (unsigned long long)hf_fence(lease));
    fflush(stdout);
    while (!stopping && hf_held(lease)) {
        int state = hf_wait(lease, HF_STATE_HELD, 100); /* a step of the work */

        if (state == HF_STATE_LOSING || state == HF_STATE_LOST)
            break; /* put the work down now, while it is still held */
        hf_beat(lease);
    }
    printf("no longer leading%s%s\n", *hf_reason(lease) ? ": " : "", hf_reason(lease));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    hf_client *client;
    hf_lease *lease;
    int status;

    if (argc != 2) {
        fprintf(stderr, "usage: leader NAME\n");
        return 64;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    status = hf_connect(NULL, &client);
    while (status == HF_OK && !stopping) {
        status = be_elected(client, argv[1], &lease);
        if (status == HF_OK) {
            lead(lease);
            hf_release(lease); /* at once the next one's */
        }
    }
    if (status < 0 && status != HF_ECANCELED && status != HF_EINTR) {
        fprintf(stderr, "leader: %s\n", hf_last_message());
        return 1;
    }
    hf_disconnect(client);
    return 0;
}

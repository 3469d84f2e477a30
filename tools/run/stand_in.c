#include "tools/run/stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/say.h"
#include "tools/run/timeline.h"
#include "tools/run/ttl.h"

#define NS_PER_MS INT64_C(1000000)
#define PATIENCE_MS                                                                                \
    2000 /* with a stand-in that says nothing, beyond the time in which it may look for the agent */

/* What the two tell each other. */
struct word {
    int status; /* to the first process: joined, or why not; to the stand-in: it is dismissed, or RELEASING */
    int64_t by_ns;
    char text[256];
};
#define RELEASING 1

struct stand {
    struct hold hold;
    struct timeline timeline;
    int64_t asked_ns;
    int64_t release_by_ns; /* 0: it is not being released */
    int link_fd, first_fd, timer_fd;
    bool acted; /* the first one was killed by us */
};

/* Whoever reads what the first process writes must see the end with it. */
static void close_streams(int from, int to)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    for (int stream = from; stream <= to; stream++)
        dup2(fd, stream);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* The first process did not go by itself. The lock is not released: whoever worked under it has the rest of the validity to see it. */
static void act(struct stand *stand)
{
    const char *name, *reason = hold_reason(&stand->hold, &name);

    if (stand->acted)
        return;
    stand->acted = true;
    syscall(SYS_pidfd_send_signal, stand->first_fd, SIGKILL, NULL, 0);
    say("%s: the lock is lost%s%s; the holding process did not tell it, and was killed", name,
        *reason ? ": " : "", reason);
}

/* False: the first process is gone, or has dismissed us. */
static bool hear(struct stand *stand, bool *ret_dismissed)
{
    struct word word;
    ssize_t got = recv(stand->link_fd, &word, sizeof(word), MSG_DONTWAIT);

    *ret_dismissed = got > 0;
    if (got == (ssize_t)sizeof(word) && word.status == RELEASING) {
        stand->release_by_ns = word.by_ns;
        return true;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static int64_t act_at(const struct stand *stand)
{
    /* What is being released is over in the leases' slots from the first moment on. */
    return (stand->release_by_ns ? stand->release_by_ns : stand->timeline.kill_at_ns) +
           stand->timeline.ttl_ns / 50;
}

static void sleep_until(const struct stand *stand, int64_t at_ns)
{
    struct pollfd fds[] = {
        {.fd = stand->link_fd, .events = POLLIN},
        {.fd = stand->timer_fd, .events = POLLIN},
        {.fd = hf_fd(stand->hold.client), .events = POLLIN},
    };

    timeline_arm(stand->timer_fd, at_ns);
    if (poll(fds, 3, -1) > 0 && fds[2].revents)
        hf_dispatch(stand->hold.client);
}

static void watch(struct stand *stand)
{
    bool dismissed;

    while (hear(stand, &dismissed)) {
        int64_t now_ns = timeline_now_ns(), next_ns;
        enum timeline_phase phase;

        timeline_set_ttl(&stand->timeline,
                         ttl_now_ns(stand->hold.client, stand->asked_ns, stand->timeline.ttl_ns));
        phase = timeline_judge(&stand->timeline, now_ns, hold_valid_until_ns(&stand->hold),
                               hold_state(&stand->hold) == HF_STATE_LOSING);
        next_ns = timeline_next(&stand->timeline, now_ns);
        if (phase == TIMELINE_KILL && now_ns >= act_at(stand))
            act(stand);
        else if (phase == TIMELINE_KILL && act_at(stand) < next_ns)
            next_ns = act_at(stand);
        sleep_until(stand, next_ns);
    }
    if (dismissed || stand->acted)
        return;
    close_streams(STDERR_FILENO, STDERR_FILENO);
    (void)hold_release(&stand->hold);
}

static void tell_first(int fd, int status)
{
    struct word word = {.status = status};
    ssize_t sent;

    if (status < 0)
        snprintf(word.text, sizeof(word.text), "%s", hf_last_message());
    sent = send(fd, &word, sizeof(word), MSG_NOSIGNAL);
    (void)sent; /* its end is noticed elsewhere */
}

static _Noreturn void be_stand_in(const struct hold *hold, const struct hf_ticket *tickets,
                                  int64_t asked_ns, int link_fd, int first_fd)
{
    struct stand stand = {
        .asked_ns = asked_ns, .link_fd = link_fd, .first_fd = first_fd, .hold = {0}};
    int status;

    (void)setsid();
    close_streams(STDIN_FILENO, STDOUT_FILENO);
    /* An agent that is just restarting gets at least the time that a new lock has. */
    status = hold_join_patiently(hold, tickets, asked_ns / 2, link_fd, &stand.hold);
    hf_disconnect(hold->client);
    stand.timer_fd = timeline_timer();
    if (status == HF_OK && stand.timer_fd < 0)
        status = HF_ESYS;
    tell_first(link_fd, status);
    if (status < 0)
        _exit(1);
    timeline_init(&stand.timeline, asked_ns, 0);
    watch(&stand);
    _exit(0);
}

/* The stand-in's word, or why there is none. */
static int await_word(const struct stand_in *stand_in, int64_t asked_ns, struct word *ret_word)
{
    struct pollfd fd = {.fd = stand_in->link_fd, .events = POLLIN};
    int64_t most_ms = asked_ns / 2 / NS_PER_MS + PATIENCE_MS;

    *ret_word = (struct word){.status = HF_ETIMEDOUT, .text = "it does not answer"};
    if (poll(&fd, 1, most_ms > INT32_MAX ? INT32_MAX : (int)most_ms) == 1 &&
        recv(stand_in->link_fd, ret_word, sizeof(*ret_word), MSG_DONTWAIT) !=
            (ssize_t)sizeof(*ret_word))
        *ret_word = (struct word){.status = HF_ESYS, .text = "it was killed"};
    return ret_word->status;
}

/* Its descriptors close with a failure's exit. */
static int fork_it(struct stand_in *stand_in, const struct hold *hold,
                   const struct hf_ticket *tickets, int64_t asked_ns)
{
    int links[2], first_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (first_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) < 0)
        return HF_ESYS;
    stand_in->pid = fork();
    if (stand_in->pid == 0) {
        close(links[0]);
        be_stand_in(hold, tickets, asked_ns, links[1], first_fd);
    }
    close(first_fd);
    close(links[1]);
    if (stand_in->pid < 0) {
        stand_in->pid = 0;
        close(links[0]);
        return HF_ESYS;
    }
    stand_in->link_fd = links[0];
    return HF_OK;
}

int stand_in_start(struct stand_in *stand_in, const struct hold *hold, int64_t asked_ns)
{
    struct hf_ticket tickets[HF_EXCLUSIVE_LEASES];
    struct word word;
    int status = hold_tickets(hold, tickets);

    *stand_in = (struct stand_in){.link_fd = -1};
    if (status < 0) {
        say("%s: %s", hold->names[0], hf_last_message());
        return status;
    }
    status = fork_it(stand_in, hold, tickets, asked_ns);
    explicit_bzero(tickets, sizeof(tickets));
    if (status < 0) {
        say("%s: no second process can be made: %s", hold->names[0], strerror(errno));
        return status;
    }
    status = await_word(stand_in, asked_ns, &word);
    if (status < 0) {
        say("%s: the second process cannot join the lease: %s", hold->names[0], word.text);
        stand_in_dismiss(stand_in);
    }
    return status;
}

bool stand_in_is_gone(struct stand_in *stand_in)
{
    struct pollfd fd = {.fd = stand_in->link_fd, .events = POLLIN};

    if (!stand_in->pid || poll(&fd, 1, 0) == 0)
        return false;
    stand_in_dismiss(stand_in);
    return true;
}

void stand_in_releases(const struct stand_in *stand_in, int64_t by_ns)
{
    const struct word word = {.status = RELEASING, .by_ns = by_ns};

    if (stand_in->link_fd >= 0)
        (void)send(stand_in->link_fd, &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void stand_in_dismiss(struct stand_in *stand_in)
{
    const struct word word = {0};

    if (stand_in->link_fd >= 0) {
        (void)send(stand_in->link_fd, &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL);
        close(stand_in->link_fd);
    }
    if (stand_in->pid) {
        kill(stand_in->pid, SIGKILL); /* it may be stopped */
        while (waitpid(stand_in->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    *stand_in = (struct stand_in){.link_fd = -1};
}

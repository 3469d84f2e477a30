#include "agent/process/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/process/fleet_wishes.h"
#include "agent/process/reload.h"
#include "shm/assert.h"
#include "shm/status.h"

#define PATIENCE hf_ms(2000)

static int control_listen_anew(struct control *c, const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error, fd;

    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", dir) >=
        (int)sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return HF_ESYS;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return HF_ESYS;
    (void)unlink(address.sun_path); /* the agent's lock is held; bind() takes the inode */
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        chmod(address.sun_path, 0600) < 0 || listen(fd, 64) < 0) {
        error = errno;
        close(fd);
        errno = error;
        return HF_ESYS;
    }
    c->listener = fd;
    for (int i = 0; i < CONTROL_PEERS; i++)
        c->peers[i].fd = -1;
    return HF_OK;
}

int control_open(struct control *c, struct agent *agent, const char *dir, struct reload *reload)
{
    struct fleet_wishes *wishes;
    int error, rc = fleet_wishes_create(agent, &wishes);

    if (rc < 0)
        return rc;
    if (!c->listener && (rc = control_listen_anew(c, dir)) < 0) {
        error = errno;
        fleet_wishes_destroy(wishes);
        errno = error;
        return rc;
    }
    c->agent = agent;
    c->reload = reload;
    c->wishes = wishes;
    for (int i = 0; i < CONTROL_PEERS; i++)
        c->peers[i].until = hf_time_add(clock_now(), PATIENCE);
    return HF_OK;
}

/* Who listens, and not who made the file: that may have been killed. */
pid_t control_find(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t length = sizeof(peer);
    int fd, made = snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", dir);

    if ((size_t)made >= sizeof(address.sun_path))
        return 0;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        peer.pid = 0;
    close(fd);
    return peer.pid;
}

static void control_drop_one(struct control_peer *peer)
{
    hf_assert(peer->fd >= 0, "written %zu of %zu", peer->written, peer->answer_length);
    close(peer->fd);
    free(peer->answer);
    *peer = (struct control_peer){.fd = -1};
}

static bool control_is_waiting(const struct control_peer *peer)
{
    return peer->reload || peer->wish || peer->later;
}

size_t control_poll(const struct control *c, struct pollfd *polls)
{
    size_t count = 0, busy = 0;

    for (int i = 0; i < CONTROL_PEERS; i++)
        if (c->peers[i].fd >= 0) {
            polls[count++] = (struct pollfd){.fd = c->peers[i].fd,
                                             .events = c->peers[i].answer                 ? POLLOUT
                                                       : control_is_waiting(&c->peers[i]) ? 0
                                                                                          : POLLIN};
            busy++;
        }
    if (busy < CONTROL_PEERS)
        polls[count++] = (struct pollfd){.fd = c->listener, .events = POLLIN};
    hf_assert(count <= CONTROL_POLLS, "polls %zu", count);
    return count;
}

/* --- one request ------------------------------------------------------------------------------ */

static void control_answer_fleet(struct control *c, FILE *out)
{
    struct fleet_shown shown;

    fleet_board_look(&c->agent->fleet_board, &shown);
    fleet_answer(&shown, clock_now(), out);
}

/* As files have them. Who reads it is tools/doctor/doctor_fleet.c; the number is the form's version. */
static void control_answer_rules(struct control *c, FILE *out) IN_MAIN_THREAD
{
    const struct rules *rules = &reload_in_force(c->reload)->rules;

    fprintf(out, "rules 1\n");
    for (int i = 0; i < rules->count; i++)
        fprintf(out, "rule %s\n", rules->rule[i].text);
    fprintf(out, "others take=%s\nend\n", rules_are_closed(rules) ? "no" : "yes");
}

static void control_answer(struct control *c, const char *request, FILE *out) IN_MAIN_THREAD
{
    if (strcmp(request, "fleet") == 0)
        control_answer_fleet(c, out);
    else if (strcmp(request, "rules") == 0)
        control_answer_rules(c, out);
    else
        fprintf(out, "error: the requests are: fleet, fleet-change, rules, reload\n");
}

static void control_answer_text(struct control_peer *peer, const char *before, const char *text,
                                const char *after)
{
    FILE *out = open_memstream(&peer->answer, &peer->answer_length);

    if (out)
        fprintf(out, "%s%s%s", before, text, after);
    if (!out || fclose(out) != 0 || !peer->answer)
        control_drop_one(peer);
}

static void control_begin_answer(struct control *c, struct control_peer *peer) IN_MAIN_THREAD
{
    FILE *out = open_memstream(&peer->answer, &peer->answer_length);

    if (!out) {
        control_drop_one(peer);
        return;
    }
    control_answer(c, peer->request, out);
    if (fclose(out) != 0 || !peer->answer)
        control_drop_one(peer);
}

/* A peer whose reload or change of the fleet is over gets its answer. */
static void control_answer_waiting(struct control *c, struct control_peer *peer) IN_MAIN_THREAD
{
    const char *text;
    bool applied;

    if (peer->reload && reload_over(c->reload, peer->reload, &applied, &text))
        control_answer_text(peer, applied ? "reloaded: " : "error: ", text, "\n");
    else if (peer->wish && fleet_wishes_over(c->wishes, peer->wish, &text))
        control_answer_text(peer, "", text, "");
}

static void control_ask_for_change(struct control *c, struct control_peer *peer) IN_MAIN_THREAD
{
    struct ucred asker = {.uid = getuid()};
    socklen_t length = sizeof(asker);
    char why[512];

    (void)getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &asker, &length);
    peer->wish = fleet_wishes_ask(c->wishes, peer->request, asker.uid, reload_in_force(c->reload),
                                  why, sizeof(why));
    if (!peer->wish)
        control_answer_text(peer, "error: ", why, "\n");
}

/* (!) An agent that is about to start again begins no reload, which would keep it from that. */
static void control_take_request(struct control *c, struct control_peer *peer) IN_MAIN_THREAD
{
    bool is_reload = strcmp(peer->request, "reload") == 0;

    peer->later = is_reload && atomic_load_explicit(&c->agent->again, memory_order_acquire);
    if (peer->later)
        return;
    if (is_reload)
        peer->reload = reload_ask(c->reload);
    else if (strncmp(peer->request, FLEET_REQUEST, strlen(FLEET_REQUEST)) == 0)
        control_ask_for_change(c, peer);
    else
        control_begin_answer(c, peer);
}

static void control_read_request(struct control *c, struct control_peer *peer) IN_MAIN_THREAD
{
    size_t room = sizeof(peer->request) - peer->request_length;
    ssize_t got = recv(peer->fd, peer->request + peer->request_length, room, MSG_DONTWAIT);
    char *end;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        peer->request_length += (size_t)got;
    end = memchr(peer->request, '\n', peer->request_length);
    if (!end && (got <= 0 || peer->request_length == sizeof(peer->request))) {
        control_drop_one(peer);
        return;
    }
    if (!end)
        return;
    *end = '\0';
    control_take_request(c, peer);
}

static void control_write_answer(struct control_peer *peer)
{
    ssize_t done = send(peer->fd, peer->answer + peer->written, peer->answer_length - peer->written,
                        MSG_DONTWAIT | MSG_NOSIGNAL);

    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (done > 0)
        peer->written += (size_t)done;
    hf_assert(peer->written <= peer->answer_length, "written %zu of %zu", peer->written,
              peer->answer_length);
    if (done < 0 || peer->written == peer->answer_length)
        control_drop_one(peer);
}

/* (!) A change may have the agent start again before the peer that asked for it has its answer. */
static void control_answer_last(struct control *c, struct control_peer *peer) IN_MAIN_THREAD
{
    if (control_is_waiting(peer) && !peer->answer)
        control_answer_waiting(c, peer);
    if (peer->fd >= 0 && peer->answer)
        control_write_answer(peer);
}

void control_pause(struct control *c)
{
    fleet_wishes_end(c->wishes);
    for (int i = 0; i < CONTROL_PEERS; i++) {
        struct control_peer *peer = &c->peers[i];

        if (peer->fd >= 0)
            control_answer_last(c, peer);
        peer->later = peer->fd >= 0 && control_is_waiting(peer) && !peer->answer;
        peer->reload = peer->wish = 0; /* their numbers are this run's */
    }
    fleet_wishes_destroy(c->wishes);
    c->wishes = NULL;
}

void control_drop(struct control *c)
{
    if (!c->listener)
        return;
    for (int i = 0; i < CONTROL_PEERS; i++)
        if (c->peers[i].fd >= 0)
            control_drop_one(&c->peers[i]);
    close(c->listener); /* singleton_release() removes its file, or keeps it for the next agent */
    c->listener = 0;
}

void control_close(struct control *c)
{
    control_pause(c);
    control_drop(c);
}

static void control_take_peer(struct control *c, hf_time now)
{
    int fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    for (int i = 0; fd >= 0 && i < CONTROL_PEERS; i++)
        if (c->peers[i].fd < 0) {
            c->peers[i].fd = fd;
            c->peers[i].until = hf_time_add(now, PATIENCE);
            return;
        }
    if (fd >= 0)
        close(fd);
}

void control_serve(struct control *c, const struct pollfd *polls, size_t count, hf_time now)
{
    fleet_wishes_turn(c->wishes);
    for (size_t p = 0; p < count; p++) {
        if (!polls[p].revents)
            continue;
        if (polls[p].fd == c->listener) {
            control_take_peer(c, now);
            continue;
        }
        for (int i = 0; i < CONTROL_PEERS; i++) {
            struct control_peer *peer = &c->peers[i];

            if (peer->fd != polls[p].fd)
                continue;
            peer->until = hf_time_add(now, PATIENCE);
            if (peer->answer)
                control_write_answer(peer);
            else if (control_is_waiting(peer))
                control_drop_one(peer); /* it hung up: what it asked for goes on */
            else
                control_read_request(c, peer);
            break;
        }
    }
    for (int i = 0; i < CONTROL_PEERS; i++) {
        struct control_peer *peer = &c->peers[i];

        if (peer->fd >= 0 && control_is_waiting(peer) && !peer->answer) {
            peer->until = hf_time_add(now, PATIENCE);
            if (peer->later)
                control_take_request(c, peer);
            control_answer_waiting(c, peer);
        }
        if (peer->fd >= 0 && hf_time_reached(now, peer->until))
            control_drop_one(peer);
    }
}

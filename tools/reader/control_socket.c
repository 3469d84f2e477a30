#include "tools/reader/control_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/common/args.h"

/* The agent's control socket; -1 with errno. */
static int control_connect_to(const struct place *place, int patience_s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = patience_s};
    int fd, error;

    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", place->dir) >=
        (int)sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* EXIT_OK; EXIT_DENIED and EXIT_UNAVAILABLE with a sentence. */
static int control_reach(const struct place *place, const struct control_request *request,
                         int *ret_fd, char *why, size_t why_size)
{
    int fd = control_connect_to(place, request->patience_s);

    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        snprintf(why, why_size, "only root and the agent's own user may %s: %s/control",
                 request->purpose, place->dir);
        return EXIT_DENIED;
    }
    if (fd < 0) {
        snprintf(why, why_size,
                 "start holdfastd, or name another agent with --agent: no agent %s runs here",
                 place->agent);
        return EXIT_UNAVAILABLE;
    }
    *ret_fd = fd;
    return EXIT_OK;
}

/* All of the answer; its length, 0: none came. */
static size_t control_exchange(int fd, const char *line, char *ret_answer, size_t size)
{
    char request[CONTROL_REQUEST_MOST + 2];
    int said = snprintf(request, sizeof(request), "%s\n", line);
    size_t length = 0;
    ssize_t got;

    if (send(fd, request, (size_t)said, MSG_NOSIGNAL) != said)
        return 0;
    while (length < size - 1) {
        got = recv(fd, ret_answer + length, size - 1 - length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    ret_answer[length] = '\0';
    return length && ret_answer[length - 1] == '\n' ? length : 0;
}

/* Takes `fd`. */
static int control_talk(int fd, const struct control_request *request, char *ret_answer,
                        size_t size, char *why, size_t why_size)
{
    size_t length = control_exchange(fd, request->line, ret_answer, size);

    close(fd);
    if (length)
        return EXIT_OK;
    snprintf(why, why_size, "the agent ended or hangs: no answer; see holdfast status");
    return EXIT_UNAVAILABLE;
}

int control_ask_at(const struct place *place, const struct control_request *request,
                   char *ret_answer, size_t size, char *why, size_t why_size)
{
    int fd = -1, code = control_reach(place, request, &fd, why, why_size);

    return code == EXIT_OK ? control_talk(fd, request, ret_answer, size, why, why_size) : code;
}

int control_ask(const char *agent, const struct control_request *request, struct place *ret_place,
                char *ret_answer, size_t size, char *why, size_t why_size)
{
    struct place places[PLACES_MAX];
    int count = places_find(agent, places, why, why_size), code = EXIT_USAGE, fd = -1;

    for (int i = 0; i < count; i++) {
        code = control_reach(&places[i], request, &fd, why, why_size);
        if (code == EXIT_UNAVAILABLE)
            continue;
        if (code == EXIT_OK) {
            *ret_place = places[i];
            code = control_talk(fd, request, ret_answer, size, why, why_size);
        }
        break;
    }
    return code;
}

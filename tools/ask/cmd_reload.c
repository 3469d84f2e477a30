/* holdfast reload: has the agent read its configuration again, and waits for the result. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/ask/ask.h"
#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/output/format.h"
#include "tools/reader/places.h"
#include "tools/reader/reader_args.h"

#define PATIENCE_S 60 /* a reload takes two seconds at most, and another one may run */
#define REFUSED    "error: "

/* The agent's control socket; -1 with errno. */
static int connect_to(const struct place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd, error;

    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", place->dir) >=
        (int)sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The first of the places where an agent is; EXIT_OK, or the exit code after a message. */
static int find_agent(const char *agent, int *ret_fd)
{
    struct place places[PLACES_MAX];
    char why[512];
    int count = places_find(agent, places, why, sizeof(why)), fd;

    if (count < 0) {
        fprintf(stderr, "holdfast reload: %s\n", why);
        return EXIT_USAGE;
    }
    for (int i = 0; i < count; i++) {
        fd = connect_to(&places[i]);
        if (fd >= 0) {
            *ret_fd = fd;
            return EXIT_OK;
        }
        if (errno == EACCES || errno == EPERM) {
            fprintf(
                stderr,
                "holdfast reload: only root and the agent's own user may reload it: %s/control\n",
                places[i].dir);
            return EXIT_DENIED;
        }
    }
    fprintf(
        stderr,
        "holdfast reload: no agent %s runs here: start holdfastd, or name another with --agent\n",
        places[count - 1].agent);
    return EXIT_UNAVAILABLE;
}

/* All of the answer; its length, 0: none came. */
static size_t ask(int fd, char *ret_answer, size_t size)
{
    static const char request[] = "reload\n";
    size_t length = 0;
    ssize_t got;

    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
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

int cmd_reload(int argc, char **argv)
{
    char answer[8192];
    struct reader_args args;
    size_t length;
    int fd,
        code = reader_args_parse(
            argc, argv, "", "reload [options]",
            "Has the agent read its configuration file again, and waits until that is applied "
            "or refused.\nNothing is half applied: when one thing is wrong, all stays as it is.\n"
            "Exit code: 0 applied, 78 refused, 69 no agent, 77 not allowed.",
            &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = find_agent(args.agent, &fd);
    if (code != EXIT_OK)
        return code;
    length = ask(fd, answer, sizeof(answer));
    close(fd);
    if (length == 0) {
        fputs("holdfast reload: the agent ended or hangs: no answer; see holdfast status\n",
              stderr);
        return EXIT_UNAVAILABLE;
    }
    if (strncmp(answer, REFUSED, sizeof(REFUSED) - 1) == 0) {
        fprintf(stderr, "holdfast reload: refused, and nothing changes: %s",
                answer + sizeof(REFUSED) - 1);
        return EXIT_CONFIG;
    }
    fputs(answer, stdout);
    return format_finish("reload", EXIT_OK);
}

#include "tests/support/redis_server.h"
#include "tests/support/scratch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 32
#define START_MS 20000

static void sleep_ms(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 0;

    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

static bool answers(const struct redis_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {5, 0};
    char answer[8] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->socket);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    /* Any answer will do: it may want a password. */
    ok = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
         send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && recv(fd, answer, sizeof(answer), 0) > 0;
    close(fd);
    return ok;
}

static void run_server(const struct redis_server *server, const char *const *options)
{
    char port[12];
    const char *args[ARGS_MAX] = {
        "redis-server", "--port",    port,  "--unixsocket", server->socket, "--save", "", "--dir",
        server->dir,    "--logfile", "log", "--bind",       "127.0.0.1",    "-::1"};
    int n = 14;
    int log = open("/dev/null", O_RDWR);

    snprintf(port, sizeof(port), "%d", server->has_tcp ? server->port : 0);
    for (; options && *options && n < ARGS_MAX - 1; options++)
        args[n++] = *options;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    execvp("redis-server", (char **)args);
    _exit(127);
}

bool redis_server_start(struct redis_server *server, const char *const *options)
{
    if (server->dir[0] == '\0') {
        scratch_path(server->dir, sizeof(server->dir));
        if (!mkdtemp(server->dir)) {
            perror("mkdtemp");
            return false;
        }
        snprintf(server->socket, sizeof(server->socket), "%s/redis.sock", server->dir);
    }
    if (server->has_tcp && server->port == 0)
        server->port = free_port();
    server->pid = fork();
    if (server->pid == 0)
        run_server(server, options);
    for (int waited = 0; waited < START_MS; waited += 10) {
        if (answers(server))
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid)
            break;
        sleep_ms(10);
    }
    fprintf(stderr, "redis-server does not start; see %s/log\n", server->dir);
    return false;
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
    unlink(server->socket);
}

void redis_server_pause(struct redis_server *server)
{
    int status;

    if (server->pid <= 0)
        abort(); /* it was killed: 0 would be the caller's own process group */
    kill(server->pid, SIGSTOP);
    waitpid(server->pid, &status, WUNTRACED);
}

void redis_server_resume(struct redis_server *server)
{
    kill(server->pid, SIGCONT);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void redis_server_remove(struct redis_server *server)
{
    redis_server_kill(server);
    if (server->dir[0])
        nftw(server->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    server->dir[0] = '\0';
}

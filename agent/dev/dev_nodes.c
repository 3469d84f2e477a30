#include "agent/dev/dev_nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/process/notify.h"
#include "shm/status.h"

#define SERVER     "redis-server"
#define REMEDY     "install it (Debian: apt install redis-server) or see that it is in PATH"
#define DIR_PREFIX "dev-"
/* Servers are up within 50 ms; a loaded machine may take much longer. */
#define START_MOST (20 * HF_NS_PER_SEC)
#define STOP_MOST  (5 * HF_NS_PER_SEC)

/* --- directories ------------------------------------------------------------------------------ */

/* The directory has only one level: sockets and logs. */
static void nodes_remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    (void)closedir(dir);
    (void)rmdir(path);
}

void dev_nodes_clean(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    struct stat st;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        char old[1024];

        if (strncmp(entry->d_name, DIR_PREFIX, strlen(DIR_PREFIX)) != 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
            continue;
        snprintf(old, sizeof(old), "%s/%s", path, entry->d_name);
        log_info("removing the private nodes of an earlier agent: %s", old);
        nodes_remove_dir(old);
    }
    (void)closedir(dir);
}

/* --- one server ------------------------------------------------------------------------------- */

/* In the child. A failure is told through the pipe `report`. */
static void nodes_become_server(const struct dev_nodes *nodes, int number, pid_t wrapper,
                                int report)
{
    char socket_path[700], log_path[700];
    char *argv[] = {SERVER,         "--port",    "0",
                    "--unixsocket", socket_path, "--unixsocketperm",
                    "700",          "--save",    "",
                    "--appendonly", "no",        "--maxmemory-policy",
                    "noeviction",   "--dir",     (char *)nodes->dir,
                    "--logfile",    log_path,    "--daemonize",
                    "no",           NULL};
    sigset_t none;
    int null, error;

    /* Ends with the wrapper, even if the wrapper is killed. The wrapper may be gone before the
     * first of these two lines. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != wrapper)
        _exit(1);
    /* Its own group: a Ctrl-C at the terminal is for the agent, which ends its jobs first. */
    (void)setpgid(0, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(socket_path, sizeof(socket_path), "%s/n%d.sock", nodes->dir, number + 1);
    snprintf(log_path, sizeof(log_path), "%s/n%d.log", nodes->dir, number + 1);
    null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
    }
    execvp(SERVER, argv);
    error = errno;
    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

static int nodes_start_server(struct dev_nodes *nodes, int number, char *why, size_t why_size)
{
    int report[2], error;
    pid_t wrapper = getpid(), pid;
    ssize_t got;

    if (pipe2(report, O_CLOEXEC) < 0)
        goto error_errno;
    pid = fork();
    if (pid == 0)
        nodes_become_server(nodes, number, wrapper, report[1]);
    error = errno;
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        errno = error;
        goto error_errno;
    }
    /* A successful exec closes it, so this waits no longer than that. */
    do
        got = read(report[0], &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    close(report[0]);
    if (got == (ssize_t)sizeof(error)) {
        (void)waitpid(pid, NULL, 0);
        snprintf(why, why_size, "--dev cannot start " SERVER ": %s; %s", strerror(error), REMEDY);
        return HF_ENOAGENT;
    }
    nodes->pid[number] = pid;
    return HF_OK;

error_errno:
    snprintf(why, why_size, "--dev cannot start a process: %s", strerror(errno));
    return HF_ESYS;
}

/* Whether the server answers PING. */
static bool nodes_answers(const char *path)
{
    static const char ping[] = "PING\r\n", pong[] = "+PONG";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char reply[16] = "";
    struct pollfd ready;
    bool good = false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, ping, strlen(ping), MSG_NOSIGNAL) == (ssize_t)strlen(ping)) {
        ready = (struct pollfd){.fd = fd, .events = POLLIN};
        good = poll(&ready, 1, 1000) == 1 && recv(fd, reply, sizeof(reply) - 1, MSG_DONTWAIT) > 0 &&
               strncmp(reply, pong, strlen(pong)) == 0;
    }
    close(fd);
    return good;
}

/* The last line of the server's log, for people. */
static void nodes_last_words(const struct dev_nodes *nodes, int number, char *ret_text, size_t size)
{
    char path[700], line[256];
    FILE *file;

    ret_text[0] = '\0';
    snprintf(path, sizeof(path), "%s/n%d.log", nodes->dir, number + 1);
    file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file))
        snprintf(ret_text, size, "%.*s", (int)strcspn(line, "\n"), line);
    (void)fclose(file);
}

static int nodes_wait_for_server(struct dev_nodes *nodes, int number, const char *path,
                                 hf_time until, char *why, size_t why_size)
{
    char words[256];

    while (!nodes_answers(path)) {
        if (waitpid(nodes->pid[number], NULL, WNOHANG) == nodes->pid[number]) {
            nodes->pid[number] = 0;
            nodes_last_words(nodes, number, words, sizeof(words));
            snprintf(why, why_size, "--dev: " SERVER " ended at once: %s",
                     words[0] ? words : "it said nothing");
            return HF_ENOAGENT;
        }
        if (hf_time_reached(clock_now(), until)) {
            snprintf(why, why_size, "--dev: " SERVER " does not answer at %s", path);
            return HF_ENOAGENT;
        }
        (void)poll(NULL, 0, 5);
    }
    return HF_OK;
}

int dev_nodes_start(struct config *config, const char *dir, struct dev_nodes *ret_nodes, char *why,
                    size_t why_size)
{
    struct dev_nodes nodes = {.count = config->dev_nodes};
    hf_time until = hf_time_add(clock_now(), hf_ns(START_MOST));
    int rc = HF_OK;

    snprintf(nodes.dir, sizeof(nodes.dir), "%s/" DIR_PREFIX "XXXXXX", dir);
    if (!mkdtemp(nodes.dir)) {
        snprintf(why, why_size, "--dev cannot make a directory in %s: %s", dir, strerror(errno));
        return HF_ESYS;
    }
    for (int i = 0; i < nodes.count && rc == HF_OK; i++)
        rc = nodes_start_server(&nodes, i, why, why_size);
    for (int i = 0; i < nodes.count && rc == HF_OK; i++) {
        char text[1024];

        snprintf(text, sizeof(text), "n%d=unix:%s/n%d.sock", i + 1, nodes.dir, i + 1);
        rc = node_address_parse(text, &config->nodes[i], why, why_size);
        if (rc == HF_OK)
            rc = nodes_wait_for_server(&nodes, i, config->nodes[i].host, until, why, why_size);
    }
    if (rc < 0)
        dev_nodes_stop(&nodes);
    else
        *ret_nodes = nodes;
    return rc;
}

/* --- their end -------------------------------------------------------------------------------- */

void dev_nodes_reap(struct dev_nodes *nodes)
{
    for (int i = 0; i < nodes->count; i++)
        if (nodes->pid[i] > 0 && waitpid(nodes->pid[i], NULL, WNOHANG) == nodes->pid[i]) {
            log_warn("the private node n%d (pid %ld) has ended; it is not started again", i + 1,
                     (long)nodes->pid[i]);
            nodes->pid[i] = 0;
        }
}

static bool nodes_all_ended(struct dev_nodes *nodes)
{
    bool all = true;

    for (int i = 0; i < nodes->count; i++) {
        if (nodes->pid[i] > 0 && waitpid(nodes->pid[i], NULL, WNOHANG) != 0)
            nodes->pid[i] = 0;
        all = all && nodes->pid[i] <= 0;
    }
    return all;
}

static void nodes_signal_all(const struct dev_nodes *nodes, int signal)
{
    for (int i = 0; i < nodes->count; i++)
        if (nodes->pid[i] > 0)
            (void)kill(nodes->pid[i], signal);
}

void dev_nodes_stop(struct dev_nodes *nodes)
{
    hf_time until = hf_time_add(clock_now(), hf_ns(STOP_MOST));

    if (!nodes->dir[0])
        return;
    /* The servers keep nothing, so there is nothing to save. A stopped one
     * needs SIGKILL in any case. */
    nodes_signal_all(nodes, SIGKILL);
    while (!nodes_all_ended(nodes) && !hf_time_reached(clock_now(), until))
        (void)poll(NULL, 0, 2);
    nodes_remove_dir(nodes->dir);
    nodes->dir[0] = '\0';
    nodes->count = 0;
}

/* --- relays ----------------------------------------------------------------------------------- */

bool relay_open(const char *dir, struct relay *ret_relay)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *manager = getenv("NOTIFY_SOCKET");
    struct relay relay = {.fd = -1};

    if (!manager || !*manager) {
        *ret_relay = relay;
        return true;
    }
    /* It is not longer than a private node's, for which the configuration has left room. */
    if (snprintf(relay.path, sizeof(relay.path), "%s/notify", dir) >= (int)sizeof(relay.path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(address.sun_path, relay.path, sizeof(address.sun_path));
    relay.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (relay.fd < 0)
        return false;
    if (bind(relay.fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(relay.fd);
        return false;
    }
    *ret_relay = relay;
    return true;
}

void relay_adopt(const struct relay *relay)
{
    const char *watched = getenv("WATCHDOG_PID");

    if (relay->fd < 0)
        return;
    close(relay->fd);
    (void)setenv("NOTIFY_SOCKET", relay->path, 1);
    if (watched && strtoll(watched, NULL, 10) == getppid())
        (void)unsetenv("WATCHDOG_PID");
}

void relay_pass(const struct relay *relay)
{
    char state[1024];
    ssize_t got;

    while (relay->fd >= 0 && (got = recv(relay->fd, state, sizeof(state) - 1, 0)) > 0) {
        state[got] = '\0';
        notify_send(state);
    }
}

void relay_close(struct relay *relay)
{
    if (relay->fd >= 0)
        close(relay->fd);
    relay->fd = -1;
}

/* The datagrams of the attach: the hello, the welcome, and a job's control group. */
#include "libclient/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm/process.h"
#include "shm/version.h"

/* A small file of /proc as a string; "" when it cannot be read. */
static void hello_read_proc(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
}

static uint64_t hello_own_timens(void)
{
    struct stat st;

    return stat("/proc/self/ns/time", &st) == 0 ? st.st_ino : 0;
}

static void hello_own_comm(char comm[HF_COMM_MAX + 1])
{
    char text[64];

    hello_read_proc("/proc/self/comm", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(comm, HF_COMM_MAX + 1, "%.*s", HF_COMM_MAX,
                   *text ? text : program_invocation_short_name);
}

/* What a user is called in a user namespace that has no number for it, as for the host's root. */
#define NO_UID_HERE 65534

/* The process that listens at that path must be of a user trusted as an agent. */
static int hello_check_peer(int sock, const struct hfc_place *place, char *why, size_t why_size)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        (void)snprintf(why, why_size, "SO_PEERCRED: %m");
        return HF_ESYS;
    }
    if (peer.uid == 0 || peer.uid == geteuid() || peer.uid == place->owner)
        return HF_OK;
    (void)snprintf(
        why, why_size, "the agent at %s runs as uid %u: neither root nor the caller's own uid %u%s",
        place->path, (unsigned)peer.uid, (unsigned)geteuid(),
        peer.uid == NO_UID_HERE ? "; in a user namespace, mount its directory at " HF_SYSTEM_BASE
                                : "");
    return HF_EPERM;
}

/* While the socket's queue is full a blocking connect waits for its turn, which repeated tries would not
 * get. EAGAIN when that takes longer. */
static int hello_connect_in_turn(int sock, const struct sockaddr_un *address, int64_t wait_ns)
{
    const int64_t wait_us = wait_ns / 1000 + 1; /* 0 would mean no limit */
    const struct timeval wait = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
    int rc = connect(sock, (const struct sockaddr *)address, sizeof(*address)), error;

    if (rc == 0 || errno != EAGAIN || wait_ns <= 0)
        return rc;
    if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
        fcntl(sock, F_SETFL, 0) < 0)
        return -1;
    rc = connect(sock, (const struct sockaddr *)address, sizeof(*address));
    error = rc < 0 && errno == EINTR ? EAGAIN : errno;
    if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    errno = error;
    return rc;
}

static bool hello_is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* An agent of that name may run, with another directory than this program looks in. */
static void hello_say_elsewhere(const struct hfc_place *place, char *why, size_t why_size)
{
    struct hf_table_living living;
    size_t length;

    if (hello_is_directory(place->path))
        (void)snprintf(why, why_size, "%s is a directory; name the socket in it, %s/sock",
                       place->path, place->path);
    if (*place->others && hfc_is_served(place->others))
        (void)snprintf(why, why_size,
                       "no agent answers at %s, and it is not the host's agent; start it, use "
                       "--agent %s, or remove the "
                       "directory of %s if you have no agent any more",
                       place->path, place->others, place->path);
    if (!place->table[0] || !hf_table_find_living(place->table, place->table_owner, &living))
        return;
    length = strlen(living.dir);
    if (!length || (strncmp(place->path, living.dir, length) == 0 &&
                    strcmp(place->path + length, "/sock") == 0))
        return;
    (void)snprintf(why, why_size,
                   "no agent answers at %s; one of that name runs in %s (pid %u): use --agent "
                   "%s/sock, or unset HOLDFAST_RUNTIME_DIR",
                   place->path, living.dir, (unsigned)living.pid, living.dir);
}

static int hello_connect_to(const struct hfc_place *place, int64_t wait_ns, int *ret_sock,
                            char *why, size_t why_size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int status;

    if (sock < 0) {
        (void)snprintf(why, why_size, "socket: %m");
        return HF_ESYS;
    }
    strcpy(address.sun_path, place->path);
    if (hello_connect_in_turn(sock, &address, wait_ns) < 0) {
        int error = errno;
        bool denied = error == EACCES || error == EPERM;

        (void)snprintf(why, why_size, "%s: no agent answers at %s: %m",
                       denied ? "join the group that may use this agent, or name another"
                              : "start holdfastd, or name another agent",
                       place->path);
        if (!denied)
            hello_say_elsewhere(place, why, why_size);
        close(sock);
        errno = error;
        return denied ? HF_EPERM : HF_ENOAGENT;
    }
    status = hello_check_peer(sock, place, why, why_size);
    if (status < 0) {
        close(sock);
        return status;
    }
    *ret_sock = sock;
    return HF_OK;
}

bool hfc_is_served(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool served;

    if (sock < 0)
        return false;
    strcpy(address.sun_path, path);
    /* EAGAIN: so many connect that the queue has no place. */
    served = connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN;
    close(sock);
    return served;
}

int hfc_hello(const struct hfc_place *place, uint32_t role, const uint8_t *cookie, int64_t wait_ns,
              int *ret_sock, char *why, size_t why_size)
{
    struct hf_hello hello = {
        .magic = HF_WIRE_MAGIC,
        .major = HF_WIRE_MAJOR,
        .minor = HF_WIRE_MINOR,
        .fingerprint = hf_wire_fingerprint(),
        .start_time = hf_process_start_time(0),
        .timens_inode = hello_own_timens(),
        .role = role,
        .nudge = HF_NUDGE_WHO_POLLS,
        .version = HOLDFAST_VERSION,
    };
    int sock, status;

    memcpy(hello.cookie, cookie, sizeof(hello.cookie));
    hello_own_comm(hello.comm);
    if (!hello.start_time) { /* nor are its clock's namespace and its name known */
        (void)snprintf(why, why_size,
                       "mount /proc where this program runs: it does not show this process");
        return HF_ESYS;
    }
    status = hello_connect_to(place, wait_ns, &sock, why, why_size);
    if (status < 0)
        return status;
    hello.boottime_ns = hfc_now();
    if (send(sock, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(hello)) {
        (void)snprintf(why, why_size, "the agent at %s hung up: %m", place->path);
        close(sock);
        return HF_ENOAGENT;
    }
    *ret_sock = sock;
    return HF_OK;
}

static int hello_take_fds(struct msghdr *message, int fds[HF_WELCOME_FDS])
{
    int count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (count < HF_WELCOME_FDS)
                fds[count] = fd;
            else
                close(fd);
            count++;
        }
    }
    return count;
}

static int hello_judge(struct hf_welcome *welcome, ssize_t len, int fd_count, char *why,
                       size_t why_size)
{
    welcome->version[sizeof(welcome->version) - 1] = '\0';
    welcome->text[sizeof(welcome->text) - 1] = '\0';
    if (len != sizeof(*welcome) || welcome->magic != HF_WIRE_MAGIC) {
        (void)snprintf(why, why_size, "the agent's welcome is not one that this library (%s) knows",
                       HOLDFAST_VERSION);
        return HF_EVERSION;
    }
    if (welcome->status < 0) {
        (void)snprintf(why, why_size, "%s",
                       *welcome->text ? welcome->text : hf_status_text(welcome->status));
        return welcome->status;
    }
    if (welcome->major != HF_WIRE_MAJOR || welcome->ring_entries != HF_RING_ENTRIES) {
        (void)snprintf(why, why_size, "the agent %s speaks protocol %u.%u, this library (%s) %u.%u",
                       welcome->version, welcome->major, welcome->minor, HOLDFAST_VERSION,
                       HF_WIRE_MAJOR, HF_WIRE_MINOR);
        return HF_EVERSION;
    }
    if (welcome->status > 0 || fd_count != HF_WELCOME_FDS) {
        (void)snprintf(why, why_size, "the agent's welcome came with %d descriptors, not %d",
                       fd_count, HF_WELCOME_FDS);
        return HF_EPROTO;
    }
    return HF_OK;
}

int hfc_welcome(int sock, struct hf_welcome *ret_welcome, int ret_fds[HF_WELCOME_FDS],
                bool *ret_again, char *why, size_t why_size)
{
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(int) * HF_WELCOME_FDS)];
    } control;
    struct hf_welcome welcome = {0};
    struct iovec iov = {.iov_base = &welcome, .iov_len = sizeof(welcome)};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    int fds[HF_WELCOME_FDS], count, status;
    ssize_t len = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return HF_EPENDING;
    if (len <= 0) {
        (void)snprintf(why, why_size, "the agent hung up without a welcome");
        *ret_again = true;
        return HF_ENOAGENT;
    }
    count = hello_take_fds(&message, fds);
    if (message.msg_flags & MSG_CTRUNC) /* no room in our descriptor table */
        status = HF_ESYS, errno = EMFILE,
        (void)snprintf(
            why, why_size,
            "raise the limit on open files (ulimit -n): too many are open to attach to the agent");
    else
        status = hello_judge(&welcome, len, count, why, why_size);
    if (status < 0) {
        *ret_again = len == sizeof(welcome) && welcome.status < 0 && welcome.again;
        for (int i = 0; i < count && i < HF_WELCOME_FDS; i++)
            close(fds[i]);
        return status;
    }
    memcpy(ret_fds, fds, sizeof(fds));
    *ret_welcome = welcome;
    return HF_OK;
}

bool hfc_send_group(int sock, const int fds[HF_GROUP_FDS])
{
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(int) * HF_GROUP_FDS)];
    } control = {0};
    struct hf_group group = {.magic = HF_GROUP_MAGIC};
    struct iovec part = {.iov_base = &group, .iov_len = sizeof(group)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int) * HF_GROUP_FDS);
    memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * HF_GROUP_FDS);
    return sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(group);
}

/* --- where the agent is ----------------------------------------------------------------------- */

/* Finds an agent's socket, table and owner: a path (with '/') is the socket, a NAME is looked for
 * in the bases of shm/bases.h. */

static int places_fill(struct hfc_place *place, const struct hf_base *base, const char *name)
{
    int len = snprintf(place->path, sizeof(place->path), "%s/%s/sock", base->dir, name);

    if (len < 0 || (size_t)len >= sizeof(place->path))
        return hfc_fail(
            HF_EINVAL,
            "use a shorter directory or name: the socket path %s/%s/sock is longer than %zu bytes",
            base->dir, name, sizeof(place->path) - 1);
    place->owner = base->owner;
    place->table_owner = place->owner;
    place->others[0] = '\0';
    if (!base->system && !base->alone)
        (void)snprintf(place->others, sizeof(place->others), HF_SYSTEM_BASE "/%s/sock", name);
    if (hf_table_name(name, base->system, place->owner, place->table) < 0)
        return hfc_fail(
            HF_EINVAL,
            "name an agent by 1 to %d letters, digits, '.', '_' or '-', the first not a "
            "'.': '%.70s' is not an agent's name",
            HF_AGENT_NAME_MAX, name);
    return HF_OK;
}

/* The directory of the socket has the agent's name. */
static int places_from_path(struct hfc_place *place, const char *path)
{
    char name[HF_AGENT_NAME_MAX + 1];
    const char *end = strrchr(path, '/'), *start = end;
    bool system = hf_path_is_system(path);
    struct stat st;

    if (strlen(path) >= sizeof(place->path))
        return hfc_fail(HF_EINVAL, "use a shorter socket path: %.120s is longer than %zu bytes",
                        path, sizeof(place->path) - 1);
    strcpy(place->path, path);
    /* At a path of the caller's only root and the caller's own user are trusted. */
    place->owner = system ? hf_system_owner() : geteuid();
    place->table_owner = place->owner;
    if (!system && lstat(path, &st) == 0) /* only to read; we may have an agent of that name too */
        place->table_owner = st.st_uid;
    place->table[0] = place->others[0] = '\0';
    while (start > path && start[-1] != '/')
        start--;
    if (end > start && (size_t)(end - start) < sizeof(name)) {
        memcpy(name, start, (size_t)(end - start));
        name[end - start] = '\0';
        if (hf_table_name(name, system, place->table_owner, place->table) < 0)
            place->table[0] = '\0';
    }
    return HF_OK;
}

int hfc_places(const char *agent, struct hfc_place ret_places[HFC_PLACES_MAX], int *ret_count)
{
    struct hf_base bases[HF_BASES_MAX];
    int count, status;

    agent = hf_agent_or_default(agent);
    if (strchr(agent, '/')) {
        status = places_from_path(&ret_places[0], agent);
        if (status == HF_OK)
            *ret_count = 1;
        return status;
    }
    count = hf_bases_of(agent, bases);
    if (count < 0)
        return hfc_fail(count, "use a shorter runtime directory: its path is too long");
    for (int i = 0; i < count; i++) {
        status = places_fill(&ret_places[i], &bases[i], agent);
        if (status < 0)
            return status;
    }
    *ret_count = count;
    return HF_OK;
}

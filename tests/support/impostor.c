/* A client that wants to pass for another user, and tells what it got: "status CODE" of an acquire.
 *
 *   impostor SOCKET forged NAME       fills whatever it may write in its hello and its request with what root would have
 *   impostor SOCKET became UID NAME   attaches, becomes that user for good, and asks then
 *   impostor SOCKET passed UID NAME   is welcomed, and another process, of that user, asks with the descriptors that it was sent;
 *                                     prints "gone" once the first process has ended and the agent has cut the connection
 *
 * NAME is percent-encoded. Exit 0 unless something could not be tried.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/raw_client.h"

static struct raw_client raw;
static char name[256];
static size_t name_len;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "impostor: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void read_name(const char *text)
{
    while (*text && name_len < sizeof(name)) {
        unsigned byte = (unsigned char)*text++;

        if (byte == '%' && sscanf(text, "%2x", &byte) == 1)
            text += 2;
        name[name_len++] = (char)byte;
    }
}

static void attach(const char *path)
{
    if (raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
        die(raw.why);
}

static void ask(const struct hf_request_entry *entry)
{
    struct hf_completion_entry answer = {.status = HF_EPENDING};

    while (!raw_submit(&raw, entry))
        usleep(1000);
    for (int i = 0; i < RAW_PATIENCE_MS; i++, usleep(1000))
        if (hf_ring_reap(&raw.ring, &answer) != 0 && answer.op != HF_OP_PROGRESS)
            break;
    printf("status %d %s\n", answer.status, answer.text);
    fflush(stdout);
}

static void ask_for_it(void)
{
    const struct hf_request_entry entry = raw_acquire(1, name, name_len);

    ask(&entry);
}

static void become(uid_t uid)
{
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        die("become");
}

/* The zeroes where no field is are root's ids. */
static void forge(void)
{
    struct hf_request_entry entry = raw_acquire(1, name, name_len);

    entry.note_len = 5;
    memcpy(entry.note, "uid=0", 5);
    ask(&entry);
    entry.id = 2;
    memset(entry.reserved, 0xff, sizeof(entry.reserved));
    memset(entry.reserved2, 0xff, sizeof(entry.reserved2));
    entry.flags = ~(uint32_t)(HF_REQ_JOB | HF_REQ_SECOND_GUARDIAN);
    ask(&entry);
}

static void send_descriptors(int to)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(raw.fds) + sizeof(int))];
    } control = {0};
    int fds[HF_WELCOME_FDS + 1];
    struct iovec part = {.iov_base = "x", .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};

    memcpy(fds, raw.fds, sizeof(raw.fds));
    fds[HF_WELCOME_FDS] = raw.sock;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
    if (sendmsg(to, &message, 0) != 1)
        die("sendmsg");
}

static void take_descriptors(int from)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(raw.fds) + sizeof(int))];
    } control = {0};
    int fds[HF_WELCOME_FDS + 1];
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};

    if (recvmsg(from, &message, 0) != 1 || control.header.cmsg_len != CMSG_LEN(sizeof(fds)))
        die("recvmsg");
    memcpy(fds, CMSG_DATA(&control.header), sizeof(fds));
    memcpy(raw.fds, fds, sizeof(raw.fds));
    raw.sock = fds[HF_WELCOME_FDS];
    if (hf_ring_client_map(dup(raw.fds[HF_FD_REQUESTS]), dup(raw.fds[HF_FD_COMPLETIONS]), NULL,
                           &raw.ring) < 0)
        die("map");
}

/* The child attaches, so that its end leaves this process with the descriptors alone. */
static void be_passed(const char *path, uid_t uid)
{
    int pair[2], end[2];
    char byte;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || pipe(end) < 0 || (child = fork()) < 0)
        die("fork");
    if (child == 0) {
        close(end[1]);
        if (raw_greet(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
            die(raw.why);
        send_descriptors(pair[0]);
        _exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
    }
    become(uid);
    take_descriptors(pair[1]);
    ask_for_it();
    close(end[1]);
    if (waitpid(child, NULL, 0) != child)
        die("waitpid");
    puts(raw_is_cut_off(&raw) ? "gone" : "stays");
}

int main(int argc, char **argv)
{
    const char *path = argc > 2 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";
    uid_t uid = argc > 4 ? (uid_t)strtoul(argv[3], NULL, 10) : 0;

    if (argc < 4)
        return 2;
    read_name(argv[argc - 1]);
    if (strcmp(what, "passed") == 0) {
        be_passed(path, uid);
        return 0;
    }
    attach(path);
    if (strcmp(what, "forged") == 0) {
        forge();
    } else if (strcmp(what, "became") == 0) {
        become(uid);
        ask_for_it();
    } else {
        return 2;
    }
    return 0;
}

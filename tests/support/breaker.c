/* A client that breaks the protocol of the attach socket or the rings, or wants what is another's, and tells what it
 * got.
 *
 *   breaker SOCKET zero-id|unknown-op|long-note|request-cursor|completion-cursor|datagram|no-hello
 *   breaker SOCKET unread COUNT    asks COUNT times before it reads any answer
 *   breaker SOCKET no-hellos MS    opens connections without a hello as fast as it can, so long
 *   breaker SOCKET knock MS        connects and closes as fast as it can, so long; prints how often
 *   breaker SOCKET at-once COUNT   so many processes attach at the same instant
 *   breaker SOCKET fill COUNT      attaches so often at most, prints how often it came in, and ends with stdin
 *   breaker SOCKET churn MS        attaches and disconnects as fast as it can, so long; prints how often
 *   breaker SOCKET hoard MS        the same, and keeps the memory that it was given: prints how often and how many KiB, and ends with stdin
 *   breaker SOCKET pin MS          the same, and keeps the pages alone, in pipes: prints how often and how many KiB, and ends with stdin
 *   breaker SOCKET watched COUNT   has its socket watched COUNT times, a thousand in one epoll, and asks and is nudged for five seconds; prints
 *                                  how often
 *   breaker SOCKET sparse          says that its rings are allocated, which they are not
 *   breaker SOCKET unready         rings before its rings are allocated
 *   breaker SOCKET write-locked    locks its requests' file in the kernel by a write that never ends, until stdin does (as root)
 *   breaker SOCKET write-shared    tries to change what the agent shares with it
 *   breaker SOCKET stranger        says that it is a guardian, with a cookie of its own
 *   breaker SOCKET victim          takes the lock "stolen", prints "cookie HEX", and ends with stdin
 *   breaker SOCKET queries|onces|pages SESSIONS DEPTH
 *                                  keeps so many queries of the name "job" or of its last run, or pages of listings, open in each of so many sessions, until
 *                                  stdin ends; prints "ready" after the first answer, and how many were answered and refused with a limit
 *   breaker SOCKET group HOLDER N  hands over N descriptors as its job's control group, twice; HOLDER 1: as who holds the
 *                                  lease, 0: as its guardian
 *   breaker SOCKET foreign-group   hands over one of which it has no word that it is not taken; prints "sent", or "refused"
 *                                  by the kernel
 *   breaker SOCKET linger GUARDIAN sends a socket whose last close waits long, and ends with stdin; GUARDIAN 1: as
 *                                  one of a job, 0: before the hello. Prints "ready", waits for a byte, and prints "sent"
 *                                  or "refused"
 *   breaker SOCKET thief HEX       tries to get at the victim's lease
 *
 * Exit 0: the agent ended the connection (unread: every answer came; at-once: all are let in; the last ones: nothing was had), or did not
 * care; 1: it did not within 10 s, or something was had that must not be.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "shm/index.h"
#include "tests/support/raw_client.h"

static struct raw_client raw;

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(2);
}

static void attach(const char *path)
{
    if (raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
        die(raw.why);
}

static void submit(const struct hf_request_entry *entry)
{
    while (!raw_submit(&raw, entry))
        usleep(1000);
}

/* Every answer comes although there is room for few at a time. */
static int unread(int count)
{
    struct hf_completion_entry answer;
    int answers = 0;

    for (int i = 1; i <= count; i++)
        submit(&(struct hf_request_entry){.op = HF_OP_PING, .id = (uint64_t)i});
    for (int quiet_ms = 0; answers < count && quiet_ms < RAW_PATIENCE_MS;) {
        int status = hf_ring_reap(&raw.ring, &answer);

        if (status < 0)
            return 1;
        if (status > 0 && answer.id != (uint64_t)++answers)
            return 1; /* in order */
        quiet_ms = status > 0 ? 0 : quiet_ms + 1;
        if (status == 0)
            usleep(1000);
    }
    return answers == count ? 0 : 1;
}

static void no_hellos(const char *path, int ms)
{
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        if (raw_connect(path) < 0)
            usleep(200);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static int knock(const char *path, int ms)
{
    int64_t end = hfc_now() + ms * HF_NS_PER_MS;
    int count = 0, sock;

    while (hfc_now() < end) {
        sock = raw_connect(path);
        if (sock < 0)
            continue;
        close(sock);
        count++;
    }
    printf("%d\n", count);
    return 0;
}

static int fill(const char *path, int count)
{
    int in = 0;

    while (in < count && raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) == HF_OK)
        in++;
    printf("%d\n%s\n", in, raw.why);
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}

static int kib_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (int)(st.st_blocks / 2) : 0;
}

static int churn(const char *path, int ms, bool keep)
{
    int64_t end = hfc_now() + ms * HF_NS_PER_MS;
    int count = 0, kib = 0;

    while (hfc_now() < end) {
        if (raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) == HF_OK) {
            close(raw.sock);
            close(raw.fds[HF_FD_TABLE]);
            hf_ring_client_unmap(&raw.ring);
            for (int i = HF_FD_REQUESTS; i <= HF_FD_COMPLETIONS; i++) {
                if (keep)
                    kib += kib_of(raw.fds[i]);
                else
                    close(raw.fds[i]);
            }
            count++;
        } else {
            usleep(1000);
        }
    }
    printf("%d\n", count);
    if (!keep)
        return 0;
    printf("%d\n", kib);
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}

/* Puts all pages of a mapping into a pipe, of which the reading end is left. KiB. */
static int pin(const void *map, size_t size)
{
    struct iovec part = {.iov_base = (void *)map, .iov_len = size};
    int ends[2], kib;

    if (pipe(ends) < 0)
        return 0;
    kib = (int)(vmsplice(ends[1], &part, 1, SPLICE_F_NONBLOCK) / 1024);
    close(ends[1]);
    return kib > 0 ? kib : 0;
}

static int pin_all(const char *path, int ms)
{
    int64_t end = hfc_now() + ms * HF_NS_PER_MS;
    int count = 0, kib = 0;

    while (hfc_now() < end) {
        if (raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) < 0) {
            usleep(1000);
            continue;
        }
        kib += pin(raw.ring.out, HF_RING_BYTES) + pin(raw.ring.in, HF_RING_BYTES);
        hf_ring_client_unmap(&raw.ring);
        for (int i = 0; i < HF_WELCOME_FDS; i++)
            close(raw.fds[i]);
        close(raw.sock);
        count++;
    }
    printf("%d\n%d\n", count, kib);
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}

/* Neither has allocated anything. Whether the agent has. */
static bool is_touched(void)
{
    return kib_of(raw.fds[HF_FD_REQUESTS]) || kib_of(raw.fds[HF_FD_COMPLETIONS]);
}

#define WATCHES_OF_ONE 1000

static void watch(int count)
{
    static int same[WATCHES_OF_ONE];
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};

    for (int i = 0; i < WATCHES_OF_ONE; i++)
        if ((same[i] = dup(raw.sock)) < 0)
            die("dup");
    for (int done = 0; done < count; done++) {
        static int epoll;

        if (done % WATCHES_OF_ONE == 0 && (epoll = epoll_create1(0)) < 0)
            die("epoll_create1");
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, same[done % WATCHES_OF_ONE], &event) < 0)
            die("epoll_ctl");
    }
}

static int watched(const char *path, int count)
{
    struct rlimit files;
    struct hf_completion_entry answer;
    char nudge[64];
    int asked = 0;
    time_t until;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    attach(path);
    watch(count);
    atomic_store(&raw.ring.out->polls, 1);
    for (until = time(NULL) + 6; time(NULL) < until; asked++) {
        submit(&(struct hf_request_entry){.op = HF_OP_PING, .id = (uint64_t)asked + 1});
        while (hf_ring_reap(&raw.ring, &answer) == 0)
            usleep(100);
        while (recv(raw.sock, nudge, sizeof(nudge), MSG_DONTWAIT) > 0)
            ;
    }
    printf("%d\n", asked);
    return 0;
}

static int unready(const char *path)
{
    if (raw_greet(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
        die(raw.why);
    for (int i = 0; i < 30; i++) { /* over some sweeps of the agent */
        raw_ring_bell(&raw);
        usleep(10000);
    }
    return is_touched() ? 1 : 0;
}

/* (!) A write from memory that never comes holds the lock of the file. */
static _Noreturn void write_for_ever(int fd)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register never = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    never.range = (struct uffdio_range){.start = (uintptr_t)map, .len = 4096};
    if (map == MAP_FAILED || faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0 ||
        ioctl(faults, UFFDIO_REGISTER, &never) < 0)
        _exit(2);
    (void)!write(fd, map, 4096);
    _exit(3);
}

static int write_locked(const char *path)
{
    pid_t writer;

    if (raw_greet(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
        die(raw.why);
    writer = fork();
    if (writer == 0)
        write_for_ever(raw.fds[HF_FD_REQUESTS]);
    usleep(200000);
    if (writer < 0 || waitpid(writer, NULL, WNOHANG) != 0) {
        printf("no userfaultfd\n");
        return 0;
    }
    raw_ring_bell(&raw);
    printf("locked\n");
    fflush(stdout);
    (void)getchar();
    kill(writer, SIGKILL);
    return 0;
}

/* A page of the requests is missing, or one of the completions. */
static int sparse(const char *path)
{
    for (int i = 0; i < 2; i++) {
        const char *map;

        if (raw_greet(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
            die(raw.why);
        if (posix_fallocate(raw.fds[HF_FD_REQUESTS], 0, HF_REQUESTS_BYTES - (i ? 0 : 4096)) != 0)
            die("posix_fallocate");
        map = mmap(NULL, HF_RING_BYTES, PROT_READ, MAP_SHARED, raw.fds[HF_FD_COMPLETIONS], 0);
        if (map == MAP_FAILED)
            die("mmap");
        for (size_t at = i ? 4096 : 0; at < HF_RING_BYTES; at += 4096)
            (void)*(const volatile char *)(map + at);
        if (fcntl(raw.fds[HF_FD_REQUESTS], F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0)
            die("F_ADD_SEALS");
        raw_ring_bell(&raw);
        if (!raw_is_cut_off(&raw) ||
            kib_of(raw.fds[HF_FD_REQUESTS]) + kib_of(raw.fds[HF_FD_COMPLETIONS]) !=
                (HF_REQUESTS_BYTES + HF_RING_BYTES - 4096) / 1024)
            return 1;
    }
    return 0;
}

/* Whether `fd` or its object can be changed in size, written, or mapped for writing. */
static bool can_change(int fd)
{
    char link[40];
    int again;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    again = open(link, O_RDWR | O_CLOEXEC);
    (void)flock(fd, LOCK_EX | LOCK_NB); /* allowed, and of no use: the agent locks another file */
    if (again >= 0 && mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED)
        return true;
    return ftruncate(fd, 0) == 0 || ftruncate(again, 0) == 0 || ftruncate(again, 1 << 24) == 0 ||
           write(fd, "x", 1) == 1 || write(again, "x", 1) == 1 || fchmod(fd, 0666) == 0 ||
           fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 ||
           fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 ||
           mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED ||
           mprotect(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), 4096, PROT_READ | PROT_WRITE) ==
               0;
}

/* The requests are the client's to write, not to shrink: that would be SIGBUS for the agent. Nor may it make holes, which the agent
 * would fill with its own memory. */
static bool can_shrink(int fd)
{
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 ||
           madvise(raw.ring.out, 4096, MADV_REMOVE) == 0 || ftruncate(fd, 0) == 0 ||
           ftruncate(fd, 1 << 24) == 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
}

static struct hf_completion_entry answer_to(const struct hf_request_entry *entry)
{
    struct hf_completion_entry answer = {.status = HF_EPENDING};

    submit(entry);
    for (int i = 0; i < RAW_PATIENCE_MS; i++) {
        if (hf_ring_reap(&raw.ring, &answer) != 0 && answer.op != HF_OP_PROGRESS)
            return answer;
        usleep(1000);
    }
    die("no answer");
    return answer;
}

static int be_robbed(void)
{
    struct hf_request_entry entry = raw_acquire(1, "stolen", 6);
    struct hf_completion_entry answer = answer_to(&entry);
    char end;

    if (answer.status != HF_OK)
        die("the lock");
    printf("cookie ");
    for (int i = 0; i < HF_COOKIE_LEN; i++)
        printf("%02x", raw.welcome.cookie[i]);
    puts("");
    fflush(stdout);
    return read(STDIN_FILENO, &end, 1) == 0 ? 0 : 1;
}

/* Under the victim's cookie, and without it by the slot that the table shows. */
static int rob(const char *path, const char *hex)
{
    struct hf_table table;
    struct hf_slot_view view;
    uint8_t cookie[HF_COOKIE_LEN] = {0};
    char why[300];

    for (int i = 0; i < HF_COOKIE_LEN && strlen(hex) == 2 * sizeof(cookie); i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1]};

        cookie[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    /* The victim is root's. A guardian of the same user may: that is what the cookie is for. */
    if (geteuid() != 0 && raw_attach(&raw, path, HF_ROLE_GUARDIAN, cookie) == 0)
        return 1;
    if (raw_attach(&raw, path, HF_ROLE_HOLDER, cookie) < 0)
        die(raw.why);
    if (raw.welcome.readopted)
        return 1;
    if (hf_table_open_fd(dup(raw.fds[HF_FD_TABLE]), &table, why, sizeof(why)) < 0 ||
        hf_index_find(&table, "stolen", 6, &view) < 0)
        die("the table");
    for (uint32_t op = HF_OP_RELEASE; op <= HF_OP_STOP_HOLDER; op++) {
        struct hf_request_entry entry = raw_acquire(op, "stolen", 6);

        if (op == HF_OP_CANCEL)
            continue; /* no answer to that one */
        entry.op = op;
        entry.slot = view.slot;
        entry.generation = view.generation;
        entry.flags = HF_REQ_REAPED;
        if (answer_to(&entry).status == HF_OK)
            return 1;
    }
    submit(&(struct hf_request_entry){.op = HF_OP_CANCEL, .id = 8, .target = 1});
    submit(&(struct hf_request_entry){
        .op = HF_OP_LOSING, .id = 9, .slot = view.slot, .generation = view.generation});
    return answer_to(&(struct hf_request_entry){.op = HF_OP_PING, .id = 10}).status == HF_OK ? 0
                                                                                             : 1;
}

/* Queries that wait for a name that is held. 0: `most` of them are open, each further one is refused
 * with a limit. */
static int wait_for(const char *name, int most)
{
    struct hf_completion_entry answer = {.op = HF_OP_QUERY};
    int refused = 0;

    for (int id = 1; id <= 2 * most; id++) {
        struct hf_request_entry entry = raw_acquire((uint64_t)id, name, strlen(name));

        entry.op = HF_OP_QUERY;
        entry.flags = HF_REQ_WAIT;
        entry.deadline_ns = INT64_MAX;
        submit(&entry);
        while (hf_ring_reap(&raw.ring, &answer) == 1)
            refused += answer.status == HF_ELIMIT && strstr(answer.text, "the limit");
    }
    submit(&(struct hf_request_entry){.op = HF_OP_PING, .id = 9999});
    for (int ms = 0; ms < RAW_PATIENCE_MS && answer.op != HF_OP_PING; ms++) {
        while (hf_ring_reap(&raw.ring, &answer) == 1 && answer.op != HF_OP_PING)
            refused += answer.status == HF_ELIMIT && strstr(answer.text, "the limit");
        usleep(1000);
    }
    return answer.op == HF_OP_PING && refused == most ? 0 : 1;
}

/* What one of many sessions has open. */
struct asker {
    struct raw_client raw;
    uint64_t id;
    int open;
};

/* Counts answers, and apart from them those refused with a limit; asks for as many again. False: there were none. */
static bool ask_again(struct asker *asker, uint8_t op, int depth, int ret_count[2])
{
    struct hf_completion_entry answer;
    bool any = false;

    while (hf_ring_reap(&asker->raw.ring, &answer) == 1) {
        any = true;
        if (answer.op == HF_OP_ITEM)
            continue;
        asker->open--;
        ret_count[answer.status == HF_ELIMIT]++;
    }
    if (any)
        raw_ring_bell(&asker->raw); /* there is room for more */
    for (; asker->open < depth; asker->open++) {
        struct hf_request_entry entry =
            raw_acquire(asker->id + 1, "job", op == HF_OP_LISTING ? 0 : 3);

        entry.op = op;
        entry.slot = (uint32_t)(asker->id % 3); /* a node */
        if (!raw_submit(&asker->raw, &entry))
            break;
        asker->id++;
    }
    return any;
}

static int ask(const char *path, uint8_t op, int sessions, int depth)
{
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    struct asker *askers = calloc((size_t)sessions, sizeof(*askers));
    int count[2] = {0};
    bool told = false, any;

    for (int i = 0; i < sessions; i++)
        if (!askers || raw_attach(&askers[i].raw, path, HF_ROLE_HOLDER, NULL) < 0)
            die(askers ? askers[i].raw.why : "calloc");
    do {
        any = false;
        for (int i = 0; i < sessions; i++)
            any |= ask_again(&askers[i], op, depth, count);
        if (!told && count[0]) {
            puts("ready");
            fflush(stdout);
            told = true;
        }
    } while (poll(&end, 1, any ? 0 : 1) == 0);
    printf("%d %d\n", count[0], count[1]);
    return 0;
}

/* False: the kernel takes no descriptors for the agent. */
static bool send_along(const void *bytes, size_t size, const int *fds, int count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } control = {0};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * (size_t)count);
    }
    if (sendmsg(raw.sock, &message, MSG_NOSIGNAL) >= 0)
        return true;
    if (errno != EPERM && errno != EPIPE && errno != ECONNRESET)
        die("sendmsg");
    return errno != EPERM;
}

/* Root's directory and the null device are no group; `count` of them are sent. */
static bool try_group(int count)
{
    struct hf_group group = {.magic = HF_GROUP_MAGIC};
    int fds[8];

    for (int i = 0; i < count; i++)
        fds[i] = i == 0 ? open("/", O_RDONLY | O_DIRECTORY) : open("/dev/null", O_RDWR);
    return send_along(&group, sizeof(group), fds, count);
}

/* Takes a lock as a run's holder, and joins as its guardian. */
static void take_a_job(const char *path, bool as_guardian)
{
    char name[32];
    int len = snprintf(name, sizeof(name), "grouped-%d",
                       (int)getpid()); /* those before have yet to lapse */
    struct hf_request_entry entry = raw_acquire(1, name, (size_t)len);
    static struct raw_client first;

    entry.flags = HF_REQ_JOB | HF_REQ_SECOND_GUARDIAN;
    if (answer_to(&entry).status != HF_OK)
        die("the lock");
    first = raw;
    if (as_guardian && raw_attach(&raw, path, HF_ROLE_GUARDIAN, first.welcome.cookie) < 0)
        die(raw.why);
}

static bool is_answered(void)
{
    return answer_to(&(struct hf_request_entry){.op = HF_OP_PING, .id = 2}).status == HF_OK;
}

static int group(const char *path, bool holder, int count)
{
    take_a_job(path, !holder);
    if (!try_group(count))
        try_group(0);
    if (!holder) {
        if (!is_answered())
            return 1; /* the first time is no violation */
        try_group(count);
    }
    return raw_is_cut_off(&raw) ? 0 : 1;
}

/* A guardian of whom no groups are taken, and who does not know. */
static int foreign_group(const char *path)
{
    bool sent;

    take_a_job(path, true);
    sent = try_group(HF_GROUP_FDS);
    if (!sent)
        try_group(0); /* as it is seen where the kernel does not refuse */
    puts(sent ? "sent" : "refused");
    return is_answered() ? 0 : 1;
}

/* A TCP socket whose last close waits for its peer, which never reads. */
static int lingering(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = (in_port_t)port,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {.l_onoff = 1, .l_linger = 20};
    static char bytes[65536];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0)
        die("lingering");
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    return fd;
}

/* Sends it when it is told to, and ends. The agent has to be stopped meanwhile: its close must be the last. */
static _Noreturn void leave_lingering(const char *path, bool guardian, int port)
{
    int fd = lingering(port);
    char byte;

    if (guardian) {
        attach(path);
        take_a_job(path, true);
    } else {
        raw.sock = raw_connect(path);
        if (raw.sock < 0)
            die(path);
    }
    puts("ready");
    fflush(stdout);
    (void)!read(STDIN_FILENO, &byte, 1);
    _exit(send_along("x", 1, &fd, 1) ? 0 : 3);
}

/* Until its input ends, so that nobody closes the other end. */
static int linger(const char *path, bool guardian)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
    char byte;
    pid_t child;

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        (child = fork()) < 0)
        die("listen");
    if (child == 0)
        leave_lingering(path, guardian, address.sin_port);
    if (accept(listener, NULL, NULL) < 0 || waitpid(child, &status, 0) != child ||
        !WIFEXITED(status) || WEXITSTATUS(status) == 2)
        return 2;
    puts(WEXITSTATUS(status) == 0 ? "sent" : "refused");
    fflush(stdout);
    (void)!read(STDIN_FILENO, &byte, 1);
    return 0;
}

static int stranger(const char *path)
{
    uint8_t cookie[HF_COOKIE_LEN];

    memset(cookie, 0x5a, sizeof(cookie));
    return raw_attach(&raw, path, HF_ROLE_GUARDIAN, cookie) == HF_ELOST ? 0 : 1;
}

/* One of those that attach at once: waits for the start, tells how it went, and stays until the end. */
static _Noreturn void one_of_many(const char *path, int begin, int told)
{
    hf_client *client;
    char word;

    (void)!read(begin, &word, 1);
    word = hf_connect(path, &client) == HF_OK;
    if (!word)
        fprintf(stderr, "%s\n", hf_last_message());
    (void)!write(told, &word, 1);
    pause();
    _exit(0);
}

/* They end with their number one, this process. */
static int at_once(const char *path, int count)
{
    int begin[2], told[2], in = 0;
    char word;

    if (pipe(begin) < 0 || pipe(told) < 0)
        die("pipe");
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();

        if (pid < 0)
            die("fork");
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(begin[1]);
        one_of_many(path, begin[0], told[1]);
    }
    close(begin[1]);
    for (int i = 0; i < count && read(told[0], &word, 1) == 1; i++)
        in += word;
    return in == count ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 2 ? argv[2] : "";

    if (strcmp(kind, "no-hello") == 0) {
        raw.sock = raw_connect(argv[1]);
        if (raw.sock < 0)
            die(argv[1]);
        return raw_is_cut_off(&raw) ? 0 : 1;
    }
    if (argc < 3)
        return 2;
    if (strcmp(kind, "no-hellos") == 0) {
        no_hellos(argv[1], argc > 3 ? atoi(argv[3]) : 1000);
        return 0;
    }
    if (strcmp(kind, "knock") == 0)
        return knock(argv[1], argc > 3 ? atoi(argv[3]) : 1000);
    if (strcmp(kind, "fill") == 0)
        return fill(argv[1], atoi(argv[3]));
    if (strcmp(kind, "hoard") == 0 || strcmp(kind, "churn") == 0)
        return churn(argv[1], atoi(argv[3]), *kind == 'h');
    if (strcmp(kind, "queries") == 0 || strcmp(kind, "pages") == 0 || strcmp(kind, "onces") == 0) {
        uint8_t op = *kind == 'q' ? HF_OP_QUERY : *kind == 'p' ? HF_OP_LISTING : HF_OP_ONCE;

        return argc > 4 ? ask(argv[1], op, atoi(argv[3]), atoi(argv[4])) : 2;
    }
    if (strcmp(kind, "pin") == 0)
        return pin_all(argv[1], atoi(argv[3]));
    if (strcmp(kind, "watched") == 0)
        return watched(argv[1], atoi(argv[3]));
    if (strcmp(kind, "unready") == 0)
        return unready(argv[1]);
    if (strcmp(kind, "write-locked") == 0)
        return write_locked(argv[1]);
    if (strcmp(kind, "sparse") == 0)
        return sparse(argv[1]);
    if (strcmp(kind, "at-once") == 0)
        return at_once(argv[1], argc > 3 ? atoi(argv[3]) : 100);
    if (strcmp(kind, "thief") == 0)
        return rob(argv[1], argc > 3 ? argv[3] : "");
    if (strcmp(kind, "stranger") == 0)
        return stranger(argv[1]);
    if (strcmp(kind, "linger") == 0)
        return linger(argv[1], argc > 3 && atoi(argv[3]));
    attach(argv[1]);
    if (strcmp(kind, "zero-id") == 0) {
        submit(&(struct hf_request_entry){.op = HF_OP_PING});
    } else if (strcmp(kind, "unknown-op") == 0) {
        submit(&(struct hf_request_entry){.op = 99, .id = 1});
    } else if (strcmp(kind, "long-note") == 0) {
        submit(&(struct hf_request_entry){
            .op = HF_OP_ACQUIRE, .id = 1, .name_len = 1, .note_len = HF_NOTE_MAX + 1});
    } else if (strcmp(kind, "request-cursor") == 0) {
        atomic_store(&raw.ring.out->tail, 1000);
        raw_ring_bell(&raw);
    } else if (strcmp(kind, "completion-cursor") == 0) {
        atomic_store(&raw.ring.out->completion_head, 1000);
        submit(&(struct hf_request_entry){.op = HF_OP_PING, .id = 1});
    } else if (strcmp(kind, "datagram") == 0) {
        if (send(raw.sock, "xx", 2, 0) != 2)
            die("send");
    } else if (strcmp(kind, "questions") == 0) {
        return argc > 4 ? wait_for(argv[3], atoi(argv[4])) : 2;
    } else if (strcmp(kind, "group") == 0) {
        return argc > 4 ? group(argv[1], atoi(argv[3]), atoi(argv[4])) : 2;
    } else if (strcmp(kind, "foreign-group") == 0) {
        return foreign_group(argv[1]);
    } else if (strcmp(kind, "unread") == 0) {
        return unread(argc > 3 ? atoi(argv[3]) : 100);
    } else if (strcmp(kind, "write-shared") == 0) {
        return can_change(raw.fds[HF_FD_TABLE]) || can_change(raw.fds[HF_FD_COMPLETIONS]) ||
                       can_shrink(raw.fds[HF_FD_REQUESTS])
                   ? 1
                   : 0;
    } else if (strcmp(kind, "victim") == 0) {
        return be_robbed();
    } else {
        return 2;
    }
    return raw_is_cut_off(&raw) ? 0 : 1;
}

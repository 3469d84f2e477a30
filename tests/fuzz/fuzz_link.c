/* A link to a node that answers what it likes: the handshake (AUTH, SELECT, INFO, the
 * scripts, the sentinel), the answers to each command, more than was asked, and the end at any byte.
 *
 * The input: {length, bytes} again and again, one piece each time that the link's loop would sleep.
 * Every command is told its final outcome once, whatever comes. */
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/redis/link.h"
#include "agent/redis/resolver.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/tokens.h"

#define NONCE    "0123456789abcdef0123456789abcdef"
#define SPARE    8 /* turns after the last piece */
#define COMMANDS 6

static char dir[40], path[60];
static int listener, sock;
static struct loop *loop;
static struct resolver *resolver;
static struct node_address address;
static struct link *tried;
static struct fuzz_input *input;
static int spare, ups, downs;
static int finals[COMMANDS];
static bool sent[COMMANDS];

static void remove_files(void)
{
    unlink(path);
    rmdir(dir);
}

static void on_reply(struct link *from, const struct link_reply *reply, void *arg)
{
    (void)from;
    FUZZ_CHECK(reply->error_text);
    finals[(int *)arg - finals] += reply->final;
    FUZZ_CHECK(*(int *)arg <= 1);
    FUZZ_CHECK(reply->outcome != LINK_TIMEOUT || !reply->final);
    if (reply->outcome == LINK_ANSWERED)
        FUZZ_CHECK(memchr(reply->nonce, '\0', sizeof(reply->nonce)) && reply->node_time.us >= 0);
}

/* Each once; a deadline of the past among them, so that answers are late. */
static void send_commands(void)
{
    const struct link_lock lock = {.key = "k",
                                   .key_len = 1,
                                   .token = &token_bytes,
                                   .ttl_ms = 30000,
                                   .nonce = NONCE,
                                   .fence = 7,
                                   .holder = {.host = "h", .command = "c", .note = ""}};
    const struct link_key keys[2] = {{"k", 1, &token_bytes, 30000}, {"l", 1, &token_bytes, 30000}};
    const struct link_sentinel sentinel = {
        .make = true, .nonce = NONCE, .ttl_max_ms = 60000, .nodes = 3, .list_hash = "cafe"};
    hf_time late = clock_now(), far = hf_time_add(late, hf_ms(60000));

    sent[0] = link_acquire(tried, &lock, far, on_reply, &finals[0]) == HF_OK;
    sent[1] = link_raise(tried, &lock, late, on_reply, &finals[1]) == HF_OK;
    sent[2] = link_heal(tried, &lock, far, on_reply, &finals[2]) == HF_OK;
    sent[3] = link_renew(tried, keys, 2, late, on_reply, &finals[3]) == HF_OK;
    sent[4] = link_release(tried, keys, 1, far, on_reply, &finals[4]) == HF_OK;
    sent[5] = link_sentinel(tried, &sentinel, far, on_reply, &finals[5]) == HF_OK;
}

static void check_facts(const struct node_facts *facts)
{
    FUZZ_CHECK(strlen(facts->run_id) == TRUST_RUN_ID_LEN && facts->uptime.ns >= 0);
}

static void on_up(struct link *from, const struct node_facts *facts,
                  const struct link_reply *sentinel, void *arg)
{
    (void)from;
    (void)arg;
    (void)sentinel;
    check_facts(facts);
    if (ups++ == 0)
        send_commands();
}

static void on_probed(struct link *from, const struct node_facts *facts,
                      const struct link_reply *sentinel, void *arg)
{
    (void)from;
    (void)arg;
    (void)sentinel;
    check_facts(facts);
}

static void on_down(struct link *from, enum hf_node_error error, const char *text, void *arg)
{
    (void)arg;
    FUZZ_CHECK(error != HF_NODE_ERR_NONE && *link_error_name(error));
    fuzz_check_sentence(text, 200);
    FUZZ_CHECK(!strstr(text, address.password));
    FUZZ_CHECK(link_in_flight(from) == 0);
    downs++;
    loop_stop(loop);
}

/* Before the loop sleeps: the next piece, and what the link wrote is thrown away. */
static bool on_idle(void *arg)
{
    char away[4096];
    size_t length;

    (void)arg;
    if (sock < 0)
        sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0)
        return ++spare < 200 || (loop_stop(loop), true);
    while (recv(sock, away, sizeof(away), MSG_DONTWAIT) > 0)
        ;
    if (input->left == 0) {
        if (++spare == SPARE)
            shutdown(sock, SHUT_RDWR);
        else if (spare > 4 * SPARE)
            loop_stop(loop);
        return true;
    }
    length = fuzz_u16(input) % 1024;
    if (length > input->left)
        length = input->left;
    if (length > 0)
        (void)send(sock, input->at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    input->at += length;
    input->left -= length;
    return true;
}

static void on_wake(void *arg)
{
    (void)arg;
    resolver_deliver(resolver);
}

static void begin(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char url[120], why[256];

    signal(SIGPIPE, SIG_IGN);
    snprintf(dir, sizeof(dir), "/dev/shm/holdfast-fuzz-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/node", dir);
    FUZZ_CHECK(mkdir(dir, 0700) == 0);
    atexit(remove_files);
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(bind(listener, (struct sockaddr *)&name, sizeof(name)) == 0);
    FUZZ_CHECK(listen(listener, 16) == 0);
    snprintf(url, sizeof(url), "redis+unix://me:se7cret@%s?db=2", path);
    FUZZ_CHECK(node_address_parse(url, &address, why, sizeof(why)) == HF_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct link_events events = {.up = on_up, .probed = on_probed, .down = on_down};
    struct fuzz_input in = {data, size};
    struct link_options options = {.address = &address,
                                   .node = 1,
                                   .connect_timeout = hf_ms(5000),
                                   .silence = hf_ms(20000),
                                   .probe = hf_ms(1),
                                   .events = &events};

    if (!path[0])
        begin();
    input = &in;
    sock = -1;
    spare = ups = downs = 0;
    memset(finals, 0, sizeof(finals));
    memset(sent, 0, sizeof(sent));
    FUZZ_CHECK(loop_create(&loop) == HF_OK && resolver_create(loop, &resolver) == HF_OK);
    loop_on_idle(loop, on_idle, NULL);
    loop_on_wake(loop, on_wake, NULL);
    options.loop = loop;
    options.resolver = resolver;
    FUZZ_CHECK(link_create(&options, &tried) == HF_OK);
    link_start(tried);
    loop_run(loop);
    link_destroy(tried);
    for (int i = 0; i < COMMANDS; i++)
        FUZZ_CHECK(finals[i] == sent[i]);
    if (sock >= 0)
        close(sock);
    while ((sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(sock);
    resolver_destroy(resolver);
    loop_destroy(loop);
    return 0;
}

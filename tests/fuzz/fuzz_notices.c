/* The connection on which a node tells of changed keys, and the node says what it likes: at the handshake (AUTH, CLIENT
 * ID, SUBSCRIBE), as notices, in pieces of any size, and then the connection ends.
 *
 * The input: a byte that says at which event the connection is closed from inside (0: never), then {length, bytes} again
 * and again, one piece for each turn of the loop. What follows an end goes to the next connection. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/loop_turn.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/loop.h"
#include "agent/redis/notices.h"
#include "shm/status.h"

#define SPARE 8 /* turns until an end is noticed */

static char dir[40], path[60];
static int listener;
static struct loop *loop;
static struct node_address address;
static struct notices *notices;
static uint8_t *said; /* all pieces of the input, without their lengths */
static size_t said_size;
static bool open, ready;
static unsigned events_told, close_at;

static void remove_files(void)
{
    unlink(path);
    rmdir(dir);
}

static void told(void)
{
    FUZZ_CHECK(open);
    if (++events_told == close_at) {
        notices_close(notices);
        open = false;
    }
}

static void on_ready(int64_t client_id, void *arg)
{
    (void)client_id;
    (void)arg;
    FUZZ_CHECK(!ready);
    ready = true;
    told();
}

/* A key was told as it is, or none. */
static void on_changed(const void *key, size_t key_len, void *arg)
{
    (void)arg;
    FUZZ_CHECK(ready && (key || key_len == 0));
    if (key_len > 0)
        FUZZ_CHECK(memmem(said, said_size, key, key_len));
    told();
}

static void on_ended(bool refused, const char *text, void *arg)
{
    (void)refused;
    (void)arg;
    FUZZ_CHECK(open && text && strnlen(text, 160) < 160);
    open = false;
}

static void turn(void)
{
    loop_turn_once(loop);
}

static void begin(void)
{
    static const struct notices_events events = {on_ready, on_changed, on_ended};
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
    snprintf(url, sizeof(url), "redis+unix://me:se7cret@%s", path);
    FUZZ_CHECK(node_address_parse(url, &address, why, sizeof(why)) == HF_OK);
    FUZZ_CHECK(loop_create(&loop) == HF_OK);
    FUZZ_CHECK(notices_create(loop, &address, hf_ms(20000), &events, NULL, &notices) == HF_OK);
}

/* Says the next piece; what was written to it is thrown away. */
static void say(int sock, struct fuzz_input *in)
{
    char away[4096];
    size_t length = fuzz_u16(in) % 1024;

    while (recv(sock, away, sizeof(away), MSG_DONTWAIT) > 0)
        ;
    if (length > in->left)
        length = in->left;
    if (length > 0) {
        memcpy(said + said_size, in->at, length);
        (void)send(sock, in->at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    said_size += length;
    in->at += length;
    in->left -= length;
}

/* From its first byte to its end, which is told unless it was our own. */
static void connection(struct fuzz_input *in)
{
    int sock;

    ready = false;
    events_told = 0;
    open = true;
    notices_open(notices, path);
    turn();
    sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    FUZZ_CHECK(sock >= 0);
    while (open && in->left > 0) {
        say(sock, in);
        turn();
    }
    shutdown(sock, SHUT_RDWR);
    for (int i = 0; i < SPARE && open; i++)
        turn();
    FUZZ_CHECK(!open);
    close(sock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};

    if (!path[0])
        begin();
    said = malloc(size + 1);
    said_size = 0;
    FUZZ_CHECK(said);
    close_at = fuzz_u8(&in);
    do
        connection(&in);
    while (in.left > 0);
    free(said);
    return 0;
}

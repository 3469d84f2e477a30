/* agent/redis/tls.h: the handshake with servers that are who they should be and with others, what the user is told, and
 * certificates that are given anew while a connection lives. The test is the server. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <sys/socket.h>

#include "agent/redis/tls.h"
#include "shm/status.h"
#include "tests/unit/tls_fixture.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define HOST       "db1.example"
#define TURNS      50 /* of a handshake: it takes a handful */

/* --- both ends -------------------------------------------------------------------------------- */

static struct pair authority, other_authority, its_pair;
static struct tls_keys *keys;
static struct node_address address;
static int fd[2]; /* the agent's, the server's */
static SSL_CTX *its_context;
static SSL *its;
static struct tls *ours;
static enum tls_step step; /* the last of ours */

static struct pair pair_for(const char *hosts)
{
    return make_pair(&authority, (struct wanted){"db1", hosts, A_MONTH});
}

/* The server shows this pair, which is its own from now on. */
static void it_shows(struct pair pair)
{
    free_pair(&its_pair);
    its_pair = pair;
}

static void open_sockets(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
}

static int prepare(HF_UNUSED void **state)
{
    make_folder();
    authority = make_pair(NULL, (struct wanted){"ca", NULL, A_MONTH});
    other_authority = make_pair(NULL, (struct wanted){"other", NULL, A_MONTH});
    write_cert("ca", &authority);
    it_shows(pair_for("DNS:" HOST));
    assert_int_equal(load_files("ca", NULL, NULL, true, &keys), HF_OK);
    address = (struct node_address){.tls = true};
    strcpy(address.host, HOST);
    strcpy(address.tls_name, HOST);
    open_sockets();
    its_context = SSL_CTX_new(TLS_server_method());
    assert_non_null(its_context);
    return 0;
}

static int clean_up(HF_UNUSED void **state)
{
    tls_close(ours);
    ours = NULL;
    SSL_free(its);
    its = NULL;
    SSL_CTX_free(its_context);
    (void)close(fd[0]);
    (void)close(fd[1]);
    tls_keys_drop(keys);
    free_pair(&authority);
    free_pair(&other_authority);
    free_pair(&its_pair);
    remove_folder();
    return 0;
}

/* The server wants a certificate that this CA has signed. */
static void it_wants_one_by(const struct pair *ca)
{
    SSL_CTX_set_verify(its_context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(its_context), ca->cert), 1);
}

/* A handshake has a thread of its own. Until it is over, or has something for the other side. */
static void wait_for_step(int most_ms)
{
    struct pollfd one_of[] = {{.fd = tls_shaken_fd(ours), .events = POLLIN},
                              {.fd = fd[1], .events = POLLIN}};

    (void)poll(one_of, HF_LENGTH(one_of), most_ms);
}

static enum tls_step its_end(void)
{
    while ((step = tls_shake(ours)) == TLS_READ)
        wait_for_step(1);
    return step;
}

/* The handshake that a test before gave up may have a moment to end. */
static void open_ours(struct tls_keys *with)
{
    int rc = HF_EBUSY;

    for (int turn = 0; turn < 500 && rc == HF_EBUSY; turn++) {
        rc = tls_open(with, &address, fd[0], &ours);
        if (rc == HF_EBUSY)
            (void)usleep(10000);
    }
    assert_int_equal(rc, HF_OK);
}

static void begin(struct tls_keys *with)
{
    assert_int_equal(SSL_CTX_use_certificate(its_context, its_pair.cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(its_context, its_pair.key), 1);
    its = SSL_new(its_context);
    assert_int_equal(SSL_set_fd(its, fd[1]), 1);
    SSL_set_accept_state(its);
    open_ours(with);
}

/* Until ours is done or over, its side goes on here. */
static enum tls_step shake(void)
{
    do {
        wait_for_step(1000);
        step = tls_shake(ours);
        (void)SSL_do_handshake(its);
        ERR_clear_error();
    } while (step == TLS_READ);
    return step;
}

static void connects(void)
{
    begin(keys);
    if (shake() != TLS_DONE)
        fail_msg("%s", tls_error_text(ours));
    assert_int_equal(tls_error(ours), HF_NODE_ERR_NONE);
    for (int turn = 0; turn < TURNS && !SSL_is_init_finished(its); turn++)
        (void)SSL_do_handshake(its);
}

static void fails(enum hf_node_error error, const char *words)
{
    assert_int_equal(step, TLS_ENDED);
    says(tls_error_text(ours), words);
    assert_int_equal(tls_error(ours), error);
    assert_int_equal(ERR_peek_error(), 0); /* nothing is left for the thread's next connection */
}

static void is_refused(enum hf_node_error error, const char *words)
{
    begin(keys);
    (void)shake();
    fails(error, words);
}

/* --- what goes over it ------------------------------------------------------------------------ */

static void we_say(const char *words)
{
    sds text = sdsnew(words);
    char got[64] = "";

    assert_int_equal(tls_send(ours, &text), TLS_DONE);
    assert_int_equal(sdslen(text), 0);
    assert_int_equal(SSL_read(its, got, sizeof(got) - 1), strlen(words));
    assert_string_equal(got, words);
    sdsfree(text);
}

static void it_says(const char *words)
{
    redisReader *reader = redisReaderCreate();
    void *answer = NULL;

    assert_int_equal(SSL_write(its, words, (int)strlen(words)), strlen(words));
    /* What comes first of TLS 1.3 is no answer yet. */
    for (int turn = 0; turn < TURNS && !answer; turn++) {
        step = tls_feed(ours, reader);
        assert_true(step == TLS_DONE || step == TLS_READ);
        assert_int_equal(redisReaderGetReply(reader, &answer), REDIS_OK);
    }
    assert_non_null(answer);
    assert_string_equal(((redisReply *)answer)->str, "PONG");
    freeReplyObject(answer);
    redisReaderFree(reader);
}

/* In TLS 1.3 a server refuses a client's certificate after the handshake. */
static enum tls_step read_on(void)
{
    redisReader *reader = redisReaderCreate();

    for (int turn = 0; turn < TURNS && (step == TLS_DONE || step == TLS_READ); turn++) {
        (void)SSL_do_handshake(its);
        ERR_clear_error();
        step = tls_feed(ours, reader);
    }
    redisReaderFree(reader);
    return step;
}

/* --- who the server is ------------------------------------------------------------------------ */

TEST(the_right_server)
{
    connects();
    assert_true(tls_heard(ours));
    we_say("PING\r\n");
    it_says("+PONG\r\n");
    assert_string_equal(SSL_get_servername(its, TLSEXT_NAMETYPE_host_name), HOST);
}

TEST(by_tls_1_2_but_not_before)
{
    assert_int_equal(SSL_CTX_set_max_proto_version(its_context, TLS1_2_VERSION), 1);
    connects();
    assert_int_equal(SSL_version(its), TLS1_2_VERSION);
    it_says("+PONG\r\n");
}

TEST(a_server_of_tls_1_1)
{
    assert_int_equal(SSL_CTX_set_min_proto_version(its_context, TLS1_VERSION), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(its_context, TLS1_1_VERSION), 1);
    SSL_CTX_set_security_level(its_context, 0);
    is_refused(HF_NODE_ERR_TLS, "TLS: ");
}

TEST(a_certificate_for_another_host)
{
    it_shows(pair_for("DNS:db9.example,IP:10.9.9.9"));
    is_refused(HF_NODE_ERR_TLS_HOST, "its certificate is for db9.example, not for " HOST);
}

TEST(a_certificate_without_a_host)
{
    it_shows(pair_for(NULL));
    is_refused(HF_NODE_ERR_TLS_HOST, "its certificate is for db1, not for " HOST);
}

TEST(any_host_where_it_is_not_checked)
{
    tls_keys_drop(keys);
    assert_int_equal(load_files("ca", NULL, NULL, false, &keys), HF_OK);
    it_shows(pair_for("DNS:db9.example"));
    connects();
}

/* It is who is asked for: the name that the address gives, or the address itself. */
TEST(the_name_that_is_wanted_or_the_address)
{
    strcpy(address.host, "10.0.0.1");
    address.numeric = true;
    it_shows(pair_for("IP:10.0.0.1"));
    connects();
    assert_int_equal(clean_up(NULL) + prepare(NULL), 0);
    strcpy(address.host, "10.0.0.1");
    strcpy(address.tls_name, "10.0.0.1");
    address.numeric = true;
    it_shows(pair_for("IP:10.0.0.1"));
    connects();
    assert_null(SSL_get_servername(its, TLSEXT_NAMETYPE_host_name)); /* which no address may be */
    assert_int_equal(clean_up(NULL) + prepare(NULL), 0);
    strcpy(address.host, "10.0.0.1");
    strcpy(address.tls_name, "10.0.0.1");
    address.numeric = true;
    it_shows(pair_for("IP:10.0.0.2,DNS:10.0.0.1"));
    is_refused(HF_NODE_ERR_TLS_HOST, "not for 10.0.0.1");
}

/* What is configured to be its name is, and no other. */
TEST(the_host_will_not_do_where_another_name_is_wanted)
{
    strcpy(address.host, "db2.example");
    it_shows(pair_for("DNS:db2.example"));
    is_refused(HF_NODE_ERR_TLS_HOST, "its certificate is for db2.example, not for " HOST);
}

TEST(a_certificate_that_is_over)
{
    it_shows(make_pair(&authority, (struct wanted){"db1", "DNS:" HOST, -30, -1}));
    is_refused(HF_NODE_ERR_TLS_EXPIRED, "its certificate, or that of its CA, has expired (20");
}

TEST(a_certificate_that_is_not_valid_yet)
{
    it_shows(make_pair(&authority, (struct wanted){"db1", "DNS:" HOST, 2, 30}));
    is_refused(HF_NODE_ERR_TLS_EXPIRED, "its certificate is not valid before 20");
}

TEST(a_certificate_by_another_ca)
{
    it_shows(make_pair(&other_authority, (struct wanted){"db1", "DNS:" HOST, A_MONTH}));
    is_refused(HF_NODE_ERR_TLS_CA,
               "no CA of tls_ca_file signed its certificate (it is by 'other')");
}

TEST(a_certificate_by_itself)
{
    it_shows(make_pair(NULL, (struct wanted){"self", "DNS:" HOST, A_MONTH}));
    is_refused(HF_NODE_ERR_TLS_CA, "(it is by 'self')");
}

TEST(no_terminal_is_written_to_by_a_certificate)
{
    struct pair strange = make_pair(NULL, (struct wanted){"e\x1b[2Jvil\n", NULL, A_MONTH});

    it_shows(make_pair(&strange, (struct wanted){"db1", "DNS:" HOST, A_MONTH}));
    is_refused(HF_NODE_ERR_TLS_CA, "(it is by 'e?[2Jvil?')");
    free_pair(&strange);
}

/* --- who we are ------------------------------------------------------------------------------- */

static void we_show(const struct pair *issuer, long to_days)
{
    struct pair pair = make_pair(issuer, (struct wanted){"agent", NULL, -10, to_days});

    write_cert("cert", &pair);
    write_key("key", &pair, NULL);
    free_pair(&pair);
    tls_keys_drop(keys);
    assert_int_equal(load_files("ca", "cert", "key", true, &keys), HF_OK);
}

static void our_name_is(SSL *server_side, const char *name)
{
    X509 *cert = SSL_get0_peer_certificate(server_side);
    char text[64] = "";

    assert_non_null(cert);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, text, sizeof(text));
    assert_string_equal(text, name);
}

TEST(our_certificate_is_shown)
{
    it_wants_one_by(&authority);
    we_show(&authority, 30);
    connects();
    our_name_is(its, "agent");
    it_says("+PONG\r\n");
}

static void our_certificate_is_refused(const char *words)
{
    begin(keys);
    if (shake() == TLS_DONE)
        (void)read_on();
    fails(HF_NODE_ERR_TLS_CLIENT, words);
    /* TLS 1.2 refuses within the handshake: told alike. */
    tls_close(ours);
    ours = NULL;
    SSL_free(its);
    (void)close(fd[0]);
    (void)close(fd[1]);
    open_sockets();
    assert_int_equal(SSL_CTX_set_max_proto_version(its_context, TLS1_2_VERSION), 1);
    begin(keys);
    (void)shake();
    fails(HF_NODE_ERR_TLS_CLIENT, words);
}

TEST(a_server_that_wants_one_and_we_have_none)
{
    it_wants_one_by(&authority);
    our_certificate_is_refused("it wants a certificate of the agent: give tls_cert_file");
}

TEST(a_server_that_does_not_know_our_ca)
{
    it_wants_one_by(&authority);
    we_show(&other_authority, 30);
    our_certificate_is_refused("it refuses the agent's certificate: it does not know the CA");
}

TEST(our_certificate_is_over)
{
    it_wants_one_by(&authority);
    we_show(&authority, -1);
    our_certificate_is_refused("it refuses the agent's certificate: it has expired");
}

/* --- peers that do not speak, or not so ------------------------------------------------------- */

TEST(a_server_of_plain_redis)
{
    static const char answer[] = "-ERR Protocol error: unbalanced quotes in request\r\n";

    begin(keys);
    assert_int_equal(send(fd[1], answer, strlen(answer), 0), strlen(answer));
    (void)its_end();
    fails(HF_NODE_ERR_NO_TLS, "it speaks no TLS: write redis:// in its address");
}

TEST(a_peer_that_hangs)
{
    begin(keys);
    assert_int_equal(tls_shake(ours), TLS_READ); /* it does not wait */
    assert_false(tls_heard(ours));
    assert_int_equal(send(fd[1], "\x16\x03\x03\x40", 4, 0), 4); /* a record that never comes */
    for (int turn = 0; turn < TURNS && !tls_heard(ours); turn++)
        (void)usleep(10000);
    assert_true(tls_heard(ours));
    assert_int_equal(tls_shake(ours), TLS_READ);
}

TEST(a_peer_that_ends_it_within_the_handshake)
{
    begin(keys);
    (void)tls_shake(ours);
    assert_int_equal(shutdown(fd[1], SHUT_RDWR), 0);
    assert_int_equal(its_end(), TLS_ENDED);
    assert_int_equal(tls_error(ours), HF_NODE_ERR_TLS);
    says(tls_error_text(ours), "within the TLS handshake");
}

TEST(a_server_that_ends_it_later)
{
    redisReader *reader = redisReaderCreate();

    connects();
    it_says("+PONG\r\n");
    (void)SSL_shutdown(its);
    assert_int_equal(tls_feed(ours, reader), TLS_ENDED);
    assert_int_equal(tls_error(ours), HF_NODE_ERR_BROKEN);
    redisReaderFree(reader);
}

TEST(which_protocol_a_peer_speaks)
{
    struct node_address plain = {.tls = false};
    size_t length;

    assert_memory_equal(tls_knock(&address, &length), "*1\r\n$4\r\nPING\r\n", 14);
    assert_int_equal(length, 14);
    assert_int_equal(tls_knocked(&address, '+'), HF_NODE_ERR_NO_TLS);
    assert_int_equal(tls_knocked(&address, '-'), HF_NODE_ERR_NO_TLS);
    assert_int_equal(tls_knocked(&address, 0x15), HF_NODE_ERR_NONE);
    assert_int_equal(tls_knocked(&plain, 0x15), HF_NODE_ERR_WANTS_TLS);
    assert_int_equal(tls_knocked(&plain, 0x16), HF_NODE_ERR_WANTS_TLS);
    assert_int_equal(tls_knocked(&plain, '-'), HF_NODE_ERR_NONE);
    says(tls_knocked_text(HF_NODE_ERR_WANTS_TLS), "write rediss:// in its address");
}

/* A server of TLS answers the knock: with an alert, or with its side of a handshake. */
TEST(a_server_of_tls_knows_our_knock)
{
    struct node_address plain = {.tls = false};
    const void *words;
    unsigned char first = 0;
    size_t length;

    begin(keys);
    words = tls_knock(&plain, &length);
    assert_int_equal(send(fd[0], words, length, 0), length);
    (void)SSL_do_handshake(its);
    ERR_clear_error();
    assert_int_equal(recv(fd[0], &first, 1, 0), 1);
    assert_int_equal(tls_knocked(&plain, first), HF_NODE_ERR_WANTS_TLS);
}

/* --- a peer that keeps OpenSSL busy ------------------------------------------------------------ */

static int unread_by(int descriptor)
{
    int bytes = 0;

    assert_int_equal(ioctl(descriptor, FIONREAD, &bytes), 0);
    return bytes;
}

/* OpenSSL passes over each of them, and reads on. */
static void asks_for_handshakes(int times)
{
    static const char question[] = {0x16, 3, 3, 0, 4, 0, 0, 0, 0};
    char questions[1000 * sizeof(question)];

    for (size_t i = 0; i < sizeof(questions); i++)
        questions[i] = question[i % sizeof(question)];
    for (int i = 0; i < times; i++)
        (void)send(fd[1], questions, sizeof(questions), MSG_DONTWAIT);
}

TEST(a_peer_that_asks_for_handshakes_without_end)
{
    begin(keys);
    for (int turn = 0; turn < 3000 && (step = tls_shake(ours)) == TLS_READ; turn++) {
        asks_for_handshakes(1);
        (void)usleep(1000);
    }
    fails(HF_NODE_ERR_TLS, "longer than 64 KiB");
}

/* --- a certificate that keeps OpenSSL busy ----------------------------------------------------- */

/* A certificate of 391 bytes whose key is on a curve of its own, over a prime p = c * 2^649 + 1, with its points compressed. To
 * read it OpenSSL takes two square roots modulo p: 0.2 s. Nobody has its key. */
static const unsigned char slow_certificate[] = {
    0x30, 0x82, 0x01, 0x83, 0x30, 0x82, 0x01, 0x68, 0xa0, 0x03, 0x02, 0x01, 0x02, 0x02, 0x01, 0x01,
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02, 0x30, 0x00, 0x30, 0x1e,
    0x17, 0x0d, 0x32, 0x35, 0x30, 0x31, 0x30, 0x31, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x5a, 0x17,
    0x0d, 0x33, 0x35, 0x30, 0x31, 0x30, 0x31, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x5a, 0x30, 0x00,
    0x30, 0x82, 0x01, 0x2c, 0x30, 0x81, 0xd2, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x30, 0x81, 0xc6, 0x02, 0x01, 0x01, 0x30, 0x5e, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x01,
    0x01, 0x02, 0x53, 0x08, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x30, 0x06, 0x04, 0x01, 0x01, 0x04, 0x01, 0x01, 0x04, 0x54,
    0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x02, 0x02, 0x03, 0x01, 0x00, 0x01, 0x03, 0x55, 0x00, 0x02, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02, 0x03, 0x09, 0x00, 0x30,
    0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01,
};
#define SLOW_COPIES 5

/* The server's own, and the slow one some times. */
static void it_shows_slow_certificates(void)
{
    const unsigned char *bytes = slow_certificate;
    X509 *slow = d2i_X509(NULL, &bytes, sizeof(slow_certificate));

    assert_non_null(slow);
    SSL_CTX_set_security_level(its_context, 0);
    for (int i = 0; i < SLOW_COPIES; i++) {
        assert_int_equal(X509_up_ref(slow), 1);
        assert_int_equal(SSL_CTX_add_extra_chain_cert(its_context, slow), 1);
    }
    X509_free(slow);
}

static int64_t cpu_ms_of(clockid_t clock)
{
    struct timespec t;

    assert_int_equal(clock_gettime(clock, &t), 0);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* (!) A peer that has proved nothing chooses what a handshake computes: the caller computes none of it. */
TEST(certificates_that_take_long_cost_the_caller_nothing)
{
    int64_t ours_ms = 0, all_ms, before;

    it_shows_slow_certificates();
    begin(keys);
    all_ms = cpu_ms_of(CLOCK_PROCESS_CPUTIME_ID);
    do {
        wait_for_step(1);
        (void)SSL_do_handshake(its);
        ERR_clear_error();
        before = cpu_ms_of(CLOCK_THREAD_CPUTIME_ID);
        step = tls_shake(ours);
        ours_ms += cpu_ms_of(CLOCK_THREAD_CPUTIME_ID) - before;
    } while (step == TLS_READ);
    all_ms = cpu_ms_of(CLOCK_PROCESS_CPUTIME_ID) - all_ms;
    assert_int_equal(step, TLS_DONE);
    assert_true(all_ms > 100);
    assert_true(ours_ms < all_ms / 4);
}

/* (!) A handshake that was given up is computed on: the next try begins no second one. */
TEST(a_peer_whose_handshake_is_computed_yet_gets_no_other)
{
    struct tls *second = NULL;

    it_shows_slow_certificates();
    begin(keys);
    wait_for_step(1000);
    (void)SSL_do_handshake(its); /* up to its certificates */
    while (!tls_heard(ours))
        (void)usleep(1000);
    tls_close(ours);
    ours = NULL;
    assert_int_equal(tls_open(keys, &address, fd[0], &second), HF_EBUSY);
    assert_null(second);
    open_ours(keys); /* waits */
}

TEST(a_server_that_sends_tickets_without_end)
{
    redisReader *reader = redisReaderCreate();
    int tickets = 0;

    connects();
    it_says("+PONG\r\n");
    while ((step = tls_feed(ours, reader)) == TLS_READ && tickets++ < 10000) {
        assert_int_equal(SSL_new_session_ticket(its), 1);
        assert_int_equal(SSL_do_handshake(its), 1);
    }
    fails(HF_NODE_ERR_TLS, "tickets or keys of TLS without end");
    assert_in_range(tickets, 60, 70);
    redisReaderFree(reader);
}

TEST(some_tickets_between_data_are_fine)
{
    connects();
    for (int i = 0; i < 50; i++) {
        assert_int_equal(SSL_new_session_ticket(its), 1);
        it_says("+PONG\r\n");
    }
}

/* (!) Each costs as much as many pieces of data, and a piece of data between them does not excuse it. */
TEST(new_keys_between_data_end)
{
    redisReader *reader = redisReaderCreate();
    int updates = 0;

    connects();
    step = TLS_DONE;
    while (step != TLS_ENDED && updates < 10000) {
        for (int i = 0; i < 8; i++, updates++) {
            assert_int_equal(SSL_key_update(its, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
            assert_int_equal(SSL_do_handshake(its), 1);
        }
        assert_int_equal(SSL_write(its, "+", 1), 1);
        do
            step = tls_feed(ours, reader);
        while (step != TLS_ENDED && unread_by(fd[0]));
    }
    fails(HF_NODE_ERR_TLS, "tickets or keys of TLS without end");
    assert_in_range(updates, 60, 80);
    redisReaderFree(reader);
}

TEST(a_server_that_wants_a_new_handshake)
{
    redisReader *reader = redisReaderCreate();

    assert_int_equal(SSL_CTX_set_max_proto_version(its_context, TLS1_2_VERSION), 1);
    connects();
    assert_int_equal(SSL_renegotiate(its), 1);
    (void)SSL_do_handshake(its);
    assert_int_not_equal(tls_feed(ours, reader), TLS_DONE);
    assert_in_range(unread_by(fd[1]), 1, 60); /* an alert, and no ClientHello */
    redisReaderFree(reader);
}

/* --- a reload --------------------------------------------------------------------------------- */

TEST(without_keys_there_is_no_connection)
{
    assert_int_equal(tls_open(NULL, &address, fd[0], &ours), HF_EINVAL);
    assert_null(ours);
}

/* (!) A connection that stands goes on with what it was made with; the next one has what is in use by then. */
TEST(certificates_are_given_anew_while_a_connection_lives)
{
    struct pair next = make_pair(&authority, (struct wanted){"agent2", NULL, A_MONTH});
    struct tls_keys *anew = NULL;
    struct tls *first;
    SSL *its_first;
    int first_fd[2];

    it_wants_one_by(&authority);
    we_show(&authority, 30);
    tls_keys_use(tls_keys_hold(keys));
    begin(NULL);
    assert_int_equal(shake(), TLS_DONE);
    it_says("+PONG\r\n");
    our_name_is(its, "agent");
    first = ours;
    its_first = its;
    memcpy(first_fd, fd, sizeof(fd));

    write_cert("cert", &next);
    write_key("key", &next, NULL);
    free_pair(&next);
    assert_int_equal(load_files("ca", "cert", "key", true, &anew), HF_OK);
    tls_keys_drop(keys);
    keys = NULL;
    tls_keys_use(anew); /* the ones before are the first connection's alone */
    we_say("PING\r\n");
    it_says("+PONG\r\n");

    open_sockets();
    begin(NULL);
    assert_int_equal(shake(), TLS_DONE);
    it_says("+PONG\r\n");
    our_name_is(its, "agent2");
    our_name_is(its_first, "agent");
    tls_close(first);
    SSL_free(its_first);
    (void)close(first_fd[0]);
    (void)close(first_fd[1]);
    we_say("PING\r\n");
    it_says("+PONG\r\n");
    tls_keys_use(NULL);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, prepare, clean_up)
    const struct CMUnitTest tests[] = {
        ROW(the_right_server),
        ROW(by_tls_1_2_but_not_before),
        ROW(a_server_of_tls_1_1),
        ROW(a_certificate_for_another_host),
        ROW(a_certificate_without_a_host),
        ROW(any_host_where_it_is_not_checked),
        ROW(the_name_that_is_wanted_or_the_address),
        ROW(the_host_will_not_do_where_another_name_is_wanted),
        ROW(a_certificate_that_is_over),
        ROW(a_certificate_that_is_not_valid_yet),
        ROW(a_certificate_by_another_ca),
        ROW(a_certificate_by_itself),
        ROW(no_terminal_is_written_to_by_a_certificate),
        ROW(our_certificate_is_shown),
        ROW(a_server_that_wants_one_and_we_have_none),
        ROW(a_server_that_does_not_know_our_ca),
        ROW(our_certificate_is_over),
        ROW(a_server_of_plain_redis),
        ROW(a_peer_that_hangs),
        ROW(a_peer_that_ends_it_within_the_handshake),
        ROW(a_server_that_ends_it_later),
        ROW(which_protocol_a_peer_speaks),
        ROW(a_server_of_tls_knows_our_knock),
        ROW(a_peer_that_asks_for_handshakes_without_end),
        ROW(certificates_that_take_long_cost_the_caller_nothing),
        ROW(a_peer_whose_handshake_is_computed_yet_gets_no_other),
        ROW(a_server_that_sends_tickets_without_end),
        ROW(some_tickets_between_data_are_fine),
        ROW(new_keys_between_data_end),
        ROW(a_server_that_wants_a_new_handshake),
        ROW(without_keys_there_is_no_connection),
        ROW(certificates_are_given_anew_while_a_connection_lives),
    };

    (void)signal(SIGPIPE, SIG_IGN); /* as the agent has it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

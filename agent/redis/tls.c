#include "agent/redis/tls.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/base/tls_keys.h"
#include "agent/core/share.h"
#include "shm/compiler.h"
#include "shm/status.h"

/* Bytes in a record of TLS, at most. (!) A smaller read would leave the rest in OpenSSL, of which no event tells. */
#define RECORD 16384

/* (!) OpenSSL reads on for as long as the peer sends what is no data: questions for a new handshake, tickets, new keys. A peer that
 * needs more than this for a handshake, or between two pieces of data, gets no further. A handshake takes some 5 KiB. What is read
 * after it is read in one call: 16 ms for the smallest records. */
#define SHAKE_MOST (64 * 1024)
#define IDLE_MOST  (2 * RECORD)
/* After the handshake a server sends a ticket or two, and new keys after millions of records. Each costs as much as many pieces of
 * data, so (!) they are counted whatever data is between them: so many at once, and one a second. */
#define TALK_AT_ONCE 64
/* Of a handshake's thread: it goes behind those that renew and grant. */
#define SHAKE_NICE 10

/* Whose it is. */
enum tls_stage {
    STAGE_SHAKING, /* the handshake's thread has it */
    STAGE_SHAKEN,  /* the connection's thread has it */
    STAGE_LEFT,    /* ...has closed it before the handshake's end: the other frees it */
};

struct tls {
    SSL *ssl;
    struct tls_keys *keys;
    int fd;                       /* the connection's, the caller's */
    int own_fd;                   /* the same, for the handshake's thread; then -1 */
    int shaken_fd;                /* an eventfd; after the handshake -1 */
    _Atomic int stage;            /* enum tls_stage */
    _Atomic unsigned *left_count; /* of its peer */
    enum tls_step shaken;         /* the handshake's end */
    atomic_bool heard;
    char host[HF_NODE_TEXT_MAX + 1]; /* in its certificate */
    char ip[HF_NODE_TEXT_MAX + 1];   /* this will do, too; "": none */
    bool up;                         /* the handshake is done */
    size_t idle;                     /* bytes read since the last piece of data */
    hf_time talked_until;            /* when its messages of TLS so far will be within their rate */
    bool talks;                      /* they are not */
    enum hf_node_error error;
    char text[160];
};

static enum tls_step tls_end(struct tls *t, enum hf_node_error error, const char *format, ...)
    HF_PRINTF(3, 4);
static enum tls_step tls_end(struct tls *t, enum hf_node_error error, const char *format, ...)
{
    va_list args;

    t->error = error;
    va_start(args, format);
    vsnprintf(t->text, sizeof(t->text), format, args);
    va_end(args);
    for (char *c = t->text; *c; c++) /* a certificate may have any bytes in its names */
        if (!isprint((unsigned char)*c))
            *c = '?';
    ERR_clear_error();
    return TLS_ENDED;
}

/* --- what is wrong ---------------------------------------------------------------------------- */

static const char *tls_day_of(const ASN1_TIME *time, char *text, size_t size)
{
    struct tm tm;

    if (!ASN1_TIME_to_tm(time, &tm) || strftime(text, size, "%Y-%m-%d", &tm) == 0)
        snprintf(text, size, "an unknown day");
    return text;
}

static void tls_issuer_of(const X509 *cert, char *text, size_t size)
{
    snprintf(text, size, "unknown");
    (void)X509_NAME_get_text_by_NID(X509_get_issuer_name(cert), NID_commonName, text, (int)size);
}

/* The server's certificate is not accepted, `cert` being the one that is wrong: itself, or one of its CAs. */
static void tls_note_certificate(struct tls *t, int verdict, const X509 *cert)
{
    char text[64];

    switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        tls_day_of(X509_get0_notAfter(cert), text, sizeof(text));
        (void)tls_end(t, HF_NODE_ERR_TLS_EXPIRED,
                      "its certificate, or that of its CA, has expired (%s)", text);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        tls_day_of(X509_get0_notBefore(cert), text, sizeof(text));
        (void)tls_end(t, HF_NODE_ERR_TLS_EXPIRED, "its certificate is not valid before %s", text);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        tls_issuer_of(cert, text, sizeof(text));
        (void)tls_end(t, HF_NODE_ERR_TLS_CA,
                      "no CA of tls_ca_file signed its certificate (it is by '%.24s')", text);
        break;
    default:
        (void)tls_end(t, HF_NODE_ERR_TLS, "its certificate: %s",
                      X509_verify_cert_error_string(verdict));
    }
}

static int tls_on_verified(int good, X509_STORE_CTX *verification)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
    const X509 *cert = X509_STORE_CTX_get_current_cert(verification);

    if (!good && cert)
        tls_note_certificate(SSL_get_app_data(ssl), X509_STORE_CTX_get_error(verification), cert);
    return good;
}

/* The server has refused ours, or that there is none. */
static enum tls_step tls_end_by_alert(struct tls *t, int reason)
{
    const char *what = ERR_reason_error_string(ERR_peek_error());

    if (!tls_keys_have_certificate(t->keys))
        return tls_end(t, HF_NODE_ERR_TLS_CLIENT,
                       "it wants a certificate of the agent: give tls_cert_file");
    if (reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA)
        what = "it does not know the CA";
    else if (reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED)
        what = "it has expired";
    return tls_end(t, HF_NODE_ERR_TLS_CLIENT, "it refuses the agent's certificate: %s",
                   what ? what : "");
}

static enum tls_step tls_end_by_library(struct tls *t)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    const char *what = ERR_reason_error_string(error);

    if (t->error != HF_NODE_ERR_NONE) /* tls_on_verified() has said why */
        return TLS_ENDED;
    if (reason == SSL_R_NO_RENEGOTIATION)
        return tls_end(t, HF_NODE_ERR_PROTOCOL, "it asks for a new TLS handshake");
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
        return tls_end(t, HF_NODE_ERR_NO_TLS, "%s", tls_knocked_text(HF_NODE_ERR_NO_TLS));
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
        return tls_end_by_alert(t, reason);
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return t->up ? tls_end(t, HF_NODE_ERR_BROKEN, "Server closed the connection")
                     : tls_end(t, HF_NODE_ERR_TLS,
                               "it ended the connection within the TLS handshake");
    default:
        return tls_end(t, t->up ? HF_NODE_ERR_BROKEN : HF_NODE_ERR_TLS, "TLS: %s",
                       what ? what : "failed");
    }
}

static bool tls_reads_too_much(const struct tls *t)
{
    return t->idle > (t->up ? IDLE_MOST : SHAKE_MOST);
}

static enum tls_step tls_outcome(struct tls *t, int rc)
{
    int error = errno;

    if (tls_reads_too_much(t) || t->talks)
        return tls_end(t, HF_NODE_ERR_TLS, "%s",
                       t->up ? "it sends tickets or keys of TLS without end"
                             : "its part of the TLS handshake is longer than 64 KiB");
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return TLS_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return tls_end(t, HF_NODE_ERR_BROKEN, "Server closed the connection");
    case SSL_ERROR_SSL:
        return tls_end_by_library(t);
    default:
        return tls_end(t, t->up ? HF_NODE_ERR_BROKEN : HF_NODE_ERR_TLS, "%s%s",
                       t->up ? "" : "within the TLS handshake: ",
                       error ? strerror(error) : "Server closed the connection");
    }
}

/* --- the host --------------------------------------------------------------------------------- */

static bool tls_is_ip(const char *text)
{
    ASN1_OCTET_STRING *ip = a2i_IPADDRESS(text);

    ASN1_OCTET_STRING_free(ip);
    return ip;
}

static bool tls_is_for(X509 *cert, const char *host)
{
    if (!*host)
        return false;
    return tls_is_ip(host) ? X509_check_ip_asc(cert, host, 0) == 1
                           : X509_check_host(cert, host, 0, 0, NULL) == 1;
}

/* A name that the certificate has, for people. */
static void tls_name_of(X509 *cert, char *text, size_t size)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    snprintf(text, size, "nobody");
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, text, (int)size);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type != GEN_DNS)
            continue;
        snprintf(text, size, "%.*s", ASN1_STRING_length(name->d.dNSName),
                 (const char *)ASN1_STRING_get0_data(name->d.dNSName));
        break;
    }
    GENERAL_NAMES_free(names);
}

static enum tls_step tls_check_name(struct tls *t)
{
    X509 *cert = SSL_get0_peer_certificate(t->ssl);
    char name[64];

    if (!tls_keys_check_host(t->keys) ||
        (cert && (tls_is_for(cert, t->host) || tls_is_for(cert, t->ip))))
        return TLS_DONE;
    if (cert)
        tls_name_of(cert, name, sizeof(name));
    else
        snprintf(name, sizeof(name), "nobody");
    return tls_end(t, HF_NODE_ERR_TLS_HOST, "its certificate is for %.24s, not for %.32s", name,
                   t->host);
}

/* --- what OpenSSL reads ----------------------------------------------------------------------- */

/* Lets OpenSSL read as if nothing more had come yet. The rest stays with the descriptor, which stays readable. */
static long tls_on_read(BIO *bio, int operation, const char *bytes, size_t size, int argi,
                        long argl, int result, size_t *processed)
{
    struct tls *t = (struct tls *)BIO_get_callback_arg(bio);

    (void)bytes;
    (void)argi;
    (void)argl;
    if (operation == (BIO_CB_READ | BIO_CB_RETURN) && result > 0 && processed) {
        atomic_store_explicit(&t->heard, true, memory_order_relaxed);
        t->idle += *processed;
    } else if (operation == BIO_CB_READ && size > 0 && tls_reads_too_much(t)) {
        BIO_set_retry_read(bio);
        return -1;
    }
    return result;
}

static void tls_on_message(int ours, int version, int type, const void *bytes, size_t size,
                           SSL *ssl, void *arg)
{
    struct tls *t = arg;

    (void)version;
    (void)bytes;
    (void)size;
    (void)ssl;
    if (!ours && t->up && type == SSL3_RT_HANDSHAKE)
        t->talks |= !bucket_take(&t->talked_until, hf_ns(HF_NS_PER_SEC), TALK_AT_ONCE, clock_now());
}

static void tls_bound_reads(struct tls *t)
{
    BIO *bio = SSL_get_rbio(t->ssl);

    BIO_set_callback_arg(bio, (char *)t);
    BIO_set_callback_ex(bio, tls_on_read);
    SSL_set_msg_callback(t->ssl, tls_on_message);
    SSL_set_msg_callback_arg(t->ssl, t);
    SSL_clear_mode(t->ssl, SSL_MODE_AUTO_RETRY);
    SSL_set_options(t->ssl, SSL_OP_NO_RENEGOTIATION);
}

/* --- the handshake ---------------------------------------------------------------------------- */

/* Handshakes that were given up and are computed yet, by a hash of the peer's address. (!) While a peer has one it gets no
 * other: connections are tried again and again, and each try would have a thread more. */
static _Atomic unsigned left_counts[64];

static _Atomic unsigned *tls_left_count(const struct node_address *address)
{
    unsigned hash = 0;

    for (const char *c = address->text; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    return &left_counts[hash % HF_LENGTH(left_counts)];
}

static void tls_close_own(struct tls *t)
{
    if (t->own_fd >= 0)
        (void)close(t->own_fd);
    if (t->shaken_fd >= 0)
        (void)close(t->shaken_fd);
    t->own_fd = t->shaken_fd = -1;
}

static void tls_free(struct tls *t)
{
    SSL_free(t->ssl);
    ERR_clear_error();
    tls_close_own(t);
    tls_keys_drop(t->keys);
    free(t);
}

static enum tls_step tls_do_handshake(struct tls *t)
{
    struct pollfd poll_fd = {.fd = t->own_fd};
    enum tls_step step;
    int rc;

    errno = 0;
    while ((rc = SSL_do_handshake(t->ssl)) != 1) {
        step = tls_outcome(t, rc);
        if (step == TLS_ENDED)
            return step;
        poll_fd.events = step == TLS_READ ? POLLIN : POLLOUT;
        (void)poll(&poll_fd, 1, -1); /* tls_close() ends the connection */
        errno = 0;
    }
    if (tls_check_name(t) != TLS_DONE)
        return TLS_ENDED;
    t->idle = 0;
    t->up = true;
    return TLS_DONE;
}

/* (!) Told first: whoever sees that it is shaken may free it. */
static void *tls_shake_main(void *arg)
{
    struct tls *t = arg;

    (void)pthread_setname_np(pthread_self(), "hf-tls");
    (void)setpriority(PRIO_PROCESS, 0, SHAKE_NICE); /* on Linux this thread's alone */
    t->shaken = tls_do_handshake(t);
    (void)eventfd_write(t->shaken_fd, 1);
    if (atomic_exchange(&t->stage, STAGE_SHAKEN) == STAGE_LEFT) {
        atomic_fetch_sub(t->left_count, 1);
        tls_free(t);
    }
    return NULL;
}

int tls_shaken_fd(const struct tls *t)
{
    return t->shaken_fd;
}

enum tls_step tls_shake(struct tls *t)
{
    if (atomic_load(&t->stage) == STAGE_SHAKING)
        return TLS_READ;
    if (t->own_fd >= 0 && t->shaken == TLS_DONE)
        (void)BIO_set_fd(SSL_get_rbio(t->ssl), t->fd, BIO_NOCLOSE); /* it writes by it, too */
    tls_close_own(t);
    return t->shaken;
}

/* --- the connection --------------------------------------------------------------------------- */

static int tls_prepare(struct tls *t)
{
    t->own_fd = fcntl(t->fd, F_DUPFD_CLOEXEC, 0);
    t->shaken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->ssl = SSL_new(tls_keys_context(t->keys));
    if (t->own_fd < 0 || t->shaken_fd < 0 || !t->ssl || SSL_set_fd(t->ssl, t->own_fd) != 1 ||
        (!tls_is_ip(t->host) && SSL_set_tlsext_host_name(t->ssl, t->host) != 1))
        return HF_ENOMEM;
    SSL_set_app_data(t->ssl, t);
    SSL_set_verify(t->ssl, SSL_VERIFY_PEER, tls_on_verified);
    SSL_set_connect_state(t->ssl);
    tls_bound_reads(t);
    return thread_start_helper(tls_shake_main, t);
}

int tls_open(struct tls_keys *keys, const struct node_address *a, int fd, struct tls **ret_tls)
{
    _Atomic unsigned *left_count = tls_left_count(a);
    struct tls *t;

    if (atomic_load(left_count) > 0)
        return HF_EBUSY;
    keys = keys ? tls_keys_hold(keys) : tls_keys_now();
    if (!keys)
        return HF_EINVAL;
    t = calloc(1, sizeof(*t));
    if (!t) {
        tls_keys_drop(keys);
        return HF_ENOMEM;
    }
    t->keys = keys;
    t->fd = fd;
    t->left_count = left_count;
    atomic_init(&t->stage, STAGE_SHAKING);
    memcpy(t->host, a->tls_name, sizeof(t->host));
    if (a->numeric)
        memcpy(t->ip, a->host, sizeof(t->ip));
    if (tls_prepare(t) != HF_OK) {
        tls_free(t);
        return HF_ENOMEM;
    }
    ERR_clear_error();
    *ret_tls = t;
    return HF_OK;
}

void tls_close(struct tls *t)
{
    if (!t)
        return;
    if (atomic_load(&t->stage) == STAGE_SHAKING) {
        (void)shutdown(t->fd, SHUT_RDWR); /* its thread does not wait any more */
        atomic_fetch_add(t->left_count, 1);
        if (atomic_exchange(&t->stage, STAGE_LEFT) == STAGE_SHAKING)
            return;
        atomic_fetch_sub(t->left_count, 1);
    }
    if (tls_shake(t) == TLS_DONE && t->error == HF_NODE_ERR_NONE)
        (void)SSL_shutdown(t->ssl); /* as far as it goes without waiting */
    tls_free(t);
}

enum tls_step tls_feed(struct tls *t, struct redisReader *reader)
{
    char bytes[RECORD];
    int got;

    errno = 0;
    got = SSL_read(t->ssl, bytes, sizeof(bytes));
    if (got <= 0 || t->talks)
        return tls_outcome(t, got);
    t->idle = 0;
    if (redisReaderFeed(reader, bytes, (size_t)got) != REDIS_OK)
        return tls_end(t, HF_NODE_ERR_PROTOCOL, "it speaks no Redis protocol");
    return TLS_DONE;
}

/* (!) A server that refuses our certificate closes: its words still lie there to be read. */
static enum tls_step tls_send_failed(struct tls *t, int rc)
{
    enum tls_step step = tls_outcome(t, rc);
    char byte;

    if (step != TLS_ENDED || t->error != HF_NODE_ERR_BROKEN)
        return step;
    errno = 0;
    rc = SSL_read(t->ssl, &byte, 1);
    if (rc <= 0 && SSL_get_error(t->ssl, rc) == SSL_ERROR_SSL) {
        t->error = HF_NODE_ERR_NONE;
        return tls_end_by_library(t);
    }
    ERR_clear_error();
    return TLS_ENDED;
}

enum tls_step tls_send(struct tls *t, char **buffer)
{
    sds text = *buffer;
    size_t length = sdslen(text), sent = 0;
    enum tls_step step = TLS_DONE;

    while (sent < length && step == TLS_DONE) {
        int rc;

        errno = 0;
        rc = SSL_write(t->ssl, text + sent, (int)(length - sent));
        if (rc > 0)
            sent += (size_t)rc;
        else
            step = tls_send_failed(t, rc);
    }
    if (sent == length)
        sdsclear(text);
    else if (sent > 0)
        sdsrange(text, (int)sent, -1);
    return step;
}

bool tls_heard(const struct tls *t)
{
    return atomic_load_explicit(&t->heard, memory_order_relaxed);
}

enum hf_node_error tls_error(const struct tls *t)
{
    return t->error;
}

const char *tls_error_text(const struct tls *t)
{
    return t->text;
}

/* --- the other protocol ----------------------------------------------------------------------- */

/* A whole record with a ClientHello of TLS 1.2, of two cipher suites, one curve and two signature algorithms. Whatever
 * a TLS server thinks of it, its answer is a record. */
static const unsigned char hello[] = {
    0x16, 0x03, 0x01, 0x00, 0x47,                                         /* handshake, 71 bytes */
    0x01, 0x00, 0x00, 0x43, 0x03, 0x03,                                   /* ClientHello, 67 */
    'h',  'o',  'l',  'd',  'f',  'a',  's',  't',  'h',  'o',  'l', 'd', /* random */
    'f',  'a',  's',  't',  'h',  'o',  'l',  'd',  'f',  'a',  's', 't', /* */
    'h',  'o',  'l',  'd',  'f',  'a',  's',  't',                        /* */
    0x00,                                                                 /* no session */
    0x00, 0x04, 0xc0, 0x2b, 0xc0, 0x2f,                                   /* suites */
    0x01, 0x00,                                                           /* no compression */
    0x00, 0x16,                                                           /* extensions, 22 */
    0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17,                       /* secp256r1 */
    0x00, 0x0d, 0x00, 0x06, 0x00, 0x04, 0x04, 0x03, 0x04, 0x01,           /* ecdsa, rsa; SHA-256 */
    0x00, 0x17, 0x00, 0x00,                                               /* extended secret */
};
_Static_assert(sizeof(hello) == 5 + 0x47, "as the record says");

static const char ping[] = "*1\r\n$4\r\nPING\r\n";

const void *tls_knock(const struct node_address *address, size_t *ret_length)
{
    *ret_length = address->tls ? sizeof(ping) - 1 : sizeof(hello);
    return address->tls ? (const void *)ping : (const void *)hello;
}

enum hf_node_error tls_knocked(const struct node_address *address, unsigned char first)
{
    if (address->tls)
        return first == '+' || first == '-' ? HF_NODE_ERR_NO_TLS : HF_NODE_ERR_NONE;
    return first == 0x15 || first == 0x16 ? HF_NODE_ERR_WANTS_TLS : HF_NODE_ERR_NONE;
}

const char *tls_knocked_text(enum hf_node_error error)
{
    return error == HF_NODE_ERR_WANTS_TLS ? "it speaks TLS: write rediss:// in its address"
                                          : "it speaks no TLS: write redis:// in its address";
}

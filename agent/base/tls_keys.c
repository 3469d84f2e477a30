#include "agent/base/tls_keys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "agent/base/given_file.h"
#include "agent/base/thread.h"
#include "shm/status.h"

#define FILE_MOST (4 << 20) /* bytes: a bundle of all public CAs has a quarter of a megabyte */
#define SOON_DAYS 14

struct tls_keys {
    atomic_int references;
    SSL_CTX *context;
    bool check_host, has_certificate;
    char digest[SHA1_HEX_LEN + 1];
    char warning[256];
};

enum which { CA, CERT, KEY };

struct load {
    const struct tls_files *files;
    struct tls_keys *keys;
    struct sha1 digest;
    char *why;
    size_t why_size;
};

static int keys_wrong(struct load *l, enum which which, const char *path, const char *what)
{
    snprintf(l->why, l->why_size, "%s: %.160s %s", l->files->names[which], path, what);
    return HF_EINVAL;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int keys_read_fd(struct load *l, const char *path, int fd, BIO *to, char *why, size_t size)
{
    char buffer[8192];
    size_t all = 0;
    ssize_t got;

    while ((got = read(fd, buffer, sizeof(buffer))) > 0 && (all += (size_t)got) <= FILE_MOST) {
        sha1_add(&l->digest, buffer, (size_t)got);
        if (BIO_write(to, buffer, (int)got) != got) {
            explicit_bzero(buffer, sizeof(buffer));
            return HF_ENOMEM;
        }
    }
    explicit_bzero(buffer, sizeof(buffer)); /* a key */
    if (got < 0)
        return given_file_unread(path, errno, why, size);
    if (all <= FILE_MOST)
        return HF_OK;
    snprintf(why, size, "%.160s is larger than 4 MiB", path);
    return HF_EINVAL;
}

static int keys_read_file(struct load *l, enum which which, const char *path, BIO **ret_text)
{
    BIO *text = BIO_new(BIO_s_secmem());
    struct stat status = {.st_mode = 0};
    char why[320];
    int fd = -1, rc = HF_ENOMEM;

    if (text)
        rc = fd = given_file_open(path, &status, why, sizeof(why));
    if (fd >= 0) {
        rc = keys_read_fd(l, path, fd, text, why, sizeof(why));
        (void)close(fd);
    }
    if (rc == HF_EINVAL)
        snprintf(l->why, l->why_size, "%s: %s", l->files->names[which], why);
    sha1_add(&l->digest, "", 1); /* between two files */
    if (which == KEY && status.st_mode & S_IROTH && !l->keys->warning[0])
        snprintf(l->keys->warning, sizeof(l->keys->warning),
                 "%.120s (%s) is a key and every user can read it: chmod o-r it", path,
                 l->files->names[KEY]);
    if (rc == HF_OK)
        *ret_text = text;
    else
        BIO_free(text);
    return rc;
}

/* --- what is in the files --------------------------------------------------------------------- */

/* (!) Nobody is there to be asked for a passphrase. */
static int keys_no_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer;
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

static int keys_take_ca(struct load *l, const char *path)
{
    X509_STORE *store = SSL_CTX_get_cert_store(l->keys->context);
    BIO *text = NULL;
    X509 *one;
    int count = 0, rc = keys_read_file(l, CA, path, &text);

    if (rc != HF_OK)
        return rc;
    while ((one = PEM_read_bio_X509_AUX(text, NULL, NULL, NULL))) {
        count += X509_STORE_add_cert(store, one);
        X509_free(one);
    }
    ERR_clear_error();
    BIO_free(text);
    return count > 0 ? HF_OK : keys_wrong(l, CA, path, "has no certificate in PEM form");
}

static void keys_judge_age(struct load *l, const char *path, const X509 *cert)
{
    const ASN1_TIME *end = X509_get0_notAfter(cert);
    int days = 0, seconds = 0;

    if (!ASN1_TIME_diff(&days, &seconds, NULL, end) || days >= SOON_DAYS)
        return;
    if (days < 0 || seconds < 0)
        snprintf(l->keys->warning, sizeof(l->keys->warning),
                 "renew the certificate in %.120s (%s): it has expired", path,
                 l->files->names[CERT]);
    else
        snprintf(l->keys->warning, sizeof(l->keys->warning),
                 "renew the certificate in %.120s (%s): it expires in %d day%s", path,
                 l->files->names[CERT], days, days == 1 ? "" : "s");
}

static int keys_take_certificate(struct load *l, const char *path)
{
    SSL_CTX *context = l->keys->context;
    BIO *text = NULL;
    X509 *one;
    int rc = keys_read_file(l, CERT, path, &text);
    bool good;

    if (rc != HF_OK)
        return rc;
    one = PEM_read_bio_X509_AUX(text, NULL, NULL, NULL);
    good = one && SSL_CTX_use_certificate(context, one) == 1;
    if (one)
        keys_judge_age(l, path, one);
    X509_free(one);
    while (good && (one = PEM_read_bio_X509(text, NULL, NULL, NULL))) {
        good = SSL_CTX_add0_chain_cert(context, one) == 1;
        if (!good)
            X509_free(one);
    }
    ERR_clear_error();
    BIO_free(text);
    l->keys->has_certificate = true;
    return good ? HF_OK
                : keys_wrong(l, CERT, path, "has no certificate in PEM form that can be used");
}

static int keys_take_key(struct load *l, const char *path)
{
    bool locked = false, good, fits;
    EVP_PKEY *key;
    BIO *text = NULL;
    int rc = keys_read_file(l, KEY, path, &text);

    if (rc != HF_OK)
        return rc;
    key = PEM_read_bio_PrivateKey(text, NULL, keys_no_passphrase, &locked);
    good = key != NULL;
    fits = good && SSL_CTX_use_PrivateKey(l->keys->context, key) == 1 &&
           SSL_CTX_check_private_key(l->keys->context) == 1;
    EVP_PKEY_free(key);
    ERR_clear_error();
    BIO_free(text);
    if (locked)
        return keys_wrong(l, KEY, path, "wants a passphrase: give the agent a key without one");
    if (!good)
        return keys_wrong(l, KEY, path, "has no private key in PEM form");
    return fits ? HF_OK : keys_wrong(l, KEY, path, "is not the key of the certificate");
}

/* --- all of it -------------------------------------------------------------------------------- */

static int keys_prepare(struct tls_keys *keys)
{
    /* (!) A handshake's thread may compute on while the process ends. */
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
    keys->context = SSL_CTX_new(TLS_client_method());
    if (!keys->context || SSL_CTX_set_min_proto_version(keys->context, TLS1_2_VERSION) != 1)
        return HF_ENOMEM;
    /* (!) A server chooses the numbers of a finite-field exchange: 9999 bits keep a thread for a second and more. */
    if (SSL_CTX_set_cipher_list(keys->context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
        (SSL_CTX_set1_groups_list(keys->context, "X25519:P-256:P-384:P-521") != 1 &&
         SSL_CTX_set1_groups_list(keys->context, "P-256:P-384:P-521") != 1)) /* FIPS */
        return HF_ENOMEM;
    SSL_CTX_set_verify(keys->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(keys->context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(keys->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    return HF_OK;
}

int tls_keys_load(const struct tls_files *files, struct tls_keys **ret_keys, char *why,
                  size_t why_size)
{
    struct load l = {.files = files, .why = why, .why_size = why_size};
    int rc;

    l.keys = calloc(1, sizeof(*l.keys));
    if (!l.keys)
        return HF_ENOMEM;
    atomic_init(&l.keys->references, 1);
    l.keys->check_host = files->check_host;
    sha1_begin(&l.digest);
    rc = keys_prepare(l.keys);
    if (rc == HF_OK && files->ca)
        rc = keys_take_ca(&l, files->ca);
    if (rc == HF_OK && files->cert)
        rc = keys_take_certificate(&l, files->cert);
    if (rc == HF_OK && files->cert)
        rc = keys_take_key(&l, files->key ? files->key : files->cert);
    if (rc == HF_ENOMEM)
        snprintf(why, why_size, "out of memory");
    sha1_add(&l.digest, files->check_host ? "1" : "0", 1);
    sha1_end(&l.digest, l.keys->digest);
    if (rc == HF_OK)
        *ret_keys = l.keys;
    else
        tls_keys_drop(l.keys);
    return rc;
}

struct tls_keys *tls_keys_hold(struct tls_keys *keys)
{
    if (keys)
        atomic_fetch_add_explicit(&keys->references, 1, memory_order_relaxed);
    return keys;
}

void tls_keys_drop(struct tls_keys *keys)
{
    if (!keys || atomic_fetch_sub_explicit(&keys->references, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(keys->context);
    free(keys);
}

struct ssl_ctx_st *tls_keys_context(const struct tls_keys *keys)
{
    return keys->context;
}

bool tls_keys_check_host(const struct tls_keys *keys)
{
    return keys->check_host;
}

bool tls_keys_have_certificate(const struct tls_keys *keys)
{
    return keys->has_certificate;
}

const char *tls_keys_digest(const struct tls_keys *keys)
{
    return keys->digest;
}

const char *tls_keys_warning(const struct tls_keys *keys)
{
    return keys->warning;
}

/* --- those in use ----------------------------------------------------------------------------- */

static struct mutex mutex = {PTHREAD_MUTEX_INITIALIZER};
static struct tls_keys *in_use GUARDED_BY(mutex);

void tls_keys_use(struct tls_keys *keys)
{
    struct tls_keys *before;

    mutex_lock(&mutex);
    before = in_use;
    in_use = keys;
    mutex_unlock(&mutex);
    tls_keys_drop(before);
}

struct tls_keys *tls_keys_now(void)
{
    struct tls_keys *keys;

    mutex_lock(&mutex);
    keys = tls_keys_hold(in_use);
    mutex_unlock(&mutex);
    return keys;
}

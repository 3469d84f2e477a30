/* Certificates for unit tests: CAs, servers and agents, good ones and bad ones, made in the test. Include once, after
 * cmocka.h. */
#ifndef HOLDFAST_TESTS_TLS_FIXTURE_H
#define HOLDFAST_TESTS_TLS_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "agent/base/tls_keys.h"
#include "shm/compiler.h"
#include "tests/support/scratch.h"

struct pair { /* a certificate and its key */
    X509 *cert;
    EVP_PKEY *key;
};

struct wanted { /* of a certificate */
    const char *name;
    const char *for_hosts; /* "DNS:a.example,IP:10.0.0.1"; NULL: none */
    long from_days, to_days;
};

#define A_MONTH .from_days = -1, .to_days = 30

static char folder[64];
static char why[512];

/* --- pairs ------------------------------------------------------------------------------------ */

static void extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* Signed by `issuer`; NULL: by itself, and it is a CA. */
static struct pair make_pair(const struct pair *issuer, struct wanted wanted)
{
    static long serial;
    struct pair pair = {.cert = X509_new(), .key = EVP_EC_gen("P-256")};
    X509_NAME *name = X509_get_subject_name(pair.cert);

    assert_non_null(pair.key);
    assert_int_equal(X509_set_version(pair.cert, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(pair.cert), ++serial);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                                (const unsigned char *)wanted.name, -1, -1, 0),
                     1);
    X509_set_issuer_name(pair.cert, issuer ? X509_get_subject_name(issuer->cert) : name);
    X509_gmtime_adj(X509_getm_notBefore(pair.cert), wanted.from_days * 86400);
    X509_gmtime_adj(X509_getm_notAfter(pair.cert), wanted.to_days * 86400);
    X509_set_pubkey(pair.cert, pair.key);
    if (!issuer)
        extend(pair.cert, NID_basic_constraints, "critical,CA:TRUE");
    if (wanted.for_hosts)
        extend(pair.cert, NID_subject_alt_name, wanted.for_hosts);
    assert_true(X509_sign(pair.cert, issuer ? issuer->key : pair.key, EVP_sha256()) > 0);
    return pair;
}

static void free_pair(struct pair *pair)
{
    X509_free(pair->cert);
    EVP_PKEY_free(pair->key);
    *pair = (struct pair){.cert = NULL};
}

/* --- files ------------------------------------------------------------------------------------ */

/* The path of that file in the folder; four of them are there at a time. */
static const char *at(const char *file)
{
    static char paths[4][128];
    static int next;

    next = (next + 1) % 4;
    snprintf(paths[next], sizeof(paths[next]), "%s/%s", folder, file);
    return paths[next];
}

static FILE *create(const char *file)
{
    FILE *out;

    (void)unlink(at(file));
    out = fopen(at(file), "w");
    assert_non_null(out);
    assert_int_equal(fchmod(fileno(out), 0600), 0);
    return out;
}

static void write_cert(const char *file, const struct pair *pair)
{
    FILE *out = create(file);

    assert_int_equal(PEM_write_X509(out, pair->cert), 1);
    assert_int_equal(fclose(out), 0);
}

/* `passphrase` NULL: none. */
static void write_key(const char *file, const struct pair *pair, const char *passphrase)
{
    FILE *out = create(file);

    assert_int_equal(PEM_write_PrivateKey(out, pair->key, passphrase ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)passphrase,
                                          passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
                     1);
    assert_int_equal(fclose(out), 0);
}

static void make_folder(void)
{
    scratch_path(folder, sizeof(folder));
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    static const char *const files[] = {"ca", "cert", "key", "other"};

    for (size_t i = 0; i < HF_LENGTH(files); i++)
        (void)unlink(at(files[i]));
    assert_int_equal(rmdir(folder), 0);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* What an agent would load; NULL: it has none of that. */
static int load_files(const char *ca, const char *cert, const char *key, bool check_host,
                      struct tls_keys **ret_keys)
{
    const struct tls_files files = {
        .ca = ca ? at(ca) : NULL,
        .cert = cert ? at(cert) : NULL,
        .key = key ? at(key) : NULL,
        .check_host = check_host,
        .names = {"tls_ca_file", "tls_cert_file", key ? "tls_key_file" : "tls_cert_file"},
    };

    why[0] = '\0';
    return tls_keys_load(&files, ret_keys, why, sizeof(why));
}

static void says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

#endif

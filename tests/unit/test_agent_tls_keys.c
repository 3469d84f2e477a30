/* agent/base/tls_keys.h: the files with certificates and key, good ones and bad ones, and what is said of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "shm/status.h"
#include "tests/unit/tls_fixture.h"

#define TEST(name) static void name(HF_UNUSED void **state)

static struct pair authority, agent;

static int prepare(HF_UNUSED void **state)
{
    make_folder();
    authority = make_pair(NULL, (struct wanted){"ca", NULL, A_MONTH});
    agent = make_pair(&authority, (struct wanted){"agent", NULL, A_MONTH});
    write_cert("ca", &authority);
    write_cert("cert", &agent);
    write_key("key", &agent, NULL);
    return 0;
}

static int clean_up(HF_UNUSED void **state)
{
    assert_int_equal(seteuid(getuid()), 0); /* a test of another user may have failed */
    free_pair(&authority);
    free_pair(&agent);
    remove_folder();
    return 0;
}

/* They are refused, in words that name setting and file. */
static void refused(const char *setting, const char *file, const char *words)
{
    struct tls_keys *keys = NULL;
    char named[192];

    assert_int_equal(load_files("ca", "cert", "key", true, &keys), HF_EINVAL);
    assert_null(keys);
    snprintf(named, sizeof(named), "%s: ", setting);
    assert_ptr_equal(strstr(why, named), why);
    says(why, at(file));
    says(why, words);
}

static struct tls_keys *loaded(void)
{
    struct tls_keys *keys = NULL;

    if (load_files("ca", "cert", "key", true, &keys) != HF_OK)
        fail_msg("%s", why);
    return keys;
}

static void warns(const char *words)
{
    struct tls_keys *keys = loaded();

    if (*words)
        says(tls_keys_warning(keys), words);
    else
        assert_string_equal(tls_keys_warning(keys), "");
    tls_keys_drop(keys);
}

TEST(good_files)
{
    struct tls_keys *keys = loaded();

    assert_true(tls_keys_have_certificate(keys));
    assert_true(tls_keys_check_host(keys));
    assert_non_null(tls_keys_context(keys));
    assert_string_equal(tls_keys_warning(keys), "");
    tls_keys_drop(keys);
    assert_int_equal(load_files("ca", NULL, NULL, false, &keys), HF_OK);
    assert_false(tls_keys_have_certificate(keys));
    assert_false(tls_keys_check_host(keys));
    tls_keys_drop(keys);
}

TEST(the_key_in_the_file_of_the_certificate)
{
    struct tls_keys *keys = NULL;
    FILE *out = create("cert");

    assert_int_equal(load_files("ca", "cert", NULL, true, &keys), HF_EINVAL);
    says(why, "tls_cert_file: ");
    assert_int_equal(PEM_write_X509(out, agent.cert), 1);
    assert_int_equal(PEM_write_PrivateKey(out, agent.key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(load_files("ca", "cert", NULL, true, &keys), HF_OK);
    assert_true(tls_keys_have_certificate(keys));
    tls_keys_drop(keys);
}

/* What a reload goes by. */
TEST(the_digest_is_of_all_bytes)
{
    struct tls_keys *keys = loaded(), *again = loaded(), *unchecked = NULL, *other;
    struct pair another = make_pair(&authority, (struct wanted){"agent", NULL, A_MONTH});

    assert_string_equal(tls_keys_digest(keys), tls_keys_digest(again));
    assert_int_equal(load_files("ca", "cert", "key", false, &unchecked), HF_OK);
    assert_string_not_equal(tls_keys_digest(keys), tls_keys_digest(unchecked));
    write_cert("cert", &another);
    write_key("key", &another, NULL);
    other = loaded();
    assert_string_not_equal(tls_keys_digest(keys), tls_keys_digest(other));
    tls_keys_drop(keys);
    tls_keys_drop(again);
    tls_keys_drop(unchecked);
    tls_keys_drop(other);
    free_pair(&another);
}

static const struct {
    const char *setting, *file;
} all[] = {{"tls_ca_file", "ca"}, {"tls_cert_file", "cert"}, {"tls_key_file", "key"}};

static void spoil(const char *file, const char *text)
{
    FILE *out = create(file);

    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void mend(void)
{
    (void)rmdir(at("ca"));
    (void)rmdir(at("cert"));
    (void)rmdir(at("key"));
    write_cert("ca", &authority);
    write_cert("cert", &agent);
    write_key("key", &agent, NULL);
}

TEST(a_file_that_is_missing)
{
    for (size_t i = 0; i < HF_LENGTH(all); i++) {
        assert_int_equal(unlink(at(all[i].file)), 0);
        refused(all[i].setting, all[i].file, " cannot be read: No such file or directory");
        mend();
    }
}

/* A pipe has no writer: nothing waits for one. */
TEST(what_is_no_regular_file)
{
    for (size_t i = 0; i < HF_LENGTH(all); i++) {
        assert_int_equal(unlink(at(all[i].file)), 0);
        assert_int_equal(mkfifo(at(all[i].file), 0600), 0);
        refused(all[i].setting, all[i].file, " is no regular file");
        assert_int_equal(unlink(at(all[i].file)), 0);
        assert_int_equal(mkdir(at(all[i].file), 0700), 0);
        refused(all[i].setting, all[i].file, " is no regular file");
        mend();
    }
}

TEST(a_file_that_the_agents_user_may_not_read)
{
    const uid_t root = geteuid();

    assert_int_equal(chmod(at("key"), 0), 0);
    if (root == 0) {
        assert_int_equal(chmod(folder, 0755), 0);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(chmod(at(all[i].file), 0644), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    refused("tls_key_file", "key", "let the agent's user read it: ");
    if (root == 0)
        assert_int_equal(seteuid(0), 0);
}

TEST(a_file_that_is_too_large)
{
    for (size_t i = 0; i < HF_LENGTH(all); i++) {
        assert_int_equal(truncate(at(all[i].file), 4 << 20), 0);
        tls_keys_drop(loaded()); /* what is behind a certificate is no matter */
        assert_int_equal(truncate(at(all[i].file), (4 << 20) + 1), 0);
        refused(all[i].setting, all[i].file, " is larger than 4 MiB");
        mend();
    }
}

TEST(files_with_something_else)
{
    static const char *const words[] = {
        " has no certificate in PEM form",
        " has no certificate in PEM form that can be used",
        " has no private key in PEM form",
    };

    for (size_t i = 0; i < HF_LENGTH(all); i++) {
        spoil(all[i].file, "");
        refused(all[i].setting, all[i].file, words[i]);
        spoil(all[i].file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        refused(all[i].setting, all[i].file, words[i]);
        mend();
    }
    write_cert("key", &agent);
    refused("tls_key_file", "key", words[2]);
    write_key("key", &agent, NULL);
    write_key("ca", &agent, NULL);
    refused("tls_ca_file", "ca", words[0]);
}

TEST(the_key_of_another_certificate)
{
    write_key("key", &authority, NULL);
    refused("tls_key_file", "key", " is not the key of the certificate");
}

/* Nobody is there to be asked, and a terminal is not. */
TEST(a_key_with_a_passphrase)
{
    write_key("key", &agent, "geheim");
    refused("tls_key_file", "key", " wants a passphrase: give the agent a key without one");
}

static void lasts(long from_days, long to_days)
{
    struct pair pair = make_pair(&authority, (struct wanted){"agent", NULL, from_days, to_days});

    write_cert("cert", &pair);
    write_key("key", &pair, NULL);
    free_pair(&pair);
}

/* A node refuses it some day: the operator is told two weeks before. */
TEST(a_certificate_that_ends)
{
    lasts(-10, -1);
    warns("it has expired");
    says(at("cert"), "cert");
    lasts(-10, 1);
    warns("(tls_cert_file): it expires in ");
    lasts(-10, 13);
    warns("it expires in 1");
    lasts(-10, 16);
    warns("");
}

TEST(a_key_that_every_user_can_read)
{
    assert_int_equal(chmod(at("key"), 0640), 0);
    warns("");
    assert_int_equal(chmod(at("key"), 0644), 0);
    warns("(tls_key_file) is a key and every user can read it: chmod o-r it");
    assert_int_equal(chmod(at("key"), 0600), 0);
    assert_int_equal(chmod(at("cert"), 0644), 0); /* no secret */
    warns("");
}

/* Who holds the ones before keeps them. */
TEST(others_are_put_into_use)
{
    struct tls_keys *before = loaded(), *held, *next;

    assert_null(tls_keys_now());
    tls_keys_use(before);
    held = tls_keys_now();
    assert_ptr_equal(held, before);
    next = loaded();
    tls_keys_use(next);
    assert_non_null(tls_keys_context(held)); /* with memory checks: it is still there */
    assert_true(tls_keys_have_certificate(held));
    tls_keys_drop(held);
    held = tls_keys_now();
    assert_ptr_equal(held, next);
    tls_keys_drop(held);
    tls_keys_use(NULL);
    assert_null(tls_keys_now());
}

/* (!) A server chooses the numbers of a finite-field exchange, and with large ones it keeps the thread that computes. */
TEST(keys_are_exchanged_on_curves_only)
{
    struct tls_keys *keys = loaded();
    STACK_OF(SSL_CIPHER) * offered;
    SSL *ssl;

    ssl = SSL_new(tls_keys_context(keys));
    assert_non_null(ssl);
    offered = SSL_get1_supported_ciphers(ssl);
    assert_true(sk_SSL_CIPHER_num(offered) >= 4);
    for (int i = 0; i < sk_SSL_CIPHER_num(offered); i++) {
        int exchange = SSL_CIPHER_get_kx_nid(sk_SSL_CIPHER_value(offered, i));

        assert_true(exchange == NID_kx_ecdhe || exchange == NID_kx_any);
    }
    sk_SSL_CIPHER_free(offered);
    SSL_free(ssl);
    tls_keys_drop(keys);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, prepare, clean_up)
    const struct CMUnitTest tests[] = {
        ROW(good_files),
        ROW(the_key_in_the_file_of_the_certificate),
        ROW(the_digest_is_of_all_bytes),
        ROW(a_file_that_is_missing),
        ROW(what_is_no_regular_file),
        ROW(a_file_that_the_agents_user_may_not_read),
        ROW(a_file_that_is_too_large),
        ROW(files_with_something_else),
        ROW(the_key_of_another_certificate),
        ROW(a_key_with_a_passphrase),
        ROW(a_certificate_that_ends),
        ROW(a_key_that_every_user_can_read),
        ROW(others_are_put_into_use),
        ROW(keys_are_exchanged_on_curves_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

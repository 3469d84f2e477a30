/* Contract. Node addresses: every form, every refusal, and no password in any text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/address.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define TEST(name) static void name(HF_UNUSED void **state)

static struct node_address parsed(const char *text)
{
    struct node_address a;
    char why[256] = "";

    if (node_address_parse(text, &a, why, sizeof(why)) != HF_OK)
        fail_msg("'%s': %s", text, why);
    return a;
}

/* Host, port and whether it is numeric. */
static void is_tcp(const char *text, const char *host, int port, bool numeric)
{
    struct node_address a = parsed(text);

    assert_false(a.unix_socket);
    assert_string_equal(a.host, host);
    assert_int_equal(a.port, port);
    assert_int_equal(a.numeric, numeric);
}

/* Refused, and the sentence contains `word` and names the text. */
static void refused(const char *text, const char *word)
{
    struct node_address a = {.port = 1};
    char why[256] = "";

    assert_int_equal(node_address_parse(text, &a, why, sizeof(why)), HF_EINVAL);
    if (!strstr(why, word))
        fail_msg("'%s': %s", text, why);
    assert_non_null(strstr(why, "node address '"));
    assert_int_equal(a.port, 1); /* written on success only */
}

TEST(test_hosts)
{
    is_tcp("db1.example.com:7000", "db1.example.com", 7000, false);
    is_tcp("db1", "db1", 6379, false);
    is_tcp("10.0.0.1", "10.0.0.1", 6379, true);
    is_tcp("10.0.0.1:65535", "10.0.0.1", 65535, true);
    is_tcp("[::1]:7000", "::1", 7000, true);
    is_tcp("[2001:db8::5]", "2001:db8::5", 6379, true);
    is_tcp("[fe80::1%eth0]:1", "fe80::1%eth0", 1, true);
    is_tcp("my_host-2", "my_host-2", 6379, false);
}

TEST(test_sockets)
{
    static const char *const forms[] = {"/run/r.sock", "unix:/run/r.sock",
                                        "redis+unix:///run/r.sock"};

    for (size_t i = 0; i < HF_LENGTH(forms); i++) {
        struct node_address a = parsed(forms[i]);

        assert_true(a.unix_socket);
        assert_string_equal(a.host, "/run/r.sock");
        assert_string_equal(a.id, forms[i]);
        assert_string_equal(a.text, forms[i]);
        assert_int_equal(a.db, 0);
        assert_string_equal(a.password, "");
    }
}

TEST(test_uris)
{
    struct node_address a = parsed("redis://bob:se:cr@t=%2f@h:1234/15");

    assert_string_equal(a.user, "bob");
    assert_string_equal(a.password, "se:cr@t=/");
    assert_string_equal(a.host, "h");
    assert_int_equal(a.port, 1234);
    assert_int_equal(a.db, 15);
    assert_string_equal(a.text, "redis://h:1234/15");
    assert_string_equal(a.id, "redis://h:1234/15");

    a = parsed("redis://:pw@[::1]/2");
    assert_string_equal(a.user, "");
    assert_string_equal(a.password, "pw");
    assert_string_equal(a.host, "::1");
    assert_int_equal(a.port, 6379);
    assert_int_equal(a.db, 2);

    a = parsed("redis://h/");
    assert_int_equal(a.db, 0);
    assert_string_equal(a.password, "");

    a = parsed("redis+unix://u:p@/run/a@b.sock?db=7");
    assert_true(a.unix_socket);
    assert_string_equal(a.host, "/run/a@b.sock");
    assert_string_equal(a.user, "u");
    assert_string_equal(a.password, "p");
    assert_int_equal(a.db, 7);
    assert_string_equal(a.text, "redis+unix:///run/a@b.sock?db=7");

    a = parsed("redis+unix:///run/a@b.sock");
    assert_string_equal(a.host, "/run/a@b.sock");
    assert_string_equal(a.password, "");
}

TEST(test_ids)
{
    struct node_address a = parsed("n1=10.0.0.1:7000");

    assert_string_equal(a.id, "n1");
    assert_string_equal(a.text, "10.0.0.1:7000");
    a = parsed("rack-2.b=/run/x=y.sock");
    assert_string_equal(a.id, "rack-2.b");
    assert_string_equal(a.host, "/run/x=y.sock");
    a = parsed("/run/x=y.sock");
    assert_string_equal(a.id, "/run/x=y.sock");
    a = parsed("n3=redis://:a=b@h");
    assert_string_equal(a.id, "n3");
    assert_string_equal(a.password, "a=b");
    a = parsed("redis://:a=b@h");
    assert_string_equal(a.id, "redis://h");
}

TEST(test_refusals)
{
    refused("", "empty");
    refused("n1=", "empty");
    refused("=h", "id");
    refused("a b=h", "id");
    refused("h:", "port");
    refused("h:0", "port");
    refused("h:65536", "port");
    refused("h:99999999999999999999", "port");
    refused("h:12x", "port");
    refused("h:-1", "port");
    refused(":6379", "host is missing");
    refused("h h", "blank");
    refused("h\n", "blank");
    refused("h,g", "letters");
    refused("::1", "brackets");
    refused("2001:db8::5:6379", "brackets");
    refused("[fe80::1%]", "IPv6");
    refused("[fe80::1%/x@h]", "IPv6"); /* found by fuzzing: what is shown was another address */
    refused("[::1", "not closed");
    refused("[h]:1", "IPv6");
    refused("[::1]x", "PORT");
    refused("10.0.0", "IPv4");
    refused("10.0.0.256:1", "IPv4");
    refused("unix:", "absolute");
    refused("unix:run/x", "absolute");
    refused("/", "missing");
    refused("rediss://h", "TLS");
    refused("http://h", "scheme");
    refused("redis://", "host is missing");
    refused("redis://h/x", "database");
    refused("redis://h/-1", "database");
    refused("redis://h/65536", "database");
    refused("redis+unix:///x?foo=1", "?db=");
    refused("redis+unix:///x?db=", "database");
    refused("redis://u@h", "without a password");
}

TEST(test_lengths)
{
    char text[2048];
    struct node_address a;

    memset(text, 'h', sizeof(text));
    text[HF_NODE_TEXT_MAX] = '\0';
    a = parsed(text);
    assert_string_equal(a.id, text);
    text[HF_NODE_TEXT_MAX] = 'h';
    text[HF_NODE_TEXT_MAX + 1] = '\0';
    refused(text, "longer");
    memset(text, 'h', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    refused(text, "longer");
    memset(text, '/', 109);
    text[109] = '\0';
    refused(text, "107 bytes");
    memset(text, 'i', 128);
    strcpy(text + 128, "=h");
    refused(text, "id is longer");
}

/* Whatever is wrong behind it, the password is not told. */
TEST(test_secrets_stay_secret)
{
    static const char *const texts[] = {
        "redis://u:geheim@h:0",
        "redis://:geheim@",
        "redis://:geheim@h/x",
        "redis+unix://:geheim@relative",
        "http://u:geheim@h",
        "redis://:geheim%4@h",
        "redis://:geheim%zz@h",
        "n1=redis://:geheim@h h",
        "redis://:gehe%00im@h",
        "rediss://:geheim@h",
        "redis://:geheim@[::1",
        "u:geheim@h:1",
        ":geheim@h",
    };

    for (size_t i = 0; i < HF_LENGTH(texts); i++) {
        struct node_address a;
        char why[256];

        if (node_address_parse(texts[i], &a, why, sizeof(why)) != HF_EINVAL)
            fail_msg("'%s' was taken", texts[i]);
        if (strstr(why, "geh"))
            fail_msg("'%s': %s", texts[i], why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_secrets_stay_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

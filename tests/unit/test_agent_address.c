/* Contract. Node addresses: every form, every refusal, and no password in any text. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

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
    refused("http://h", "scheme");
    refused("redis://", "host is missing");
    refused("redis://h/x", "database");
    refused("redis://h/-1", "database");
    refused("redis://h/65536", "database");
    refused("redis+unix:///x?foo=1", "?db=");
    refused("redis+unix:///x?db=", "database");
}

/* Refused, and nothing of "geheim" is in the sentence. */
static void hides(const char *text)
{
    struct node_address a;
    char why[256] = "";

    assert_int_equal(node_address_parse(text, &a, why, sizeof(why)), HF_EINVAL);
    if (strstr(why, "gehei") || strstr(why, "heim"))
        fail_msg("'%s': %s", text, why);
}

TEST(what_is_cut_shows_no_password)
{
    hides("a=redis://:geheim");
    hides("a=redis://u:geheim");
    hides("a=redis://:12geheim");
    hides("a=redis://u:12geheim/3");
    hides("redis://:geheim");
    hides("redis+unix://:geheim");
    hides("redis+unix://u:geheim/r");
    hides("a=redis://:ge heim@h:1");
    hides("a=redis://:ge;heim@h:x");
    hides("a=redis://[geheim:x");
    refused("a=redis://:ge heim@h:1", "%20");
    refused("redis://h:x", "'redis://...'"); /* it may be one */
    refused("redis://[::1]x", "'redis://[::1]x'");
}

TEST(a_password_may_be_in_a_file)
{
    struct node_address a = parsed("b=redis://u@h:1/2,password_file=/etc/a=b:c,d");
    char text[NODE_ADDRESS_SHOWN];

    assert_string_equal(a.user, "u");
    assert_string_equal(a.password, "");
    assert_string_equal(a.password_file, "/etc/a=b:c,d");
    assert_string_equal(a.text, "redis://h:1/2");
    assert_string_equal(a.as, "");
    a = parsed("h,password_file=redis");
    assert_string_equal(a.password_file, "redis");
    assert_string_equal(a.id, "h");
    a = parsed("b=/run/r,password_file=/p,fleet_address=/run/s");
    assert_string_equal(a.password_file, "/p");
    assert_string_equal(a.as, "/run/s");
    assert_string_equal(a.host, "/run/r");
    a = parsed("b=h,fleet_address=10.0.0.2:1,password_file=/p");
    assert_string_equal(a.password_file, "/p");
    assert_string_equal(a.as, "10.0.0.2:1");
    assert_string_equal(node_address_shown(&a, text),
                        "b=h,fleet_address=10.0.0.2:1,password_file=/p");
    refused("b=h,password_file=", "write password_file=PATH");
    refused("b=h,password_file=/a,password_file=/b", "password_file= is given twice");
    refused("b=redis://:geheim@h,password_file=/a", "not in both");
    hides("b=redis://:geheim@h,password_file=/a");
    hides("b=redis://:geheim@h,password_file=/a@b");
}

TEST(tls_has_a_scheme_and_a_name_to_look_for)
{
    struct node_address a = parsed("b=rediss://u:p@db.example:6380/2"), b, to;
    char text[NODE_ADDRESS_SHOWN];

    assert_true(a.tls);
    assert_string_equal(a.host, "db.example");
    assert_string_equal(a.tls_name, "db.example");
    assert_int_equal(a.port, 6380);
    assert_int_equal(a.db, 2);
    assert_string_equal(a.password, "p");
    assert_string_equal(a.text, "rediss://db.example:6380/2");
    assert_string_equal(node_address_shown(&a, text), "b=rediss://db.example:6380/2");
    b = parsed("b=redis://db.example:6380");
    assert_false(b.tls);
    assert_true(node_address_same(&a, &b)); /* one server cannot be both */
    assert_false(node_address_alike(&a, &b));
    b = parsed("b=rediss://[fe80::1%eth0]:1");
    assert_string_equal(b.tls_name, "fe80::1");
    b = parsed(
        "b=rediss://localhost:1,fleet_address=10.0.0.2:1,tls_name=db.example,password_file=/p");
    assert_string_equal(b.tls_name, "db.example");
    assert_string_equal(b.as, "10.0.0.2:1");
    assert_string_equal(
        node_address_shown(&b, text),
        "b=rediss://localhost:1,fleet_address=10.0.0.2:1,password_file=/p,tls_name=db.example");
    assert_true(
        node_address_from_seat("10.0.0.2:1", &b, &to)); /* the fleet's seat, in the same way */
    assert_true(to.tls);
    assert_string_equal(to.tls_name, "db.example");
    assert_true(node_address_from_seat("/run/r.sock", &b, &to));
    assert_false(to.tls);
    refused("b=h,tls_name=x", "goes with rediss://");
    refused("b=rediss://h,tls_name=", "write tls_name=HOST");
    refused("b=rediss://h,tls_name=a/b", "write tls_name=HOST");
    refused("rediss://", "host is missing");
    hides("b=rediss://:geheim");
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

/* --- seats ------------------------------------------------------------------------------------ */

static void is_seat(const char *text, const char *host, const char *seat)
{
    struct node_address a = parsed(text);

    assert_string_equal(a.host, host);
    assert_string_equal(a.as, seat);
    assert_null(strstr(a.text, "fleet_address="));
    assert_null(strstr(a.id, "fleet_address="));
}

TEST(a_node_may_have_a_seat_elsewhere)
{
    struct node_address a = parsed("b=localhost:16379,fleet_address=10.0.0.2:6379");

    assert_string_equal(a.id, "b");
    assert_string_equal(a.text, "localhost:16379");
    assert_string_equal(a.host, "localhost");
    assert_int_equal(a.port, 16379);
    assert_string_equal(a.as, "10.0.0.2:6379");
    is_seat("b=h,fleet_address=[2001:db8::5]:1", "h", "[2001:db8::5]:1");
    is_seat("b=[::1]:1,fleet_address=/run/r.sock", "::1", "/run/r.sock");
    is_seat("b=/run/a@b,fleet_address=/run/c@d", "/run/a@b", "/run/c@d");
    is_seat("b=unix:/run/r,fleet_address=10.0.0.2:1", "/run/r", "10.0.0.2:1");
    is_seat("b=redis://h:1/2,fleet_address=10.0.0.2:1", "h", "10.0.0.2:1");
    is_seat("b=redis+unix:///run/r?db=7,fleet_address=/run/s@t", "/run/r", "/run/s@t");
    is_seat("b=h", "h", "");
    a = parsed("b=redis://u:p,fleet_address%3d@h:1/2,fleet_address=10.0.0.2:1");
    assert_string_equal(a.password, "p,fleet_address=");
    assert_int_equal(a.db, 2);
    a = parsed("b=redis+unix://:p@/run/r,fleet_address=10.0.0.2:1");
    assert_string_equal(a.password, "p");
    assert_string_equal(a.host, "/run/r");
}

TEST(a_seat_has_one_form)
{
    is_seat("b=h,fleet_address=[2001:DB8:0:0:0::5]:06379", "h", "[2001:db8::5]:6379");
    is_seat("b=h,fleet_address=[::ffff:10.0.0.2]:1", "h", "10.0.0.2:1");
    is_seat("b=h,fleet_address=[::ffff:a00:2]:1", "h", "10.0.0.2:1");
}

/* The remedy comes first. */
TEST(what_is_no_seat_is_refused)
{
    static const char write[] =
        ": write fleet_address=IP:PORT, fleet_address=[IPV6]:PORT or fleet_address=/PATH";
    static const char *const no_seats[] = {
        "db2:6379", "db2",   "localhost:1", "10.0.0.2", "10.0.0.2:",          "10.0.0.2:0",
        "",         "[::1]", "[::1]:65536", "::1:6379", "10.0.0.256:1",       "10.0.0.2:1x",
        "/",        "run/r", "unix:/run/r", "[h]:1",    "[fe80::1%e]:1",      "10.0.0.2:-1",
        ":1",       "[",     "[]:1",        "]:1",      "redis://10.0.0.2:1",
    };
    char text[256], path[110];

    for (size_t i = 0; i < HF_LENGTH(no_seats); i++) {
        snprintf(text, sizeof(text), "b=h:1,fleet_address=%s", no_seats[i]);
        refused(text, write);
        refused(text, "node address 'h:1'");
    }
    memset(path, '/', 108);
    path[108] = '\0';
    snprintf(text, sizeof(text), "b=h:1,fleet_address=%s", path);
    refused(text, write);
    refused("b=h,fleet_address=db2:6379", "'db2:6379' is none of these");
    refused("b=h,fleet_address=10.0.0.2:1,fleet_address=10.0.0.2:1",
            "fleet_address= is given twice");
    refused("b=,fleet_address=10.0.0.2:1", "host is missing");
    refused("b=h:0,fleet_address=10.0.0.2:1", "port");
    refused("h,fleet_address=10.0.0.2:1", "give it an id");
    refused("10.0.0.1:1,fleet_address=10.0.0.2:1", "give it an id");
    refused("b=redis://:p,fleet_address=@h", "%2C");
    refused("b=redis://:p@h,fleet_address=/run/a@b", "%2C");
    refused("b=redis://:p@h,fleet_address=u@10.0.0.2:1", "%2C");
}

TEST(what_is_shown_means_the_same)
{
    static const char *const texts[] = {"b=h:1,fleet_address=10.0.0.2:1",
                                        "b=/run/r,fleet_address=/run/s", "b=h"};
    char text[NODE_ADDRESS_SHOWN];
    struct node_address a;

    for (size_t i = 0; i < HF_LENGTH(texts); i++) {
        a = parsed(texts[i]);
        assert_string_equal(node_address_shown(&a, text), texts[i]);
    }
    a = parsed("b=redis://:geheim@h,fleet_address=10.0.0.2:1");
    assert_string_equal(node_address_shown(&a, text), "b=redis://h,fleet_address=10.0.0.2:1");
    memset(a.id, 'i', HF_NODE_TEXT_MAX);
    memset(a.text, 't', HF_NODE_TEXT_MAX);
    memset(a.as, 'a', HF_NODE_TEXT_MAX);
    assert_int_equal(strlen(node_address_shown(&a, text)), 3 * HF_NODE_TEXT_MAX + 16);
    memset(a.password_file, 'p', NODE_ADDRESS_FILE_MAX);
    assert_int_equal(strlen(node_address_shown(&a, text)),
                     3 * HF_NODE_TEXT_MAX + 16 + NODE_ADDRESS_FILE_MAX + strlen(",password_file="));
}

/* The address of a seat is reached as its node is, and is shown as the seat. */
static void leads_to(const char *like, const char *seat, const char *host, int port)
{
    struct node_address a = parsed(like), to;

    if (!node_address_from_seat(seat, &a, &to))
        fail_msg("'%s' is no seat", seat);
    assert_string_equal(to.host, host);
    assert_int_equal(to.port, port);
    assert_string_equal(to.text, seat);
    assert_string_equal(to.as, "");
    assert_string_equal(to.id, a.id);
    assert_string_equal(to.user, a.user);
    assert_string_equal(to.password, a.password);
    assert_int_equal(to.db, a.db);
    assert_int_equal(to.unix_socket, seat[0] == '/');
    assert_int_equal(to.numeric, seat[0] != '/');
}

TEST(a_link_can_go_to_a_seat)
{
    leads_to("b=redis://u:p@db2/3", "10.0.0.2:7000", "10.0.0.2", 7000);
    leads_to("b=redis://u:p@db2/3", "[2001:db8::5]:1", "2001:db8::5", 1);
    leads_to("b=redis://u:p@db2/3", "/run/r.sock", "/run/r.sock", 0);
    leads_to("b=redis+unix://:p@/run/r?db=3", "10.0.0.2:7000", "10.0.0.2", 7000);
    leads_to("b=h,fleet_address=10.0.0.3:1", "10.0.0.2:7000", "10.0.0.2", 7000);
    /* The interface is this host's. */
    leads_to("b=[fe80:0::1%eth0]:1", "[fe80::1]:2", "fe80:0::1%eth0", 2);
    leads_to("b=[fe80::1%eth0]:1", "[fe80::2]:2", "fe80::2", 2);
}

TEST(only_the_one_form_of_a_seat_leads_anywhere)
{
    static const char *const others[] = {"[::ffff:10.0.0.2]:1",
                                         "[2001:DB8::5]:1",
                                         "10.0.0.2:01",
                                         "10.0.0.2",
                                         "db2:6379",
                                         "",
                                         "run/r",
                                         "[::1%lo]:1"};
    struct node_address like = parsed("b=h:1"), to = {.port = 7};

    for (size_t i = 0; i < HF_LENGTH(others); i++)
        if (node_address_from_seat(others[i], &like, &to))
            fail_msg("'%s' leads somewhere", others[i]);
    assert_int_equal(to.port, 7);
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
        "rediss://:geheim@h:x",
        "redis://:geheim@[::1",
        "u:geheim@h:1",
        ":geheim@h",
        "b=redis://:geheim,fleet_address=@h",
        "b=redis://:geheim,fleet_address=geheim@h",
        "b=redis://:geheim@h,fleet_address=x",
        "b=redis://h,fleet_address=u:geheim@10.0.0.2:1",
        "b=redis://h,fleet_address=redis://u:geheim@10.0.0.2:1",
        "b=u:geheim@h:1,fleet_address=10.0.0.2:1",
        "b=u:geheim,fleet_address=geheim@h:1",
        "b=/run/r,fleet_address=u:geheim@10.0.0.2:1",
        "b=/run/r,fleet_address=redis://u:geheim@10.0.0.2:1",
        "b=redis+unix://:geheim@/run/r,fleet_address=u:geheim@h",
        "redis://:geheim@h,fleet_address=10.0.0.2:1",
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
        cmocka_unit_test(what_is_cut_shows_no_password),
        cmocka_unit_test(a_password_may_be_in_a_file),
        cmocka_unit_test(tls_has_a_scheme_and_a_name_to_look_for),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(a_node_may_have_a_seat_elsewhere),
        cmocka_unit_test(a_seat_has_one_form),
        cmocka_unit_test(what_is_no_seat_is_refused),
        cmocka_unit_test(what_is_shown_means_the_same),
        cmocka_unit_test(a_link_can_go_to_a_seat),
        cmocka_unit_test(only_the_one_form_of_a_seat_leads_anywhere),
        cmocka_unit_test(test_secrets_stay_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

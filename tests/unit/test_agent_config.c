/* Contract. Configuration: command line over file over defaults, and every refusal with
 * its words and exit code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "agent/config/config_rows.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/config.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define ARGS_MAX   64
#define DIR        "--runtime-dir", "/tmp/holdfast"

static struct config config;
static int code;
static char why[1024];
static char path[64]; /* of a file that write_file() made */

/* `first` and what follows, to a NULL. */
static int load(const char *first, va_list more)
{
    char *argv[ARGS_MAX] = {"holdfastd"};
    int argc = 1;

    for (const char *arg = first; arg; arg = va_arg(more, const char *))
        argv[argc++] = (char *)arg;
    memset(&config, 0, sizeof(config));
    code = -1;
    why[0] = '\0';
    return config_load(argc, argv, &config, &code, why, sizeof(why));
}

static void loads(const char *first, ...)
{
    va_list more;
    int rc;

    va_start(more, first);
    rc = load(first, more);
    va_end(more);
    if (rc != HF_OK)
        fail_msg("%s", why);
    assert_int_equal(code, 0);
}

/* Refused with that exit code and a sentence that contains `word`. */
static void refuses(int exit_code, const char *word, const char *first, ...)
{
    va_list more;
    int rc;

    va_start(more, first);
    rc = load(first, more);
    va_end(more);
    assert_true(rc == HF_EINVAL || rc == HF_ETTL);
    if (!strstr(why, word))
        fail_msg("'%s' is not in: %s", word, why);
    assert_int_equal(code, exit_code);
}

static const char *write_file(const char *text)
{
    FILE *file;
    int fd;

    if (path[0])
        (void)unlink(path); /* the one before */
    scratch_path(path, sizeof(path));
    fd = mkstemp(path);
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static int remove_file(HF_UNUSED void **state)
{
    if (path[0])
        (void)unlink(path);
    path[0] = '\0';
    return 0;
}

static int clean_environment(HF_UNUSED void **state)
{
    unsetenv("HOLDFAST_RUNTIME_DIR");
    unsetenv("XDG_RUNTIME_DIR");
    return 0;
}

/* --- values ----------------------------------------------------------------------------------- */

TEST(test_defaults)
{
    loads(DIR, "--node", "a", NULL);
    assert_string_equal(config.name, "default");
    assert_int_equal(config.ttl_ms, 30000);
    assert_int_equal(config.ttl_max_ms, 60000);
    assert_int_equal(config.max_hold_ms, 0);
    assert_int_equal(config.capacity, 8192);
    assert_int_equal(config.clients_max, 1024);
    assert_int_equal(config.leases_per_uid, 0);
    assert_string_equal(config.key_format, "%s");
    assert_int_equal(config.table_mode, 0644);
    assert_true(config.group == (gid_t)-1);
    assert_int_equal(config.dev_nodes, 0);
    assert_false(config.ephemeral);
    assert_int_equal(config.log_level, LOG_LEVEL_INFO);
    assert_false(config.system || config.assume_fresh || config.allow_eviction ||
                 config.reset_fleet);
    assert_false(config.allow_replicas);
    assert_false(config.lock_memory);
    assert_int_equal(config.renewal_priority, 0);
    assert_int_equal(config.timing.ttl.ns, 30 * HF_NS_PER_SEC);
}

TEST(test_command_line)
{
    loads("--node", "a=10.0.0.1", "--node=b=10.0.0.2:7000", "--node", "unix:/r",
          "--runtime-dir=/tmp/x", "--name", "n-1", "--ttl", "1500ms", "--ttl-max", "2m",
          "--max_hold", "1h", "--capacity", "10", "--clients-max", "20", "--leases-per-uid", "5",
          "--key-format", "lock:{%s}", "--table-mode", "640", "--group", "0", "--log-level",
          "debug", "--assume-fresh", "--allow-eviction", "--allow-replicas", "--reset-fleet",
          "--lock-memory", "--renewal-priority", "99", NULL);
    assert_int_equal(config.node_count, 3);
    assert_string_equal(config.nodes[0].id, "a");
    assert_int_equal(config.nodes[1].port, 7000);
    assert_string_equal(config.runtime_dir, "/tmp/x");
    assert_string_equal(config.name, "n-1");
    assert_int_equal(config.ttl_ms, 1500);
    assert_int_equal(config.ttl_max_ms, 120000);
    assert_int_equal(config.max_hold_ms, 3600000);
    assert_int_equal(config.capacity, 10);
    assert_int_equal(config.clients_max, 20);
    assert_int_equal(config.leases_per_uid, 5);
    assert_string_equal(config.key_format, "lock:{%s}");
    assert_int_equal(config.table_mode, 0640);
    assert_int_equal(config.group, 0);
    assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
    assert_true(config.assume_fresh && config.allow_eviction && config.reset_fleet);
    assert_true(config.allow_replicas);
    assert_true(config.lock_memory);
    assert_int_equal(config.renewal_priority, 99);
}

static void ttl_is(const char *text, uint32_t ms)
{
    loads(DIR, "--node", "a", "--ttl-max", "24h", "--ttl", text, NULL);
    assert_int_equal(config.ttl_ms, ms);
}

TEST(test_times)
{
    ttl_is("5", 5000);
    ttl_is("5s", 5000);
    ttl_is("2.5", 2500);
    ttl_is("2.125s", 2125);
    ttl_is("1500ms", 1500);
    ttl_is("1.5m", 90000);
    ttl_is("24h", 86400000);
    ttl_is("1d", 86400000);
}

TEST(test_bad_times)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "-5",
                                      "-5s",
                                      "+5",
                                      "x",
                                      "5x",
                                      "5 s",
                                      "1e3",
                                      "0x10",
                                      "1.5ms",
                                      "5.",
                                      ".",
                                      "inf",
                                      "5sm",
                                      "24.1h",
                                      "2d",
                                      "86400001ms",
                                      " 5",
                                      "1,5",
                                      "s",
                                      "5S",
                                      "99999999999999999999"};

    for (size_t i = 0; i < HF_LENGTH(bad); i++)
        refuses(64, "ttl: give a time", DIR, "--node", "a", "--ttl", bad[i], NULL);
}

TEST(test_bad_ttl_names_the_inequality)
{
    refuses(64, "TTL", DIR, "--node", "a", "--ttl", "10ms", NULL);
    refuses(64, "ttl_max", DIR, "--node", "a", "--ttl", "61s", NULL);
    refuses(64, "ttl_max", DIR, "--node", "a", "--ttl", "30s", "--ttl-max", "29s", NULL);
    /* Only the fleet's bound was given: it is the default, too. */
    loads(DIR, "--node", "a", "--ttl-max", "10s", NULL);
    assert_int_equal(config.ttl_ms, 10000);
}

TEST(test_bad_values)
{
    refuses(64, "capacity", DIR, "--node", "a", "--capacity", "0", NULL);
    refuses(64, "capacity", DIR, "--node", "a", "--capacity", "16777217", NULL);
    refuses(64, "capacity", DIR, "--node", "a", "--capacity", "1k", NULL);
    refuses(64, "use one database on all nodes, as on the other hosts: 'a' has 0, 'b' has 3", DIR,
            "--node", "a", "--node", "b=redis://h/3", NULL);
    refuses(64, "renewal_priority", DIR, "--node", "a", "--renewal-priority", "100", NULL);
    refuses(64, "clients_max", DIR, "--node", "a", "--clients-max", "-1", NULL);
    refuses(64, "table_mode", DIR, "--node", "a", "--table-mode", "0666", NULL);
    refuses(64, "table_mode", DIR, "--node", "a", "--table-mode", "0648", NULL);
    refuses(64, "group", DIR, "--node", "a", "--group", "no such group", NULL);
    refuses(64, "log_level", DIR, "--node", "a", "--log-level", "loud", NULL);
    refuses(64, "assume_fresh", DIR, "--node", "a", "--assume-fresh=perhaps", NULL);
    loads(DIR, "--node", "a", "--assume-fresh=no", NULL);
    assert_false(config.assume_fresh);
}

TEST(test_bad_names)
{
    refuses(64, "name", DIR, "--node", "a", "--name", "", NULL);
    refuses(64, "name", DIR, "--node", "a", "--name", "a/b", NULL);
    refuses(64, "name", DIR, "--node", "a", "--name", "..", NULL);
    refuses(64, "name", DIR, "--node", "a", "--name",
            "1234567890123456789012345678901234567890123456789012345678901234", NULL);
}

TEST(test_bad_options)
{
    refuses(64, "no option '--nope'", DIR, "--nope", NULL);
    refuses(64, "no option '--nod'", DIR, "--nod", "a", NULL);
    refuses(64, "unexpected argument 'x'", DIR, "x", NULL);
    refuses(64, "unexpected argument '-v'", "-v", NULL);
    refuses(64, "unexpected argument '--'", "--", NULL);
    refuses(64, "--ttl needs a value", DIR, "--node", "a", "--ttl", NULL);
    refuses(64, "--config needs a value", DIR, "--config", NULL);
    refuses(64, "given twice", DIR, "--ttl", "3s", "--ttl", "4s", NULL);
}

/* --- nodes ------------------------------------------------------------------------------------ */

TEST(test_bad_nodes)
{
    refuses(64, "no nodes", DIR, NULL);
    refuses(64, "node address", DIR, "--node", "host:99999", NULL);
    refuses(64, "listed twice", DIR, "--node", "h:1", "--node", "h:1", NULL);
    refuses(64, "listed twice", DIR, "--node", "a=h:1", "--node", "a=h:2", NULL);
    refuses(64, "listed twice", DIR, "--node", "a=h:1", "--node", "b=h:1", NULL);
    refuses(64, "'a' and 'b' have one fleet address", DIR, "--node",
            "a=h:1,fleet_address=10.0.0.2:1", "--node", "b=h:2,fleet_address=10.0.0.2:1", NULL);
    refuses(64, "'a' and 'b' have one fleet address", DIR, "--node", "a=10.0.0.2:1", "--node",
            "b=h:2,fleet_address=10.0.0.2:1", NULL);
    refuses(64, "'a' and 'b' have one fleet address", DIR, "--node", "a=h,fleet_address=/run/r",
            "--node", "b=unix:/run/r", NULL);
    loads(DIR, "--node", "a=10.0.0.2:1,fleet_address=10.0.0.3:1", "--node",
          "b=10.0.0.3:1,fleet_address=10.0.0.2:1", NULL); /* as a router may have it */
    refuses(64, "more than 9", DIR, "--node", "a", "--node", "b", "--node", "c", "--node", "d",
            "--node", "e", "--node", "f", "--node", "g", "--node", "h", "--node", "i", "--node",
            "j", NULL);
    refuses(64, "more than 9", DIR, "--node", "a", "--node", "b", "--node", "c", "--node", "d",
            "--node", "e", "--node", "f", "--node", "g", "--node", "h", "--node", "i", "--node",
            "j", "--node", "k", "--node", "l", NULL);
}

TEST(test_dev)
{
    loads(DIR, "--dev", NULL);
    assert_int_equal(config.dev_nodes, 3);
    assert_int_equal(config.node_count, 3);
    assert_string_equal(config.nodes[2].id, "n3");
    loads(DIR, "--dev", "5", NULL);
    assert_int_equal(config.dev_nodes, 5);
    assert_true(config.ephemeral);
    loads("--dev=1", DIR, NULL);
    assert_int_equal(config.dev_nodes, 1);
    loads("--dev", DIR, NULL);
    assert_int_equal(config.dev_nodes, 3);
    refuses(64, "dev", DIR, "--dev", "0", NULL);
    refuses(64, "dev", DIR, "--dev", "10", NULL);
    refuses(64, "dev", DIR, "--dev=x", NULL);
    refuses(64, "--node", DIR, "--dev", "--node", "a", NULL);
}

TEST(test_list_hash)
{
    struct node_address nodes[2] = {{.id = "a", .host = "x"}, {.id = "bc"}};
    char hash[41], other[41];

    list_hash(nodes, 2, hash);
    assert_string_equal(
        hash, "c4628cab7124ae90da4134920dcb7cfe786608ae"); /* printf 'a\0bc\0' | sha1sum */
    strcpy(nodes[0].host, "y");                            /* an address may change */
    list_hash(nodes, 2, other);
    assert_string_equal(hash, other);
    list_hash(nodes, 1, other);
    assert_string_not_equal(hash, other);
    strcpy(nodes[0].id, "ab");
    strcpy(nodes[1].id, "c");
    list_hash(nodes, 2, other);
    assert_string_not_equal(hash, other);
    for (int i = 0; i < 2; i++)
        memset(nodes[i].id, 'x', HF_NODE_TEXT_MAX); /* over several blocks */
    list_hash(nodes, 2, other);
    assert_string_equal(other, "b65cb3b9c465ea8b67acacd9a27f66a126203833");
}

/* --- where the files are ---------------------------------------------------------------------- */

TEST(test_runtime_dir)
{
    setenv("HOLDFAST_RUNTIME_DIR", "/tmp/env", 1);
    loads("--node", "a", NULL);
    assert_string_equal(config.runtime_dir, "/tmp/env");
    assert_false(config.system);
    loads("--node", "a", DIR, NULL);
    assert_string_equal(config.runtime_dir, "/tmp/holdfast");
    loads("--node", "a", "--system", NULL);
    assert_string_equal(config.runtime_dir, "/run/holdfast");
    assert_true(config.system);
    assert_int_equal(config.clients_per_uid, 768); /* one user of many cannot take everything */
    assert_int_equal(config.leases_per_uid, 6144);
    assert_int_equal(config.requests_per_uid, 10000);
    unsetenv("HOLDFAST_RUNTIME_DIR");
    if (geteuid() == 0) {
        loads("--node", "a", NULL);
        assert_string_equal(config.runtime_dir, "/run/holdfast");
        assert_true(config.system);
    } else {
        setenv("XDG_RUNTIME_DIR", "/tmp/xdg", 1);
        loads("--node", "a", NULL);
        assert_string_equal(config.runtime_dir, "/tmp/xdg/holdfast");
        unsetenv("XDG_RUNTIME_DIR");
    }
    refuses(64, "begin with a '/'", "--node", "a", "--runtime-dir", "here", NULL);
    refuses(64, "shorter", "--node", "a", "--runtime-dir",
            "/tmp/"
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
            "7890",
            NULL);
}

/* --- keys ------------------------------------------------------------------------------------- */

static int key(const char *format, const void *name, size_t name_len, const void *expected,
               size_t expected_len)
{
    uint8_t made[CONFIG_KEY_MAX];
    size_t made_len = 0;
    int rc;

    strcpy(config.key_format, format);
    rc = config_key(&config, name, name_len, made, &made_len);
    if (rc == HF_OK) {
        assert_int_equal(made_len, expected_len);
        assert_memory_equal(made, expected, expected_len);
    }
    return rc;
}

TEST(test_keys)
{
    char name[HF_NAME_MAX + 1], longest[HF_NAME_MAX + 61];

    memset(name, 'n', sizeof(name));
    memset(longest, 'n', sizeof(longest));
    memset(longest, 'f', 60);
    longest[sizeof(longest) - 1] = 'e';
    assert_int_equal(key("%s", "a\0\n", 3, "a\0\n", 3), HF_OK);
    assert_int_equal(key("lock:{%s}:x", "ab", 2, "lock:{ab}:x", 11), HF_OK);
    assert_int_equal(key("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff%se", name,
                         HF_NAME_MAX, longest, sizeof(longest)),
                     HF_OK);
    assert_int_equal(key("%s", "", 0, "", 0), HF_ENAME);
    assert_int_equal(key("%s", name, HF_NAME_MAX + 1, "", 0), HF_ENAME);
    assert_int_equal(key("%s", "holdfast:node", 13, "", 0), HF_ENAME);
    assert_int_equal(key("%s", "holdfast:", 9, "", 0), HF_ENAME);
    assert_int_equal(key("%s", "holdfast", 8, "holdfast", 8), HF_OK);
    assert_int_equal(key("hold%s", "fast:x", 6, "", 0), HF_ENAME); /* after formatting */
    assert_int_equal(key("x%s", "holdfast:x", 10, "xholdfast:x", 11), HF_OK);
}

TEST(test_bad_key_formats)
{
    refuses(64, "key_format", DIR, "--node", "a", "--key-format", "lock", NULL);
    refuses(64, "key_format", DIR, "--node", "a", "--key-format", "%s%s", NULL);
    refuses(64, "key_format", DIR, "--node", "a", "--key-format", "%d%s", NULL);
    refuses(64, "key_format", DIR, "--node", "a", "--key-format", "%", NULL);
    refuses(64, "key_format", DIR, "--node", "a", "--key-format", "", NULL);
}

static void key_is(const char *name, const char *expected)
{
    uint8_t made[CONFIG_KEY_MAX];
    const uint8_t *back;
    size_t made_len = 0, back_len = 0;

    assert_int_equal(config_key(&config, name, strlen(name), made, &made_len), HF_OK);
    assert_int_equal(made_len, strlen(expected));
    assert_memory_equal(made, expected, made_len);
    assert_int_equal(config_key_name(&config, made, made_len, &back, &back_len), HF_OK);
    assert_int_equal(back_len, strlen(name));
    assert_memory_equal(back, name, back_len);
}

static void has_no_key(const char *name, const char *word)
{
    uint8_t made[CONFIG_KEY_MAX];
    size_t made_len;
    char text[184];

    assert_int_equal(config_key(&config, name, strlen(name), made, &made_len), HF_ENAME);
    config_key_refused(&config, name, strlen(name), text, sizeof(text));
    if (!strstr(text, word))
        fail_msg("'%s' is not in: %s", word, text);
}

TEST(test_key_formats_for_patterns)
{
    loads(DIR, "--node", "a", "--key-format", "app:%s", "--key-format-for", "net/* redlock:%s",
          "--key-format-for", "*.js  mutex:%s", "--key-format-for", "exact {%s}",
          "--key-format-for", "a?c*e %s!", NULL);
    assert_int_equal(config.key_rule_count, 4);
    key_is("job", "app:job");
    key_is("net/", "redlock:net/");
    key_is("net/a.js", "redlock:net/a.js"); /* the first that matches */
    key_is("a.js", "mutex:a.js");
    key_is("a.jsx", "app:a.jsx");
    key_is("exact", "{exact}");
    key_is("exactly", "app:exactly");
    key_is("abc/e/e", "abc/e/e!");
    key_is("abc/e/f", "app:abc/e/f");
    key_is("abc", "app:abc");
}

/* Two locks with one key would exclude each other, and a process that wants both would wait for itself. */
TEST(test_names_that_would_share_a_key)
{
    loads(DIR, "--node", "a", "--key-format-for", "net/* redlock:%s", "--key-format-for",
          "redlock:js* %s", NULL);
    key_is("net/x", "redlock:net/x");
    has_no_key("redlock:net/x", "\"net/x\"");
    key_is("redlock:nets", "redlock:nets");
    key_is("redlock:js", "redlock:js");
    has_no_key("holdfast:node", "reserved for agents");
    loads(DIR, "--node", "a", "--key-format", "redlock:%s", "--key-format-for", "redlock:* %s",
          NULL);
    key_is("redlock:x", "redlock:x");
    has_no_key("x", "\"redlock:x\"");
    loads(DIR, "--node", "a", "--key-format-for", "fast* hold%s", NULL);
    has_no_key("fast:x", "reserved for agents");
    key_is("faster", "holdfaster");
    has_no_key("holdfaster", "\"faster\"");
}

TEST(test_names_and_keys_one_to_one)
{
    static const char letters[] = "ab:";
    uint8_t name[4], key[CONFIG_KEY_MAX], seen[512][8];
    size_t key_len, seen_len[512];
    const uint8_t *back;
    int accepted = 0;

    loads(DIR, "--node", "a", "--key-format", "a%s", "--key-format-for", "a* a:%s",
          "--key-format-for", "*b b%s", "--key-format-for", "?? %s:", NULL);
    for (int i = 0; i < 3 + 9 + 27 + 81; i++) {
        size_t len = i < 3 ? 1 : i < 12 ? 2 : i < 39 ? 3 : 4, back_len;
        int digits = i - (i < 3 ? 0 : i < 12 ? 3 : i < 39 ? 12 : 39);

        for (size_t k = 0; k < len; k++, digits /= 3)
            name[k] = (uint8_t)letters[digits % 3];
        if (config_key(&config, name, len, key, &key_len) < 0)
            continue;
        assert_int_equal(config_key_name(&config, key, key_len, &back, &back_len), HF_OK);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, name, len);
        for (int k = 0; k < accepted; k++)
            assert_false(seen_len[k] == key_len && memcmp(seen[k], key, key_len) == 0);
        memcpy(seen[accepted], key, key_len);
        seen_len[accepted++] = key_len;
    }
    assert_in_range(accepted, 60, 119); /* some are refused, most are not */
}

TEST(test_bad_key_formats_for_patterns)
{
    char longest[80];

    memset(longest, 'p', sizeof(longest));
    memcpy(longest + sizeof(longest) - 6, " k:%s", 6);
    refuses(64, "orders/* redlock:%s", DIR, "--node", "a", "--key-format-for", "x", NULL);
    refuses(64, "orders/* redlock:%s", DIR, "--node", "a", "--key-format-for", "x  ", NULL);
    refuses(64, "orders/* redlock:%s", DIR, "--node", "a", "--key-format-for", " k:%s", NULL);
    refuses(64, "must have exactly one %s", DIR, "--node", "a", "--key-format-for", "x y", NULL);
    refuses(64, "must have exactly one %s", DIR, "--node", "a", "--key-format-for", "x %s%s", NULL);
    refuses(64, "longer than 63", DIR, "--node", "a", "--key-format-for", longest, NULL);
    refuses(64, "given twice", DIR, "--node", "a", "--key-format-for", "x a%s", "--key-format-for",
            "x b%s", NULL);
    write_file("node = a\nkey_format_for = net/* redlock:%s\nkey_format_for = js/* mutex:%s\n");
    loads(DIR, "--config", path, NULL);
    assert_int_equal(config.key_rule_count, 2);
    loads(DIR, "--config", path, "--key-format-for", "x y%s", NULL);
    assert_int_equal(config.key_rule_count, 1); /* the file's list is replaced */
    write_file("node = a\nkey_format_for = net/*\n");
    refuses(78, "net/*", DIR, "--config", path, NULL);
}

TEST(test_too_many_key_formats)
{
    char text[1024] = "node = a\n";

    for (int i = 0; i <= CONFIG_KEY_RULES_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "key_format_for = p%d k%d:%%s\n",
                 i, i);
    write_file(text);
    refuses(78, "more than 16", DIR, "--config", path, NULL);
}

/* --- rules -------------------------------------------------------------------------------------- */

TEST(test_rules)
{
    write_file("node = a\nallow = db/* user:root\nallow =  x   group:root  force\n");
    loads(DIR, "--config", path, NULL);
    assert_int_equal(config.rules.count, 2);
    assert_string_equal(config.rules.rule[1].text, "x group:root force");
    loads(DIR, "--config", path, "--allow", "y none", NULL);
    assert_int_equal(config.rules.count, 1); /* the file's list is replaced */
    write_file("node = a\nallow = db/*\n");
    refuses(78, ":2: allow: 'db/*' does not say who may", DIR, "--config", path, NULL);
    refuses(64, "no user 'nosuchuser'", DIR, "--node", "a", "--allow", "x user:nosuchuser", NULL);
    write_file("node = a\nkey_format_for = net\\/* redlock:%s\n");
    refuses(78, "the pattern 'net\\/*' has a '\\' that begins no escape", DIR, "--config", path,
            NULL);
}

/* --- file ------------------------------------------------------------------------------------- */

TEST(test_file)
{
    write_file("# a comment\n"
               "; another\n"
               "ttl = 10s\n"
               "ttl-max: 40s\n"
               "\n"
               "node = a=redis://user:secret@h1:1/2\n"
               "node = b=redis://h2/2\n"
               "allow_eviction = yes\n"
               "capacity = 7 ; a few\n");
    loads(DIR, "--config", path, NULL);
    assert_int_equal(config.ttl_ms, 10000);
    assert_int_equal(config.ttl_max_ms, 40000);
    assert_int_equal(config.node_count, 2);
    assert_string_equal(config.nodes[0].password, "secret");
    assert_int_equal(config.capacity, 7);
    assert_true(config.allow_eviction);
    /* The command line goes before, whatever its place, and its nodes replace the file's. */
    loads("--ttl=3s", DIR, "--config", path, "--node", "c=h3", "--allow-eviction=no", NULL);
    assert_int_equal(config.ttl_ms, 3000);
    assert_int_equal(config.ttl_max_ms, 40000);
    assert_int_equal(config.node_count, 1);
    assert_string_equal(config.nodes[0].id, "c");
    assert_false(config.allow_eviction);
    /* --dev takes the rest of a file, but not its nodes. */
    loads("--dev", DIR, "--config", path, NULL);
    assert_int_equal(config.node_count, 3);
}

TEST(test_passwords_that_others_can_read)
{
    write_file("node = a=redis://:secret@h1:1\nnode = b=h2\n");
    loads(DIR, "--config", path, NULL);
    assert_string_equal(config.warning, "");
    assert_int_equal(chmod(path, 0640), 0);
    loads(DIR, "--config", path, NULL);
    assert_string_equal(config.warning, "");
    assert_int_equal(chmod(path, 0644), 0);
    loads(DIR, "--config", path, NULL);
    assert_non_null(strstr(config.warning, path));
    assert_non_null(strstr(config.warning, "has passwords and every user can read it"));
    assert_null(strstr(config.warning, "secret"));
    loads(DIR, "--config", path, "--node", "c=h3", NULL);
    assert_string_equal(config.warning, ""); /* the file's are not used */
    loads(DIR, "--node", "a=redis://:secret@h1:1", NULL);
    assert_non_null(strstr(config.warning, "list of processes"));
    assert_null(strstr(config.warning, "secret"));
}

/* Refused, as from a file of that text. */
static void file_refuses(const char *word, const char *text)
{
    write_file(text);
    refuses(78, word, DIR, "--config", path, NULL);
    assert_non_null(strstr(why, path));
    (void)remove_file(NULL);
}

TEST(test_bad_files)
{
    char text[512];

    file_refuses(":2: there is no setting 'tll'", "node = a\ntll = 3s\nttl = x\n");
    file_refuses(":1: ttl: give a time from", "ttl = x\n");
    file_refuses(":3: write \"key = value\"", "node = a\n\nhello\n");
    file_refuses(":1: remove this line: there are no [sections]", "[main]\nttl = 3s\n");
    file_refuses(":2: 'ttl' is set twice", "ttl = 3s\nttl = 4s\n");
    file_refuses(":1: give 'reset_fleet' on the command line", "reset_fleet = yes\n");
    file_refuses(":1: give 'dev' on the command line", "dev = 3\n");
    file_refuses(":1: node address", "node = h:x\n");
    file_refuses(":2: node: the id 'a'", "node = a\nnode = a\n");
    snprintf(text, sizeof(text), "node = a\nname = %0300d\n", 0);
    file_refuses("longer than", text);
    refuses(78, "/nonexistent: cannot read it: No such file", DIR, "--config", "/nonexistent",
            NULL);
}

TEST(test_bad_settings_of_a_file)
{
    write_file("node = a\nttl = 5ms\n");
    refuses(78, "TTL", DIR, "--config", path, NULL);
    /* A bad option stays a usage error. */
    refuses(64, "capacity", DIR, "--config", path, "--capacity", "x", NULL);
}

/* --- what is printed -------------------------------------------------------------------------- */

TEST(test_printing_loses_nothing_but_passwords)
{
    struct config first;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    loads(DIR, "--node", "a=redis://u:secret@h1:1/2", "--node",
          "b=redis+unix:///r?db=2,fleet_address=10.0.0.2:1", "--ttl", "1500ms", "--max-hold", "1h",
          "--table-mode", "640", "--log-level", "warn", "--allow-eviction", "--group", "0",
          "--name", "n", NULL);
    first = config;
    for (int i = 0; i < CONFIG_ROWS; i++)
        config_row_print(&config_rows[i], &config, out);
    assert_int_equal(fclose(out), 0);
    assert_null(strstr(text, "secret"));
    write_file(text);
    free(text);
    loads("--config", path, NULL);
    assert_string_equal(config.file, path);
    memset(config.file, 0, sizeof(config.file)); /* where it comes from is no setting */
    for (int i = 0; i < config.node_count; i++) {
        assert_true(config.nodes[i].line > 0);
        config.nodes[i].line = 0;
    }
    assert_string_equal(config.nodes[0].host, "h1");
    assert_string_equal(config.nodes[1].as, "10.0.0.2:1");
    memset(first.nodes, 0, sizeof(first.nodes));
    memset(config.nodes, 0, sizeof(config.nodes));
    memset(first.warning, 0, sizeof(first.warning)); /* of the password */
    assert_memory_equal(&first, &config, sizeof(first));
}

TEST(test_every_default_is_in_its_range)
{
    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];

        assert_int_equal(config_row_find(row->key, strlen(row->key)), i);
        assert_true(row->doc && *row->doc);
        if (*row->standard &&
            config_row_set(row, &config, row->standard, why, sizeof(why)) != HF_OK)
            fail_msg("%s", why);
    }
}

TEST(test_nobody_else_lists_the_directory)
{
    struct config c = {.system = true, .group = (gid_t)-1};

    assert_int_equal(config_dir_mode(&c), 0711);
    c.system = false;
    assert_int_equal(config_dir_mode(&c), 0700);
    c.group = 100;
    assert_int_equal(config_dir_mode(&c), 0711);
}

TEST(test_clients_are_bounded_by_descriptors)
{
    struct config c = {.node_count = 3, .clients_max = 1024, .clients_per_uid = 768};

    config_bound_clients(&c, 64 + 12 + 4 * 1024);
    assert_int_equal(c.clients_max, 1024);
    assert_false(c.descriptors_bound);
    assert_int_equal(c.groups_max, 0);
    assert_false(c.guardians_fit);
    config_bound_clients(&c, 64 + 12 + 4 * 1024 + 32);
    assert_int_equal(c.groups_max, 10); /* three descriptors each */
    config_bound_clients(&c, 64 + 12 + 8 * 1024 + 3 * 512 - 5);
    assert_int_equal(c.groups_max, 512);
    assert_false(c.guardians_fit); /* what is left after the groups has no room for 1024 more */
    config_bound_clients(&c, 65536);
    assert_int_equal(c.groups_max, 512);
    assert_true(c.guardians_fit);
    config_bound_clients(&c, 64 + 12 + 4 * 512 + 2);
    assert_int_equal(c.clients_max, 512);
    assert_int_equal(c.clients_per_uid, 384);
    assert_int_equal(c.groups_max, 0);
    assert_true(c.descriptors_bound);
    assert_false(c.guardians_fit);
    config_bound_clients(&c, 10);
    assert_int_equal(c.clients_max, 1);
    assert_int_equal(c.clients_per_uid, 1); /* not 0, which is no limit */
    c = (struct config){.node_count = 9, .clients_max = 1000000};
    config_bound_clients(&c, INT64_MAX);
    assert_int_equal(c.clients_max, 1000000);
    assert_int_equal(c.clients_per_uid, 0);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, clean_environment, remove_file)
    const struct CMUnitTest tests[] = {
        ROW(test_defaults),
        ROW(test_command_line),
        ROW(test_times),
        ROW(test_bad_times),
        ROW(test_bad_ttl_names_the_inequality),
        ROW(test_bad_values),
        ROW(test_bad_names),
        ROW(test_bad_options),
        ROW(test_bad_nodes),
        ROW(test_dev),
        ROW(test_list_hash),
        ROW(test_runtime_dir),
        ROW(test_nobody_else_lists_the_directory),
        ROW(test_clients_are_bounded_by_descriptors),
        ROW(test_keys),
        ROW(test_bad_key_formats),
        ROW(test_key_formats_for_patterns),
        ROW(test_names_that_would_share_a_key),
        ROW(test_names_and_keys_one_to_one),
        ROW(test_bad_key_formats_for_patterns),
        ROW(test_too_many_key_formats),
        ROW(test_rules),
        ROW(test_file),
        ROW(test_passwords_that_others_can_read),
        ROW(test_bad_files),
        ROW(test_bad_settings_of_a_file),
        ROW(test_printing_loses_nothing_but_passwords),
        ROW(test_every_default_is_in_its_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

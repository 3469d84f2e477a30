/* holdfastd's configuration: a file and a command line. Lines before the first that is "--" are the
 * file's, every line behind it is one argument. */
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "agent/core/rules.h"
#include "shm/status.h"
#include "tests/support/config.h"

#define ARGUMENTS 24

static int file = -1;
static char file_path[32];

static void write_file(const uint8_t *data, size_t size)
{
    if (file < 0) {
        file = memfd_create("holdfast.conf", MFD_CLOEXEC);
        FUZZ_CHECK(file >= 0);
        snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", file);
        setenv("HOLDFAST_RUNTIME_DIR", "/run/fuzz", 1);
        /* --help and --print-config write there. */
        FUZZ_CHECK(freopen("/dev/null", "w", stdout));
    }
    FUZZ_CHECK(ftruncate(file, 0) == 0);
    FUZZ_CHECK(pwrite(file, data, size, 0) == (ssize_t)size);
}

/* A name that has a key is the one name of that key. */
static void check_key(const struct config *c, const char *name, size_t name_len)
{
    uint8_t key[CONFIG_KEY_MAX];
    const uint8_t *back;
    size_t key_len, back_len;

    if (config_key(c, name, name_len, key, &key_len) < 0)
        return;
    FUZZ_CHECK(config_key_name(c, key, key_len, &back, &back_len) == HF_OK);
    FUZZ_CHECK(back_len == name_len && memcmp(back, name, name_len) == 0);
}

/* Each has a good pattern and says who; the pattern's text is a name like any other. */
static void check_rules(const struct rules *rules)
{
    const struct caller nobody = {.uid = 65534, .gid = 65534};
    const struct rule *by;

    FUZZ_CHECK(rules->count >= 0 && rules->count <= RULES_MAX);
    for (int i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rule[i];

        FUZZ_CHECK(strnlen(rule->text, sizeof(rule->text)) < sizeof(rule->text));
        FUZZ_CHECK(rule->pattern_len > 0 && rule->pattern_len < strlen(rule->text));
        FUZZ_CHECK(pattern_is_good(rule->text, rule->pattern_len));
        FUZZ_CHECK(rule->rights && rule->who_count > 0 && rule->who_count <= RULE_WHO_MAX);
        (void)rules_allow(rules, RIGHT_TAKE, rule->text, rule->pattern_len, &nobody, &by);
        FUZZ_CHECK(!by || (by->rights & RIGHT_TAKE));
    }
    (void)rules_are_closed(rules);
}

static void check(const struct config *c)
{
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;

    FUZZ_CHECK(c->node_count >= 1 && c->node_count <= HF_NODES_MAX);
    FUZZ_CHECK(c->name[0] && strnlen(c->name, sizeof(c->name)) < sizeof(c->name));
    FUZZ_CHECK(c->runtime_dir[0] == '/');
    FUZZ_CHECK(c->ttl_ms >= 1 && c->ttl_ms <= c->ttl_max_ms);
    FUZZ_CHECK(c->capacity >= 1 && c->clients_max >= 1);
    FUZZ_CHECK(strlen(c->list_hash) == 40);
    FUZZ_CHECK(c->table_mode == 0644 || c->table_mode == 0640 || c->table_mode == 0600);
    /* The longest name fits, and nobody gets at the keys that are the agent's own. */
    memset(key, 'x', HF_NAME_MAX);
    {
        uint8_t name[HF_NAME_MAX];

        memset(name, 'x', sizeof(name));
        if (config_key(c, name, sizeof(name), key, &key_len) == HF_OK)
            FUZZ_CHECK(key_len <= sizeof(key) && memcmp(key, "holdfast:", 9) != 0);
        if (config_key(c, "holdfast:node", 13, key, &key_len) == HF_OK)
            FUZZ_CHECK(memcmp(key, "holdfast:", 9) != 0);
    }
    check_rules(&c->rules);
    FUZZ_CHECK(c->key_rule_count >= 0 && c->key_rule_count <= CONFIG_KEY_RULES_MAX);
    for (int i = 0; i < c->key_rule_count; i++)
        check_key(c, c->key_rules[i].format, strlen(c->key_rules[i].format));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *split = memmem(data, size, "\n--\n", 4);
    size_t file_size = split ? (size_t)(split - data) + 1 : size;
    struct fuzz_input in = {data + file_size, size - file_size};
    char *arguments[ARGUMENTS + 4] = {"holdfastd", "--config", file_path};
    char why[512] = "", *owned = NULL;
    struct config config;
    int count = 3, code = -1, rc;

    write_file(data, file_size);
    if (split) {
        in.at += 3;
        in.left -= 3;
        owned = fuzz_string(&in, in.left);
        for (char *line = owned; line && count < ARGUMENTS + 3;) {
            arguments[count++] = line;
            line = strchr(line, '\n');
            if (line)
                *line++ = '\0';
        }
    }
    arguments[count] = NULL;
    rc = config_load(count, arguments, &config, &code, why, sizeof(why));
    if (rc == HF_OK)
        check(&config);
    else if (rc == HF_ECANCELED)
        FUZZ_CHECK(code == 0);
    else {
        FUZZ_CHECK(rc == HF_EINVAL || rc == HF_ETTL);
        /* 71: a file that a setting names may be good in a moment. */
        FUZZ_CHECK((code == 64 || code == 71 || code == 78) && why[0]);
        FUZZ_CHECK(code != 71 || strstr(why, "_file"));
        FUZZ_CHECK(strnlen(why, sizeof(why)) < sizeof(why));
    }
    free(owned);
    return 0;
}

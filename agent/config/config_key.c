/* Names to keys, and back. A key format is text around the name, so a key has one name at most
 * under a format. Of two names with the same key only the earlier rule's is accepted, so no two
 * locks share a key. */
#include <stdio.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/core/pattern.h"
#include "shm/status.h"

#define KEY_RESERVED "holdfast:"

/* The first rule that matches the name; key_rule_count: none does, and key_format is used. */
static int config_key_rule_of(const struct config *c, const uint8_t *name, size_t len)
{
    for (int rule = 0; rule < c->key_rule_count; rule++) {
        const char *pattern = c->key_rules[rule].pattern;

        if (pattern_matches(pattern, strlen(pattern), name, len))
            return rule;
    }
    return c->key_rule_count;
}

static const char *config_key_format_of(const struct config *c, int rule)
{
    return rule < c->key_rule_count ? c->key_rules[rule].format : c->key_format;
}

/* The part of the key that stands for %s, if this format made the key. */
static bool config_key_undo(const char *format, const uint8_t *key, size_t len,
                            const uint8_t **ret_name, size_t *ret_name_len)
{
    const char *percent = strchr(format, '%');
    size_t before = (size_t)(percent - format), after = strlen(percent + 2);

    if (len <= before + after || len - before - after > HF_NAME_MAX ||
        memcmp(key, format, before) != 0 || memcmp(key + len - after, percent + 2, after) != 0)
        return false;
    *ret_name = key + before;
    *ret_name_len = len - before - after;
    return true;
}

int config_key_name(const struct config *c, const uint8_t *key, size_t key_len,
                    const uint8_t **ret_name, size_t *ret_name_len)
{
    const uint8_t *name;
    size_t len;

    for (int rule = 0; rule <= c->key_rule_count; rule++)
        if (config_key_undo(config_key_format_of(c, rule), key, key_len, &name, &len) &&
            config_key_rule_of(c, name, len) == rule) {
            *ret_name = name;
            *ret_name_len = len;
            return HF_OK;
        }
    return HF_ENAME;
}

/* Makes the key without judging it. */
static size_t config_key_make_key(const char *format, const void *name, size_t name_len,
                                  uint8_t *ret_key)
{
    const char *percent = strchr(format, '%');
    size_t before = (size_t)(percent - format), after = strlen(percent + 2);

    memcpy(ret_key, format, before);
    memcpy(ret_key + before, name, name_len);
    memcpy(ret_key + before + name_len, percent + 2, after);
    return before + name_len + after;
}

static bool config_key_is_reserved(const uint8_t *key, size_t len)
{
    return len >= strlen(KEY_RESERVED) && memcmp(key, KEY_RESERVED, strlen(KEY_RESERVED)) == 0;
}

int config_key(const struct config *c, const void *name, size_t name_len,
               uint8_t ret_key[CONFIG_KEY_MAX], size_t *ret_key_len)
{
    const uint8_t *owner;
    size_t key_len, owner_len;

    if (name_len == 0 || name_len > HF_NAME_MAX)
        return HF_ENAME;
    key_len = config_key_make_key(config_key_format_of(c, config_key_rule_of(c, name, name_len)),
                                  name, name_len, ret_key);
    if (config_key_is_reserved(ret_key, key_len) ||
        config_key_name(c, ret_key, key_len, &owner, &owner_len) < 0 || owner_len != name_len ||
        memcmp(owner, name, name_len) != 0)
        return HF_ENAME;
    *ret_key_len = key_len;
    return HF_OK;
}

void config_key_refused(const struct config *c, const void *name, size_t name_len, char *text,
                        size_t size)
{
    uint8_t key[CONFIG_KEY_MAX];
    const uint8_t *owner;
    size_t key_len, owner_len;
    char shown[64];

    key_len = config_key_make_key(config_key_format_of(c, config_key_rule_of(c, name, name_len)),
                                  name, name_len, key);
    if (config_key_is_reserved(key, key_len) ||
        config_key_name(c, key, key_len, &owner, &owner_len) < 0) {
        snprintf(text, size,
                 "use another name: keys that begin with \"holdfast:\" are reserved for agents");
        return;
    }
    snprintf(text, size,
             "use another name: with key_format_for this one has the same key as \"%s\"",
             log_name(owner, owner_len, shown, sizeof(shown)));
}

void config_keys_text(const struct config *c, char ret_text[CONFIG_KEYS_TEXT])
{
    bool standard = strcmp(c->key_format, "%s") == 0 && c->key_rule_count == 0;
    size_t at;

    at = (size_t)snprintf(ret_text, CONFIG_KEYS_TEXT, "%s", standard ? "" : c->key_format);
    for (int i = 0; i < c->key_rule_count; i++)
        at += (size_t)snprintf(ret_text + at, CONFIG_KEYS_TEXT - at, "\n%s %s",
                               c->key_rules[i].pattern, c->key_rules[i].format);
    if (c->node_count > 0 && c->nodes[0].db)
        (void)snprintf(ret_text + at, CONFIG_KEYS_TEXT - at, "\ndatabase %d", c->nodes[0].db);
}

/* The rules of who may do what: `allow = PATTERN WHO... [RIGHT...]`. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "agent/config/config_load.h"
#include "agent/core/rules.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define BLANKS " \t"
/* The last one stands for no user and no group, in the kernel, too. */
#define NUMBERS UINT32_C(4294967295)

struct parse {
    struct rule *rule;
    char *why;
    size_t why_size;
};

static bool allow_parse_id(const char *text, uint32_t *ret_id)
{
    uint64_t number = 0;

    for (; *text >= '0' && *text <= '9' && number < NUMBERS; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    *ret_id = (uint32_t)number;
    return *text == '\0' && number < NUMBERS;
}

/* A name goes before a number, as everywhere on a host. */
static int allow_find_id(struct parse *p, enum who_kind kind, const char *name, uint32_t *ret_id)
{
    const char *what = kind == WHO_USER ? "user" : "group";
    const struct passwd *user;
    const struct group *group;
    int error;

    errno = 0;
    if (kind == WHO_USER && *name && (user = getpwnam(name))) {
        *ret_id = user->pw_uid;
        return HF_OK;
    }
    if (kind == WHO_GROUP && *name && (group = getgrnam(name))) {
        *ret_id = group->gr_gid;
        return HF_OK;
    }
    error = errno;
    if (*name && allow_parse_id(name, ret_id))
        return HF_OK;
    /* POSIX wants 0 for a name that is unknown; these are what C libraries have besides. */
    if (error && error != ENOENT && error != ESRCH && error != EBADF && error != EPERM)
        snprintf(p->why, p->why_size, "allow: the %s '%.64s' cannot be looked up: %s", what, name,
                 strerror(error));
    else
        snprintf(p->why, p->why_size,
                 "allow: there is no %s '%.64s' on this host: create it first, or write a number",
                 what, name);
    return HF_EINVAL;
}

static int allow_add_who(struct parse *p, const char *word)
{
    struct rule *rule = p->rule;
    struct who *who = &rule->who[rule->who_count];

    if (rule->who_count == RULE_WHO_MAX) {
        snprintf(p->why, p->why_size,
                 "allow: use a group: a rule names at most %d users and groups", RULE_WHO_MAX);
        return HF_EINVAL;
    }
    *who = (struct who){.kind = *word == 'u'   ? WHO_USER
                                : *word == 'g' ? WHO_GROUP
                                : *word == 'e' ? WHO_EVERYONE
                                               : WHO_NONE};
    if ((who->kind == WHO_USER || who->kind == WHO_GROUP) &&
        allow_find_id(p, who->kind, strchr(word, ':') + 1, &who->id) < 0)
        return HF_EINVAL;
    rule->who_count++;
    return HF_OK;
}

static bool allow_is_who(const char *word)
{
    return strncmp(word, "user:", 5) == 0 || strncmp(word, "group:", 6) == 0 ||
           strcmp(word, "everyone") == 0 || strcmp(word, "none") == 0;
}

static int allow_add_word(struct parse *p, const char *word)
{
    for (unsigned right = RIGHT_TAKE; right <= RIGHT_FORCE; right <<= 1)
        if (strcmp(word, right_word(right)) == 0) {
            p->rule->rights |= (uint8_t)right;
            return HF_OK;
        }
    if (allow_is_who(word))
        return allow_add_who(p, word);
    snprintf(p->why, p->why_size,
             "allow: write user:NAME, group:NAME, everyone, none, take, see or force: '%.64s' is "
             "none of these",
             word);
    return HF_EINVAL;
}

/* Copies the value with single blanks, and reads it word by word. */
static int allow_read_words(struct parse *p, const char *value)
{
    struct rule *rule = p->rule;
    size_t used = 0;

    for (;;) {
        const char *word = value + strspn(value, BLANKS);
        size_t length = strcspn(word, BLANKS);

        value = word + length;
        if (!length)
            return HF_OK;
        if (used + 1 + length > RULE_TEXT) {
            snprintf(p->why, p->why_size, "allow: a rule has at most %d bytes: '%.64s...'",
                     RULE_TEXT, rule->text);
            return HF_EINVAL;
        }
        if (used)
            rule->text[used++] = ' ';
        memcpy(rule->text + used, word, length);
        rule->text[used + length] = '\0';
        if (!used)
            rule->pattern_len = (uint16_t)length;
        else if (allow_add_word(p, rule->text + used) < 0)
            return HF_EINVAL;
        used += length;
    }
}

static int allow_judge(struct parse *p)
{
    const struct rule *rule = p->rule;
    bool all_or_none = false, controls = false;

    for (int i = 0; i < rule->who_count; i++)
        all_or_none |= rule->who[i].kind == WHO_EVERYONE || rule->who[i].kind == WHO_NONE;
    for (const char *at = rule->text; *at; at++)
        controls |= (unsigned char)*at < ' ' || *at == 0x7f;
    if (controls)
        snprintf(p->why, p->why_size,
                 "allow: write control characters as \\n, \\r, \\t or \\xNN: '%.64s'", rule->text);
    else if (!pattern_is_good(rule->text, rule->pattern_len))
        snprintf(
            p->why, p->why_size,
            "allow: the pattern '%.*s' has a '\\' that begins none of \\\\ \\* \\? \\n \\r \\t "
            "\\xNN",
            (int)rule->pattern_len, rule->text);
    else if (!rule->who_count)
        snprintf(p->why, p->why_size,
                 "allow: '%.64s' does not say who may: write PATTERN WHO... [RIGHT...], as in db/* "
                 "user:postgres",
                 rule->text);
    else if (all_or_none && rule->who_count > 1)
        snprintf(p->why, p->why_size,
                 "allow: everyone and none stand alone, without other users: '%.64s'", rule->text);
    else
        return HF_OK;
    return HF_EINVAL;
}

int config_allow_add(struct config *config, const char *value, char *why, size_t why_size)
{
    struct rules *rules = &config->rules;
    struct rule rule = {.rights = 0};
    struct parse p = {.rule = &rule, .why = why, .why_size = why_size};
    const struct rule *before;

    if (allow_read_words(&p, value) < 0 || allow_judge(&p) < 0)
        return HF_EINVAL;
    if (!rule.rights)
        rule.rights = RIGHT_TAKE;
    before = rules_before(rules, &rule);
    if (before) {
        snprintf(why, why_size,
                 "allow: '%.96s' never counts, because '%.96s' comes first and has all its names: "
                 "join the two, or move it before",
                 rule.text, before->text);
        return HF_EINVAL;
    }
    if (rules->count == RULES_MAX) {
        snprintf(why, why_size, "allow: more than %d rules are given", RULES_MAX);
        return HF_EINVAL;
    }
    rules->rule[rules->count++] = rule;
    return HF_OK;
}

static bool allow_rule_differs(const struct rule *a, const struct rule *b)
{
    bool differs = strcmp(a->text, b->text) != 0 || a->who_count != b->who_count;

    for (int i = 0; !differs && i < a->who_count; i++) /* a name may have got another number */
        differs = a->who[i].kind != b->who[i].kind || a->who[i].id != b->who[i].id;
    return differs;
}

bool config_allow_differs(const struct rules *a, const struct rules *b)
{
    bool differs = a->count != b->count;

    for (int i = 0; !differs && i < a->count; i++)
        differs = allow_rule_differs(&a->rule[i], &b->rule[i]);
    return differs;
}

/* --- subordinate uids ------------------------------------------------------------------------- */

/* Reads which subordinate uids the host's users have. */

#define SUBUIDS_FILE "/etc/subuid"

static bool allow_find_owner(const char *name, uint32_t *ret_owner)
{
    const struct passwd *user = getpwnam(name);
    char *end;

    *ret_owner = user ? (uint32_t)user->pw_uid : (uint32_t)strtoul(name, &end, 10);
    return user || *end == '\0';
}

/* (!) Those of root and of the agent's user keep a share each: with their owner's they would be trusted. */
void config_read_subuids(struct config_load *l)
{
    FILE *file = fopen(SUBUIDS_FILE, "re");
    char line[256], name[SUBUIDS_NAME_MAX + 1];
    uint32_t first, count, owner;

    while (file && fgets(line, sizeof(line), file))
        if (subuids_parse(line, name, &first, &count) && allow_find_owner(name, &owner) &&
            owner != 0 && owner != geteuid() &&
            !subuids_add(&l->config.subuids, first, count, owner))
            break;
    if (file)
        fclose(file);
}

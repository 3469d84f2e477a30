#include "agent/core/rules.h"

#include <string.h>

#include "shm/text.h"

const char *right_word(enum right right)
{
    return right == RIGHT_TAKE ? "take" : right == RIGHT_SEE ? "see" : "force";
}

/* The length of NAME where the name is NAME#0, NAME#1, ...; else its own. */
static size_t rules_length_without_slot(const char *name, size_t len)
{
    size_t at = len;

    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    return at > 1 && at < len && name[at - 1] == '#' ? at - 1 : len;
}

static bool rules_matches(const struct rule *rule, const char *name, size_t len)
{
    size_t base = rules_length_without_slot(name, len);

    return pattern_matches(rule->text, rule->pattern_len, name, len) ||
           (base < len && pattern_matches(rule->text, rule->pattern_len, name, base));
}

/* The first place whose group is not less; `count`: there is none. */
static size_t rules_find_group(const uint32_t *groups, size_t count, uint32_t gid)
{
    size_t from = 0;

    while (from < count) {
        size_t middle = from + (count - from) / 2;

        if (groups[middle] < gid)
            from = middle + 1;
        else
            count = middle;
    }
    return from;
}

static bool rules_has_group(const uint32_t *groups, size_t count, uint32_t gid)
{
    size_t at = rules_find_group(groups, count, gid);

    return at < count && groups[at] == gid;
}

/* Rising, each once. */
static size_t rules_groups_of_rules(const struct rules *rules, uint32_t ret_groups[RULE_GROUPS_MAX])
{
    size_t count = 0;

    for (int i = 0; i < rules->count; i++)
        for (int j = 0; j < rules->rule[i].who_count; j++) {
            const struct who *who = &rules->rule[i].who[j];
            size_t at = rules_find_group(ret_groups, count, who->id);

            if (who->kind != WHO_GROUP || (at < count && ret_groups[at] == who->id))
                continue;
            memmove(ret_groups + at + 1, ret_groups + at, (count - at) * sizeof(*ret_groups));
            ret_groups[at] = who->id;
            count++;
        }
    return count;
}

size_t rules_keep_groups(const struct rules *rules, uint32_t *groups, size_t count)
{
    uint32_t named[RULE_GROUPS_MAX];
    bool has[RULE_GROUPS_MAX] = {false};
    size_t named_count = rules_groups_of_rules(rules, named), kept = 0;

    for (size_t i = 0; named_count && i < count; i++) {
        size_t at = rules_find_group(named, named_count, groups[i]);

        if (at < named_count && named[at] == groups[i])
            has[at] = true;
    }
    for (size_t at = 0; at < named_count; at++)
        if (has[at])
            groups[kept++] = named[at];
    return kept;
}

static bool rules_is_in_group(const struct caller *caller, uint32_t gid)
{
    return caller->gid == gid || rules_has_group(caller->groups, caller->group_count, gid);
}

static bool rules_names(const struct rule *rule, const struct caller *caller)
{
    for (int i = 0; i < rule->who_count; i++) {
        const struct who *who = &rule->who[i];

        if (who->kind == WHO_EVERYONE || (who->kind == WHO_USER && who->id == caller->uid) ||
            (who->kind == WHO_GROUP && rules_is_in_group(caller, who->id)))
            return true;
    }
    return false;
}

static bool rules_allow_by(const struct rules *rules, enum right right, const void *name,
                           size_t name_len, const struct caller *caller,
                           const struct rule **ret_rule)
{
    *ret_rule = NULL;
    if (caller->trusted)
        return true;
    for (int i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rule[i];

        if (!(rule->rights & right) || !rules_matches(rule, name, name_len))
            continue;
        *ret_rule = rule;
        return rules_names(rule, caller);
    }
    return right != RIGHT_FORCE;
}

bool rules_allow(const struct rules *rules, enum right right, const void *name, size_t name_len,
                 const struct caller *caller, const struct rule **ret_rule)
{
    const struct rule *other;

    return rules_allow_by(rules, right, name, name_len, caller, ret_rule) ||
           (right == RIGHT_SEE &&
            rules_allow_by(rules, RIGHT_FORCE, name, name_len, caller, &other));
}

const struct rule *rules_before(const struct rules *rules, const struct rule *rule)
{
    const struct rule *first = NULL;
    unsigned left = rule->rights;

    for (int i = 0; i < rules->count && left; i++) {
        const struct rule *other = &rules->rule[i];

        if (!(other->rights & left) ||
            !pattern_covers(other->text, other->pattern_len, rule->text, rule->pattern_len))
            continue;
        left &= ~(unsigned)other->rights;
        if (!first)
            first = other;
    }
    return left ? NULL : first;
}

bool rules_are_closed(const struct rules *rules)
{
    const struct rule all = {.text = "*", .pattern_len = 1, .rights = RIGHT_TAKE};

    return rules_before(rules, &all) != NULL;
}

/* --- patterns of names ------------------------------------------------------------------------ */

/* A byte of a name is its own value. */
enum sign { SIGN_END = -1, SIGN_WRONG = -2, SIGN_ONE = 256, SIGN_ANY = 257 };

struct reader {
    const char *at, *end;
};

static int pattern_sign(struct reader *r)
{
    if (r->at == r->end)
        return SIGN_END;
    if (*r->at == '*' || *r->at == '?')
        return *r->at++ == '*' ? SIGN_ANY : SIGN_ONE;
    if (*r->at == '\\' && r->end - r->at > 1 && (r->at[1] == '*' || r->at[1] == '?')) {
        r->at += 2;
        return (unsigned char)r->at[-1];
    }
    {
        int byte = hf_unescape_byte(&r->at);

        return byte < 0 ? SIGN_WRONG : byte;
    }
}

static int pattern_name_sign(struct reader *r)
{
    return r->at == r->end ? SIGN_END : (unsigned char)*r->at++;
}

/* One sign of a pattern that is no `*`. */
static bool pattern_covers_sign(int sign, int other)
{
    return sign == other || (sign == SIGN_ONE && other != SIGN_ANY);
}

/* Linear in practice: only the last `*` is ever tried again. */
static bool pattern_covers_rest(struct reader pattern, struct reader other,
                                int (*next)(struct reader *))
{
    struct reader after_star = {0}, retry = {0};

    while (other.at != other.end) {
        struct reader ahead = pattern, rest = other;
        int sign = pattern_sign(&ahead), seen = next(&rest);

        if (sign == SIGN_ANY) {
            pattern = after_star = ahead;
            retry = other;
        } else if (sign >= 0 && pattern_covers_sign(sign, seen)) {
            pattern = ahead;
            other = rest;
        } else if (after_star.at) {
            (void)next(&retry);
            pattern = after_star;
            other = retry;
        } else {
            return false;
        }
    }
    while (pattern.at != pattern.end && *pattern.at == '*')
        pattern.at++;
    return pattern.at == pattern.end;
}

bool pattern_is_good(const char *pattern, size_t len)
{
    struct reader r = {pattern, pattern + len};
    int sign;

    do
        sign = pattern_sign(&r);
    while (sign >= 0);
    return sign == SIGN_END;
}

bool pattern_matches(const char *pattern, size_t len, const void *name, size_t name_len)
{
    const char *bytes = name;

    return pattern_covers_rest((struct reader){pattern, pattern + len},
                               (struct reader){bytes, bytes + name_len}, pattern_name_sign);
}

bool pattern_covers(const char *pattern, size_t len, const char *other, size_t other_len)
{
    return pattern_covers_rest((struct reader){pattern, pattern + len},
                               (struct reader){other, other + other_len}, pattern_sign);
}

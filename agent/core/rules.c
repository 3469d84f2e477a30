#include "agent/core/rules.h"

#include <string.h>

#include "agent/core/pattern.h"

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

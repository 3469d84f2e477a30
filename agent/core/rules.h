/* Who may take, see and force which names: the rules of the configuration (allow), and who asks. Pure.
 *
 * For each right by itself the first rule decides that has this right and whose pattern matches the name: who is among
 * its `who` may, anybody else may not. Where none matches, everybody may take and see, and nobody may force. Whom the
 * host could not keep from anything (root, the agent's user) may do all of it. Who may force a name may see it.
 *
 * A rule whose pattern matches NAME counts for NAME#0, NAME#1 ..., too: for the slots of a counted lock. */
#ifndef HOLDFAST_AGENT_CORE_RULES_H
#define HOLDFAST_AGENT_CORE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RULES_MAX       64
#define RULE_WHO_MAX    16
#define RULE_TEXT       319 /* bytes */
#define RULE_GROUPS_MAX ((size_t)RULES_MAX * RULE_WHO_MAX)

enum right {
    RIGHT_TAKE = 1 << 0,  /* acquire it */
    RIGHT_SEE = 1 << 1,   /* ask the agent who holds it, wait for its end, find it in listings */
    RIGHT_FORCE = 1 << 2, /* ask whoever holds it to stop, or end the hold by force */
};

/* "take", "see", "force". */
const char *right_word(enum right right);

enum who_kind {
    WHO_USER,
    WHO_GROUP,
    WHO_EVERYONE,
    WHO_NONE, /* besides root and the agent's user */
};

struct who {
    enum who_kind kind;
    uint32_t id; /* of user or group */
};

struct rule {
    char text[RULE_TEXT + 1]; /* as a file has it; begins with the pattern */
    uint16_t pattern_len;
    uint8_t rights, who_count;
    struct who who[RULE_WHO_MAX];
};

struct rules {
    int count;
    struct rule rule[RULES_MAX];
};

/* Who asks, by the kernel's word. */
struct caller {
    uint32_t uid, gid;
    const uint32_t *groups; /* the supplementary ones that a rule names, rising */
    size_t group_count;
    bool trusted; /* root or the agent's user */
};

/* `ret_rule`: the rule that decided; NULL: none has that right and matches. */
bool rules_allow(const struct rules *rules, enum right right, const void *name, size_t name_len,
                 const struct caller *caller, const struct rule **ret_rule);

/* Of `count` groups leaves those that a rule names, rising and each once, at most RULE_GROUPS_MAX; returns how many. A process may
 * be in 65,535. */
size_t rules_keep_groups(const struct rules *rules, uint32_t *groups, size_t count);

/* The first of the rules that leaves `rule` nothing to decide: for each of its rights, an earlier one matches whatever it
 * matches. NULL: none plainly does. */
const struct rule *rules_before(const struct rules *rules, const struct rule *rule);

/* Whether every name has a rule that says who may take it, as far as that is plain to see. */
bool rules_are_closed(const struct rules *rules);

/* Patterns of names: `*` stands for any bytes, also none and also `/`, `?` for one byte. A byte that a pattern cannot have as it is
 * is written as names are shown (shm/text.h), besides `\*` and `\?`. Pure.
 *
 * A pattern is the first `len` bytes of a text; the byte behind them is no hex digit. */

/* Whether every `\` begins an escape. The others are for patterns that are good. */
bool pattern_is_good(const char *pattern, size_t len);
bool pattern_matches(const char *pattern, size_t len, const void *name, size_t name_len);
/* Every name that matches `other` matches `pattern`. False: not so, or not plain to see. */
bool pattern_covers(const char *pattern, size_t len, const char *other, size_t other_len);

#endif

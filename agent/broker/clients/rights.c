#include "agent/broker/clients/clients.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/sessions.h"
#include "agent/config/config.h"
#include "agent/state/events.h"

/* Most processes have fewer. */
#define GROUPS_USUAL 32
#define NAME_SHOWN   64
#define RULE_SHOWN   60

_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "groups are copied as they are");

void rights_know_caller(const struct ucred *cred, struct caller *ret_caller)
{
    *ret_caller = (struct caller){
        .uid = cred->uid, .gid = cred->gid, .trusted = cred->uid == 0 || cred->uid == geteuid()};
}

/* NULL: none, or no memory. */
static uint32_t *rights_read_groups(int fd, size_t *ret_count)
{
    socklen_t size = GROUPS_USUAL * sizeof(gid_t);
    uint32_t *groups = NULL, *more;
    int rc = -1;

    /* A size that is too small is answered with the one that is needed. */
    for (int tries = 0; tries < 2 && (more = realloc(groups, size ? size : 1)); tries++) {
        groups = more;
        rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
        if (rc == 0 || errno != ERANGE)
            break;
    }
    if (rc < 0) {
        free(groups);
        return NULL;
    }
    *ret_count = size / sizeof(gid_t);
    return groups;
}

void rights_know_groups(struct session *s)
{
    const struct rules *rules = &s->clients->config->rules;
    struct caller *caller = &s->caller;
    size_t count = 0;
    uint32_t *groups = NULL, *less;

    free((uint32_t *)caller->groups);
    caller->groups = NULL;
    caller->group_count = 0;
    s->rules_read = s->clients->rules_read;
    if (caller->trusted || rules->count == 0)
        return;
    groups = rights_read_groups(s->socket.fd, &count);
    if (groups)
        count = rules_keep_groups(rules, groups, count);
    less = count ? realloc(groups, count * sizeof(*groups)) : NULL;
    if (!less) {
        free(groups);
        return;
    }
    caller->groups = less;
    caller->group_count = count;
}

void rights_forget_caller(struct caller *caller)
{
    free((uint32_t *)caller->groups);
    *caller = (struct caller){.uid = UINT32_MAX, .gid = UINT32_MAX};
}

static void rights_explain(const struct session *s, enum right right, const char *name,
                           const struct rule *rule, char *text, size_t size)
{
    if (rule)
        snprintf(text, size,
                 "have user %" PRIu32 " added to the agent's rule \"allow = %.*s%s\"%s: it may not "
                 "%s %s",
                 s->uid, RULE_SHOWN, rule->text, strlen(rule->text) > RULE_SHOWN ? "..." : "",
                 rule->who[0].kind == WHO_NONE ? "" : ", or run as one whom it names",
                 right_word(right), name);
    else
        snprintf(text, size,
                 "have user %" PRIu32
                 " allowed to %s %s (allow = PATTERN WHO %s in holdfast.conf): "
                 "without a rule only root and the agent's user may",
                 s->uid, right_word(right), name, right_word(right));
}

static void rights_follow_rules(struct session *s) IN_BROKER_THREAD
{
    if (s->rules_read != s->clients->rules_read)
        rights_know_groups(s);
}

bool rights_has(struct session *s, enum right right, const void *name, size_t name_len)
{
    const struct rule *rule;

    rights_follow_rules(s);
    return rules_allow(&s->clients->config->rules, right, name, name_len, &s->caller, &rule);
}

bool rights_allow(struct session *s, enum right right, const void *name, size_t name_len,
                  char *text, size_t size)
{
    struct clients *clients = s->clients;
    char shown[NAME_SHOWN];
    const struct rule *rule;

    rights_follow_rules(s);
    if (rules_allow(&clients->config->rules, right, name, name_len, &s->caller, &rule))
        return true;
    log_name(name, name_len, shown, sizeof(shown));
    rights_explain(s, right, shown, rule, text, size);
    hf_counter_add(&clients->agent->table, HF_COUNTER_DENIED, 1);
    if (log_allows(&clients->denials, LOG_LIMIT, clock_now())) {
        log_warn("user %" PRIu32 " (process %" PRIu32 ") may not %s %s%s%s", s->uid, s->pid,
                 right_word(right), shown, rule ? ": allow = " : "", rule ? rule->text : "");
        event_denied(clients->agent, right, name, name_len, s->pid, s->uid);
    }
    return false;
}

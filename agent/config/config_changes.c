#include "agent/config/config_changes.h"

#include <stdio.h>
#include <string.h>

#include "agent/config/config.h"

struct changes {
    const struct config *before, *after;
    struct config_change *list;
    size_t count;
};

static struct config_change *config_changes_add(struct changes *c, int row, int node,
                                                enum config_effect effect)
{
    struct config_change *change = &c->list[c->count++];

    *change = (struct config_change){.row = row, .node = node, .effect = effect};
    if (effect == CONFIG_RESTART)
        change->restart = config_rows[row].restart;
    return change;
}

/* --- one setting ------------------------------------------------------------------------------ */

static bool config_changes_rule_differs(const struct config_key_rule *a,
                                        const struct config_key_rule *b)
{
    return strcmp(a->pattern, b->pattern) != 0 || strcmp(a->format, b->format) != 0;
}

static bool config_changes_rules_differ(const struct config *a, const struct config *b)
{
    bool differ = a->key_rule_count != b->key_rule_count;

    for (int i = 0; !differ && i < a->key_rule_count; i++)
        differ = config_changes_rule_differs(&a->key_rules[i], &b->key_rules[i]);
    return differ;
}

static bool config_changes_differs(const struct config_row *row, const struct config *before,
                                   const struct config *after)
{
    const char *a = (const char *)before + row->offset, *b = (const char *)after + row->offset;

    switch (row->type) {
    case CONFIG_TEXT:
    case CONFIG_KEY_FORMAT:
        return strcmp(a, b) != 0;
    case CONFIG_DURATION:
    case CONFIG_COUNT:
        return *(const uint32_t *)a != *(const uint32_t *)b;
    case CONFIG_FLAG:
        return *(const bool *)a != *(const bool *)b;
    case CONFIG_MODE:
        return *(const mode_t *)a != *(const mode_t *)b;
    case CONFIG_GROUP:
        return *(const gid_t *)a != *(const gid_t *)b;
    case CONFIG_LEVEL:
        return *(const enum log_level *)a != *(const enum log_level *)b;
    case CONFIG_DEV:
        return *(const int *)a != *(const int *)b;
    case CONFIG_KEY_RULE:
        return config_changes_rules_differ(before, after);
    case CONFIG_ALLOW:
        return config_allow_differs(&before->rules, &after->rules);
    case CONFIG_NODE:
        break;
    }
    return false; /* node by node */
}

static void config_changes_look_at_key(struct changes *c, int i)
{
    const struct config_row *row = &config_rows[i];
    struct config_change *change;

    if (!config_changes_differs(row, c->before, c->after))
        return;
    change = config_changes_add(c, i, -1, row->restart ? CONFIG_RESTART : CONFIG_NOW);
    config_row_text(row, c->before, change->before, sizeof(change->before));
    config_row_text(row, c->after, change->after, sizeof(change->after));
}

/* --- the nodes -------------------------------------------------------------------------------- */

static bool config_changes_ids_differ(const struct config *a, const struct config *b)
{
    bool differ = a->node_count != b->node_count;

    for (int i = 0; !differ && i < a->node_count; i++)
        differ = strcmp(a->nodes[i].id, b->nodes[i].id) != 0;
    return differ;
}

static struct config_change *config_changes_add_address(struct changes *c, int i,
                                                        enum config_effect effect)
{
    struct config_change *change = config_changes_add(c, CONFIG_ID_node, i, effect);
    char shown[NODE_ADDRESS_SHOWN];

    snprintf(change->before, sizeof(change->before), "%s",
             node_address_shown(&c->before->nodes[i], shown));
    snprintf(change->after, sizeof(change->after), "%s",
             node_address_shown(&c->after->nodes[i], shown));
    return change;
}

static void config_changes_look_at_node(struct changes *c, int i)
{
    const struct node_address *a = &c->before->nodes[i], *b = &c->after->nodes[i];

    /* (!) Keys in another database are no votes to a host that looks into this one. */
    if (a->db != b->db)
        config_changes_add_address(c, i, CONFIG_RESTART)->restart =
            "another database is another node to the other hosts: stop the agents of all hosts for "
            "one quarantine, then start them with it";
    else if (strcmp(a->as, b->as) != 0)
        config_changes_add_address(c, i, CONFIG_RESTART)->restart =
            "which server of the fleet a node is, an agent learns at its start; a restart keeps "
            "all leases";
    else if (!node_address_alike(a, b))
        config_changes_add_address(c, i, CONFIG_MOVED);
    else if (strcmp(a->text, b->text) != 0 || strcmp(a->tls_name, b->tls_name) != 0)
        config_changes_add_address(c, i, CONFIG_NOW); /* the same, in other words */
    if (strcmp(a->user, b->user) != 0 || strcmp(a->password, b->password) != 0) {
        struct config_change *change = config_changes_add(c, CONFIG_ID_node, i, CONFIG_NOW);

        change->secret = true;
        snprintf(change->after, sizeof(change->after), "%s", b->id);
    }
}

static void config_changes_look_at_nodes(struct changes *c)
{
    if (c->before->ephemeral && c->after->ephemeral)
        return; /* the agent's own */
    if (config_changes_ids_differ(c->before, c->after)) {
        struct config_change *change = config_changes_add(c, CONFIG_ID_node, -1, CONFIG_RESTART);

        config_row_text(&config_rows[CONFIG_ID_node], c->before, change->before,
                        sizeof(change->before));
        config_row_text(&config_rows[CONFIG_ID_node], c->after, change->after,
                        sizeof(change->after));
        return;
    }
    for (int i = 0; i < c->before->node_count; i++)
        config_changes_look_at_node(c, i);
}

size_t config_changes(const struct config *before, const struct config *after,
                      struct config_change ret_changes[CONFIG_CHANGES_MAX])
{
    struct changes c = {.before = before, .after = after, .list = ret_changes};

    for (int i = 0; i < CONFIG_ROWS; i++)
        if (config_rows[i].type == CONFIG_NODE)
            config_changes_look_at_nodes(&c);
        else
            config_changes_look_at_key(&c, i);
    if (strcmp(before->tls_digest, after->tls_digest) != 0)
        config_changes_add(&c, CONFIG_ID_tls_cert_file, -1, CONFIG_NOW)->certificates = true;
    return c.count;
}

/* --- for people ------------------------------------------------------------------------------- */

const char *config_change_text(const struct config_change *change, char *text, size_t size)
{
    const char *key = config_rows[change->row].key;

    if (change->certificates)
        snprintf(text, size, "tls: other certificates, or another key");
    else if (change->secret)
        snprintf(text, size, "%s %s: another user or password", key, change->after);
    else if (change->restart)
        snprintf(text, size, "%s = %s (now %s): %s", key, *change->after ? change->after : "unset",
                 *change->before ? change->before : "unset", change->restart);
    else
        snprintf(text, size, "%s = %s (was %s)", key, *change->after ? change->after : "unset",
                 *change->before ? change->before : "unset");
    return text;
}

size_t config_changes_text(const struct config_change *changes, size_t count,
                           enum config_effect effect, char *text, size_t size)
{
    size_t found = 0, used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (changes[i].effect != effect)
            continue;
        found++;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s", used ? "; " : "");
        if (used < size) {
            config_change_text(&changes[i], text + used, size - used);
            used += strlen(text + used);
        }
    }
    return found;
}

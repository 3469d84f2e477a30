#include "agent/core/node_writes.h"

#include <stdio.h>
#include <string.h>

#include "shm/text_cut.h"

/* (!) A missing right on one name's key says nothing about the node: otherwise a program could pick
 * a name and have the node shown as broken. */
static bool writes_is_refusal(enum hf_node_error error, const char *text, bool of_probe)
{
    switch (error) {
    case HF_NODE_ERR_PERM:
        return !strstr(text, " key");
    case HF_NODE_ERR_OOM:
    case HF_NODE_ERR_MISCONF:
    case HF_NODE_ERR_READONLY:
    case HF_NODE_ERR_NOREPLICAS:
        return true;
    default:
        return of_probe; /* it concerns no name */
    }
}

/* Whether a write that the node took proves that it takes others: rights are given for each
 * command. */
static bool writes_is_of_all_writes(enum hf_node_error error)
{
    return error != HF_NODE_ERR_PERM;
}

enum hf_node_error writes_refused(const struct node_writes *w)
{
    return w->locks != HF_NODE_ERR_NONE ? w->locks : w->probe;
}

static void writes_hear(struct node_writes *w, enum hf_node_error *own, enum hf_node_error *other,
                        enum hf_node_error error, const char *text, hf_time now)
{
    if (error == HF_NODE_ERR_NONE) {
        *own = HF_NODE_ERR_NONE;
        if (writes_is_of_all_writes(*other))
            *other = HF_NODE_ERR_NONE;
    } else if (writes_is_refusal(error, text, own == &w->probe)) {
        if (writes_refused(w) == HF_NODE_ERR_NONE)
            w->since = now;
        *own = error;
        /* After these words the text says which script it was, and where. */
        snprintf(w->text, sizeof(w->text), "%.*s",
                 (int)(strstr(text, " script: ") ? strstr(text, " script: ") - text
                                                 : (long)strlen(text)),
                 text);
        hf_text_cut(w->text, sizeof(w->text));
    }
}

void writes_on_lock(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now)
{
    writes_hear(w, &w->locks, &w->probe, error, text, now);
}

void writes_on_probe(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now)
{
    writes_hear(w, &w->probe, &w->locks, error, text, now);
}

void writes_reset(struct node_writes *w)
{
    *w = (struct node_writes){.locks = HF_NODE_ERR_NONE};
}

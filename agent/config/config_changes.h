/* What changes between two configurations, key by key, and whether a reload applies it. Pure.
 *
 * The column `reload` of config.def decides for each key. The nodes are judged one by one:
 *   another user or password    applied: connections that stand stay, new ones use it
 *   another name in a certificate    applied
 *   another address, TLS or none (!) applied only if it leads to the server that the node is already,
 *                               which the caller has to find out (agent/process/reload.c)
 *   another seat (,fleet_address=)         needs a restart
 *   another database, id, order or number of nodes    needs a restart
 */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_CHANGES_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/config/config.h"
#include "agent/config/config_rows.h"

#define CONFIG_CHANGES_MAX (CONFIG_ROWS + 1 + 2 * HF_NODES_MAX)

enum config_effect {
    CONFIG_NOW,     /* a reload applies it */
    CONFIG_MOVED,   /* a node's address: a reload applies it if that is the same server */
    CONFIG_RESTART, /* a reload is refused */
};

struct config_change {
    int row;  /* enum config_id */
    int node; /* its place in both lists; -1: the key as a whole */
    enum config_effect effect;
    bool secret;                  /* user or password: neither is shown */
    bool certificates;            /* what is in the files of TLS, whatever their names */
    char before[200], after[200]; /* as a file would have them, cut; "" off */
    const char *restart;          /* CONFIG_RESTART: what a restart would do */
};

/* Both are complete: derived values, too, and bounded alike. Returns how many changes there are. */
size_t config_changes(const struct config *before, const struct config *after,
                      struct config_change ret_changes[CONFIG_CHANGES_MAX]);

/* "ttl = 20s (was 30s)", in as much of `text` as there is. Returns `text`. */
const char *config_change_text(const struct config_change *change, char *text, size_t size);

/* Those of that effect, joined with "; ". Returns how many there are. */
size_t config_changes_text(const struct config_change *changes, size_t count,
                           enum config_effect effect, char *text, size_t size);

#endif

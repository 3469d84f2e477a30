/* Configuration: command line over file over defaults. One row of config.def per key. Swapped
 * as a whole, by pointer. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/address.h"
#include "agent/base/log.h"
#include "agent/core/timing.h"
#include "shm/layout.h"

#define CONFIG_KEY_RULES_MAX 16
/* Names that match `pattern` ('*': any bytes, '?': one) get their key from `format`. */
struct config_key_rule {
    char pattern[64], format[64];
};

struct config {
    char name[HF_AGENT_NAME_MAX + 1];
    char runtime_dir[512]; /* DIR/NAME: sock, journal, lock */
    bool system;           /* table /holdfast.NAME rather than /holdfast-UID.NAME */
    struct node_address nodes[HF_NODES_MAX];
    int node_count;
    char list_hash[41]; /* of the ids, in order, and of the key formats: hosts must agree on them */
    uint32_t ttl_ms, ttl_max_ms, max_hold_ms /* cap, 0 none */;
    uint32_t capacity;      /* leases */
    bool descriptors_bound; /* clients_max is less than configured: no room for more */
    uint32_t clients_max;   /* sessions */
    uint32_t groups_max;    /* of jobs: as many as descriptors are left for */
    uint32_t clients_per_uid, leases_per_uid, waiters_per_uid, requests_per_uid; /* 0: no limit */
    uint32_t track_held;   /* leases; 0: none are tracked */
    uint32_t busy_poll_us; /* 0: never */
    char key_format[64];   /* one %s, default "%s"; of names that no rule matches */
    struct config_key_rule key_rules[CONFIG_KEY_RULES_MAX]; /* the first that matches */
    int key_rule_count;
    mode_t table_mode;
    gid_t group; /* may attach and read; (gid_t)-1: everyone */
    bool assume_fresh, allow_eviction, allow_replicas, trust_durable_nodes, new_list;
    int dev_nodes;  /* --dev N; 0: not */
    bool ephemeral; /* the nodes are new, and end with the agent: nothing outlives it */
    enum log_level log_level;
    struct timing timing; /* of ttl_ms */
    char warning[256];    /* to be logged once; "" none */
};

/* Parses argv and the file it names. HF_OK; HF_EINVAL/HF_ETTL: a sentence in `why`, exit 64 for the
 * command line and 78 for the file (`ret_exit`). `--help` and `--version` print and set *ret_exit
 * to 0 with HF_ECANCELED. */
int config_load(int argc, char **argv, struct config *ret_config, int *ret_exit, char *why,
                size_t why_size);

/* Keys (config_key.c). Formats a resource name into a key of the nodes. HF_ENAME: empty, too long, the key
 * has the reserved prefix, or it is the key of another name, by an earlier rule. */
#define CONFIG_KEY_MAX (HF_NAME_MAX + 64)
int config_key(const struct config *config, const void *name, size_t name_len,
               uint8_t ret_key[CONFIG_KEY_MAX], size_t *ret_key_len);
/* Why a name of 1..HF_NAME_MAX bytes was refused, and what to do. */
void config_key_refused(const struct config *config, const void *name, size_t name_len, char *text,
                        size_t size);
/* The one name that has this key, inside `key`. HF_ENAME: none. */
int config_key_name(const struct config *config, const uint8_t *key, size_t key_len,
                    const uint8_t **ret_name, size_t *ret_name_len);
/* All of the formats, the same text for the same keys; "" for the defaults. */
#define CONFIG_KEYS_TEXT (64 + CONFIG_KEY_RULES_MAX * 132)
void config_keys_text(const struct config *config, char ret_text[CONFIG_KEYS_TEXT]);

/* On a host with so many descriptors: no more clients than there is room for, no larger share of them for
 * one user than before, and groups of jobs for the rest. */
void config_bound_clients(struct config *config, int64_t descriptors);

/* When the capacity in force is smaller than configured: no larger share of it for one user than before. */
void config_bound_leases(struct config *config, uint32_t capacity);

#endif

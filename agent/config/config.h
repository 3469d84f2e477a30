/* Configuration: the command line goes before the file, the file before the defaults. One row of
 * config.def per key. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/address.h"
#include "agent/base/log.h"
#include "agent/core/fleet_record.h"
#include "agent/core/rules.h"
#include "agent/core/share.h"
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
    char file[128];        /* that was read, for people; "": none, or its path is too long */
    struct node_address nodes[HF_NODES_MAX];
    int node_count;
    char password_file[NODE_ADDRESS_FILE_MAX + 1]; /* of nodes that have no password of their own */
    char tls_ca_file[NODE_ADDRESS_FILE_MAX + 1], tls_cert_file[NODE_ADDRESS_FILE_MAX + 1],
        tls_key_file[NODE_ADDRESS_FILE_MAX + 1];
    bool tls_check_host;
    char tls_digest[41];   /* of what is in those files; "" none */
    int quorum;            /* of the nodes that count */
    uint32_t counting;     /* bit per node: all, unless the fleet's record says otherwise */
    uint32_t unconfigured; /* bit per node: the fleet's record has it, the configuration does not */
    char named[HF_NODES_MAX]
              [HF_NODE_TEXT_MAX + 1]; /* by_record: what the configuration has for it */
    bool by_record, settled;          /* config_go_by() laid a record of the fleet over it */
    char list_hash[41]; /* of the ids in order and of the key formats: one for the whole fleet */
    char file_hash[41]; /* the same as configured, without a record of the fleet */
    uint32_t file_ttl_max_ms; /* the same of ttl_max */
    uint32_t ttl_longest_ms;  /* that a lease of the fleet may still have: quarantines are for it */
    uint32_t ttl_ms, ttl_max_ms, max_hold_ms /* cap, 0 none */;
    uint32_t capacity;      /* leases */
    bool descriptors_bound; /* clients_max was lowered: there are too few descriptors */
    uint32_t clients_max;   /* sessions */
    bool guardians_fit;     /* there are descriptors for as many guardians as clients_max */
    uint32_t groups_max;    /* of jobs: as many as there are descriptors left */
    uint32_t clients_per_uid, leases_per_uid, waiters_per_uid, requests_per_uid; /* 0: no limit */
    uint32_t track_held;   /* leases that are tracked; 0: none */
    uint32_t busy_poll_us; /* 0: never */
    char key_format[64];   /* has one %s, default "%s"; for names that no rule matches */
    struct config_key_rule key_rules[CONFIG_KEY_RULES_MAX]; /* the first one that matches counts */
    int key_rule_count;
    struct rules rules; /* who may take, see and force which names */
    struct subuids subuids;
    mode_t table_mode;
    gid_t group; /* may attach and read; (gid_t)-1: everyone */
    bool assume_fresh, allow_eviction, allow_replicas, reset_fleet;
    bool lock_memory;
    uint32_t renewal_priority; /* 1..99; 0: none */
    int dev_nodes;             /* --dev N; 0: not */
    bool ephemeral;            /* the nodes are new and end with the agent: nothing outlives it */
    enum log_level log_level;
    struct timing timing; /* of ttl_ms */
    char warning[256];    /* to be logged once; "" none */
};

/* It works until an operator restarts the nodes one by one. Whether the default TTL is too short for that, and in
 * `text` for which. */
bool config_short_ttl(const struct config *config, char *text, size_t size);

/* As long as no record of the fleet says otherwise: all nodes count, and ttl_max is the longest that was ever granted. */
void config_count_all(struct config *config);
/* The record that was laid over it has not settled: leases may have a V by the one before. */
static inline bool config_is_narrow(const struct config *config)
{
    return config->by_record && !config->settled;
}

/* Permissions of the agent's directory and of the attach socket. */
mode_t config_dir_mode(const struct config *config);
mode_t config_socket_mode(const struct config *config);

/* Keys. Makes the nodes' key of a name. HF_ENAME: the name is empty or too long, its
 * key has the reserved prefix, or by an earlier rule the key is another name's. */
#define CONFIG_KEY_MAX (HF_NAME_MAX + 64)
int config_key(const struct config *config, const void *name, size_t name_len,
               uint8_t ret_key[CONFIG_KEY_MAX], size_t *ret_key_len);
/* Why a name of 1..HF_NAME_MAX bytes was refused, and what to do. */
void config_key_refused(const struct config *config, const void *name, size_t name_len, char *text,
                        size_t size);
/* The one name that has this key, inside `key`. HF_ENAME: none. */
int config_key_name(const struct config *config, const uint8_t *key, size_t key_len,
                    const uint8_t **ret_name, size_t *ret_name_len);
/* All formats as a text, the same text for the same keys; "" for the defaults. */
#define CONFIG_KEYS_TEXT (64 + CONFIG_KEY_RULES_MAX * 132)
void config_keys_text(const struct config *config, char ret_text[CONFIG_KEYS_TEXT]);

/* Fits clients_max to `descriptors`, the limit of this process: no more clients than there is room
 * for, one user's share lowered likewise, and control groups of jobs for what is left. */
void config_bound_clients(struct config *config, int64_t descriptors);

/* The rules of who may do what: `allow = PATTERN WHO... [RIGHT...]`. What they mean is in agent/core/rules.h. */

/* Looks up names of users and groups, which may take as long as the host's look-ups do. HF_EINVAL, with a sentence in `why`. */
int config_allow_add(struct config *config, const char *value, char *why, size_t why_size);

/* Also where a user or group has another number now. */
bool config_allow_differs(const struct rules *a, const struct rules *b);

/* What a host's configuration says of its fleet: ids, ttl_max and key formats. */

/* The record that this host would found, without version, state and addresses. */
void config_fleet(const struct config *config, struct fleet_record *ret_record);

/* Whether an agent of that configuration goes by a record that it kept: a fleet that changed has its key formats, and one of its ids
 * now or before the latest version; or `went_by` is its list_hash, for a fleet may have changed until none of them is left. `went_by`:
 * file_hash of the configuration that went by that fleet before; "": none did. Of version 1, and of one that is founded
 * only, the configuration has its own list. */
bool config_is_of(const struct config *config, const struct fleet_record *record,
                  const char *went_by);
/* Of the configuration's nodes; -1: it has none of that id. */
int config_place_of(const struct config *config, const char *id);
/* fleet_record_settles(), and not before a quarantine of the file's ttl_max. */
hf_time config_settles(const struct config *config, const struct fleet_record *record,
                       hf_time from);
/* Lays a record of such a fleet over the configuration: nodes, quorum, ttl_max, and what follows from them. A node that the
 * configuration names keeps its user, password, database and fleet_address=SEAT; the others have the user, password and database of the
 * first node. `here`: this host founded the fleet; else a node at a private seat keeps its configured address,
 * and one that is not configured is nowhere. */
void config_go_by(struct config *config, const struct fleet_record *record, bool settled,
                  bool here);

/* Files beside the configuration that hold secrets. Read at the start and at each reload. */

struct config;
struct config_load;
struct tls_keys;

#define SECRET_PATH_MAX 4096

/* The certificates and the key as their files have them now; NULL where nothing is set. HF_OK; HF_EINVAL: a setting is
 * wrong; HF_EPENDING: a file is, perhaps for now only; with a sentence in `why` that names setting and file. */
int config_tls_keys(const struct config *config, struct tls_keys **ret_keys, char *why,
                    size_t why_size);
/* From now on all connections use them. As above. */
int config_use_tls(const struct config *config, char *why, size_t why_size);
/* Judges these settings, as a part of reading the configuration. Faults are added to the report. */
void config_read_tls(struct config_load *load);

/* Fills in the passwords of the nodes that have them in files. Faults are added to the report. */
void config_read_passwords(struct config_load *load);

/* A hash of the fleet's list of nodes, the same on every host; each node's sentinel has it.
 * Pure. */

/* SHA-1, in hex, of the ids in their order, each with its NUL. */
void list_hash(const struct node_address *nodes, int count, char ret_hex[41]);
/* The same over the ids and one more text. */
void list_hash_with(const struct node_address *nodes, int count, const char *text,
                    char ret_hex[41]);

#endif
